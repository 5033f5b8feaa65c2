//! The tenants of a cluster: their API keys, and the state that the clients of a tenant share.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xtask::output;

use super::action::Random;
use super::process::stdout;
use super::services::{self, OWNER_ROLE};
use super::state::State;

/// The tenant that probes servers for recovery; no load client uses it.
const PROBE_TENANT: &str = "probe";
/// The beginning of every canary.
pub(super) const CANARY_PREFIX: &str = "canary";
/// How many cursors, references, links or tasks a tenant remembers.
const MAX_RECENT: usize = 24;
/// A tenant with this many memories begins to remove some, so that a response costs the same after
/// an hour.
const REMOVAL_THRESHOLD: usize = 300;

/// A tenant with its credentials.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) key: String,
    /// A word in all memories of this tenant and of no other.
    pub(super) canary: String,
}

/// The file with the API keys, which only its owner can read.
pub(super) fn keys_file(dir: &Path) -> PathBuf {
    dir.join("keys.json")
}

/// Migrates the database; creates `count` tenants and the probe tenant, each with an API key.
pub(super) fn create(state: &State, count: usize) -> Result<()> {
    let url = services::postgres_url(state, OWNER_ROLE);
    let run = |what: &str, args: &[&str]| {
        let mut atlatl = services::atlatl(state, &state.programs.atlatl, args);
        stdout(what, atlatl.args(["--as", &url]))
    };
    output::progress("migrating the database");
    services::migrate(state, &state.programs.atlatl, &[])?;
    output::progress(format_args!("making {count} tenants with their keys"));
    let names = (1..=count).map(|number| format!("tenant-{number:02}"));
    let tenants = names.chain([PROBE_TENANT.to_owned()]).enumerate().map(|(number, name)| {
        run("atlatl tenants create", &["tenants", "create", &name])?;
        let created = run("atlatl keys create", &["keys", "create", "--tenant", &name])?;
        let created: Value =
            serde_json::from_str(&created).context("output of atlatl keys create")?;
        let key = created["key"].as_str().context("a key")?.to_owned();
        Ok(Tenant { name, key, canary: new_canary(number, random_u64()?) })
    });
    let tenants = tenants.collect::<Result<Vec<Tenant>>>()?;
    let file = File::options().write(true).create_new(true).mode(0o600).open(keys_file(&state.dir));
    let mut file = file.context("a file for the keys")?;
    Ok(writeln!(file, "{}", serde_json::to_string_pretty(&tenants)?)?)
}

/// Loads the tenants of a cluster, and the probe tenant.
pub(super) fn load(dir: &Path) -> Result<(Vec<Tenant>, Tenant)> {
    let text = fs::read_to_string(keys_file(dir)).context("the keys of the cluster")?;
    let mut tenants: Vec<Tenant> =
        serde_json::from_str(&text).context("the keys of the cluster")?;
    let probe = tenants.pop().filter(|last| last.name == PROBE_TENANT);
    Ok((tenants, probe.context("no probe tenant")?))
}

fn random_u64() -> Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes).context("random numbers")?;
    Ok(u64::from_le_bytes(bytes))
}

/// A canary. It begins with the tenant's number, so that a truncated canary still differs from those
/// of other tenants.
fn new_canary(tenant: usize, random: u64) -> String {
    format!("{CANARY_PREFIX}{tenant:03}x{:010x}", random & 0xff_ffff_ffff)
}

/// The canaries in a response that are not `own`, whole or truncated.
pub(super) fn foreign_canaries(response: &[u8], own: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(response);
    let own = own.strip_prefix(CANARY_PREFIX).unwrap_or(own);
    text.match_indices(CANARY_PREFIX)
        .map(|(at, _)| &text[at + CANARY_PREFIX.len()..])
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            &rest[..end.min(own.len())]
        })
        // Without a number behind it, it is the English word.
        .filter(|tail| tail.starts_with(|c: char| c.is_ascii_digit()) && !own.starts_with(tail))
        .map(|tail| format!("{CANARY_PREFIX}{tail}"))
        .collect()
}

/// All tenants with the state of their clients.
#[derive(Debug)]
pub(super) struct Tenants(Vec<TenantState>);

/// A tenant and the state that its clients share.
#[derive(Debug)]
pub(super) struct TenantState {
    pub(super) tenant: Tenant,
    shared: Mutex<SharedState>,
}

/// What the clients of a tenant share.
#[derive(Debug)]
pub(super) struct SharedState {
    /// Every acknowledged memory whose removal has not begun.
    pub(super) ledger: Vec<StoredMemory>,
    /// The ids of memories whose removal was acknowledged.
    pub(super) removed: Vec<String>,
    /// Writes and removals with an unknown outcome.
    pub(super) unknown_outcomes: u64,
    pub(super) cursors: Recent<PageRequest>,
    pub(super) references: Recent<String>,
    /// Paths of signed links.
    pub(super) links: Recent<String>,
    pub(super) tasks: Recent<String>,
}

/// An acknowledged memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredMemory {
    pub(super) id: String,
    pub(super) content: String,
}

/// A tool call for the next page, its cursor among the arguments.
#[derive(Debug, Clone)]
pub(super) struct PageRequest {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

/// How many memories all clients wrote and removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct WriteCounts {
    /// Acknowledged memories, without those whose removal has an unknown outcome.
    pub(super) acknowledged: u64,
    /// Those of them whose removal was acknowledged.
    pub(super) removed: u64,
    /// Writes and removals with an unknown outcome.
    #[serde(rename = "unsure")]
    pub(super) unknown_outcomes: u64,
}

impl Tenants {
    pub(super) fn new(tenants: Vec<Tenant>) -> Self {
        let state = |tenant| TenantState { tenant, shared: Mutex::new(SharedState::new()) };
        Self(tenants.into_iter().map(state).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TenantState> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The tenant of client `number`: clients take the tenants in turn.
    pub(super) fn for_client(&self, number: usize) -> &TenantState {
        &self.0[number % self.0.len()]
    }

    /// A tenant other than the one of client `number`.
    pub(super) fn other(&self, number: usize, random: &mut Random) -> &TenantState {
        let step = 1 + random.below(self.0.len().saturating_sub(1));
        self.for_client(number + step)
    }

    pub(super) fn write_counts(&self) -> WriteCounts {
        let mut counts = WriteCounts::default();
        for state in self.iter() {
            let shared = state.lock();
            counts.acknowledged += (shared.ledger.len() + shared.removed.len()) as u64;
            counts.removed += shared.removed.len() as u64;
            counts.unknown_outcomes += shared.unknown_outcomes;
        }
        counts
    }
}

impl TenantState {
    pub(super) fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedState {
    fn new() -> Self {
        Self {
            ledger: Vec::new(),
            removed: Vec::new(),
            unknown_outcomes: 0,
            cursors: Recent::new(Duration::from_mins(10)),
            references: Recent::new(Duration::from_mins(10)),
            // A link is valid for five minutes, a task for the minute that its request names.
            links: Recent::new(Duration::from_mins(4)),
            tasks: Recent::new(Duration::from_secs(40)),
        }
    }

    /// A random acknowledged memory.
    pub(super) fn random_memory(&self, random: &mut Random) -> Option<StoredMemory> {
        self.ledger.get(random.below(self.ledger.len())).cloned()
    }

    /// Whether a memory should exist.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.ledger.iter().any(|memory| memory.id == id)
    }

    /// Takes a random memory out of the ledger for removal; `None` below the threshold.
    pub(super) fn take_for_removal(&mut self, random: &mut Random) -> Option<StoredMemory> {
        let index = random.below(self.ledger.len());
        (self.ledger.len() >= REMOVAL_THRESHOLD).then(|| self.ledger.swap_remove(index))
    }
}

/// The most recent entries that have not expired.
#[derive(Debug)]
pub(super) struct Recent<T> {
    entries: VecDeque<(Instant, T)>,
    ttl: Duration,
}

impl<T: Clone> Recent<T> {
    fn new(ttl: Duration) -> Self {
        Self { entries: VecDeque::new(), ttl }
    }

    pub(super) fn push(&mut self, entry: T) {
        if self.entries.len() == MAX_RECENT {
            self.entries.pop_front();
        }
        self.entries.push_back((Instant::now(), entry));
    }

    /// A random entry.
    pub(super) fn pick(&mut self, random: &mut Random) -> Option<T> {
        let ttl = self.ttl;
        self.entries.retain(|(since, _)| since.elapsed() < ttl);
        let entry = self.entries.get(random.below(self.entries.len()));
        entry.map(|(_, entry)| entry.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_another_tenants_is_foreign() {
        let (ann, bob) = (new_canary(1, 0xabc), new_canary(2, u64::MAX));
        assert_eq!((&*ann, &*bob), ("canary001x0000000abc", "canary002xffffffffff"));
        for clean in [
            String::new(),
            "canary, canary and canaries".to_owned(),
            ann.clone(),
            format!("{ann}{ann}"),
            format!("{{\"content\":\"{ann} sings\",\"tags\":[\"{ann}\"]}}"),
            // Truncated, as a preview may be.
            ann[..12].to_owned(),
        ] {
            assert!(foreign_canaries(clean.as_bytes(), &ann).is_empty(), "{clean}");
        }
        for leaked in [
            bob.clone(),
            format!("x{bob}y"),
            format!("{ann} {bob} {ann}"),
            // Truncated behind the number of the tenant.
            bob[..9].to_owned(),
        ] {
            assert_eq!(foreign_canaries(leaked.as_bytes(), &ann).len(), 1, "{leaked}");
        }
        let twice = format!("{bob}{bob} {ann}");
        assert_eq!(foreign_canaries(twice.as_bytes(), &ann), [&*bob, &*bob]);
        // Bytes that are not UTF-8 hide nothing.
        let odd = [&[0xff, 0xc3][..], bob.as_bytes(), &[0xe2, 0x82]].concat();
        assert_eq!(foreign_canaries(&odd, &ann), [bob]);
    }

    #[test]
    fn what_is_old_or_too_much_is_forgotten() {
        let mut random = Random::new(1);
        let mut recent = Recent::new(Duration::from_mins(1));
        assert_eq!(recent.pick(&mut random), None);
        (0..2 * MAX_RECENT).for_each(|n| recent.push(n));
        assert!((0..100).all(|_| recent.pick(&mut random) >= Some(MAX_RECENT)));
        recent.ttl = Duration::ZERO;
        assert_eq!(recent.pick(&mut random), None);
    }

    #[test]
    fn what_is_removed_is_taken_from_many_and_counts_as_written() {
        let tenant = Tenant { name: String::new(), key: String::new(), canary: String::new() };
        let (tenants, mut random) = (Tenants::new(vec![tenant]), Random::new(1));
        let mut shared = tenants.for_client(0).lock();
        let memory = |n: usize| StoredMemory { id: n.to_string(), content: String::new() };
        shared.ledger = (1..REMOVAL_THRESHOLD).map(memory).collect();
        assert_eq!(shared.take_for_removal(&mut random), None);
        shared.ledger.push(memory(REMOVAL_THRESHOLD));
        let id = shared.take_for_removal(&mut random).unwrap().id;
        assert!(!shared.contains(&id) && shared.ledger.len() == REMOVAL_THRESHOLD - 1);
        shared.removed.push(id);
        shared.unknown_outcomes = 2;
        drop(shared);
        let counts =
            WriteCounts { acknowledged: REMOVAL_THRESHOLD as u64, removed: 1, unknown_outcomes: 2 };
        assert_eq!(tenants.write_counts(), counts);
    }

    #[test]
    fn another_tenant_is_never_ones_own() {
        let tenant =
            |n: usize| Tenant { name: n.to_string(), key: String::new(), canary: String::new() };
        let tenants = Tenants::new((0..3).map(tenant).collect());
        let mut random = Random::new(1);
        for index in 0..3 {
            let mut names: Vec<String> =
                (0..100).map(|_| tenants.other(index, &mut random).tenant.name.clone()).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), 2);
            assert!(!names.contains(&index.to_string()));
        }
    }
}
