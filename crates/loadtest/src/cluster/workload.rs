//! The workload: the clients that send requests, and the check that everything acknowledged can be
//! read back.

use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Serialize;
use serde_json::Value;
use xtask::output;

use super::api_client::{ApiClient, Outcome};
use super::classification::ExpectedBody;
use super::client::Client;
use super::counters::Counters;
use super::http_client::Request;
use super::tenants::{StoredMemory, TenantState, Tenants};

/// How long one read may fail during verification, when all components run.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const FILL_TIMEOUT: Duration = Duration::from_mins(2);
/// The number of the first client that fills; above those of all other clients.
const FIRST_FILL_CLIENT: usize = 10_000;
/// How many lost and how many reappeared memories of a tenant are printed.
const MAX_PRINTED: usize = 5;

/// Writes memories until every tenant has `memories`, with some clients for each tenant. With one, no
/// tenant gets more.
pub(super) fn fill(
    tenants: &Tenants,
    port: u16,
    memories: usize,
    clients_per_tenant: usize,
) -> Result<()> {
    let deadline = Instant::now() + FILL_TIMEOUT;
    let is_full = |state: &TenantState| state.lock().ledger.len() >= memories;
    thread::scope(|scope| {
        for number in 0..clients_per_tenant * tenants.len() {
            scope.spawn(move || {
                let number = FIRST_FILL_CLIENT + number;
                let mut client = Client::new(tenants, number, port);
                let state = tenants.for_client(number);
                while !is_full(state) && Instant::now() < deadline {
                    client.capture();
                }
            });
        }
    });
    ensure!(tenants.iter().all(is_full), "the memories are not filled in {FILL_TIMEOUT:?}");
    Ok(())
}

/// Runs `clients` clients against the balancer at `port` for `duration`; returns their sums.
pub(super) fn run_clients(
    tenants: &Tenants,
    port: u16,
    clients: usize,
    duration: Duration,
) -> Result<Counters> {
    let deadline = Instant::now() + duration;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = Client::new(tenants, number, port);
                    while Instant::now() < deadline {
                        client.step();
                    }
                    client.api.counters
                })
            })
            .collect();
        join_clients(clients)
    })
}

/// Waits for all clients; returns the sums of their counters.
pub(super) fn join_clients(clients: Vec<ScopedJoinHandle<'_, Counters>>) -> Result<Counters> {
    let mut sums = Counters::default();
    for client in clients {
        sums.merge(client.join().map_err(|_| anyhow!("a client panicked"))?);
    }
    Ok(sums)
}

/// The result of reading everything back.
#[derive(Debug, Default, Serialize)]
pub(super) struct Verification {
    pub(super) verified: u64,
    pub(super) lost: u64,
    /// Memories that exist although their removal was acknowledged.
    #[serde(rename = "returned")]
    pub(super) reappeared: u64,
    /// How many memories exist.
    #[serde(rename = "there")]
    pub(super) total: u64,
    /// Memories beyond those acknowledged and those with an unknown outcome.
    pub(super) unexplained: u64,
}

/// Reads every tenant's ledger back through the balancer at `port`.
pub(super) fn verify(
    tenants: &Tenants,
    port: u16,
    counters: &mut Counters,
) -> Result<Verification> {
    let results = thread::scope(|scope| {
        let readers: Vec<_> =
            tenants.iter().map(|state| scope.spawn(move || verify_tenant(state, port))).collect();
        let joined = readers.into_iter().map(ScopedJoinHandle::join);
        joined.collect::<Result<Vec<Result<(Verification, Counters)>>, _>>()
    });
    let mut sums = Verification::default();
    for result in results.map_err(|_| anyhow!("a reader panicked"))? {
        let (verification, read) = result?;
        sums.verified += verification.verified;
        sums.lost += verification.lost;
        sums.reappeared += verification.reappeared;
        sums.total += verification.total;
        sums.unexplained += verification.unexplained;
        // A leak counts here as well; the other counters are those of the load.
        counters.leaks += read.leaks;
    }
    Ok(sums)
}

fn verify_tenant(state: &TenantState, port: u16) -> Result<(Verification, Counters)> {
    let mut api = ApiClient::new(&state.tenant, port);
    let mut verification = Verification::default();
    let (ledger, removed, unknown_outcomes) = {
        let shared = state.lock();
        (shared.ledger.clone(), shared.removed.clone(), shared.unknown_outcomes)
    };
    let name = &state.tenant.name;
    for StoredMemory { id, content } in &ledger {
        let memory = read(&mut api, &format!("/v1/memories/{id}"))?.unwrap_or_default();
        if memory["id"] == *id && memory["content"] == *content {
            verification.verified += 1;
            continue;
        }
        verification.lost += 1;
        if verification.lost <= MAX_PRINTED as u64 {
            output::line(format_args!("LOST: {name}: {id}: {content}"));
        }
    }
    for id in removed {
        if read(&mut api, &format!("/v1/memories/{id}"))?.is_some() {
            verification.reappeared += 1;
            if verification.reappeared <= MAX_PRINTED as u64 {
                output::line(format_args!("REMOVED, AND THERE: {name}: {id}"));
            }
        }
    }
    let listing = read(&mut api, "/v1/memories?limit=1")?;
    let total = listing.and_then(|listing| listing["total"].as_u64());
    verification.total = total.context("a listing without a total")?;
    let explained = ledger.len() as u64 + unknown_outcomes;
    verification.unexplained = verification.total.saturating_sub(explained);
    Ok((verification, api.counters))
}

/// Reads `path` until a server answers; `None` if it does not exist.
fn read(api: &mut ApiClient<'_>, path: &str) -> Result<Option<Value>> {
    let start = Instant::now();
    while start.elapsed() < READ_TIMEOUT {
        match api.send("reading back", Request::get(path), ExpectedBody::Json).outcome {
            Outcome::Success(value) => return Ok(Some(value)),
            Outcome::Denied(_) => return Ok(None),
            Outcome::Unavailable | Outcome::Unknown | Outcome::Invalid(_) => {}
        }
    }
    bail!("{path} is not answered")
}
