//! TODO module doc

use std::str::FromStr;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId, MemoryType, Namespace, Status};

// --- Filter: which memories are meant, whatever the question.

/// Conditions that a memory must all meet. The default is every active memory.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Filter {
    /// This namespace or one below it.
    pub namespace: Option<Namespace>,
    /// This kind.
    pub memory_type: Option<MemoryType>,
    /// All of these labels.
    pub tags: Vec<String>,
    /// Made at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Made before this time.
    pub until: Option<DateTime<Utc>>,
    /// At least as sure; a memory that does not say how sure it is does not count.
    pub min_confidence: Option<f64>,
    /// In this part of its life; `None` for any. A memory that does not say is active.
    pub status: Option<Status>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            namespace: None,
            memory_type: None,
            tags: Vec::new(),
            since: None,
            until: None,
            min_confidence: None,
            status: Some(Status::Active),
        }
    }
}

impl Filter {
    /// Whether `memory` meets all conditions at `now`. What has outlived its time meets none: it is
    /// gone for every reader, whether or not it was swept already.
    pub fn admits(&self, memory: &Memory, now: DateTime<Utc>) -> bool {
        let created = memory.created.instant();
        self.namespace
            .as_ref()
            .is_none_or(|wanted| memory.namespace.as_ref().is_some_and(|has| has.is_within(wanted)))
            && self.memory_type.is_none_or(|wanted| memory.memory_type == wanted)
            && self.tags.iter().all(|tag| memory.tags().contains(tag))
            && self.since.is_none_or(|since| created >= since)
            && self.until.is_none_or(|until| created < until)
            && self.min_confidence.is_none_or(|least| confidence(memory) >= Some(least))
            && self.status.is_none_or(|wanted| status(memory) == wanted)
            && expires(memory).is_none_or(|end| end > now)
    }
}

/// How sure a memory is, as a number.
pub(crate) fn confidence(memory: &Memory) -> Option<f64> {
    memory.confidence().map(mif::UnitInterval::get)
}

pub(crate) fn status(memory: &Memory) -> Status {
    memory.status.unwrap_or(Status::Active)
}

/// When a memory has outlived its time.
pub(crate) fn expires(memory: &Memory) -> Option<DateTime<Utc>> {
    let temporal = memory.temporal.as_ref()?;
    let seconds = temporal.ttl.as_ref()?.seconds();
    let from = temporal.recorded_at.as_ref().unwrap_or(&memory.created).instant();
    // Longer than any clock runs is for ever.
    let lasts = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    from.to_utc().checked_add_signed(chrono::TimeDelta::from_std(lasts).ok()?)
}

// --- Order: how a listing runs, and where in it a reader stands.

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
