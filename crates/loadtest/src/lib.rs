//! `cargo loadtest`: benchmarks, long runs, and load on a cluster of servers.
//!
//! Every command runs on this machine only and in bounded time. Most write a record under
//! `bench/runs/`.

mod agents;
mod args;
mod bench;
mod cluster;
mod compare;
mod soak;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use xtask::output;
use xtask::repository::Repository;

use self::args::{Cli, Command};

/// Parses the command line and runs the command; the exit code says whether it passed.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match Repository::open().and_then(|repository| run(&repository, &cli)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(repository: &Repository, cli: &Cli) -> Result<bool> {
    match &cli.command {
        Command::Cluster(command) => cluster::run(repository, command, cli.dir.as_deref()),
        Command::Soak(args) => soak::run(repository, args),
        Command::Fuzz(args) => soak::fuzz::run(repository, args),
        Command::Mutants(args) => soak::mutants::run(repository, args),
        Command::Agents(args) => agents::run(repository, args),
        Command::Bench(args) => bench::run(repository, args),
        Command::Compare(args) => compare::run(repository, args),
    }
}
