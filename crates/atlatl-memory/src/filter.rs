//! Filter: which memories are meant, whatever the question.

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryType, Namespace, Status};

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
