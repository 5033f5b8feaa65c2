//! Full-text search with BM25 whose cost does not grow with the number of matches.
//!
//! A query reads the frequencies of its words, [selects](super::candidates) candidates, and lets the
//! database score them. The statements run in functions of the schema, which fix their plans.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use mif::MemoryId;
use tokio_postgres::types::Type;

use super::candidates::{Selection, select};
use super::cells::{DEFAULT_MEAN_LEN, Term, filter_terms};
use super::crud::{Tenant, Uuid, rows};
use super::filter_values::FilterValues;
use super::index_statistics::{CommonTerm, IndexStatistics};
use super::newest_matches::MatchConditions;
use super::phrase_counts::{PhraseCount, count_phrases};
use super::session::{Session, Value};
use super::units::{QueryUnits, Unit};
use crate::listing::Filter;
use crate::search::bm25;
use crate::search::hybrid::MAX_COUNTED;
use crate::search::query::{Need, Phrase, Terms};
use crate::store::{
    Matches, MemoryMatch, StoreError, TotalAccuracy, UNRANKED_SCORE, UNRANKED_STEP,
};

/// The maximum number of matches that are ranked if not all are candidates.
const MAX_RANKED: usize = 1_000;
/// The number of matches that are enough without a further round.
const ENOUGH_MATCHES: u64 = 20;
/// Tenants with at most so many memories are counted for every query.
pub(super) const SMALL_TENANT: i64 = 5_000;
/// The maximum number of documents that a recall indexes itself.
pub(super) const MAX_INLINE_BACKLOG: i64 = 64;
/// The number of memories by which a tenant may grow or shrink, as a part of it, before its words are
/// counted again.
pub(super) const STALE_AFTER: i64 = 5;
/// The same if a query found that counts are missing.
pub(super) const STALE_AFTER_TRUNCATION: i64 = 100;
/// The same for the smallest tenants, in memories.
const MIN_STALE: i64 = 20;
/// The share of matching memories from which on the newest are found by reading all in order.
const DENSE_SHARE: f64 = 0.1;

/// A full-text query.
#[derive(Debug, Clone, Copy)]
pub(super) struct LexicalQuery<'a> {
    pub(super) terms: &'a Terms,
    pub(super) filter: &'a Filter,
    pub(super) limit: usize,
    pub(super) now: DateTime<Utc>,
}

/// The outcome of a query.
#[derive(Debug)]
pub(super) enum Recall {
    Found(Matches),
    /// Documents wait for the index, or words were not counted for long.
    Behind,
    /// More memories than are read have a word that was taken for rare.
    Truncated,
    /// So many documents wait for the index, or documents that other transactions lock, that only the
    /// previous one has all memories.
    Backlogged,
}

/// Whether a query may ask for maintenance of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The index must be up to date.
    Required,
    /// It was just brought up to date as far as possible.
    Any,
    /// There is no other index for memories that still wait.
    Indexed,
}

impl Freshness {
    /// The number of documents that may wait for the index.
    fn max_backlog(self) -> i64 {
        match self {
            Self::Required => MAX_INLINE_BACKLOG,
            Self::Any => 0,
            Self::Indexed => i64::MAX,
        }
    }
}

/// Answers a query.
pub(super) async fn recall(
    db: &Session,
    tenant: &Tenant,
    query: LexicalQuery<'_>,
    freshness: Freshness,
) -> Result<Recall, StoreError> {
    let units = QueryUnits::from_terms(&tenant.name, query.terms);
    if units.units.is_empty() || query.limit == 0 {
        return Ok(Recall::Found(Matches::default()));
    }
    let filter = filter_terms(&tenant.name, query.filter);
    let wanted: Vec<Term> = units.terms().chain(filter.iter().copied()).collect();
    let state = IndexState::read(db, tenant, &wanted).await?;
    if state.backlog > freshness.max_backlog() {
        return Ok(Recall::Backlogged);
    }
    if freshness == Freshness::Required && (state.backlog > 0 || state.is_stale()) {
        return Ok(Recall::Behind);
    }
    if state.memories == 0 {
        let unknown = (0..query.terms.phrases.len()).collect();
        return Ok(Recall::Found(Matches::default().with_statistics(0.0, unknown)));
    }
    let search = Search { db, tenant, query, units, filter, state };
    let ranking = search.best().await?;
    let statistics = &search.state.statistics;
    // If all words have counts, other counts would not change the candidates.
    if ranking.is_truncated
        && freshness == Freshness::Required
        && statistics.lacks_counts(&search.units, &search.filter, &ranking.frequencies)
    {
        return Ok(Recall::Truncated);
    }
    search.matches(ranking).await.map(Recall::Found)
}

/// The state of a tenant's index, and the common terms of a query.
struct IndexState {
    /// The number of memories and words when they were counted, if they were.
    counted: Option<(i64, i64)>,
    /// The number of memories, counted up to [`SMALL_TENANT`] and one. A tenant that had more when its
    /// words were counted is not counted.
    memories: i64,
    /// The number of documents that wait for the index, counted up to [`MAX_INLINE_BACKLOG`] and one.
    backlog: i64,
    statistics: IndexStatistics,
}

impl IndexState {
    async fn read(db: &Session, tenant: &Tenant, terms: &[Term]) -> Result<Self, StoreError> {
        let sql = "SELECT s.documents, s.words, \
                     CASE WHEN s.documents >= $3 THEN $3 ELSE (SELECT count(*) FROM \
                      (SELECT FROM atlatl.memory WHERE tenant = $1 LIMIT $3) m) END, \
                     (SELECT count(*) FROM (SELECT FROM atlatl.search_backlog WHERE tenant = $1 \
                      LIMIT $4) b), c.term, c.frequency, c.levels \
                   FROM (VALUES (1)) AS one (row) \
                   LEFT JOIN atlatl.search_statistics s ON s.tenant = $1 \
                   LEFT JOIN atlatl.common_term c ON c.tenant = $1 AND c.term = ANY ($2)";
        let terms: Vec<i32> = terms.iter().map(|term| term.number()).collect();
        let values: [Value<'_>; 4] = [
            (&tenant.name, Type::TEXT),
            (&terms, Type::INT4_ARRAY),
            (&(SMALL_TENANT + 1), Type::INT8),
            (&(MAX_INLINE_BACKLOG + 1), Type::INT8),
        ];
        let rows = db.query(sql, &values).await?;
        let first = rows.first().ok_or_else(|| StoreError::Engine("no answer".into()))?;
        let documents: Option<i64> = first.get(0);
        let counted = documents.zip(first.get(1));
        let (memories, backlog): (i64, i64) = (first.get(2), first.get(3));
        let common = rows.iter().filter_map(|row| {
            let term = Term::from_number(row.get::<_, Option<i32>>(4)?);
            Some((term, CommonTerm::new(row.get(5), &row.get::<_, Vec<i32>>(6))))
        });
        #[expect(
            clippy::cast_precision_loss,
            reason = "fewer memories than an `f64` counts exactly"
        )]
        let known = match documents {
            Some(documents) if memories > SMALL_TENANT => documents.max(memories) as f64,
            _ => memories as f64,
        };
        let statistics = IndexStatistics { memories: known, common: common.collect() };
        Ok(Self { counted, memories, backlog, statistics })
    }

    /// Returns whether a small tenant changed much since its words were counted. Large tenants are
    /// counted by a maintenance task.
    fn is_stale(&self) -> bool {
        match self.counted {
            None => self.memories > 0,
            Some((documents, _)) if documents > SMALL_TENANT => false,
            Some((documents, _)) => is_outdated(documents, self.memories, STALE_AFTER),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "fewer words than an `f64` counts exactly")]
    fn mean_len(&self) -> f64 {
        match self.counted {
            Some((documents, words)) if documents > 0 && words > 0 => {
                words as f64 / documents as f64
            }
            _ => DEFAULT_MEAN_LEN,
        }
    }
}

/// Returns whether counts of `counted` memories say too little about `memories`: more than one in
/// `part` was added or deleted.
pub(super) fn is_outdated(counted: i64, memories: i64, part: i64) -> bool {
    (memories - counted).abs() > (counted / part).max(MIN_STALE)
}

/// The best candidates of a query.
struct Ranking {
    best: Vec<MemoryMatch>,
    /// The number of candidates that match.
    matches: u64,
    /// Whether every match was a candidate.
    is_complete: bool,
    /// Whether there were more candidates than the database reads.
    is_truncated: bool,
    /// The number of memories that contain each unit.
    frequencies: Vec<u64>,
}

struct Search<'a> {
    db: &'a Session,
    tenant: &'a Tenant,
    query: LexicalQuery<'a>,
    units: QueryUnits,
    filter: Vec<Term>,
    state: IndexState,
}

impl Search<'_> {
    /// Ranks candidates, and more of them while too few match.
    async fn best(&self) -> Result<Ranking, StoreError> {
        let enough = ENOUGH_MATCHES.min(self.query.limit as u64);
        for round in 0.. {
            let selection = select(&self.units, &self.filter, &self.state.statistics, round);
            let ranking = self.rank(&selection).await?;
            let is_cut = self.units.need == Need::All && ranking.is_truncated && round == 0;
            let is_enough = ranking.is_complete || ranking.matches >= enough;
            if (is_enough && !is_cut) || !selection.can_grow {
                return Ok(ranking);
            }
        }
        unreachable!("the budget of candidates ends");
    }

    async fn rank(&self, selection: &Selection) -> Result<Ranking, StoreError> {
        let max_results =
            if selection.is_complete { self.query.limit } else { self.query.limit.min(MAX_RANKED) };
        let all = self.units.need == Need::All;
        let (mut terms, mut term_units) = (Vec::new(), Vec::new());
        let (mut texts, mut text_units) = (Vec::new(), Vec::new());
        for (unit, n) in self.units.units.iter().zip(1_i32..) {
            if unit.texts.is_empty() {
                let listed = unit.lists.iter().flatten().map(|term| term.number());
                terms.extend(listed);
                term_units.resize(terms.len(), n);
            } else {
                texts.extend(unit.texts.iter().map(String::as_str));
                text_units.resize(texts.len(), n);
            }
        }
        let required = if all { rows(self.units.units.len()) } else { 1 };
        let singles = self.units.units.iter().flat_map(|unit| &unit.lists);
        let singles = singles.filter_map(|list| Some(list.first()?).filter(|_| list.len() == 1));
        let all_terms: Vec<i32> =
            if all { singles.map(|term| term.number()).collect() } else { Vec::new() };
        let merge = terms.len() + texts.len() > self.units.units.len();
        #[expect(clippy::cast_possible_truncation, reason = "a number of memories")]
        let frequencies: Vec<Option<i64>> = selection
            .frequencies
            .iter()
            .map(|frequency| frequency.map(|frequency| frequency.round() as i64))
            .collect();
        let filter = FilterValues::new(self.query.filter, self.query.now);
        let mean_len = self.state.mean_len();
        let max_results = rows(max_results);
        let sql = "SELECT id, score, fades, matches, candidates, counted FROM atlatl.rank_documents( \
                   $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, \
                   $19, $20, $21, $22)";
        let values: [Value<'_>; 14] = [
            (&selection.cells, Type::INT4_ARRAY),
            (&selection.arms, Type::TEXT_ARRAY),
            (&all_terms, Type::INT4_ARRAY),
            (&selection.max_candidates, Type::INT8),
            (&terms, Type::INT4_ARRAY),
            (&term_units, Type::INT4_ARRAY),
            (&texts, Type::TEXT_ARRAY),
            (&text_units, Type::INT4_ARRAY),
            (&frequencies, Type::INT8_ARRAY),
            (&mean_len, Type::FLOAT8),
            (&self.state.statistics.memories, Type::FLOAT8),
            (&required, Type::INT8),
            (&max_results, Type::INT8),
            (&merge, Type::BOOL),
        ];
        let values: Vec<Value<'_>> = filter.values().into_iter().chain(values).collect();
        let found = self.db.query(sql, &values).await?;
        let first = found.first().ok_or_else(|| StoreError::Engine("no answer".into()))?;
        let (matches, candidates): (i64, i64) = (first.get(3), first.get(4));
        let counted: Option<Vec<i64>> = first.get(5);
        let best = found.iter().filter_map(|row| {
            let id = MemoryId::from(row.get::<_, Option<Uuid>>(0)?);
            Some(MemoryMatch::new(id, row.get(1), row.get(2)))
        });
        let is_truncated = candidates >= selection.max_candidates;
        Ok(Ranking {
            best: best.collect(),
            matches: matches.unsigned_abs(),
            is_complete: selection.is_complete && !is_truncated,
            is_truncated,
            frequencies: counted.unwrap_or_default().iter().map(|n| n.unsigned_abs()).collect(),
        })
    }

    /// Adds the total, the statistics, and the matches that were no candidates if all are wanted.
    async fn matches(&self, ranking: Ranking) -> Result<Matches, StoreError> {
        let unknown = self.unknown(&ranking).await?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of memories"
        )]
        let memories = self.state.statistics.memories as u64;
        let idf: Vec<f64> =
            ranking.frequencies.iter().map(|&frequency| bm25::idf(memories, frequency)).collect();
        let mut matches = Matches::new(ranking.best, ranking.matches);
        if !ranking.is_complete {
            let estimate = self.estimate(&ranking.frequencies);
            if self.query.limit > MAX_RANKED {
                let is_dense = self.share(&ranking.frequencies) >= DENSE_SHARE;
                self.append_newest(&mut matches, is_dense).await?;
            } else if let Some(estimate) = estimate {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a number of memories"
                )]
                let estimate = estimate.round() as u64;
                matches.total = matches.total.max(estimate);
                matches.accuracy = TotalAccuracy::Estimated;
            } else {
                matches.accuracy = TotalAccuracy::AtLeast;
            }
        }
        Ok(matches.with_statistics(bm25::full_score(&idf), unknown))
    }

    /// Returns the indexes of the phrases that no memory contains.
    async fn unknown(&self, ranking: &Ranking) -> Result<Vec<usize>, StoreError> {
        let units = self.units.units.iter().zip(&ranking.frequencies);
        let absent: Vec<&Unit> =
            units.filter(|(_, frequency)| **frequency == 0).map(|(unit, _)| unit).collect();
        let absent: Vec<usize> = match self.units.need {
            // Every match has all of them.
            Need::All if ranking.matches > 0 => Vec::new(),
            Need::All => (0..self.query.terms.phrases.len()).collect(),
            Need::Any => absent.into_iter().map(|unit| unit.phrase).collect(),
        };
        if absent.is_empty() {
            return Ok(absent);
        }
        // Not all memories of a unit need be candidates.
        let phrases: Vec<Phrase> =
            absent.iter().map(|&n| self.query.terms.phrases[n].clone()).collect();
        let counted = count_phrases(self.db, self.tenant, &phrases, 1).await?;
        let is_absent = |count: &PhraseCount| count.memories == 0 && !count.is_truncated;
        let counted = absent.into_iter().zip(counted);
        Ok(counted.filter(|(_, count)| is_absent(count)).map(|(n, _)| n).collect())
    }

    /// Estimates the number of matches from the frequencies of independent words. Returns `None` for
    /// phrases, words that must occur together, and filters without known frequencies.
    fn estimate(&self, frequencies: &[u64]) -> Option<f64> {
        let filter = self.query.filter;
        let is_estimable = self.units.need == Need::Any
            && !self.units.has_phrases()
            && filter.since.is_none()
            && filter.until.is_none()
            && filter.min_confidence.is_none();
        let statistics = &self.state.statistics;
        let admitted = statistics.memories.max(1.0) * statistics.filter_share(&self.filter);
        is_estimable.then(|| admitted * self.share(frequencies))
    }

    /// Returns the share of memories that have the units, whatever the filter, if units are
    /// independent.
    #[expect(clippy::cast_precision_loss, reason = "fewer memories than an `f64` counts exactly")]
    fn share(&self, frequencies: &[u64]) -> f64 {
        let memories = self.state.statistics.memories.max(1.0);
        let shares = frequencies.iter().map(|&frequency| (frequency as f64 / memories).min(1.0));
        match self.units.need {
            Need::Any => 1.0 - shares.map(|share| 1.0 - share).product::<f64>(),
            Need::All => shares.product(),
        }
    }

    /// Appends the matches that were no candidates, newest first and without a rank, and counts all
    /// up to [`MAX_COUNTED`].
    async fn append_newest(&self, matches: &mut Matches, is_dense: bool) -> Result<(), StoreError> {
        let most = usize::try_from(MAX_COUNTED).unwrap_or(usize::MAX) + 1;
        let conditions = MatchConditions::new(&self.units.units, self.units.need);
        let filter = FilterValues::new(self.query.filter, self.query.now);
        let newest = if is_dense {
            conditions.walk(self.db, &filter, most).await?
        } else {
            conditions.newest(self.db, &filter, most).await?
        };
        (matches.total, matches.accuracy) = newest.total(matches.total);
        let ranked: HashSet<u128> = matches.best.iter().map(|one| one.id.as_u128()).collect();
        let room = self.query.limit.saturating_sub(matches.best.len());
        let others = newest.matches.into_iter().filter(|one| !ranked.contains(&one.id.as_u128()));
        let mut score = UNRANKED_SCORE;
        for mut one in others.take(room) {
            one.score = score;
            score *= UNRANKED_STEP;
            matches.best.push(one);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_outdated_when_a_tenant_changed_by_a_fifth() {
        let is_outdated = |counted, memories| is_outdated(counted, memories, STALE_AFTER);
        assert!(!is_outdated(0, 20) && is_outdated(0, 21));
        assert!(!is_outdated(1_000, 1_200) && is_outdated(1_000, 1_201));
        assert!(!is_outdated(1_000, 800) && is_outdated(1_000, 799));
    }

    #[test]
    fn after_a_truncation_a_hundredth_is_enough() {
        let is_outdated =
            |counted, memories| is_outdated(counted, memories, STALE_AFTER_TRUNCATION);
        assert!(!is_outdated(100_000, 101_000) && is_outdated(100_000, 101_001));
        assert!(!is_outdated(1_000, 1_020) && is_outdated(1_000, 1_021));
    }
}
