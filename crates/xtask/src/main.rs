//! The project's own commands: gates, generated references, packages, long runs.
mod args;
mod atlatl;
mod bench;
mod check;
mod cluster;
mod conformance;
mod docs;
mod markdown;
mod output;
mod package;
mod references;
mod repository;
mod run_record;
mod soak;
mod test_list;

fn main() -> std::process::ExitCode {
    args::run()
}
