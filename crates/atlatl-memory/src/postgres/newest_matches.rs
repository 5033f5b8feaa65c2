//! The newest matches of a query, in order of age and without a rank.

use chrono::{DateTime, Utc};
use mif::MemoryId;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::crud::{Uuid, rows, storable};
use super::session::{Session, Value};
use super::units::Unit;
use crate::listing::{Filter, microseconds};
use crate::search::hybrid::MAX_COUNTED;
use crate::search::query::Need;
use crate::store::{MemoryMatch, StoreError, TotalAccuracy};

/// The number of memories that one statement reads in order.
const WALK_LEN: i64 = 5_000;
/// The maximum number of memories that are read in order for one query.
const MAX_WALKED: i64 = 200_000;
/// The maximum number of memories with the words of a query that are read for its newest matches.
const MAX_MATCH_ROWS: i64 = 20_000;

/// The newest matches of a query.
#[derive(Debug, Default)]
pub(super) struct NewestMatches {
    pub(super) matches: Vec<MemoryMatch>,
    /// Whether the maximum number of memories was read, so that matches may be missing.
    pub(super) is_truncated: bool,
}

impl NewestMatches {
    /// Returns the total of a query of which `ranked` matches are known already.
    pub(super) fn total(&self, ranked: u64) -> (u64, TotalAccuracy) {
        let total = ranked.max(self.matches.len() as u64);
        let is_exact = !self.is_truncated && total <= MAX_COUNTED;
        let accuracy = if is_exact { TotalAccuracy::Exact } else { TotalAccuracy::AtLeast };
        (total.min(MAX_COUNTED), accuracy)
    }
}

/// The conditions of a query in the form of `atlatl.match_condition`.
pub(super) struct MatchConditions {
    lists: Vec<String>,
    texts: Vec<String>,
    all: bool,
}

impl MatchConditions {
    pub(super) fn new(units: &[Unit], need: Need) -> Self {
        Self {
            lists: units.iter().map(Unit::cell_lists).collect(),
            texts: units.iter().map(Unit::joined_texts).collect(),
            all: need == Need::All,
        }
    }

    fn values(&self) -> [Value<'_>; 3] {
        [(&self.lists, Type::TEXT_ARRAY), (&self.texts, Type::TEXT_ARRAY), (&self.all, Type::BOOL)]
    }

    /// Returns the newest matches by the index, of at most [`MAX_MATCH_ROWS`] memories.
    pub(super) async fn newest(
        &self,
        db: &Session,
        filter: &FilterValues<'_>,
        most: usize,
    ) -> Result<NewestMatches, StoreError> {
        let sql = "SELECT id, fades, is_truncated FROM atlatl.match_documents( \
                   $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
        let most = rows(most);
        let limits: [Value<'_>; 2] = [(&most, Type::INT8), (&MAX_MATCH_ROWS, Type::INT8)];
        let values: Vec<Value<'_>> =
            filter.values().into_iter().chain(self.values()).chain(limits).collect();
        let found = db.query(sql, &values).await?;
        Ok(NewestMatches {
            matches: found.iter().filter_map(unranked).collect(),
            is_truncated: found.first().is_some_and(|row| row.get(2)),
        })
    }

    /// Reads memories in order, newest first, until `most` match.
    pub(super) async fn walk(
        &self,
        db: &Session,
        filter: &FilterValues<'_>,
        most: usize,
    ) -> Result<NewestMatches, StoreError> {
        let sql = "SELECT id, fades, lowest FROM atlatl.newest_documents( \
                   $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
        let (mut before, mut walked) = (i64::MAX, 0);
        let mut newest = NewestMatches::default();
        while newest.matches.len() < most {
            if walked >= MAX_WALKED {
                newest.is_truncated = true;
                break;
            }
            let page: [Value<'_>; 2] = [(&before, Type::INT8), (&WALK_LEN, Type::INT8)];
            let values: Vec<Value<'_>> =
                filter.values().into_iter().chain(self.values()).chain(page).collect();
            let found = db.query(sql, &values).await?;
            newest.matches.extend(found.iter().filter_map(unranked));
            let Some(lowest) = found.first().and_then(|row| row.get::<_, Option<i64>>(2)) else {
                break;
            };
            (before, walked) = (lowest, walked + WALK_LEN);
        }
        newest.matches.truncate(most);
        Ok(newest)
    }
}

/// Returns the match of a row with an id and whether the memory fades. A row without an id has none.
fn unranked(row: &Row) -> Option<MemoryMatch> {
    let id = MemoryId::from(row.get::<_, Option<Uuid>>(0)?);
    Some(MemoryMatch::new(id, 0.0, row.get(1)))
}

/// The parameters of a filter.
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
        Self {
            now: i64::MIN,
            namespace: None,
            memory_type: None,
            status: None,
            tags: None,
            since: None,
            until: None,
            min_confidence: None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_exact_if_all_matches_were_read_and_counted() {
        let newest = |n: u128, is_truncated| NewestMatches {
            matches: (0..n).map(|n| MemoryMatch::new(MemoryId::from_u128(n), 0.0, false)).collect(),
            is_truncated,
        };
        assert_eq!(newest(9, false).total(4), (9, TotalAccuracy::Exact));
        assert_eq!(newest(9, true).total(4), (9, TotalAccuracy::AtLeast));
        assert_eq!(newest(9, true).total(12), (12, TotalAccuracy::AtLeast));
        assert_eq!(newest(10_001, false).total(4), (10_000, TotalAccuracy::AtLeast));
    }
}
