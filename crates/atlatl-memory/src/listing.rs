//! Listing: filters, sort orders and keyset pagination positions.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId, MemoryType, Namespace, Status};

/// The conditions of a listing or a search, all of which a memory must meet. The default admits
/// every active memory.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Filter {
    /// Only this namespace and the namespaces below it.
    pub namespace: Option<Namespace>,
    /// Only this type.
    pub memory_type: Option<MemoryType>,
    /// Only memories with all of these tags.
    pub tags: Vec<String>,
    /// Only memories created at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Only memories created before this time.
    pub until: Option<DateTime<Utc>>,
    /// Only memories with at least this confidence. A memory without a confidence does not match.
    pub min_confidence: Option<f64>,
    /// Only memories with this status; `None` admits any. A memory without a status is active.
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
    /// Returns whether `memory` meets all conditions at `now`. An expired memory meets none: it is
    /// invisible to every reader, whether or not it has been deleted yet.
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

    /// Returns the names of the conditions, to explain why nothing matches. The default status is
    /// one only if there is no other.
    pub(crate) fn restrictions(&self) -> Vec<&'static str> {
        let default = Self::default();
        let mut names: Vec<&'static str> = [
            ("namespace", self.namespace.is_some()),
            ("memory_type", self.memory_type.is_some()),
            ("tags", !self.tags.is_empty()),
            ("since", self.since.is_some()),
            ("until", self.until.is_some()),
            ("min_confidence", self.min_confidence.is_some()),
            ("status", self.status != default.status),
        ]
        .into_iter()
        .filter_map(|(name, is_set)| is_set.then_some(name))
        .collect();
        if names.is_empty() {
            names.push("status");
        }
        names
    }
}

/// Returns the confidence of a memory.
pub(crate) fn confidence(memory: &Memory) -> Option<f64> {
    memory.confidence().map(mif::UnitInterval::get)
}

pub(crate) fn status(memory: &Memory) -> Status {
    memory.status.unwrap_or(Status::Active)
}

/// Returns the time at which a memory expires.
pub(crate) fn expires(memory: &Memory) -> Option<DateTime<Utc>> {
    let temporal = memory.temporal.as_ref()?;
    let seconds = temporal.ttl.as_ref()?.seconds();
    let from = temporal.recorded_at.as_ref().unwrap_or(&memory.created).instant();
    // A duration beyond the range of the clock never expires.
    let lasts = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    from.to_utc().checked_add_signed(chrono::TimeDelta::from_std(lasts).ok()?)
}

/// The sort order of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Order {
    /// Descending by creation time.
    #[default]
    Newest,
    /// Ascending by creation time.
    Oldest,
    /// Descending by the time of the last change.
    Changed,
}

impl Order {
    /// All sort orders.
    pub const ALL: [Self; 3] = [Self::Newest, Self::Oldest, Self::Changed];

    /// Returns the name of this order.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
            Self::Changed => "changed",
        }
    }

    /// Returns the position of `memory` in this order.
    pub fn position(self, memory: &Memory) -> ListPosition {
        let at = match self {
            Self::Newest | Self::Oldest => microseconds(memory.created.instant().to_utc()),
            Self::Changed => changed(memory),
        };
        ListPosition { at, id: memory.id.clone() }
    }
}

/// The text names no sort order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected newest, oldest or changed")]
pub struct UnknownOrder;

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<Self, UnknownOrder> {
        Self::ALL.into_iter().find(|order| order.as_str() == text).ok_or(UnknownOrder)
    }
}

/// A keyset pagination position in a listing. It holds values, not a row, and so stays valid when
/// the row is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPosition {
    /// The value of the sort column, in microseconds since 1970.
    pub at: i64,
    /// The id of the memory, which breaks ties.
    pub id: MemoryId,
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryPage {
    /// The memories, in order.
    pub memories: Vec<Memory>,
    /// Whether more memories follow.
    pub more: bool,
}

pub(crate) fn microseconds(time: DateTime<Utc>) -> i64 {
    time.timestamp_micros()
}

/// Returns the time of the last change.
pub(crate) fn changed(memory: &Memory) -> i64 {
    let time = memory.modified.as_ref().unwrap_or(&memory.created);
    microseconds(time.instant().to_utc())
}
