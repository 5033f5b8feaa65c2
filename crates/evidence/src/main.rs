//! `cargo evidence`.

fn main() -> std::process::ExitCode {
    evidence::main()
}
