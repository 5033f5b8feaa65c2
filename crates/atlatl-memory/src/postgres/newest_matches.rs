//! The newest matches of a query, in order of age and without a rank.

use mif::MemoryId;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::crud::{Uuid, rows};
use super::filter_values::FilterValues;
use super::session::{Session, Value};
use super::units::Unit;
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

    /// Returns the parameters of a function: of the filter, of the conditions, and `bounds`.
    fn values<'a>(&'a self, filter: &'a FilterValues<'_>, bounds: [&'a i64; 2]) -> Vec<Value<'a>> {
        let conditions: [Value<'_>; 3] = [
            (&self.lists, Type::TEXT_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
            (&self.all, Type::BOOL),
        ];
        let bounds = bounds.map(|bound| (bound as _, Type::INT8));
        filter.values().into_iter().chain(conditions).chain(bounds).collect()
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
        let found = db.query(sql, &self.values(filter, [&rows(most), &MAX_MATCH_ROWS])).await?;
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
            let found = db.query(sql, &self.values(filter, [&before, &WALK_LEN])).await?;
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
