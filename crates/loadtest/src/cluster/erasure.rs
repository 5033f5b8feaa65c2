//! Erasure: the latency of other tenants alone, and while a large tenant is erased with its vectors and
//! stored results by a command and by servers that are killed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::json;
use testkit::corpus;
use xtask::output;

use super::fairness::{Latencies, OTHER_QUERY, REQUEST_INTERVAL, Samples, join, send_searches};
use super::http_client::{HttpClient, Request};
use super::lifecycle::{self, ClusterSpec};
use super::report::ClusterReport;
use super::services::{self, DATABASE, OWNER_ROLE};
use super::state::{Component, State};
use super::tenants::{self, Tenant};
use super::{ReleaseArgs, database};

/// The erased tenant and the others, which have a client each.
const TENANTS: usize = 9;
/// One server is measured, the other one is killed.
const REPLICAS: usize = 2;
const KILLED_REPLICA: usize = 1;
const MEMORIES_PER_OTHER_TENANT: usize = 500;
/// How many memories are imported at once, so that they need not be in memory together.
const IMPORT_LEN: usize = 50_000;
/// The smallest number of memories in a stored result, and how many numbers there are.
const MIN_LISTED: u32 = 40;
const LISTED_RANGE: u32 = 900;
/// The p95 of other tenants during the erasure, compared with their p95 alone.
const MAX_RATIO: f64 = 1.5;
/// The time until the first kill: the erasure begins after 45 seconds.
const FIRST_KILL: Duration = Duration::from_secs(50);
const KILL_INTERVAL: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const INDEX_TIMEOUT: Duration = Duration::from_mins(45);
const ERASURE_TIMEOUT: Duration = Duration::from_hours(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What is erased.
#[derive(Debug, clap::Args)]
pub(crate) struct ErasureArgs {
    /// Number of memories of the erased tenant
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    memories: u32,
    /// Dimensions of its vectors; 0 for none. From 20,000
    /// vectors on they have an index, which takes time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(0..=4000))]
    dimensions: u16,
    /// Number of its stored results
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    results: u32,
    /// Number of kills of the command and of a server
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(0..=100))]
    kills: u16,
    /// Duration of the measurement without the erasure in
    /// seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    #[command(flatten)]
    pub(super) release: ReleaseArgs,
}

impl ErasureArgs {
    /// The command that repeats a run.
    pub(super) fn command_line(&self) -> String {
        let Self { memories, dimensions, results, kills, seconds, .. } = self;
        format!(
            "cargo loadtest erasure --memories {memories} --dimensions {dimensions} --results \
             {results} --kills {kills} --seconds {seconds}"
        )
    }
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct ErasureReport {
    memories: u32,
    dimensions: u16,
    results: u32,
    kills: u16,
    kills_wanted: u16,
    /// From the request to the end, with the 45 seconds before it begins.
    seconds: f64,
    /// Other tenants without the erasure.
    alone: Latencies,
    /// Other tenants during it.
    during: Latencies,
    /// What the record of the erasure says.
    erased_memories: u64,
    erased_results: u64,
    /// Rows and objects of the tenant that are left.
    rows_left: u64,
    objects_left: u64,
    /// Memories that other tenants lost.
    lost_memories: i64,
}

/// Measures a cluster.
pub(super) fn run(dir: &Path, atlatl: PathBuf, args: &ErasureArgs) -> Result<ErasureReport> {
    let spec =
        ClusterSpec { atlatl, replicas: REPLICAS, tenants: TENANTS, embedder: None, issuer: None };
    lifecycle::with_cluster(dir, &spec, |state| measure(state, args))
}

fn measure(state: &mut State, args: &ErasureArgs) -> Result<ErasureReport> {
    let port = state.replicas.first().context("a server")?.port;
    let (all, _) = tenants::load(&state.dir)?;
    let (erased, others) = all.split_first().context("a tenant")?;
    fill(state, erased, others, args)?;
    let others_before = memories_of_others(state, erased)?;
    output::progress("other tenants alone");
    let (alone, ()) = beside(others, port, || {
        thread::sleep(Duration::from_secs(args.seconds));
        Ok(())
    })?;
    output::progress("other tenants during the erasure");
    let (during, (kills, seconds)) = beside(others, port, || erase(state, erased, args.kills))?;
    let record = "SELECT memories, results FROM atlatl.erasure WHERE completed IS NOT NULL";
    let record = services::psql(state, DATABASE, record)?;
    let (memories, results) = record.trim().split_once('|').context("a complete erasure")?;
    Ok(ErasureReport {
        memories: args.memories,
        dimensions: args.dimensions,
        results: args.results,
        kills,
        kills_wanted: args.kills,
        seconds,
        alone: alone.latencies(),
        during: during.latencies(),
        erased_memories: memories.parse()?,
        erased_results: results.parse()?,
        rows_left: rows(state, erased)?,
        objects_left: objects(&services::results_dir(state, erased)),
        lost_memories: others_before - memories_of_others(state, erased)?,
    })
}

/// Stores memories, vectors and results.
fn fill(state: &State, erased: &Tenant, others: &[Tenant], args: &ErasureArgs) -> Result<()> {
    let wanted = usize::try_from(args.memories)?;
    for (batch, first) in (1..).zip((0..wanted).step_by(IMPORT_LEN)) {
        output::progress(format_args!("importing memories from {first} of {wanted}"));
        let memories = corpus::memories(IMPORT_LEN.min(wanted - first), batch);
        services::import(state, erased, memories.into_iter().map(|memory| memory.to_json()))?;
    }
    for tenant in others {
        let memories = corpus::memories(MEMORIES_PER_OTHER_TENANT, 0);
        services::import(state, tenant, memories.into_iter().map(|memory| memory.to_json()))?;
    }
    if args.dimensions > 0 {
        add_vectors(state, erased, args)?;
    }
    output::progress(format_args!("storing {} results", args.results));
    let client = HttpClient::new(state.balancer.port, REQUEST_TIMEOUT);
    for n in 0..args.results {
        // Each result is another one: an identical one would not be stored again.
        let limit = MIN_LISTED + n % LISTED_RANGE;
        let list =
            json!({"name": "list_memories", "arguments": {"detail": "full", "limit": limit}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": list});
        let request = Request::post("/mcp", body.to_string()).with_key(&erased.key);
        let response = client.send(&request).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        ensure!(response.status == 200, "status {}", response.status);
    }
    database::vacuum(state)
}

/// Adds random vectors by SQL, and waits until servers have built their index.
fn add_vectors(state: &State, erased: &Tenant, args: &ErasureArgs) -> Result<()> {
    output::progress("adding vectors");
    let (name, dimensions) = (&erased.name, args.dimensions);
    let insert = format!(
        "INSERT INTO atlatl.embedding (tenant, model, key, embedding) SELECT m.tenant, 'loadtest', \
         m.key, (SELECT array_agg((random() - 0.5 + 0 * (n + m.key))::real) FROM generate_series(1, \
         {dimensions}) AS n)::halfvec FROM atlatl.memory m WHERE m.tenant = '{name}'"
    );
    services::psql(state, DATABASE, &insert)?;
    if args.memories < 20_000 {
        return Ok(());
    }
    output::progress("waiting for the vector index");
    // The index of so many vectors needs more memory than servers use, and is not what is measured.
    let faster = "ALTER FUNCTION atlatl.build_embedding_index(text, integer) \
                  SET maintenance_work_mem = '1GB'; \
                  ALTER FUNCTION atlatl.build_embedding_index(text, integer) \
                  SET max_parallel_maintenance_workers = 2";
    services::psql(state, DATABASE, faster)?;
    // Servers update the indexes of tenants that they have in their caches.
    let request = Request::get("/v1/memories?limit=1").with_key(&erased.key);
    let client = HttpClient::new(state.balancer.port, REQUEST_TIMEOUT);
    let began = Instant::now();
    let count = "SELECT (SELECT count(*) FROM atlatl.embedding_index), \
                 (SELECT count(*) FROM atlatl.embedding)";
    while services::psql(state, DATABASE, count)?.trim() != "1|0" {
        ensure!(began.elapsed() < INDEX_TIMEOUT, "the vector index is not built");
        drop(client.send(&request));
        thread::sleep(Duration::from_secs(5));
    }
    Ok(())
}

/// Runs `work` beside a client for each of the tenants.
fn beside<T>(
    others: &[Tenant],
    port: u16,
    work: impl FnOnce() -> Result<T>,
) -> Result<(Samples, T)> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = others
            .iter()
            .map(|tenant| {
                let stop = &stop;
                scope.spawn(move || {
                    let is_over = || stop.load(Ordering::Relaxed);
                    send_searches(tenant, OTHER_QUERY, port, REQUEST_INTERVAL, is_over)
                })
            })
            .collect();
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let samples = join(clients)?;
        Ok((samples, done?))
    })
}

/// Removes the tenant, and kills the command and a server now and then. Returns the number of kills
/// and the seconds that it took.
fn erase(state: &mut State, erased: &Tenant, kills: u16) -> Result<(u16, f64)> {
    let began = Instant::now();
    let mut done = 0;
    let mut command = start_removal(state, erased)?;
    let mut next_kill = began + FIRST_KILL;
    loop {
        if let Some(status) = command.try_wait()? {
            ensure!(status.success(), "atlatl tenants remove: {status}");
            return Ok((done, began.elapsed().as_secs_f64()));
        }
        ensure!(began.elapsed() < ERASURE_TIMEOUT, "the erasure does not end");
        if done < kills && Instant::now() >= next_kill {
            command.kill()?;
            command.wait()?;
            state.kill(Component::Replica(KILLED_REPLICA))?;
            lifecycle::start_server(state, KILLED_REPLICA)?;
            command = start_removal(state, erased)?;
            next_kill = Instant::now() + KILL_INTERVAL;
            done += 1;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn start_removal(state: &State, erased: &Tenant) -> Result<Child> {
    let args = ["tenants", "remove", &erased.name, "--yes"];
    let mut command = services::atlatl(state, &state.programs.atlatl, &args);
    command.args(["--as", &services::postgres_url(state, OWNER_ROLE)]);
    command.envs(services::object_storage_env(state));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("atlatl tenants remove")
}

/// The number of rows of a tenant in the large tables.
fn rows(state: &State, tenant: &Tenant) -> Result<u64> {
    let tables = ["memory", "document", "search_document", "embedding", "author", "secret"];
    let counts = tables.map(|table| {
        format!("(SELECT count(*) FROM atlatl.{table} WHERE tenant = '{}')", tenant.name)
    });
    let sql = format!(
        "SELECT {} + (SELECT count(*) FROM atlatl.embedding_index WHERE tenant = '{}')",
        counts.join(" + "),
        tenant.name
    );
    services::psql(state, DATABASE, &sql)?.trim().parse().context("a count")
}

fn memories_of_others(state: &State, erased: &Tenant) -> Result<i64> {
    let sql = format!("SELECT count(*) FROM atlatl.memory WHERE tenant <> '{}'", erased.name);
    services::psql(state, DATABASE, &sql)?.trim().parse().context("a count")
}

/// The number of files below a directory.
fn objects(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let count = |path: PathBuf| if path.is_dir() { objects(&path) } else { 1 };
    entries.flatten().map(|entry| count(entry.path())).sum()
}

impl ClusterReport for ErasureReport {
    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let ratio = self.during.p95_ms / self.alone.p95_ms;
        // Without requests there is no ratio.
        if !ratio.is_finite() || ratio > MAX_RATIO {
            findings.push(format!("p95 of other tenants: {ratio:.2} times that alone"));
        }
        for (what, count) in &self.during.refused {
            findings.push(format!("other tenants: {what} ({count} times)"));
        }
        if self.kills < self.kills_wanted {
            findings.push(format!("{} of {} kills", self.kills, self.kills_wanted));
        }
        if self.erased_memories != u64::from(self.memories) {
            findings.push(format!("the record says {} memories", self.erased_memories));
        }
        if (self.rows_left, self.objects_left) != (0, 0) {
            findings
                .push(format!("{} rows and {} objects left", self.rows_left, self.objects_left));
        }
        if self.lost_memories != 0 {
            findings.push(format!("other tenants lost {} memories", self.lost_memories));
        }
        findings
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| other tenants | answered | p50 | p95 | max | refused |\n|---|--:|--:|--:|--:|---|",
        );
        for (when, latencies) in [("alone", &self.alone), ("during the erasure", &self.during)] {
            let Latencies { requests, p50_ms, p95_ms, max_ms, refused } = latencies;
            let refused: Vec<String> =
                refused.iter().map(|(what, count)| format!("{what}: {count}")).collect();
            let _ = write!(
                text,
                "\n| {when} | {requests} | {p50_ms:.1} | {p95_ms:.1} | {max_ms:.1} | {} |",
                refused.join(", ")
            );
        }
        let _ = write!(
            text,
            "\n\nTimes are milliseconds. A tenant with {} memories, vectors of {} dimensions and {} \
             stored results was erased in {:.0} s with {} kills.",
            self.memories, self.dimensions, self.results, self.seconds, self.kills
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn latencies(p95_ms: f64) -> Latencies {
        Latencies { requests: 10, p50_ms: 1.0, p95_ms, max_ms: p95_ms, ..Latencies::default() }
    }

    fn clean() -> ErasureReport {
        ErasureReport {
            memories: 500_000,
            dimensions: 64,
            results: 500,
            kills: 5,
            kills_wanted: 5,
            seconds: 600.0,
            alone: latencies(4.0),
            during: latencies(6.0),
            erased_memories: 500_000,
            erased_results: 500,
            rows_left: 0,
            objects_left: 0,
            lost_memories: 0,
        }
    }

    #[test]
    fn g48_whatever_must_not_be_is_a_finding() {
        assert!(clean().findings().is_empty(), "{:?}", clean().findings());
        let table = clean().table();
        assert!(table.contains("\n| during the erasure | 10 | 1.0 | 6.0 | 6.0 |  |\n"), "{table}");
        let faults: [&dyn Fn(&mut ErasureReport); 8] = [
            &|report| report.during.p95_ms = 6.1,
            &|report| report.alone.p95_ms = 0.0,
            &|report| report.during.refused = BTreeMap::from([("503".to_owned(), 1)]),
            &|report| report.kills = 4,
            &|report| report.erased_memories = 499_999,
            &|report| report.rows_left = 1,
            &|report| report.objects_left = 1,
            &|report| report.lost_memories = 1,
        ];
        for fault in faults {
            let mut report = clean();
            fault(&mut report);
            assert_eq!(report.findings().len(), 1, "{:?}", report.findings());
        }
    }
}
