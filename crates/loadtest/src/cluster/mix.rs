//! Mix: what clients do, and how often each.

use std::hash::{DefaultHasher, Hash, Hasher};

/// What a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Keeps a memory by the API.
    Capture,
    /// Keeps one by the tool.
    CaptureByTool,
    /// Reads a memory that was acknowledged.
    Read,
    /// Removes one, where there are many.
    Remove,
    /// Asks for memories by words.
    Recall,
    /// Lists the newest.
    List,
    /// Goes on from a cursor.
    NextPage,
    /// Asks for so much that the result is stored.
    Whole,
    /// Asks a question about a stored result.
    Extract,
    /// Fetches a stored result by its link.
    Fetch,
    /// Begins a task.
    BeginTask,
    /// Fetches the result of one.
    TaskResult,
    /// Asks for what is another tenant's.
    Foreign(Foreign),
}

/// What of another tenant's is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// The id of a memory, to the API.
    Memory,
    /// The id of a memory, to a tool.
    MemoryByTool,
    /// The word that only the other writes.
    Words,
    Cursor,
    /// The reference of a stored result.
    Reference,
    /// The id of a stored result, to the API.
    Offload,
    /// The signature of a link, under a name of one's own.
    Link,
    Task,
}

/// Each with its weight.
const MIX: [(Action, u64); 20] = [
    (Action::Capture, 45),
    (Action::CaptureByTool, 15),
    (Action::Remove, 62),
    (Action::Read, 271),
    (Action::Recall, 240),
    (Action::List, 160),
    (Action::NextPage, 120),
    (Action::Whole, 1),
    (Action::Extract, 8),
    (Action::Fetch, 8),
    (Action::BeginTask, 15),
    (Action::TaskResult, 15),
    (Action::Foreign(Foreign::Memory), 6),
    (Action::Foreign(Foreign::MemoryByTool), 5),
    (Action::Foreign(Foreign::Words), 5),
    (Action::Foreign(Foreign::Cursor), 6),
    (Action::Foreign(Foreign::Reference), 5),
    (Action::Foreign(Foreign::Offload), 4),
    (Action::Foreign(Foreign::Link), 5),
    (Action::Foreign(Foreign::Task), 4),
];

/// The action that a random number means.
pub(super) fn choose(random: u64) -> Action {
    let mut left = random % MIX.iter().map(|(_, weight)| weight).sum::<u64>();
    for (action, weight) in MIX {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return action,
        }
    }
    Action::Read
}

/// Numbers without an order that anyone could see, the same for the same seed.
#[derive(Debug)]
pub(super) struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        let mut hasher = DefaultHasher::new();
        (self.seed, self.drawn).hash(&mut hasher);
        hasher.finish()
    }

    /// A number below `end`; 0 if that is 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let drawn = self.draw() % (end as u64).max(1);
        usize::try_from(drawn).unwrap_or_default()
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
            let chosen = (0..total).filter(|n| choose(*n) == action).count() as u64;
            assert_eq!(chosen, weight, "{action:?}");
        }
        assert_eq!(choose(total), choose(0));
        let foreign = (0..total).filter(|n| matches!(choose(*n), Action::Foreign(_))).count();
        assert!((20..60).contains(&foreign), "a few per cent: {foreign}");
    }

    #[test]
    fn random_numbers_repeat_for_a_seed_and_reach_every_action() {
        let draws = |seed| {
            let mut random = Random::new(seed);
            (0..10_000).map(move |_| random.draw())
        };
        assert!(draws(1).eq(draws(1)) && !draws(1).eq(draws(2)));
        for (action, _) in MIX {
            assert!(draws(3).any(|n| choose(n) == action), "{action:?}");
        }
        let mut random = Random::new(9);
        assert!((0..1000).all(|_| random.below(3) < 3) && random.below(0) == 0);
    }
}
