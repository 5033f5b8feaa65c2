//! Order: how a listing runs, and where in it a reader stands.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

/// How a listing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Order {
    /// Made last comes first.
    #[default]
    Newest,
    /// Made first comes first.
    Oldest,
    /// Changed last comes first.
    Changed,
}

impl Order {
    /// Every order.
    pub const ALL: [Self; 3] = [Self::Newest, Self::Oldest, Self::Changed];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
            Self::Changed => "changed",
        }
    }

    /// Where `memory` stands in this order.
    pub fn position(self, memory: &Memory) -> Position {
        let at = match self {
            Self::Newest | Self::Oldest => microseconds(memory.created.instant().to_utc()),
            Self::Changed => changed(memory),
        };
        Position { at, id: memory.id.clone() }
    }
}

/// The word names no order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected newest, oldest or changed")]
pub struct UnknownOrder;

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<Self, UnknownOrder> {
        Self::ALL.into_iter().find(|order| order.as_str() == text).ok_or(UnknownOrder)
    }
}

/// A place in a listing. It names values, not a row: it stays a place when the row is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The time that the listing is ordered by, in microseconds since 1970.
    pub at: i64,
    /// The memory, which decides between equal times.
    pub id: MemoryId,
}

/// A part of a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The memories, in order.
    pub memories: Vec<Memory>,
    /// Whether there are more behind them.
    pub more: bool,
}

pub(crate) fn microseconds(time: DateTime<Utc>) -> i64 {
    time.timestamp_micros()
}

/// When a memory was last changed.
pub(crate) fn changed(memory: &Memory) -> i64 {
    let time = memory.modified.as_ref().unwrap_or(&memory.created);
    microseconds(time.instant().to_utc())
}
