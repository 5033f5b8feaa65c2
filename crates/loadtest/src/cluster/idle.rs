//! Idle cost: the CPU time of PostgreSQL and of servers without requests, and the bytes that a memory
//! takes with and without a vector, for one program or for an older one and the current one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use testkit::corpus;
use testkit::embeddings::EmbeddingsServer;
use xtask::output;

use super::http_client::{HttpClient, Request};
use super::lifecycle::{self, ClusterSpec};
use super::report::ClusterReport;
use super::state::{Component, State};
use super::tenants::{self, Tenant};
use super::{ComparedPrograms, database, services, upgrade};

/// The CPU time of PostgreSQL and all servers, in percent of a core.
const MAX_IDLE_PERCENT: f64 = 1.0;
/// From 20,000 vectors on, a tenant gets an index, which is built for minutes.
const MAX_MEMORIES_PER_TENANT: u32 = 19_000;
const DIMENSIONS: usize = 384;
const VECTORS_TIMEOUT: Duration = Duration::from_mins(40);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the cluster is left alone before it is measured.
const SETTLE_DURATION: Duration = Duration::from_mins(2);

/// The size of the database.
#[derive(Debug, clap::Args)]
pub(crate) struct IdleArgs {
    /// Number of memories
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    memories: u32,
    /// Number of tenants
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(2..=400))]
    tenants: u16,
    /// Duration of the measurement in seconds
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(10..=1200))]
    seconds: u64,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    replicas: u16,
    #[command(flatten)]
    pub(super) programs: ComparedPrograms,
}

impl IdleArgs {
    /// The command that repeats a run.
    pub(super) fn command_line(&self) -> String {
        let Self { memories, tenants, seconds, replicas, programs } = self;
        format!(
            "cargo loadtest idle --memories {memories} --tenants {tenants} --seconds {seconds} \
             --replicas {replicas}{}",
            programs.option()
        )
    }
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct IdleReport {
    tenants: u16,
    replicas: u16,
    seconds: u64,
    dimensions: usize,
    /// The older program first.
    programs: Vec<IdleRun>,
}

/// The cost of one program.
#[derive(Debug, Serialize)]
struct IdleRun {
    program: String,
    memories: u64,
    /// In percent of a core, with an embedder, when every memory has a vector.
    postgres_percent: f64,
    /// All servers together.
    servers_percent: f64,
    bytes_per_memory: f64,
    bytes_per_memory_with_vectors: f64,
    /// The database of an older program after `db migrate --finish` of the current one.
    bytes_per_memory_upgraded: Option<f64>,
}

/// Measures each program on a cluster of its own.
pub(super) fn run(
    dir: &Path,
    programs: Vec<(String, PathBuf)>,
    args: &IdleArgs,
) -> Result<IdleReport> {
    ensure!(
        args.memories / u32::from(args.tenants) <= MAX_MEMORIES_PER_TENANT,
        "more than {MAX_MEMORIES_PER_TENANT} memories per tenant: use more --tenants"
    );
    let (_, current) = programs.last().context("a program")?;
    let current = current.clone();
    let mut runs = Vec::new();
    for (program, atlatl) in programs {
        output::progress(format_args!("idle cost of {program}"));
        let (replicas, tenants) = (args.replicas.into(), args.tenants.into());
        let spec = ClusterSpec { atlatl, replicas, tenants, embedder: None, issuer: None };
        let measure = |state: &mut State| measure(state, program, &current, args);
        runs.push(lifecycle::with_cluster(dir, &spec, measure)?);
    }
    Ok(IdleReport {
        tenants: args.tenants,
        replicas: args.replicas,
        seconds: args.seconds,
        dimensions: DIMENSIONS,
        programs: runs,
    })
}

/// Measures sizes and CPU time of the program that the servers run.
fn measure(state: &mut State, program: String, current: &Path, args: &IdleArgs) -> Result<IdleRun> {
    let is_current = state.programs.atlatl == current;
    if is_current {
        // A new database needs nothing of older versions.
        services::migrate(state, current, &["--finish"])?;
    }
    let (tenants, _) = tenants::load(&state.dir)?;
    import(state, &tenants, args)?;
    let without_vectors = bytes_per_memory(state)?;
    // The endpoint has to answer until the end of the measurement.
    let endpoint = EmbeddingsServer::start(DIMENSIONS, "", Duration::ZERO);
    embed(state, &tenants, &endpoint)?;
    let with_vectors = bytes_per_memory(state)?;
    let (postgres_percent, servers_percent) =
        measure_cpu(state, &tenants, Duration::from_secs(args.seconds))?;
    let bytes_per_memory_upgraded =
        if is_current { None } else { Some(bytes_after_upgrade(state, current)?) };
    Ok(IdleRun {
        program,
        memories: database::contents(state)?.memories,
        postgres_percent,
        servers_percent,
        bytes_per_memory: without_vectors,
        bytes_per_memory_with_vectors: with_vectors,
        bytes_per_memory_upgraded,
    })
}

fn import(state: &State, tenants: &[Tenant], args: &IdleArgs) -> Result<()> {
    output::progress(format_args!("importing {} memories", args.memories));
    let share = usize::try_from(args.memories.div_ceil(args.tenants.into()))?;
    let mut left = usize::try_from(args.memories)?;
    for (seed, tenant) in (1..).zip(tenants) {
        let memories = corpus::memories(share.min(left), seed);
        left -= memories.len();
        services::import(state, tenant, memories.into_iter().map(|memory| memory.to_json()))?;
    }
    Ok(())
}

/// Restarts the servers with an embedder and waits until every memory has a vector.
fn embed(state: &mut State, tenants: &[Tenant], endpoint: &EmbeddingsServer) -> Result<()> {
    let replicas = 0..state.replicas.len();
    for number in replicas.clone() {
        state.kill(Component::Replica(number))?;
    }
    state.embedder = Some(endpoint.embedder());
    services::init_servers(state)?;
    for number in replicas {
        lifecycle::start_server(state, number)?;
        request_all(state, tenants, number)?;
        // In older versions each server embeds everything: one is enough.
        if number == 0 {
            output::progress("embedding all memories");
            let start = Instant::now();
            let complete = database::wait_for_vectors(state, VECTORS_TIMEOUT);
            ensure!(complete, "not every memory has a vector after {VECTORS_TIMEOUT:?}");
            output::progress(format_args!("embedded in {} s", start.elapsed().as_secs()));
        }
    }
    Ok(())
}

/// Sends a request of every tenant to a server, so that it serves all of them.
fn request_all(state: &State, tenants: &[Tenant], number: usize) -> Result<()> {
    let port = state.replicas.get(number).context("no such replica")?.port;
    let client = HttpClient::new(port, REQUEST_TIMEOUT);
    for tenant in tenants {
        let request = Request::get("/v1/memories?limit=1").with_key(&tenant.key);
        let response = client.send(&request);
        let response = response.ok().with_context(|| format!("no response for {}", tenant.name))?;
        ensure!(response.status == 200, "{}: {}", tenant.name, response.excerpt());
    }
    Ok(())
}

/// The CPU time of PostgreSQL and of the servers without requests, in percent of a core.
fn measure_cpu(state: &State, tenants: &[Tenant], duration: Duration) -> Result<(f64, f64)> {
    for number in 0..state.replicas.len() {
        request_all(state, tenants, number)?;
    }
    // Its health checks are requests.
    state.kill(Component::Balancer)?;
    thread::sleep(SETTLE_DURATION);
    output::progress(format_args!("no requests for {} s", duration.as_secs()));
    let (start, before) = (Instant::now(), state.cpu_time()?);
    thread::sleep(duration);
    let (cpu, elapsed) = (state.cpu_time()?.since(before), start.elapsed().as_secs_f64());
    let percent = |time: Duration| time.as_secs_f64() * 100.0 / elapsed;
    Ok((percent(cpu.postgres), percent(cpu.servers)))
}

/// Upgrades the database of an older program; its servers are stopped.
fn bytes_after_upgrade(state: &State, current: &Path) -> Result<f64> {
    output::progress("upgrading the database");
    for number in 0..state.replicas.len() {
        state.kill(Component::Replica(number))?;
    }
    upgrade::finish(state, current)?;
    bytes_per_memory(state)
}

fn bytes_per_memory(state: &State) -> Result<f64> {
    database::vacuum(state)?;
    let memories = database::contents(state)?.memories;
    Ok(to_f64(database::size(state)?) / to_f64(memories.max(1)))
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn to_f64(bytes: u64) -> f64 {
    bytes as f64
}

impl IdleRun {
    fn percent(&self) -> f64 {
        self.postgres_percent + self.servers_percent
    }
}

impl ClusterReport for IdleReport {
    /// Only of the current program: an older one is for comparison.
    fn findings(&self) -> Vec<String> {
        let current = self.programs.last().filter(|run| run.percent() > MAX_IDLE_PERCENT);
        let finding = |run: &IdleRun| format!("{:.2} % of a core without requests", run.percent());
        current.map(finding).into_iter().collect()
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| program | memories | PostgreSQL, idle | servers, idle | both | bytes per memory | \
             with vectors | after the upgrade |\n|---|--:|--:|--:|--:|--:|--:|--:|",
        );
        for run in &self.programs {
            let upgraded = run.bytes_per_memory_upgraded;
            let upgraded = upgraded.map_or_else(String::new, |bytes| format!("{bytes:.0}"));
            let _ = write!(
                text,
                "\n| {} | {} | {:.2} % | {:.2} % | {:.2} % | {:.0} | {:.0} | {upgraded} |",
                run.program,
                run.memories,
                run.postgres_percent,
                run.servers_percent,
                run.percent(),
                run.bytes_per_memory,
                run.bytes_per_memory_with_vectors
            );
        }
        let Self { tenants, replicas, seconds, dimensions, .. } = self;
        let _ = write!(
            text,
            "\n\nPercent of a core over {seconds} s, {replicas} servers, {tenants} tenants, vectors of \
             {dimensions} dimensions. Goal: both at most {MAX_IDLE_PERCENT} %. Bytes are those of all \
             tables and indexes; after the upgrade is the database of the older program after \
             `db migrate --finish` of this commit, with vectors."
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goal_is_for_the_current_program() {
        let run = |program: &str, postgres_percent, upgraded| IdleRun {
            program: program.to_owned(),
            memories: 200_000,
            postgres_percent,
            servers_percent: 0.25,
            bytes_per_memory: 3500.0,
            bytes_per_memory_with_vectors: 9000.4,
            bytes_per_memory_upgraded: upgraded,
        };
        let programs = vec![run("older", 30.0, Some(4000.0)), run("current", 0.75, None)];
        let (tenants, replicas, seconds, dimensions) = (50, 3, 60, 384);
        let mut report = IdleReport { tenants, replicas, seconds, dimensions, programs };
        assert!(report.findings().is_empty(), "{:?}", report.findings());
        let table = report.table();
        let older = "\n| older | 200000 | 30.00 % | 0.25 % | 30.25 % | 3500 | 9000 | 4000 |\n";
        assert!(table.contains(older), "{table}");
        assert!(table.contains("| 1.00 % | 3500 | 9000 |  |\n"), "{table}");
        report.programs[1].servers_percent = 0.26;
        assert_eq!(report.findings(), ["1.01 % of a core without requests"]);
    }
}
