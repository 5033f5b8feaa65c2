//! Outages: PostgreSQL, the bucket, the embedder and the issuer of tokens are removed and restored one
//! at a time under load. Measures what each replica logs, answers to probes and shows in metrics.

mod dependency;
mod dependency_client;
mod issuer;
mod log;
mod page;
mod probe;
mod report;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use chrono::{DateTime, Utc};
use xtask::output;

use self::dependency::{Endpoints, OutageKind};
use self::dependency_client::{ClientAnswers, ClientContext, TokenAnswer};
use self::log::LogSlices;
use self::probe::{ProbeSample, Prober, elapsed_ms};
use self::report::{OutageRecord, OutageReport, OutageTimes, ReplicaOutage, ReplicaRun};
use super::goodput::{GoodputMeter, spawn_paced_clients};
use super::lifecycle::{self, ClusterSpec};
use super::process::{self, wait_until};
use super::report::Report;
use super::state::State;
use super::tenants::{self, Tenants};
use super::{ReleaseArgs, database, services, workload};

/// The pause of a client between two requests, so that probes do not wait for a processor.
const CLIENT_PAUSE: Duration = Duration::from_millis(50);
/// Memories of each tenant before the load: enough for large results.
const MEMORIES_PER_TENANT: usize = 130;
const FILL_CLIENTS_PER_TENANT: usize = 2;
const VECTORS_TIMEOUT: Duration = Duration::from_mins(2);
/// How long replicas may take to recover: a replica sends no queries to an embedder for 30 seconds
/// after a failed one.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(90);
/// The time before an outage over which the rate of answers is averaged.
const RATE_WINDOW: Duration = Duration::from_secs(5);
/// Lines and probes of this time after the recovery belong to the outage.
const TRAILING_MS: i64 = 2000;

/// How services are removed.
#[derive(Debug, clap::Args)]
pub(crate) struct OutagesArgs {
    /// Seconds from the removal of a service until its restoration begins
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(6..=120))]
    away: u64,
    /// Seconds between the recovery and the next outage
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(3..=60))]
    between: u64,
    /// Number of clients, distributed over all servers
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=300))]
    clients: u16,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    replicas: u16,
    /// Number of tenants
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=999))]
    tenants: u16,
    /// Write the report to this file as a page in Markdown
    #[arg(long, value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,
    #[command(flatten)]
    pub(super) release: ReleaseArgs,
}

impl OutagesArgs {
    /// The command that repeats a run.
    pub(super) fn command_line(&self) -> String {
        let Self { away, between, clients, replicas, tenants, .. } = self;
        format!(
            "cargo loadtest outages --away {away} --between {between} --clients {clients} --replicas \
             {replicas} --tenants {tenants}"
        )
    }
}

impl OutageReport {
    /// The report as a page in Markdown; `caption` says when and where the run was.
    pub(super) fn page(&self, caption: &str) -> String {
        page::render(self, caption)
    }
}

/// Starts a cluster, and removes and restores all services in turn under load.
pub(super) fn run(dir: &Path, atlatl: PathBuf, args: &OutagesArgs) -> Result<OutageReport> {
    let ports = process::free_ports(2)?;
    let [embedder_port, issuer_port] = ports[..] else { return Err(anyhow!("two ports")) };
    // The cluster looks for its ports when these are in use.
    let mut endpoints = Endpoints::start(embedder_port, issuer_port);
    let spec = ClusterSpec {
        atlatl,
        replicas: args.replicas.into(),
        tenants: args.tenants.into(),
        embedder: endpoints.embedder(),
        issuer: Some(endpoints.issuer.url().to_owned()),
    };
    lifecycle::with_cluster(dir, &spec, |state| measure(state, &mut endpoints, args))
}

fn measure(
    state: &mut State,
    endpoints: &mut Endpoints,
    args: &OutagesArgs,
) -> Result<OutageReport> {
    let (all, dependency_tenant) = tenants::load(&state.dir)?;
    let tenants = Tenants::new(all);
    let port = state.balancer.port;
    output::progress("storing memories of all tenants");
    for tenants in [&tenants, &Tenants::new(vec![dependency_tenant.clone()])] {
        workload::fill(tenants, port, MEMORIES_PER_TENANT, FILL_CLIENTS_PER_TENANT)?;
    }
    ensure!(database::wait_for_vectors(state, VECTORS_TIMEOUT), "memories have no vectors");

    let replica_ports: Vec<u16> = state.replicas.iter().map(|server| server.port).collect();
    let clients = usize::from(args.clients).div_ceil(replica_ports.len().max(1));
    let keys = endpoints.issuer.keys();
    let audience = format!("{}/mcp", services::public_url(state));
    let probers: Vec<Prober> = state.admin_ports.iter().map(|port| Prober::new(*port)).collect();
    let (meter, stop) = (GoodputMeter::new(), AtomicBool::new(false));
    let started_at = DateTime::<Utc>::from(SystemTime::now());
    let context = ClientContext {
        tenant: &dependency_tenant,
        keys: &keys,
        audience: &audience,
        meter: &meter,
        stop: &stop,
    };
    let (load, answers, outages) = thread::scope(|scope| {
        let mut load = Vec::new();
        let mut dependency_clients = Vec::new();
        for (index, port) in replica_ports.iter().enumerate() {
            // Not by the balancer: it sends no requests to a replica that is not ready.
            let numbers = index * clients..(index + 1) * clients;
            load.extend(spawn_paced_clients(
                scope,
                &tenants,
                *port,
                numbers,
                CLIENT_PAUSE,
                &meter,
                &stop,
            ));
            dependency_clients.push(scope.spawn(move || dependency_client::run(context, *port)));
        }
        for prober in &probers {
            let (meter, stop) = (&meter, &stop);
            scope.spawn(move || prober.run(meter, stop));
        }
        let outages = remove_all(state, endpoints, &probers, &meter, args);
        stop.store(true, Ordering::Relaxed);
        (workload::join_clients(load), join_answers(dependency_clients), outages)
    });
    let (mut counters, answers, outages) = (load?, answers?, outages?);
    let seconds = meter.elapsed().as_secs();
    counters.merge(answers.counters);
    let writes = tenants.write_counts();
    output::progress(format_args!("reading back {} memories", writes.acknowledged));
    let verification = workload::verify(&tenants, port, &mut counters)?;
    let samples: Vec<Vec<ProbeSample>> = probers.into_iter().map(Prober::into_samples).collect();
    let (outages, replicas) =
        observe(state, started_at, &outages, &samples, &answers.tokens, &meter)?;
    let load = Some(counters);
    let verification = Some(verification);
    Ok(OutageReport {
        started_at,
        clients: args.clients,
        away_seconds: args.away,
        report: Report { seconds, writes, load, kills: None, verification },
        outages,
        replicas,
    })
}

/// Removes and restores one service after another.
fn remove_all(
    state: &mut State,
    endpoints: &mut Endpoints,
    probers: &[Prober],
    meter: &GoodputMeter,
    args: &OutagesArgs,
) -> Result<Vec<(OutageKind, OutageTimes)>> {
    let [away, between] = [args.away, args.between].map(Duration::from_secs);
    let mut outages = Vec::new();
    thread::sleep(between.max(RATE_WINDOW));
    for kind in OutageKind::ALL {
        output::progress(format_args!("{}, for {} s", kind.title(), args.away));
        let removed_ms = elapsed_ms(meter);
        dependency::remove(kind, state, endpoints)?;
        thread::sleep(away);
        let restoring_ms = elapsed_ms(meter);
        dependency::restore(kind, state, endpoints)?;
        let restored_ms = elapsed_ms(meter);
        let recovered = wait_until(RECOVERY_TIMEOUT, || {
            let mut probers = probers.iter();
            probers.all(|prober| prober.shows_recovery(kind.dependency(), restored_ms))
        });
        let now_ms = elapsed_ms(meter);
        let recovered_ms = recovered.then_some(now_ms);
        output::progress(match recovered_ms {
            Some(at_ms) => format!("all replicas recovered {} ms later", at_ms - restored_ms),
            None => format!("replicas did not recover in {RECOVERY_TIMEOUT:?}"),
        });
        let end_ms = now_ms + TRAILING_MS;
        let times = OutageTimes { removed_ms, restoring_ms, restored_ms, recovered_ms, end_ms };
        outages.push((kind, times));
        thread::sleep(between);
    }
    Ok(outages)
}

fn join_answers(clients: Vec<ScopedJoinHandle<'_, ClientAnswers>>) -> Result<ClientAnswers> {
    let mut sums = ClientAnswers::default();
    for client in clients {
        let ClientAnswers { counters, tokens } =
            client.join().map_err(|_| anyhow!("a client panicked"))?;
        sums.counters.merge(counters);
        sums.tokens.extend(tokens);
    }
    Ok(sums)
}

/// Attributes lines of logs, probes and answers to the outages.
fn observe(
    state: &State,
    started_at: DateTime<Utc>,
    outages: &[(OutageKind, OutageTimes)],
    samples: &[Vec<ProbeSample>],
    tokens: &[TokenAnswer],
    meter: &GoodputMeter,
) -> Result<(Vec<OutageRecord>, Vec<ReplicaRun>)> {
    let windows: Vec<(i64, i64)> =
        outages.iter().map(|(_, times)| (times.removed_ms, times.end_ms)).collect();
    let mut replicas = Vec::new();
    let mut by_outage: Vec<Vec<ReplicaOutage>> = outages.iter().map(|_| Vec::new()).collect();
    for (number, samples) in samples.iter().enumerate() {
        let lines = log::read(&services::server_log(state, number), started_at)?;
        let LogSlices { start, windows, others } = log::slice(lines, &windows);
        for (((kind, times), lines), observed) in outages.iter().zip(windows).zip(&mut by_outage) {
            observed.push(ReplicaOutage::new(*kind, *times, lines, samples));
        }
        replicas.push(ReplicaRun::new(start.len(), others, samples, outages));
    }
    let mut records = Vec::new();
    for ((kind, times), replicas) in outages.iter().zip(by_outage) {
        let OutageTimes { removed_ms, restoring_ms, restored_ms, recovered_ms, end_ms } = *times;
        let recovered_ms = recovered_ms.unwrap_or(end_ms);
        let window_ms = i64::try_from(RATE_WINDOW.as_millis()).context("the window of a rate")?;
        let rate = |from_ms: i64, to_ms: i64| {
            let [from, to] = [from_ms, to_ms].map(|ms| Duration::from_millis(ms.unsigned_abs()));
            meter.rate(from, to)
        };
        records.push(OutageRecord {
            kind: *kind,
            times: *times,
            rate_before: rate(removed_ms - window_ms, removed_ms),
            rate_during: rate(removed_ms, restoring_ms),
            rate_after: rate(recovered_ms, end_ms),
            token_answers: dependency_client::count_tokens(tokens, removed_ms, restored_ms),
            replicas,
        });
    }
    Ok((records, replicas))
}
