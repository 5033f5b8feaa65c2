//! Mixed load: rate, latencies and CPU time of a cluster under the requests of all kinds of clients, for
//! one program or for an older one and the current one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use xtask::output;

use super::counters::{Counters, Percentiles};
use super::lifecycle::{self, ClusterSpec, CpuTime};
use super::report::ClusterReport;
use super::state::State;
use super::tenants::{self, Tenants};
use super::{ComparedPrograms, client, database, workload};

/// How long clients run before their requests count.
const WARM_UP: Duration = Duration::from_secs(5);

/// The size of the load.
#[derive(Debug, clap::Args)]
pub(crate) struct MixedArgs {
    /// Duration in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1200))]
    seconds: u64,
    /// Number of clients with a connection each, distributed over all tenants
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// Number of tenants
    #[arg(long, value_name = "N", default_value_t = 45, value_parser = clap::value_parser!(u16).range(2..=999))]
    tenants: u16,
    /// Number of memories of each tenant
    #[arg(long, value_name = "N", default_value_t = 2300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    memories: u32,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    replicas: u16,
    #[command(flatten)]
    pub(super) programs: ComparedPrograms,
}

impl MixedArgs {
    /// The command that repeats a run.
    pub(super) fn command_line(&self) -> String {
        let Self { seconds, connections, tenants, memories, replicas, programs } = self;
        format!(
            "cargo loadtest mixed --seconds {seconds} --connections {connections} --tenants {tenants} \
             --memories {memories} --replicas {replicas}{}",
            programs.option()
        )
    }
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct MixedReport {
    connections: u16,
    tenants: u16,
    memories_per_tenant: u32,
    replicas: u16,
    /// The older program first.
    programs: Vec<MixedRun>,
}

/// The load on the servers of one program.
#[derive(Debug, Serialize)]
struct MixedRun {
    program: String,
    seconds: f64,
    /// Successful and denied requests a second.
    answers_per_second: f64,
    postgres_ms_per_answer: f64,
    servers_ms_per_answer: f64,
    all: Percentiles,
    by_request: BTreeMap<String, Percentiles>,
    load: Counters,
}

/// Measures each program on a cluster of its own.
pub(super) fn run(
    dir: &Path,
    programs: Vec<(String, PathBuf)>,
    args: &MixedArgs,
) -> Result<MixedReport> {
    let mut runs = Vec::new();
    for (program, atlatl) in programs {
        output::progress(format_args!("mixed load on {program}"));
        let (replicas, tenants) = (args.replicas.into(), args.tenants.into());
        let spec = ClusterSpec { atlatl, replicas, tenants, embedder: None, issuer: None };
        runs.push(lifecycle::with_cluster(dir, &spec, |state| measure(state, program, args))?);
    }
    Ok(MixedReport {
        connections: args.connections,
        tenants: args.tenants,
        memories_per_tenant: args.memories,
        replicas: args.replicas,
        programs: runs,
    })
}

fn measure(state: &State, program: String, args: &MixedArgs) -> Result<MixedRun> {
    let tenants = Tenants::new(tenants::load(&state.dir)?.0);
    output::progress(format_args!("importing {} memories of each tenant", args.memories));
    client::import_memories(state, &tenants, args.memories.into())?;
    database::vacuum(state)?;
    let (port, connections) = (state.balancer.port, usize::from(args.connections));
    output::progress(format_args!("{connections} connections for {} s", args.seconds));
    workload::run_clients(&tenants, port, connections, WARM_UP)?;
    let (start, before) = (Instant::now(), state.cpu_time()?);
    let duration = Duration::from_secs(args.seconds);
    let load = workload::run_clients(&tenants, port, connections, duration)?;
    Ok(MixedRun::new(program, load, start.elapsed(), state.cpu_time()?.since(before)))
}

impl MixedRun {
    fn new(program: String, mut load: Counters, duration: Duration, cpu: CpuTime) -> Self {
        let times = std::mem::take(&mut load.times_ms);
        let all: Vec<f64> = times.values().flatten().copied().collect();
        let by_request =
            times.into_iter().map(|(what, times)| (what, Percentiles::from_times(times)));
        let answers = f64::from(u32::try_from(all.len()).unwrap_or(u32::MAX));
        let per_answer = |time: Duration| time.as_secs_f64() * 1000.0 / answers.max(1.0);
        Self {
            program,
            seconds: duration.as_secs_f64(),
            answers_per_second: answers / duration.as_secs_f64(),
            postgres_ms_per_answer: per_answer(cpu.postgres),
            servers_ms_per_answer: per_answer(cpu.servers),
            all: Percentiles::from_times(all),
            by_request: by_request.collect(),
            load,
        }
    }

    /// Refusals, requests without a response and invalid responses by kind.
    fn failures(&self) -> String {
        let mut failures = self.load.refusals();
        failures.extend(self.load.unanswered());
        failures.extend(self.load.errors.iter().map(|(what, error)| (what.clone(), error.count)));
        let failures = failures.iter().map(|(kind, count)| format!("{kind}: {count}"));
        failures.collect::<Vec<_>>().join("; ")
    }
}

impl ClusterReport for MixedReport {
    /// Only of the current program: an older one is for comparison.
    fn findings(&self) -> Vec<String> {
        let Some(MixedRun { load, all, .. }) = self.programs.last() else { return Vec::new() };
        let mut findings = Vec::new();
        if all.requests == 0 {
            findings.push("no request was answered".to_owned());
        }
        if load.leaks > 0 {
            findings.push(format!("{} words of other tenants were seen", load.leaks));
        }
        for (what, error) in &load.errors {
            findings.push(format!("{what} ({} times): {}", error.count, error.example));
        }
        findings
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| program | answers a second | p50 | p95 | p99 | CPU of PostgreSQL per answer | \
             CPU of the servers per answer | not answered |\n|---|--:|--:|--:|--:|--:|--:|---|",
        );
        for run in &self.programs {
            let Percentiles { p50_ms, p95_ms, p99_ms, .. } = run.all;
            let _ = write!(
                text,
                "\n| {} | {:.0} | {p50_ms:.1} | {p95_ms:.1} | {p99_ms:.1} | {:.2} | {:.2} | {} |",
                run.program,
                run.answers_per_second,
                run.postgres_ms_per_answer,
                run.servers_ms_per_answer,
                run.failures()
            );
        }
        text.push_str(
            "\n\n| request | program | answers | p50 | p95 | p99 |\n|---|---|--:|--:|--:|--:|",
        );
        let requests = self.programs.iter().flat_map(|run| run.by_request.keys());
        for what in requests.collect::<BTreeSet<_>>() {
            for run in &self.programs {
                let Some(percentiles) = run.by_request.get(what) else { continue };
                let Percentiles { requests, p50_ms, p95_ms, p99_ms } = percentiles;
                let _ = write!(
                    text,
                    "\n| {what} | {} | {requests} | {p50_ms:.1} | {p95_ms:.1} | {p99_ms:.1} |",
                    run.program
                );
            }
        }
        let Self { connections, tenants, memories_per_tenant, replicas, .. } = self;
        let _ = write!(
            text,
            "\n\nTimes are milliseconds. {connections} connections, {tenants} tenants of \
             {memories_per_tenant} memories, {replicas} servers. The review of version 0.1.0 (issue \
             26) reports 49 requests a second and 25 ms of PostgreSQL per request for this load, \
             measured by another program."
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::http_client::RequestError;

    fn report() -> MixedReport {
        let run = |program: &str| {
            let mut load = Counters::default();
            for time_ms in 1..=100 {
                load.record_time("list_memories", Duration::from_millis(time_ms));
            }
            load.count_failure("list_memories", RequestError::Timeout);
            let seconds = Duration::from_secs;
            let cpu = CpuTime { postgres: seconds(1), servers: Duration::from_millis(250) };
            MixedRun::new(program.to_owned(), load, seconds(10), cpu)
        };
        MixedReport {
            connections: 64,
            tenants: 45,
            memories_per_tenant: 2300,
            replicas: 3,
            programs: vec![run("older"), run("current")],
        }
    }

    #[test]
    fn figures_are_by_answer_and_by_request() {
        let table = report().table();
        let row = "\n| current | 10 | 50.0 | 95.0 | 99.0 | 10.00 | 2.50 | timeout: 1 |\n";
        assert!(table.contains(row), "{table}");
        let row = "\n| list_memories | older | 100 | 50.0 | 95.0 | 99.0 |\n";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn only_the_current_program_has_findings() {
        let mut report = report();
        assert!(report.findings().is_empty());
        for (program, findings) in [(0, 0), (1, 1)] {
            report.programs[program].load.leaks = 1;
            assert_eq!(report.findings().len(), findings);
        }
        report.programs[1].all = Percentiles::default();
        assert_eq!(report.findings().len(), 2);
    }
}
