//! The actions of a load client, and the random numbers that choose among them.

use std::hash::{DefaultHasher, Hash, Hasher};

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
