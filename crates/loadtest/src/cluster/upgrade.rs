//! A rolling upgrade under load: servers of an older program are replaced one by one while clients run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use xtask::output;

use super::counters::Counters;
use super::goodput::{GoodputMeter, spawn_clients};
use super::lifecycle::{self, ClusterSpec};
use super::process::wait_until;
use super::report::{ClusterReport, Report};
use super::state::{Component, State};
use super::tenants::{self, Tenants};
use super::{ReleaseArgs, file_name, services, workload};

const CLIENTS: usize = 64;
/// The load runs for a while before the upgrade, after the migration, between servers and after the
/// upgrade.
const PHASES: u32 = 4;
/// How long a server may take to finish its requests and stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// How long PostgreSQL may take to end the sessions of the last older server.
const SESSIONS_TIMEOUT: Duration = Duration::from_secs(15);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// What is upgraded, and for how long clients run.
#[derive(Debug, clap::Args)]
pub(crate) struct UpgradeArgs {
    /// Older `atlatl` program that the servers run before
    #[arg(long, value_name = "PROGRAM")]
    from: PathBuf,
    /// Duration of the load in seconds, in addition to the time that the upgrade takes
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(4..=900))]
    seconds: u64,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=16))]
    replicas: u16,
    /// Number of tenants
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=999))]
    tenants: u16,
    #[command(flatten)]
    pub(super) release: ReleaseArgs,
}

impl UpgradeArgs {
    /// The command that repeats a run.
    pub(super) fn command_line(&self) -> String {
        let Self { from, seconds, replicas, tenants, .. } = self;
        let from = file_name(from);
        format!(
            "cargo loadtest upgrade --from {from} --seconds {seconds} --replicas {replicas} \
             --tenants {tenants}"
        )
    }
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct UpgradeReport {
    from: String,
    #[serde(flatten)]
    report: Report,
    steps: Vec<Step>,
    /// The longest time without a successful answer to any client, in units of 50 ms.
    longest_gap_ms: u128,
}

/// A step of the upgrade.
#[derive(Debug, Serialize)]
struct Step {
    what: String,
    /// Since the start of the load.
    at_ms: u128,
    took_ms: u128,
}

/// Starts a cluster of the older program, upgrades it to `new` under load and reads everything back.
pub(super) fn run(dir: &Path, new: &Path, args: &UpgradeArgs) -> Result<UpgradeReport> {
    let old = &args.from;
    let atlatl = old.canonicalize().with_context(|| format!("{}", old.display()))?;
    let (replicas, tenants) = (args.replicas.into(), args.tenants.into());
    let spec = ClusterSpec { atlatl, replicas, tenants, embedder: None, issuer: None };
    lifecycle::with_cluster(dir, &spec, |state| measure(state, new, args))
}

fn measure(state: &mut State, new: &Path, args: &UpgradeArgs) -> Result<UpgradeReport> {
    let tenants = Tenants::new(tenants::load(&state.dir)?.0);
    let port = state.balancer.port;
    let (meter, stop) = (GoodputMeter::new(), AtomicBool::new(false));
    let (counters, steps, end) = thread::scope(|scope| {
        let clients = spawn_clients(scope, &tenants, port, 0..CLIENTS, &meter, &stop);
        let steps = upgrade(state, new, &meter, Duration::from_secs(args.seconds) / PHASES);
        let end = meter.elapsed();
        stop.store(true, Ordering::Relaxed);
        (workload::join_clients(clients), steps, end)
    });
    let (mut counters, steps) = (counters?, steps?);
    let writes = tenants.write_counts();
    output::progress(format_args!("reading back {} memories", writes.acknowledged));
    let verification = workload::verify(&tenants, port, &mut counters)?;
    Ok(UpgradeReport {
        from: file_name(&args.from),
        report: Report {
            seconds: end.as_secs(),
            writes,
            load: Some(counters),
            kills: None,
            verification: Some(verification),
        },
        steps,
        longest_gap_ms: meter.longest_gap(end).as_millis(),
    })
}

/// Migrates the database, replaces the servers one by one, and finishes the upgrade.
fn upgrade(
    state: &mut State,
    new: &Path,
    meter: &GoodputMeter,
    phase: Duration,
) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    thread::sleep(phase);
    steps.push(Step::run("atlatl db migrate", meter, || services::migrate(state, new, &[]))?);
    thread::sleep(phase);
    state.programs.atlatl = new.to_path_buf();
    let replicas = state.replicas.len();
    for number in 0..replicas {
        let what = format!("replacing {}", services::server_name(number));
        steps.push(Step::run(&what, meter, || {
            state.stop(Component::Replica(number), STOP_TIMEOUT)?;
            lifecycle::start_server(state, number)
        })?);
        thread::sleep(phase / u32::try_from(replicas)?);
    }
    steps.push(Step::run("atlatl db migrate --finish", meter, || finish(state, new))?);
    thread::sleep(phase);
    Ok(steps)
}

/// Finishes the upgrade once PostgreSQL has ended the sessions of older servers.
pub(super) fn finish(state: &State, new: &Path) -> Result<()> {
    let mut outcome = Ok(());
    wait_until(SESSIONS_TIMEOUT, || {
        outcome = services::migrate(state, new, &["--finish"]);
        if outcome.is_err() {
            thread::sleep(RETRY_INTERVAL);
        }
        outcome.is_ok()
    });
    outcome
}

impl Step {
    fn run(what: &str, meter: &GoodputMeter, action: impl FnOnce() -> Result<()>) -> Result<Self> {
        output::progress(what);
        let at = meter.elapsed();
        action().with_context(|| what.to_owned())?;
        let took_ms = meter.elapsed().saturating_sub(at).as_millis();
        Ok(Self { what: what.to_owned(), at_ms: at.as_millis(), took_ms })
    }
}

impl ClusterReport for UpgradeReport {
    /// A request may fail only if the answer asked to repeat it.
    fn findings(&self) -> Vec<String> {
        let mut findings = self.report.findings();
        let unanswered = self.report.load.iter().flat_map(Counters::unanswered);
        findings.extend(unanswered.map(|(kind, count)| format!("{kind}: {count} times")));
        findings
    }

    fn table(&self) -> String {
        let mut text = self.report.table();
        let _ = write!(
            text,
            "\n| longest time without a successful answer | {} ms |\n\n\
             | upgrade from {} | after | took |\n|---|--:|--:|",
            self.longest_gap_ms, self.from
        );
        for Step { what, at_ms, took_ms } in &self.steps {
            let _ = write!(text, "\n| {what} | {at_ms} ms | {took_ms} ms |");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::classification::Classification;
    use crate::cluster::http_client::RequestError;

    #[test]
    fn only_an_answer_that_asks_to_repeat_is_no_finding() {
        let mut load = Counters::default();
        let kind = "503".to_owned();
        load.count_response(503, &Classification::Unavailable { kind, delay: Duration::ZERO });
        let report = Report { load: Some(load), ..Report::default() };
        let steps = vec![Step { what: "a step".to_owned(), at_ms: 1, took_ms: 2 }];
        let from = "atlatl-old".to_owned();
        let mut report = UpgradeReport { from, report, steps, longest_gap_ms: 50 };
        assert!(report.findings().is_empty(), "{:?}", report.findings());
        let table = report.table();
        assert!(table.contains("\n| longest time without a successful answer | 50 ms |\n"));
        assert!(table.ends_with("\n| a step | 1 ms | 2 ms |"), "{table}");
        let load = report.report.load.as_mut().unwrap();
        load.count_failure("x", RequestError::Reset);
        load.count_response(502, &Classification::Balancer(502));
        assert_eq!(
            report.findings(),
            ["502 of the balancer: 1 times", "connection reset: 1 times"]
        );
    }
}
