//! Linker options of the released program.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| {
        env::var(name).is_ok_and(|values| values.split(',').any(|one| one == value))
    };
    // A static program brings the start-up code that reads the compact form; for a dynamic one the system's may be too old.
    if is("CARGO_CFG_TARGET_FEATURE", "crt-static")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
