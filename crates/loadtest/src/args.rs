//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::cluster::ClusterCommand;
use crate::soak::SoakArgs;
use crate::soak::fuzz::FuzzArgs;
use crate::soak::mutants::MutantsArgs;

/// Benchmarks, long runs, and load on a cluster of servers.
#[derive(Debug, Parser)]
#[command(name = "cargo loadtest", bin_name = "cargo loadtest")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// The directory of the cluster; `cluster` in the cache when absent.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Cluster(ClusterCommand),
    /// Run the long runs and record them under bench/runs/
    Soak(SoakArgs),
    /// Run the fuzz targets one after another and record them under bench/runs/
    Fuzz(FuzzArgs),
    /// Run mutation tests on the code that decides who sees what
    Mutants(MutantsArgs),
    /// Measure, keep the raw run under bench/runs/ and write the tables of docs/performance.md
    Bench(BenchArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
