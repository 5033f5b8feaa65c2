//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use xtask::BinArgs;

/// Servers behind a balancer with real engines on this machine, load from many tenants, and kills.
#[derive(Debug, Parser)]
#[command(name = "cargo loadtest", bin_name = "cargo loadtest")]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
    /// Where everything of it lies; `cluster` in the cache when absent.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) dir: Option<PathBuf>,
}

/// The commands of a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Start engines, servers and a balancer, and make tenants with keys
    Up(UpArgs),
    /// Let clients of all tenants write, read and ask for what is not theirs
    Load(LoadArgs),
    /// Kill servers and engines in turn, and measure how soon all works again
    Kill(KillArgs),
    /// End all of it and remove its directory
    Down,
    /// Up, load and kills at once, read back what was acknowledged, down; recorded under bench/runs/
    Run(RunArgs),
    /// Ask too much of one server in four ways, and measure what others get; recorded likewise
    Overload(OverloadArgs),
}

/// Of what a cluster consists.
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

/// How much load there is.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// For how long.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=7200))]
    pub(crate) seconds: u64,
    /// How many clients there are, of all tenants in turn.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) clients: u16,
}

/// How long something is killed again and again.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// For how long.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=7200))]
    pub(crate) seconds: u64,
    #[command(flatten)]
    pub(crate) turns: TurnArgs,
}

/// How often something is killed, and for how long it is away.
#[derive(Debug, Args)]
pub(crate) struct TurnArgs {
    /// Seconds from one kill to the next.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=7200))]
    pub(crate) every: u64,
    /// Seconds that what was killed stays away.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub(crate) away: u64,
}

/// A whole run.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) up: UpArgs,
    /// How long load and kills last.
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=6000))]
    pub(crate) seconds: u64,
    /// How many clients there are, of all tenants in turn.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) clients: u16,
    #[command(flatten)]
    pub(crate) turns: TurnArgs,
}

/// How a server is asked for too much.
#[derive(Debug, Args)]
pub(crate) struct OverloadArgs {
    /// How long each way lasts.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) seconds: u64,
    /// How many tenants there are.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=999))]
    pub(crate) tenants: u16,
    #[command(flatten)]
    pub(crate) bin: BinArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::ClusterArgs;

    #[test]
    fn the_command_line_is_consistent() {
        ClusterArgs::command().debug_assert();
    }
}
