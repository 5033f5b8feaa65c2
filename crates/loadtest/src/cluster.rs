//! A cluster on this machine: servers behind a load balancer with real PostgreSQL and S3, clients of
//! many tenants, and fault injection.

mod action;
mod api_client;
mod classification;
mod client;
mod counters;
mod database;
mod embedding;
mod erasure;
mod fairness;
mod goodput;
mod http_client;
mod idle;
mod kill;
mod lifecycle;
mod mixed;
mod outages;
mod overload;
mod process;
mod report;
mod restart;
mod services;
mod state;
mod tenants;
mod upgrade;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use xtask::BinArgs;
use xtask::atlatl::Atlatl;
use xtask::output;
use xtask::repository::{Repository, cache_dir};
use xtask::run_record::RunRecord;

use self::embedding::EmbeddingArgs;
use self::erasure::ErasureArgs;
use self::idle::IdleArgs;
use self::kill::KillSchedule;
use self::lifecycle::ClusterSpec;
use self::mixed::MixedArgs;
use self::outages::OutagesArgs;
use self::report::{ClusterReport, Report};
use self::restart::RestartArgs;
use self::state::State;
use self::tenants::Tenants;
use self::upgrade::UpgradeArgs;
use crate::bench;

/// The commands of a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Start PostgreSQL, S3, servers and a load balancer, and create tenants with keys
    Up(UpArgs),
    /// Run clients of all tenants that write, read and request data of other tenants
    Load(LoadArgs),
    /// Kill servers, PostgreSQL and S3 in turn, and measure the recovery time
    Kill(KillArgs),
    /// Stop the cluster and remove its directory
    Down,
    /// Run load and kills on a new cluster, verify acknowledged writes, record it in bench/runs/
    Run(RunArgs),
    /// Overload one server in four ways, measure other clients, record it in bench/runs/
    Overload(OverloadArgs),
    /// Measure other tenants and /readyz beside many queries of the largest tenant, record it in
    /// bench/runs/
    Fairness(FairnessArgs),
    /// Count the texts that servers of one database embed, also after kills, record it in bench/runs/
    Embedding(EmbeddingArgs),
    /// Measure rate, latencies and CPU time under mixed load, also of an older program, record it in
    /// bench/runs/
    Mixed(MixedArgs),
    /// Upgrade servers of an older program one by one under load, verify acknowledged writes, record
    /// it in bench/runs/
    Upgrade(UpgradeArgs),
    /// Restart servers of a container image one by one under load, with the chart's probes and times,
    /// record it in bench/runs/
    Restart(RestartArgs),
    /// Measure CPU time without requests and bytes per memory, also of an older program, record it in
    /// bench/runs/
    Idle(IdleArgs),
    /// Erase a large tenant with kills, measure the latency of other tenants meanwhile, record it in
    /// bench/runs/
    Erasure(ErasureArgs),
    /// Remove and restore PostgreSQL, the bucket, the embedder and the issuer in turn under load, report
    /// the log, probes and metrics of each server, record it in bench/runs/
    Outages(OutagesArgs),
}

/// The program to measure.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// Directory of the built `atlatl` [default: build it for release]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
}

impl ReleaseArgs {
    /// The path of the program; builds it if no directory is given.
    fn program(&self, repository: &Repository) -> Result<PathBuf> {
        if self.bin.is_some() {
            return atlatl(repository, &BinArgs { bin: self.bin.clone() });
        }
        output::progress("building atlatl for release");
        bench::build_release(repository, &cache_dir()?)
    }
}

/// The programs to measure in one run.
#[derive(Debug, Args)]
pub(crate) struct ComparedPrograms {
    /// Older `atlatl` program to measure first, with its own database
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    #[command(flatten)]
    release: ReleaseArgs,
}

impl ComparedPrograms {
    /// The names and paths of the programs, the current one last.
    fn paths(&self, repository: &Repository) -> Result<Vec<(String, PathBuf)>> {
        let mut programs = Vec::new();
        if let Some(older) = &self.program {
            let path = older.canonicalize().with_context(|| format!("{}", older.display()))?;
            programs.push((self.older_name(), path));
        }
        programs.push(("this commit".to_owned(), self.release.program(repository)?));
        Ok(programs)
    }

    fn older_name(&self) -> String {
        self.program.as_deref().map_or_else(String::new, file_name)
    }

    /// The option of the older program, to repeat a run.
    fn option(&self) -> String {
        match self.program {
            Some(_) => format!(" --program {}", self.older_name()),
            None => String::new(),
        }
    }
}

/// The name of a program in a report.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The size of a cluster.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    replicas: u16,
    /// Number of tenants
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=999))]
    tenants: u16,
    #[command(flatten)]
    bin: BinArgs,
}

/// The size of the load.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Duration in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=7200))]
    seconds: u64,
    /// Number of clients, distributed over all tenants
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    clients: u16,
}

/// How long components are killed.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// Duration in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=7200))]
    seconds: u64,
    #[command(flatten)]
    schedule: KillScheduleArgs,
}

/// How often a component is killed, and for how long it stays down.
#[derive(Debug, Args)]
pub(crate) struct KillScheduleArgs {
    /// Seconds between kills
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=7200))]
    every: u64,
    /// Seconds that a killed component stays down
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=600))]
    away: u64,
}

/// A whole run.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    up: UpArgs,
    /// Duration of load and kills in seconds
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=6000))]
    seconds: u64,
    /// Number of clients, distributed over all tenants
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    clients: u16,
    #[command(flatten)]
    schedule: KillScheduleArgs,
}

/// How a server is overloaded.
#[derive(Debug, Args)]
pub(crate) struct OverloadArgs {
    /// Seconds of each kind of abuse
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Number of tenants
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=999))]
    tenants: u16,
    #[command(flatten)]
    bin: BinArgs,
}

/// How fairness is measured.
#[derive(Debug, Args)]
pub(crate) struct FairnessArgs {
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=300))]
    seconds: u64,
    /// Number of memories of the largest tenant
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    memories: u32,
    #[command(flatten)]
    bin: BinArgs,
}

/// Runs one of the commands.
pub(crate) fn run(
    repository: &Repository,
    command: &ClusterCommand,
    dir: Option<&Path>,
) -> Result<bool> {
    let dir = match dir {
        Some(dir) => std::path::absolute(dir)?,
        None => cache_dir()?.join("cluster"),
    };
    match command {
        ClusterCommand::Up(args) => {
            let state = up(repository, &dir, args)?;
            print_endpoints(&state);
            Ok(true)
        }
        ClusterCommand::Load(args) => load(&dir, args),
        ClusterCommand::Kill(args) => kill(&dir, args),
        ClusterCommand::Down => {
            lifecycle::down(&dir)?;
            output::line("the cluster is gone");
            Ok(true)
        }
        ClusterCommand::Run(args) => run_all(repository, &dir, args),
        ClusterCommand::Overload(args) => overload(repository, &dir, args),
        ClusterCommand::Fairness(args) => fairness(repository, &dir, args),
        ClusterCommand::Embedding(args) => {
            record(repository, "embedding", &args.command_line(), || {
                embedding::run(&dir, args.release.program(repository)?, args)
            })
        }
        ClusterCommand::Mixed(args) => record(repository, "mixed", &args.command_line(), || {
            mixed::run(&dir, args.programs.paths(repository)?, args)
        }),
        ClusterCommand::Idle(args) => record(repository, "idle", &args.command_line(), || {
            idle::run(&dir, args.programs.paths(repository)?, args)
        }),
        ClusterCommand::Erasure(args) => {
            record(repository, "erasure", &args.command_line(), || {
                erasure::run(&dir, args.release.program(repository)?, args)
            })
        }
        ClusterCommand::Restart(args) => {
            record(repository, "restart", &args.command_line(), || {
                restart::run(repository, &dir, args)
            })
        }
        ClusterCommand::Outages(args) => outages(repository, &dir, args),
        ClusterCommand::Upgrade(args) => {
            record(repository, "upgrade", &args.command_line(), || {
                upgrade::run(&dir, &args.release.program(repository)?, args)
            })
        }
    }
}

fn up(repository: &Repository, dir: &Path, args: &UpArgs) -> Result<State> {
    let atlatl = atlatl(repository, &args.bin)?;
    let (replicas, tenants) = (args.replicas.into(), args.tenants.into());
    lifecycle::up(dir, &ClusterSpec { atlatl, replicas, tenants, embedder: None, issuer: None })
}

fn atlatl(repository: &Repository, args: &BinArgs) -> Result<PathBuf> {
    if args.bin.is_none() {
        output::progress("building atlatl");
    }
    Ok(Atlatl::find(repository, args)?.dir().join("atlatl"))
}

fn print_endpoints(state: &State) {
    let (balancer, keys) = (state.balancer.port, tenants::keys_file(&state.dir));
    let ports: Vec<String> = state.replicas.iter().map(|server| server.port.to_string()).collect();
    output::line(format_args!(
        "http://127.0.0.1:{balancer} leads to {} servers (ports {}); PostgreSQL at 127.0.0.1:{}, S3 at \
         http://127.0.0.1:{}",
        ports.len(),
        ports.join(", "),
        state.postgres.port,
        state.s3.port
    ));
    output::line(format_args!("configuration, logs and keys: {}", state.dir.display()));
    output::line(format_args!(
        "try: curl -s http://127.0.0.1:{balancer}/v1/memories -H \"Authorization: Bearer \
         $(jq -r '.[0].key' {})\"",
        keys.display()
    ));
    output::line("it ends by itself after two hours, or by: cargo loadtest down");
}

fn load(dir: &Path, args: &LoadArgs) -> Result<bool> {
    let state = State::load(dir)?;
    let tenants = Tenants::new(tenants::load(dir)?.0);
    let duration = Duration::from_secs(args.seconds);
    output::progress(format_args!("{} clients for {} s", args.clients, args.seconds));
    let port = state.balancer.port;
    let counters = workload::run_clients(&tenants, port, args.clients.into(), duration)?;
    let (seconds, writes) = (args.seconds, tenants.write_counts());
    Ok(print_report(&Report { seconds, writes, load: Some(counters), ..Report::default() }))
}

fn kill(dir: &Path, args: &KillArgs) -> Result<bool> {
    let mut state = State::load(dir)?;
    let (_, probe) = tenants::load(dir)?;
    let kills = kill::run(&mut state, &probe, schedule(args.seconds, &args.schedule))?;
    let seconds = args.seconds;
    Ok(print_report(&Report { seconds, kills: Some(kills), ..Report::default() }))
}

/// Starts a cluster, runs load and kills together, reads everything back, stops the cluster and
/// writes the record.
fn run_all(repository: &Repository, dir: &Path, args: &RunArgs) -> Result<bool> {
    let record = RunRecord::begin(repository, "cluster", &command_line(args))?;
    let mut state = up(repository, dir, &args.up)?;
    let report = load_and_kill(&mut state, args);
    let passed = report.as_ref().is_ok_and(|report| report.findings().is_empty());
    if !passed {
        let logs = lifecycle::save_logs(&state.dir)?;
        output::progress(format_args!("the logs are kept in {}", logs.display()));
    }
    output::progress("taking the cluster down");
    lifecycle::down(&state.dir)?;
    let record = record.finish(report?);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    Ok(print_report(record.results()))
}

/// Starts a cluster of one server, runs all kinds of abuse, stops the cluster and writes the record.
fn overload(repository: &Repository, dir: &Path, args: &OverloadArgs) -> Result<bool> {
    let OverloadArgs { seconds, tenants, bin } = args;
    let command = format!("cargo loadtest overload --seconds {seconds} --tenants {tenants}");
    record(repository, "overload", &command, || {
        let atlatl = atlatl(repository, bin)?;
        let tenants = (*tenants).into();
        let spec = ClusterSpec { atlatl, replicas: 1, tenants, embedder: None, issuer: None };
        lifecycle::with_cluster(dir, &spec, |state| overload::run(state, *seconds))
    })
}

/// Starts a cluster of one server, measures other tenants alone and beside the largest one, stops the
/// cluster and writes the record.
fn fairness(repository: &Repository, dir: &Path, args: &FairnessArgs) -> Result<bool> {
    let FairnessArgs { seconds, memories, bin } = args;
    let command = format!("cargo loadtest fairness --seconds {seconds} --memories {memories}");
    record(repository, "fairness", &command, || {
        let atlatl = atlatl(repository, bin)?;
        let tenants = fairness::TENANTS;
        let spec = ClusterSpec { atlatl, replicas: 1, tenants, embedder: None, issuer: None };
        lifecycle::with_cluster(dir, &spec, |state| {
            fairness::run(state, Duration::from_secs(*seconds), *memories)
        })
    })
}

/// Runs a measurement, writes its record, and prints its table and findings; true when there are none.
fn record<R: ClusterReport>(
    repository: &Repository,
    name: &str,
    command: &str,
    measure: impl FnOnce() -> Result<R>,
) -> Result<bool> {
    let record = RunRecord::begin(repository, name, command)?.finish(measure()?);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    Ok(print_results(name, record.results()))
}

/// Prints the table and the findings of a measurement; true when there are none.
fn print_results(name: &str, results: &impl ClusterReport) -> bool {
    output::line(results.table());
    output::verdict(name, &results.findings())
}

/// Measures outages, and writes their record and, if asked for, a page.
fn outages(repository: &Repository, dir: &Path, args: &OutagesArgs) -> Result<bool> {
    let record = RunRecord::begin(repository, "outages", &args.command_line())?;
    let report = outages::run(dir, args.release.program(repository)?, args)?;
    let record = record.finish(report);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    if let Some(page) = &args.markdown {
        let text = record.results().page(&record.caption());
        fs::write(page, text).with_context(|| format!("{}", page.display()))?;
        output::line(format_args!("wrote {}", page.display()));
    }
    Ok(print_results("outages", record.results()))
}

fn load_and_kill(state: &mut State, args: &RunArgs) -> Result<Report> {
    let (tenants, probe) = tenants::load(&state.dir)?;
    let tenants = Tenants::new(tenants);
    let schedule = schedule(args.seconds, &args.schedule);
    let port = state.balancer.port;
    output::progress(format_args!("{} clients and kills for {} s", args.clients, args.seconds));
    let (counters, kills) = thread::scope(|scope| {
        let killer = scope.spawn(|| kill::run(state, &probe, schedule));
        let counters =
            workload::run_clients(&tenants, port, args.clients.into(), schedule.duration);
        (counters, killer.join().map_err(|_| anyhow!("fault injection panicked")))
    });
    let (mut counters, kills) = (counters?, kills??);
    let writes = tenants.write_counts();
    output::progress(format_args!("reading back {} memories", writes.acknowledged));
    let verification = workload::verify(&tenants, port, &mut counters)?;
    Ok(Report {
        seconds: args.seconds,
        writes,
        load: Some(counters),
        kills: Some(kills),
        verification: Some(verification),
    })
}

fn schedule(seconds: u64, args: &KillScheduleArgs) -> KillSchedule {
    let [duration, interval, downtime] = [seconds, args.every, args.away].map(Duration::from_secs);
    KillSchedule { duration, interval, downtime }
}

/// The command that repeats a run.
fn command_line(args: &RunArgs) -> String {
    let RunArgs { up: UpArgs { replicas, tenants, .. }, seconds, clients, schedule } = args;
    let KillScheduleArgs { every, away } = schedule;
    format!(
        "cargo loadtest run --seconds {seconds} --clients {clients} --every {every} --away {away} \
         --replicas {replicas} --tenants {tenants}"
    )
}

/// Prints the table and the findings; true when there are none.
fn print_report(report: &Report) -> bool {
    output::line(report.table());
    output::verdict("cluster", &report.findings())
}
