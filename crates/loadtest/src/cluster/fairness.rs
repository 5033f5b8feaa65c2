//! Fairness: the latency of other tenants and of `/readyz` alone, and beside many concurrent queries
//! of the largest tenant.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use serde_json::json;
use testkit::corpus;
use xtask::output;

use super::classification::{Classification, ExpectedBody, RETRY_DELAY, classify};
use super::counters::percentile;
use super::http_client::{HttpClient, Request};
use super::report::ClusterReport;
use super::services;
use super::state::State;
use super::tenants::{self, Tenant};

/// The tenants of the cluster: the largest one and the others, which have a client each.
pub(super) const TENANTS: usize = 9;
/// Concurrent queries of the largest tenant.
const LARGEST_CLIENTS: usize = 64;
const MEMORIES_PER_OTHER_TENANT: usize = 500;
/// A query whose words are in many memories.
const LARGEST_QUERY: &str = "database deployment customer release backup";
pub(super) const OTHER_QUERY: &str = "restart billing with Postgres";

/// The p95 of other tenants beside the largest one, compared with their p95 alone.
const MAX_RATIO: f64 = 2.0;
const MAX_READY_MS: f64 = 100.0;

/// The pause of a client of another tenant between two requests, so that these clients together
/// leave the machine idle most of the time.
pub(super) const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
const READY_INTERVAL: Duration = Duration::from_millis(50);
/// How long clients run before their requests count.
const WARM_UP: Duration = Duration::from_secs(2);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct FairnessReport {
    memories_of_largest: u32,
    concurrent_queries: usize,
    /// Without the largest tenant.
    alone: Measurement,
    /// Beside the queries of the largest tenant.
    beside: Measurement,
    /// The queries of the largest tenant itself.
    largest: Latencies,
}

/// Other tenants and `/readyz` at the same time.
#[derive(Debug, Serialize)]
struct Measurement {
    others: Latencies,
    ready: Latencies,
}

/// The latencies of successful requests, and the number of others by kind.
#[derive(Debug, Default, Serialize)]
pub(super) struct Latencies {
    pub(super) requests: usize,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) max_ms: f64,
    pub(super) refused: BTreeMap<String, u64>,
}

/// The requests of one client.
#[derive(Debug, Default)]
pub(super) struct Samples {
    times_ms: Vec<f64>,
    refused: BTreeMap<String, u64>,
}

impl Samples {
    fn merge(&mut self, other: Self) {
        self.times_ms.extend(other.times_ms);
        for (what, count) in other.refused {
            *self.refused.entry(what).or_default() += count;
        }
    }

    pub(super) fn latencies(mut self) -> Latencies {
        self.times_ms.sort_by(f64::total_cmp);
        Latencies {
            requests: self.times_ms.len(),
            p50_ms: percentile(&self.times_ms, 50),
            p95_ms: percentile(&self.times_ms, 95),
            max_ms: self.times_ms.last().copied().unwrap_or_default(),
            refused: self.refused,
        }
    }
}

/// Measures the first server of a cluster for `duration` alone and beside the largest tenant.
pub(super) fn run(state: &State, duration: Duration, memories: u32) -> Result<FairnessReport> {
    let port = state.replicas.first().context("a server")?.port;
    let (all, _) = tenants::load(&state.dir)?;
    let (largest, others) = all.split_first().context("a tenant")?;
    output::progress(format_args!("importing {memories} memories of the largest tenant"));
    let import = |tenant: &Tenant, count: usize| {
        let memories = corpus::memories(count, 1);
        services::import(state, tenant, memories.into_iter().map(|memory| memory.to_json()))
    };
    import(largest, usize::try_from(memories)?)?;
    for tenant in others {
        import(tenant, MEMORIES_PER_OTHER_TENANT)?;
    }
    services::psql(state, services::DATABASE, "VACUUM ANALYZE")?;
    output::progress("other tenants alone");
    let alone = measure(others, port, duration)?;
    output::progress(format_args!("beside {LARGEST_CLIENTS} queries of the largest tenant"));
    let stop = AtomicBool::new(false);
    let (beside, queries) = thread::scope(|scope| {
        let clients: Vec<_> = (0..LARGEST_CLIENTS)
            .map(|_| {
                let stop = &stop;
                scope.spawn(move || {
                    let until = || stop.load(Ordering::Relaxed);
                    send_searches(largest, LARGEST_QUERY, port, Duration::ZERO, until)
                })
            })
            .collect();
        let beside = measure(others, port, duration);
        stop.store(true, Ordering::Relaxed);
        (beside, join(clients))
    });
    Ok(FairnessReport {
        memories_of_largest: memories,
        concurrent_queries: LARGEST_CLIENTS,
        alone,
        beside: beside?,
        largest: queries?.latencies(),
    })
}

/// Measures one client for each of the tenants, and `/readyz`.
fn measure(others: &[Tenant], port: u16, duration: Duration) -> Result<Measurement> {
    let counted_from = Instant::now() + WARM_UP;
    let end = counted_from + duration;
    let (others, ready) = thread::scope(|scope| {
        let clients: Vec<_> = others
            .iter()
            .map(|tenant| {
                scope.spawn(move || {
                    let is_over = |until: Instant| move || Instant::now() >= until;
                    let search = |until| {
                        send_searches(tenant, OTHER_QUERY, port, REQUEST_INTERVAL, is_over(until))
                    };
                    search(counted_from);
                    search(end)
                })
            })
            .collect();
        let prober = scope.spawn(move || {
            probe(port, counted_from);
            probe(port, end)
        });
        (join(clients), join(vec![prober]))
    });
    Ok(Measurement { others: others?.latencies(), ready: ready?.latencies() })
}

pub(super) fn join(clients: Vec<ScopedJoinHandle<'_, Samples>>) -> Result<Samples> {
    let mut sums = Samples::default();
    for client in clients {
        sums.merge(client.join().map_err(|_| anyhow!("a client panicked"))?);
    }
    Ok(sums)
}

/// Searches the memories of a tenant until `is_over`.
pub(super) fn send_searches(
    tenant: &Tenant,
    query: &str,
    port: u16,
    interval: Duration,
    is_over: impl Fn() -> bool,
) -> Samples {
    let body = json!({"query": query, "mode": "lexical", "limit": 10}).to_string();
    let request = Request::post("/v1/search", body).with_key(&tenant.key);
    send_repeatedly(&request, ExpectedBody::Json, port, interval, is_over)
}

/// Asks whether the server is ready, until `end`.
fn probe(port: u16, end: Instant) -> Samples {
    let request = Request::get("/readyz");
    let is_over = || Instant::now() >= end;
    send_repeatedly(&request, ExpectedBody::Bytes, port, READY_INTERVAL, is_over)
}

fn send_repeatedly(
    request: &Request,
    expected: ExpectedBody,
    port: u16,
    interval: Duration,
    is_over: impl Fn() -> bool,
) -> Samples {
    let client = HttpClient::new(port, REQUEST_TIMEOUT);
    let mut samples = Samples::default();
    while !is_over() {
        let start = Instant::now();
        let refused = match client.send(request) {
            Ok(response) => match classify(expected, &response) {
                Classification::Success(_) => None,
                _ => Some(response.status.to_string()),
            },
            Err(error) => Some(format!("{error:?}")),
        };
        match refused {
            None => samples.times_ms.push(start.elapsed().as_secs_f64() * 1000.0),
            Some(what) => {
                *samples.refused.entry(what).or_default() += 1;
                thread::sleep(RETRY_DELAY);
            }
        }
        thread::sleep(interval.saturating_sub(start.elapsed()));
    }
    samples
}

impl ClusterReport for FairnessReport {
    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let Self { alone, beside, .. } = self;
        let ratio = beside.others.p95_ms / alone.others.p95_ms;
        // Without requests there is no ratio.
        if !ratio.is_finite() || ratio > MAX_RATIO {
            findings.push(format!("p95 of other tenants: {ratio:.2} times that alone"));
        }
        if beside.ready.requests == 0 || beside.ready.max_ms > MAX_READY_MS {
            findings.push(format!("/readyz took up to {:.1} ms", beside.ready.max_ms));
        }
        for (who, latencies) in [("other tenants", &beside.others), ("/readyz", &beside.ready)] {
            for (what, count) in &latencies.refused {
                findings.push(format!("{who}: {what} ({count} times)"));
            }
        }
        findings
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| requests | answered | p50 | p95 | max | refused |\n|---|--:|--:|--:|--:|---|",
        );
        let Self { alone, beside, largest, .. } = self;
        for (who, latencies) in [
            ("other tenants, alone", &alone.others),
            ("other tenants, beside the largest", &beside.others),
            ("`/readyz`, alone", &alone.ready),
            ("`/readyz`, beside the largest", &beside.ready),
            ("the largest tenant", largest),
        ] {
            let Latencies { requests, p50_ms, p95_ms, max_ms, refused } = latencies;
            let refused: Vec<String> =
                refused.iter().map(|(what, count)| format!("{what}: {count}")).collect();
            let _ = write!(
                text,
                "\n| {who} | {requests} | {p50_ms:.1} | {p95_ms:.1} | {max_ms:.1} | {} |",
                refused.join(", ")
            );
        }
        let _ = write!(
            text,
            "\n\nTimes are milliseconds. The largest tenant has {} memories and {} concurrent queries.",
            self.memories_of_largest, self.concurrent_queries
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(p95_ms: f64) -> Latencies {
        Latencies { requests: 10, p50_ms: 1.0, p95_ms, max_ms: p95_ms, ..Latencies::default() }
    }

    fn fair() -> FairnessReport {
        let measurement = |p95_ms| Measurement { others: latencies(p95_ms), ready: latencies(9.0) };
        FairnessReport {
            memories_of_largest: 100_000,
            concurrent_queries: LARGEST_CLIENTS,
            alone: measurement(4.0),
            beside: measurement(8.0),
            largest: latencies(900.0),
        }
    }

    #[test]
    fn a_table_shows_every_number_and_whatever_must_not_be_is_a_finding() {
        let table = fair().table();
        let row = "\n| other tenants, beside the largest | 10 | 1.0 | 8.0 | 8.0 |  |\n";
        assert!(table.contains(row), "{table}");
        assert!(fair().findings().is_empty(), "{:?}", fair().findings());
        let refused = || BTreeMap::from([("503".to_owned(), 1)]);
        let unfair: [&dyn Fn(&mut FairnessReport); 5] = [
            &|report| report.beside.others.p95_ms = 8.1,
            &|report| report.alone.others.p95_ms = 0.0,
            &|report| report.beside.ready.max_ms = 100.1,
            &|report| report.beside.others.refused = refused(),
            &|report| report.beside.ready.refused = refused(),
        ];
        for change in unfair {
            let mut report = fair();
            change(&mut report);
            assert_eq!(report.findings().len(), 1, "{:?}", report.findings());
        }
        // The largest tenant may be refused: it is the one that asks too much.
        let mut report = fair();
        report.largest.refused = refused();
        assert!(report.findings().is_empty() && report.table().ends_with("concurrent queries."));
    }
}
