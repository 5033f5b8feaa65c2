//! Fleet: all clients' tenants, what each was given, and what was acknowledged to it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::mix::Random;
use super::tenants::Tenant;

/// As many of a kind as a tenant remembers.
const REMEMBERED: usize = 24;
/// From so many memories on a tenant removes some, so that an answer costs the same after an hour.
const MANY: usize = 300;

/// The tenants of all clients.
#[derive(Debug)]
pub(super) struct Tenants {
    pub(super) crews: Vec<Crew>,
}

/// A tenant and what its clients hold together.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) tenant: Tenant,
    held: Mutex<Held>,
}

/// What a tenant's clients hold.
#[derive(Debug)]
pub(super) struct Held {
    /// Every memory that was acknowledged and that nobody has begun to remove, and what it says.
    pub(super) ledger: Vec<Kept>,
    /// Every memory whose removal was acknowledged.
    pub(super) removed: Vec<String>,
    /// Writes and removals of which nobody knows.
    pub(super) unsure: u64,
    pub(super) cursors: Recent<Walk>,
    pub(super) references: Recent<String>,
    /// Paths of links.
    pub(super) links: Recent<String>,
    pub(super) tasks: Recent<String>,
}

/// An acknowledged memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) content: String,
}

/// A call that goes on, its cursor among the arguments.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

/// What all clients wrote and removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Written {
    /// Memories that were acknowledged, without those whose removal was begun and not acknowledged.
    pub(super) acknowledged: u64,
    /// Those of them whose removal was acknowledged, too.
    pub(super) removed: u64,
    /// Writes and removals of which nobody knows.
    pub(super) unsure: u64,
}

impl Tenants {
    pub(super) fn new(tenants: Vec<Tenant>) -> Self {
        let crew = |tenant| Crew { tenant, held: Mutex::new(Held::new()) };
        Self { crews: tenants.into_iter().map(crew).collect() }
    }

    /// A tenant other than the one at `index`.
    pub(super) fn other(&self, index: usize, random: &mut Random) -> &Crew {
        let step = 1 + random.below(self.crews.len().saturating_sub(1));
        &self.crews[(index + step) % self.crews.len()]
    }

    /// What was written and removed.
    pub(super) fn written(&self) -> Written {
        let mut written = Written::default();
        for crew in &self.crews {
            let held = crew.held();
            written.acknowledged += (held.ledger.len() + held.removed.len()) as u64;
            written.removed += held.removed.len() as u64;
            written.unsure += held.unsure;
        }
        written
    }
}

impl Crew {
    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn new() -> Self {
        Self {
            ledger: Vec::new(),
            removed: Vec::new(),
            unsure: 0,
            cursors: Recent::new(Duration::from_mins(10)),
            references: Recent::new(Duration::from_mins(10)),
            // A link is good for five minutes, and a task for as long as it was asked to be.
            links: Recent::new(Duration::from_mins(4)),
            tasks: Recent::new(Duration::from_secs(40)),
        }
    }

    /// A memory that was acknowledged.
    pub(super) fn kept(&self, random: &mut Random) -> Option<Kept> {
        self.ledger.get(random.below(self.ledger.len())).cloned()
    }

    /// Whether it should be there.
    pub(super) fn has(&self, id: &str) -> bool {
        self.ledger.iter().any(|kept| kept.id == id)
    }

    /// Takes one out to remove it, where there are many.
    pub(super) fn take(&mut self, random: &mut Random) -> Option<Kept> {
        let chosen = random.below(self.ledger.len());
        (self.ledger.len() >= MANY).then(|| self.ledger.swap_remove(chosen))
    }
}

/// The last few of a kind, while they are good.
#[derive(Debug)]
pub(super) struct Recent<T> {
    entries: VecDeque<(Instant, T)>,
    good_for: Duration,
}

impl<T: Clone> Recent<T> {
    fn new(good_for: Duration) -> Self {
        Self { entries: VecDeque::new(), good_for }
    }

    pub(super) fn push(&mut self, entry: T) {
        if self.entries.len() == REMEMBERED {
            self.entries.pop_front();
        }
        self.entries.push_back((Instant::now(), entry));
    }

    /// One of them.
    pub(super) fn pick(&mut self, random: &mut Random) -> Option<T> {
        let good_for = self.good_for;
        self.entries.retain(|(since, _)| since.elapsed() < good_for);
        let chosen = self.entries.get(random.below(self.entries.len()));
        chosen.map(|(_, entry)| entry.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_or_too_much_is_forgotten() {
        let mut random = Random::new(1);
        let mut recent = Recent::new(Duration::from_mins(1));
        assert_eq!(recent.pick(&mut random), None);
        (0..2 * REMEMBERED).for_each(|n| recent.push(n));
        assert!((0..100).all(|_| recent.pick(&mut random) >= Some(REMEMBERED)));
        recent.good_for = Duration::ZERO;
        assert_eq!(recent.pick(&mut random), None);
    }

    #[test]
    fn what_is_removed_is_taken_from_many_and_counts_as_written() {
        let tenant = Tenant { name: String::new(), key: String::new(), canary: String::new() };
        let (fleet, mut random) = (Tenants::new(vec![tenant]), Random::new(1));
        let mut held = fleet.crews[0].held();
        let kept = |n: usize| Kept { id: n.to_string(), content: String::new() };
        held.ledger = (1..MANY).map(kept).collect();
        assert_eq!(held.take(&mut random), None);
        held.ledger.push(kept(MANY));
        let taken = held.take(&mut random).unwrap().id;
        assert!(!held.has(&taken) && held.ledger.len() == MANY - 1);
        held.removed.push(taken);
        held.unsure = 2;
        drop(held);
        let written = Written { acknowledged: MANY as u64, removed: 1, unsure: 2 };
        assert_eq!(fleet.written(), written);
    }

    #[test]
    fn another_tenant_is_never_ones_own() {
        let tenant =
            |n: usize| Tenant { name: n.to_string(), key: String::new(), canary: String::new() };
        let fleet = Tenants::new((0..3).map(tenant).collect());
        let mut random = Random::new(1);
        for index in 0..3 {
            let mut seen: Vec<String> =
                (0..100).map(|_| fleet.other(index, &mut random).tenant.name.clone()).collect();
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), 2);
            assert!(!seen.contains(&index.to_string()));
        }
    }
}
