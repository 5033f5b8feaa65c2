//! The workload: the mix of requests, the clients that send them, and the check that everything
//! acknowledged can be read back.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde_json::Value;
use xtask::output;

use super::api_client::{ApiClient, ExpectedBody, Outcome};
use super::client::Client;
use super::http_client::Request;
use super::report::Counters;
use super::tenants::{StoredMemory, TenantState, Tenants};

/// How long one read may fail during verification, when all components run.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How many lost and how many reappeared memories of a tenant are printed.
const MAX_PRINTED: usize = 5;

/// What a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Writes a memory by the HTTP API.
    Capture,
    /// Writes a memory by the MCP tool.
    CaptureByTool,
    /// Reads an acknowledged memory.
    Read,
    /// Removes a memory, if the tenant has many.
    Remove,
    /// Searches memories.
    Recall,
    /// Lists the newest memories.
    List,
    /// Follows a cursor.
    NextPage,
    /// Lists so many memories that the result is offloaded.
    ListOffloaded,
    /// Queries an offloaded result.
    Extract,
    /// Downloads an offloaded result by its link.
    Fetch,
    /// Starts a task.
    BeginTask,
    /// Fetches the result of a task.
    TaskResult,
    /// Tries to access what belongs to another tenant.
    Foreign(ForeignAccess),
}

/// What of another tenant a client tries to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignAccess {
    /// The id of a memory, by the HTTP API.
    Memory,
    /// The id of a memory, by an MCP tool.
    MemoryByTool,
    /// A search for the other tenant's canary.
    Search,
    Cursor,
    /// The reference of an offloaded result.
    Reference,
    /// The id of an offloaded result, by the HTTP API.
    Offload,
    /// The signature of a link, with the client's own tenant in the link.
    Link,
    Task,
}

/// Actions with their weights.
const MIX: [(Action, u64); 20] = [
    (Action::Capture, 45),
    (Action::CaptureByTool, 15),
    (Action::Remove, 62),
    (Action::Read, 271),
    (Action::Recall, 240),
    (Action::List, 160),
    (Action::NextPage, 120),
    (Action::ListOffloaded, 1),
    (Action::Extract, 8),
    (Action::Fetch, 8),
    (Action::BeginTask, 15),
    (Action::TaskResult, 15),
    (Action::Foreign(ForeignAccess::Memory), 6),
    (Action::Foreign(ForeignAccess::MemoryByTool), 5),
    (Action::Foreign(ForeignAccess::Search), 5),
    (Action::Foreign(ForeignAccess::Cursor), 6),
    (Action::Foreign(ForeignAccess::Reference), 5),
    (Action::Foreign(ForeignAccess::Offload), 4),
    (Action::Foreign(ForeignAccess::Link), 5),
    (Action::Foreign(ForeignAccess::Task), 4),
];

/// Maps a random number to an action.
pub(super) fn choose_action(random: u64) -> Action {
    let mut left = random % MIX.iter().map(|(_, weight)| weight).sum::<u64>();
    for (action, weight) in MIX {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return action,
        }
    }
    Action::Read
}

/// A deterministic random number generator.
#[derive(Debug)]
pub(super) struct Random {
    seed: u64,
    counter: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, counter: 0 }
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.counter += 1;
        let mut hasher = DefaultHasher::new();
        (self.seed, self.counter).hash(&mut hasher);
        hasher.finish()
    }

    /// A number below `end`; 0 if `end` is 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let number = self.next_u64() % (end as u64).max(1);
        usize::try_from(number).unwrap_or_default()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_its_share() {
        let total: u64 = MIX.iter().map(|(_, weight)| weight).sum();
        assert_eq!(total, 1000);
        for (action, weight) in MIX {
            let chosen = (0..total).filter(|n| choose_action(*n) == action).count() as u64;
            assert_eq!(chosen, weight, "{action:?}");
        }
        assert_eq!(choose_action(total), choose_action(0));
        let foreign =
            (0..total).filter(|n| matches!(choose_action(*n), Action::Foreign(_))).count();
        assert!((20..60).contains(&foreign), "a few per cent: {foreign}");
    }

    #[test]
    fn random_numbers_repeat_for_a_seed_and_reach_every_action() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            (0..10_000).map(move |_| random.next_u64())
        };
        assert!(numbers(1).eq(numbers(1)) && !numbers(1).eq(numbers(2)));
        for (action, _) in MIX {
            assert!(numbers(3).any(|n| choose_action(n) == action), "{action:?}");
        }
        let mut random = Random::new(9);
        assert!((0..1000).all(|_| random.below(3) < 3) && random.below(0) == 0);
    }
}
