//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::agents::AgentsArgs;
use crate::bench::BenchArgs;
use crate::cluster::ClusterCommand;
use crate::compare::CompareArgs;
use crate::soak::SoakArgs;
use crate::soak::fuzz::FuzzArgs;
use crate::soak::mutants::MutantsArgs;

/// Run benchmarks, long tests, and load tests on a cluster of servers
#[derive(Debug, Parser)]
#[command(name = "cargo loadtest", bin_name = "cargo loadtest")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Directory of the cluster [default: `cluster` in the cache]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Cluster(ClusterCommand),
    /// Run long tests and record them in bench/runs/
    Soak(SoakArgs),
    /// Run fuzz targets one after another and record them in bench/runs/
    Fuzz(FuzzArgs),
    /// Run mutation tests on the access control code
    Mutants(MutantsArgs),
    /// Run the real coding agents with Atlatl's hooks and update docs/guides/agents.md
    Agents(AgentsArgs),
    /// Run a benchmark, record it in bench/runs/ and update docs/performance.md
    Bench(BenchArgs),
    /// Compare a benchmark with that of an earlier commit in alternating rounds
    Compare(CompareArgs),
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
