//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use xtask::BinArgs;

use crate::soak;

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

/// The commands of a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Start engines, servers and a balancer, and make tenants with keys
    Up(UpArgs),
    /// Run clients of all tenants that write, read and request what belongs to other tenants
    Load(LoadArgs),
    /// Kill servers and engines in turn, and measure how soon the cluster recovers
    Kill(KillArgs),
    /// Stop the cluster and remove its directory
    Down,
    /// Up, load and kills at once, read back what was acknowledged, down; recorded under bench/runs/
    Run(RunArgs),
    /// Overload one server in four ways, and measure what other clients get; recorded likewise
    Overload(OverloadArgs),
}

/// The size of a cluster.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// How many servers there are.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) replicas: u16,
    /// How many tenants there are.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=999))]
    pub(crate) tenants: u16,
    #[command(flatten)]
    pub(crate) bin: BinArgs,
}

/// The size of the load.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Duration in seconds.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=7200))]
    pub(crate) seconds: u64,
    /// How many clients there are, of all tenants in turn.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) clients: u16,
}

/// How long components are killed.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// Duration in seconds.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=7200))]
    pub(crate) seconds: u64,
    #[command(flatten)]
    pub(crate) schedule: KillScheduleArgs,
}

/// How often a component is killed, and for how long it stays down.
#[derive(Debug, Args)]
pub(crate) struct KillScheduleArgs {
    /// Seconds from one kill to the next.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=7200))]
    pub(crate) every: u64,
    /// Seconds that a killed component stays down.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub(crate) away: u64,
}

/// A whole run.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) up: UpArgs,
    /// Duration of load and kills in seconds.
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=6000))]
    pub(crate) seconds: u64,
    /// How many clients there are, of all tenants in turn.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) clients: u16,
    #[command(flatten)]
    pub(crate) schedule: KillScheduleArgs,
}

/// How a server is overloaded.
#[derive(Debug, Args)]
pub(crate) struct OverloadArgs {
    /// Seconds of each kind of abuse.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) seconds: u64,
    /// How many tenants there are.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=999))]
    pub(crate) tenants: u16,
    #[command(flatten)]
    pub(crate) bin: BinArgs,
}

/// Which long runs to start.
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// One run by name; all of them when absent.
    #[arg(value_parser = soak::names())]
    pub(crate) name: Option<String>,
    /// How much that run does, instead of its full size.
    #[arg(long, value_name = "N", requires = "name", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cases: Option<u32>,
    /// With `upgrade`: the revision of the older program, instead of the newest that lacks a migration.
    #[arg(long, value_name = "REVISION")]
    pub(crate) from: Option<String>,
}

/// Which fuzz targets to run, and how long.
#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// One target by name; all of them when absent.
    #[arg(value_name = "TARGET", value_parser = soak::fuzz::names())]
    pub(crate) name: Option<String>,
    /// How long each target runs.
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
}

/// Which code to break.
#[derive(Debug, Args)]
pub(crate) struct MutantsArgs {
    /// One area by name; all of them when absent.
    #[arg(value_name = "AREA", value_parser = soak::mutants::names())]
    pub(crate) name: Option<String>,
}

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    pub(crate) name: Bench,
    /// With `proxy`: calls of a server over HTTP.
    #[arg(long)]
    pub(crate) http: bool,
    /// With `footprint`: directory of a released `atlatl`; built as for the packages when absent.
    #[arg(long, value_name = "DIR")]
    pub(crate) bin: Option<PathBuf>,
}

/// The benchmarks there are.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Bench {
    /// Finding and measuring records, the estimate's error, descriptor sizes
    Core,
    /// Storing a result beside the bare scan and write, the memory of a streamed one
    Offload,
    /// Questions to 200 000 memories beside the engines that others use; installs those it lacks
    Extract,
    /// Calls through the proxy beside the bare server and beside other proxies; installs those it
    /// lacks
    Proxy,
    /// Recall, search, listing and ingest at 100 000 and a million memories, beside the bare SQL
    Memory,
    /// How well the ranking set is answered, by words, by vectors and by both, with real models
    Ranking,
    /// A thousand tenants in `PostgreSQL` beside the same SQL sent bare, and requests over HTTP that
    /// ask no store
    Server,
    /// Storing a result with 10,000 stored results beside the same with none
    Usage,
    /// Size, processor time and memory of the released program beside their goals
    Footprint,
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
