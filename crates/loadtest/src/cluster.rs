//! A cluster on this machine: servers behind a load balancer with real engines, clients of many
//! tenants, and a process killer.

mod api_client;
mod balancer;
mod canary;
mod classify;
mod client;
mod counters;
mod http_client;
mod kill;
mod load;
mod mix;
mod overload;
mod ports;
mod postgres;
mod probe;
mod process;
mod programs;
mod replica;
mod report;
mod s3;
mod state;
mod tenant_state;
mod tenants;
mod up;
mod verify;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use xtask::BinArgs;

use self::kill::Turns;
use self::report::Report;
use self::state::State;
use self::tenant_state::Tenants;
use crate::args::{ClusterCommand, KillArgs, LoadArgs, OverloadArgs, RunArgs, TurnArgs, UpArgs};
use crate::run_record::RunRecord;
use xtask::atlatl::Atlatl;
use xtask::output;
use xtask::repository::{Repository, cache_dir};

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
            say_where(&state);
            Ok(true)
        }
        ClusterCommand::Load(args) => load(&dir, args),
        ClusterCommand::Kill(args) => kill(&dir, args),
        ClusterCommand::Down => {
            up::down(&dir)?;
            output::line("the cluster is gone");
            Ok(true)
        }
        ClusterCommand::Run(args) => whole(repository, &dir, args),
        ClusterCommand::Overload(args) => overloaded(repository, &dir, args),
    }
}

fn up(repository: &Repository, dir: &Path, args: &UpArgs) -> Result<State> {
    let atlatl = atlatl(repository, &args.bin)?;
    up::up(dir, atlatl, args.replicas.into(), args.tenants.into())
}

fn atlatl(repository: &Repository, args: &BinArgs) -> Result<PathBuf> {
    if args.bin.is_none() {
        output::progress("building atlatl");
    }
    Ok(Atlatl::find(repository, args)?.dir().join("atlatl"))
}

fn say_where(state: &State) {
    let (balancer, keys) = (state.balancer.port, tenants::file(&state.dir));
    let ports: Vec<String> = state.replicas.iter().map(|member| member.port.to_string()).collect();
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
    let fleet = Tenants::new(tenants::load(dir)?.0);
    let time = Duration::from_secs(args.seconds);
    output::progress(format_args!("{} clients for {} s", args.clients, args.seconds));
    let tally = load::run(&fleet, state.balancer.port, args.clients.into(), time)?;
    let (seconds, written) = (args.seconds, fleet.written());
    Ok(said(&Report { seconds, written, load: Some(tally), ..Report::default() }))
}

fn kill(dir: &Path, args: &KillArgs) -> Result<bool> {
    let mut state = State::load(dir)?;
    let (_, probe) = tenants::load(dir)?;
    let kills = kill::run(&mut state, &probe, turns(args.seconds, &args.turns))?;
    Ok(said(&Report { seconds: args.seconds, kills: Some(kills), ..Report::default() }))
}

/// Up, load and kills at once, reading back, down; the record of it.
fn whole(repository: &Repository, dir: &Path, args: &RunArgs) -> Result<bool> {
    let record = RunRecord::begin(repository, "cluster", &written(args))?;
    let mut state = up(repository, dir, &args.up)?;
    let outcome = measured(&mut state, args);
    let fine = outcome.as_ref().is_ok_and(|report| report.findings().is_empty());
    if !fine {
        let kept = up::keep_logs(&state.dir)?;
        output::progress(format_args!("the logs are kept in {}", kept.display()));
    }
    output::progress("taking the cluster down");
    up::down(&state.dir)?;
    let record = record.finish(outcome?);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    Ok(said(record.results()))
}

/// One server, hazards one after another, down; the record of it.
fn overloaded(repository: &Repository, dir: &Path, args: &OverloadArgs) -> Result<bool> {
    let OverloadArgs { seconds, tenants, bin } = args;
    let command = format!("cargo loadtest overload --seconds {seconds} --tenants {tenants}");
    let record = RunRecord::begin(repository, "overload", &command)?;
    let state = up::up(dir, atlatl(repository, bin)?, 1, (*tenants).into())?;
    let outcome = overload::run(&state, *seconds);
    output::progress("taking the cluster down");
    up::down(&state.dir)?;
    let record = record.finish(outcome?);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    output::line(record.results().table());
    Ok(output::verdict("overload", &record.results().findings()))
}

fn measured(state: &mut State, args: &RunArgs) -> Result<Report> {
    let (tenants, probe) = tenants::load(&state.dir)?;
    let fleet = Tenants::new(tenants);
    let turns = turns(args.seconds, &args.turns);
    let port = state.balancer.port;
    output::progress(format_args!("{} clients and kills for {} s", args.clients, args.seconds));
    let (tally, kills) = thread::scope(|scope| {
        let killing = scope.spawn(|| kill::run(state, &probe, turns));
        let tally = load::run(&fleet, port, args.clients.into(), turns.time);
        (tally, killing.join().map_err(|_| anyhow!("whoever kills panicked")))
    });
    let (mut tally, kills) = (tally?, kills??);
    let written = fleet.written();
    output::progress(format_args!("reading back {} memories", written.acknowledged));
    let found = verify::run(&fleet, port, &mut tally)?;
    let seconds = args.seconds;
    let (load, kills, found) = (Some(tally), Some(kills), Some(found));
    Ok(Report { seconds, written, load, kills, found })
}

fn turns(seconds: u64, args: &TurnArgs) -> Turns {
    let [time, every, away] = [seconds, args.every, args.away].map(Duration::from_secs);
    Turns { time, every, away }
}

/// The command as one would type it.
fn written(args: &RunArgs) -> String {
    let RunArgs { up: UpArgs { replicas, tenants, .. }, seconds, clients, turns } = args;
    let TurnArgs { every, away } = turns;
    format!(
        "cargo loadtest run --seconds {seconds} --clients {clients} --every {every} --away {away} \
         --replicas {replicas} --tenants {tenants}"
    )
}

/// Prints the table and what must not be; whether there is nothing of the latter.
fn said(report: &Report) -> bool {
    output::line(report.table());
    output::verdict("cluster", &report.findings())
}
