//! Programs of this workspace that tests of other packages run.

use std::path::PathBuf;

/// The program `name`, beside the test that asks for it.
///
/// # Panics
///
/// Panics, naming the command that builds it, if it was not built.
pub fn program(name: &str, package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a program");
    let beside = test.parent().and_then(|deps| deps.parent()).map(|dir| dir.join(name));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| {
        panic!(
            "this test runs `{name}`, which is not built; build it with: \
             cargo build --package {package} --all-features --bins"
        )
    })
}
