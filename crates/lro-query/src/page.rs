//! Pagination and cancellation, shared by all kinds of queries.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A range of the answers to a query, by offset and limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(any(feature = "jq", feature = "sql"), derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "a page is two numbers")]
pub struct Page {
    /// The number of answers to skip.
    pub offset: u64,
    /// The maximum number of answers to return.
    pub limit: u64,
}

impl Page {
    /// The page that holds all answers.
    pub const ALL: Self = Self { offset: 0, limit: u64::MAX };

    /// Whether the answer with this number, from 0, is on the page.
    pub(crate) fn contains(self, number: u64) -> bool {
        number >= self.offset && number - self.offset < self.limit
    }

    /// Whether the page ends before this number.
    pub(crate) fn is_past(self, number: u64) -> bool {
        number >= self.offset.saturating_add(self.limit)
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::ALL
    }
}

/// The position of a first answer, counted from the start or from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a sequence has two ends")]
pub enum Offset {
    /// The number of answers before it.
    FromStart(u64),
    /// The number of answers from it to the end.
    FromEnd(u64),
}

impl Offset {
    /// The number of answers before it, of `total`.
    pub fn resolve(self, total: u64) -> u64 {
        match self {
            Self::FromStart(number) => number,
            Self::FromEnd(number) => total.saturating_sub(number),
        }
    }
}

impl From<u64> for Offset {
    fn from(number: u64) -> Self {
        Self::FromStart(number)
    }
}

/// What to do with the answers behind the last one that the receiver takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest {
    /// Count them, so that the total is exact.
    Count,
    /// Stop; the total is then only a lower bound.
    Leave,
}

/// The number of all answers to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a total is exact or a lower bound")]
pub enum Total {
    /// The exact number.
    Exactly(u64),
    /// The number counted before the query stopped: a lower bound.
    AtLeast(u64),
}

impl Total {
    /// The number, exact or not.
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

/// A cancellation flag. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels all queries that hold this flag: their workers are killed within a few hundredths of
    /// a second.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
