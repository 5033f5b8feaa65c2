//! Answer: which of them are wanted, and how many there are.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which answers are wanted, by their place in the order of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a page is two numbers")]
pub struct Page {
    /// How many to pass over first.
    pub offset: u64,
    /// How many to give at most.
    pub limit: u64,
}

impl Page {
    /// All of them.
    pub const ALL: Self = Self { offset: 0, limit: u64::MAX };

    /// Whether the answer with this number, from 0, is on it.
    pub(crate) fn holds(self, number: u64) -> bool {
        number >= self.offset && number - self.offset < self.limit
    }

    /// Whether no answer from this number on is on it.
    pub(crate) fn is_past(self, number: u64) -> bool {
        number >= self.offset.saturating_add(self.limit)
    }
}

/// What shall become of the answers that the receiver takes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest {
    /// Count them, so that the reply can say how many there are.
    Count,
    /// Leave them; the total is then only a lower bound.
    Leave,
}

/// How many answers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is known or it is not")]
pub enum Total {
    /// So many.
    Exactly(u64),
    /// So many were seen before the work was stopped.
    AtLeast(u64),
}

impl Total {
    /// The number, whichever it means.
    pub fn number(self) -> u64 {
        match self {
            Self::Exactly(number) | Self::AtLeast(number) => number,
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(number) => write!(f, "{number}"),
            Self::AtLeast(number) => write!(f, "at least {number}"),
        }
    }
}

// --- Cancel: a way to say that nobody waits for the answer any more.

/// Ends the queries it was given to. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends them: their workers are killed within a few hundredths of a second.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody did.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
