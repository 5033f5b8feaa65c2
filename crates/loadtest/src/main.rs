//! `cargo loadtest`.

fn main() -> std::process::ExitCode {
    loadtest::main()
}
