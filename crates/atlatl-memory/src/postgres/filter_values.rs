//! The parameters of `atlatl.filter_condition`: a filter as the functions of the schema take it.

use chrono::{DateTime, Utc};
use tokio_postgres::types::Type;

use super::crud::storable;
use super::session::Value;
use crate::listing::{Filter, microseconds};

/// The parameters of a filter.
#[derive(Debug, Default)]
pub(super) struct FilterValues<'a> {
    now: i64,
    namespace: Option<&'a str>,
    memory_type: Option<&'static str>,
    status: Option<&'static str>,
    tags: Option<Vec<String>>,
    since: Option<i64>,
    until: Option<i64>,
    min_confidence: Option<f64>,
}

impl<'a> FilterValues<'a> {
    pub(super) fn new(filter: &'a Filter, now: DateTime<Utc>) -> Self {
        let tags: Vec<String> = filter.tags.iter().map(|tag| storable(tag)).collect();
        Self {
            now: microseconds(now),
            namespace: filter.namespace.as_ref().map(mif::Namespace::as_str),
            memory_type: filter.memory_type.map(mif::MemoryType::as_str),
            status: filter.status.map(mif::Status::as_str),
            tags: (!tags.is_empty()).then_some(tags),
            since: filter.since.map(microseconds),
            until: filter.until.map(microseconds),
            min_confidence: filter.min_confidence,
        }
    }

    /// Admits every memory, also expired ones.
    pub(super) fn everything() -> Self {
        Self { now: i64::MIN, ..Self::default() }
    }

    pub(super) fn values(&self) -> [Value<'_>; 8] {
        [
            (&self.now, Type::INT8),
            (&self.namespace, Type::TEXT),
            (&self.memory_type, Type::TEXT),
            (&self.status, Type::TEXT),
            (&self.tags, Type::TEXT_ARRAY),
            (&self.since, Type::INT8),
            (&self.until, Type::INT8),
            (&self.min_confidence, Type::FLOAT8),
        ]
    }
}
