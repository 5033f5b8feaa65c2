//! Hybrid search: lexical and vector rankings, combined by reciprocal rank fusion, with time decay.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use super::query::{Need, Terms};
use super::{RankPosition, RankedBy, SearchHit, SearchResults};
use crate::embed::Embedder;
use crate::listing::{Filter, Order};
use crate::store::{Matches, MemoryMatch, MemoryStore, StoreError};

/// The constant `k` of reciprocal rank fusion. Ranks are combined because the scores of the two
/// rankings cannot be compared; 60 is the usual value.
const RRF_K: f64 = 60.0;
/// The maximum number of hits of one query.
pub const MAX_HITS: usize = 10_000;
/// The maximum number of hits of a vector search. Every vector has some similarity, so there is no
/// natural end.
const MAX_VECTOR_HITS: usize = 200;

/// What a search compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// Words only.
    Lexical,
    /// Vectors only.
    Vector,
    /// Words, and vectors where there are any.
    #[default]
    Hybrid,
}

/// The parameters of a search or a recall.
#[derive(Debug, Clone)]
pub(crate) struct HybridQuery<'a> {
    pub(crate) query: &'a str,
    pub(crate) need: Need,
    pub(crate) mode: Mode,
    pub(crate) filter: &'a Filter,
    pub(crate) limit: usize,
    pub(crate) after: Option<&'a RankPosition>,
    pub(crate) now: DateTime<Utc>,
}

/// Searches a store by words and vectors.
#[derive(Clone)]
pub(crate) struct HybridSearch {
    pub(crate) store: Arc<dyn MemoryStore>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
}

impl HybridSearch {
    pub(crate) fn search(&self, query: &HybridQuery<'_>) -> Result<SearchResults, StoreError> {
        let terms = Terms::parse(query.query, query.need);
        if query.query.trim().is_empty() {
            return self.list_newest(query);
        }
        let (nearest, warning) = self.nearest(query)?;
        let (filter, now) = (query.filter, query.now);
        // All hits are ranked, whatever page is requested: fusion and decay must give the same
        // order on every page.
        let (words, read) = match (query.mode, &nearest) {
            (Mode::Vector, Some(_)) => (Matches::default(), Vec::new()),
            // Usually the best lexical matches are the first page, so they are read in the same
            // round trip.
            (_, None) if query.after.is_none() => {
                let first = query.limit;
                self.store.lexical_and_read(&terms, filter, MAX_HITS, first, now)?
            }
            _ => (self.store.lexical(&terms, filter, MAX_HITS, now)?, Vec::new()),
        };
        let ranked_by = match (&nearest, query.mode) {
            (None, _) => RankedBy::Lexical,
            (Some(_), Mode::Vector) => RankedBy::Vector,
            (Some(_), _) => RankedBy::Hybrid,
        };
        let ranked = fuse(&words.best, nearest.as_deref().unwrap_or_default());
        // Beyond the ranked hits it is unknown which of the nearest vectors also match the words.
        let total_matches = words.total.max(ranked.len() as u64);
        let warning = warning.or_else(|| {
            let said = "the query has too many words: only the first ones are used";
            terms.cut.then(|| said.to_owned())
        });
        let ranked = normalize_scores(self.apply_decay(ranked, query.now)?);
        let rest = match query.after {
            None => &ranked[..],
            Some(after) => {
                let behind = |one: &RankedMatch| {
                    compare_hits((after.score, &after.id), (one.score, &one.id)).is_lt()
                };
                &ranked[ranked.partition_point(|one| !behind(one))..]
            }
        };
        let page = &rest[..rest.len().min(query.limit)];
        let more = rest.len() > page.len();
        Ok(SearchResults { hits: self.hits(page, read)?, total_matches, more, ranked_by, warning })
    }

    /// Returns the nearest vectors, or `None` if there are none to compare, with a warning if that
    /// is due to a failure.
    fn nearest(
        &self,
        query: &HybridQuery<'_>,
    ) -> Result<(Option<Vec<MemoryMatch>>, Option<String>), StoreError> {
        if query.mode == Mode::Lexical {
            return Ok((None, None));
        }
        let Some(embedder) = &self.embedder else {
            let wanted = query.mode == Mode::Vector;
            let warning = "no embedder is configured (memory.embedder): ranked only by words";
            return Ok((None, wanted.then(|| warning.to_owned())));
        };
        let vector = match embedder.embed_query(query.query) {
            Ok(vector) => vector,
            Err(error) => {
                let warning = format!("ranked only by words: {error}");
                return Ok((None, Some(warning)));
            }
        };
        let nearest = self.store.nearest(
            embedder.model(),
            &vector,
            query.filter,
            MAX_VECTOR_HITS,
            query.now,
        )?;
        Ok((Some(nearest), None))
    }

    /// Multiplies each score by the strength that is left at `now`.
    fn apply_decay(
        &self,
        mut ranked: Vec<RankedMatch>,
        now: DateTime<Utc>,
    ) -> Result<Vec<RankedMatch>, StoreError> {
        let fading: Vec<_> =
            ranked.iter().filter(|one| one.decays).map(|one| one.id.clone()).collect();
        let memories = self.store.get_all(&fading)?;
        // The memories come back in the requested order. One that was deleted meanwhile keeps its
        // score.
        let mut memories = memories.iter().peekable();
        for one in ranked.iter_mut().filter(|one| one.decays) {
            if let Some(memory) = memories.next_if(|memory| memory.id == one.id) {
                one.score *= memory.strength_at(now.fixed_offset());
            }
        }
        Ok(ranked)
    }

    /// Reads the memories of a page, except those in `read`.
    fn hits(&self, page: &[RankedMatch], read: Vec<Memory>) -> Result<Vec<SearchHit>, StoreError> {
        let mut memories: HashMap<MemoryId, Memory> =
            read.into_iter().map(|memory| (memory.id.clone(), memory)).collect();
        let missing: Vec<MemoryId> = page
            .iter()
            .filter(|one| !memories.contains_key(&one.id))
            .map(|one| one.id.clone())
            .collect();
        if !missing.is_empty() {
            let more = self.store.get_all(&missing)?.into_iter();
            memories.extend(more.map(|memory| (memory.id.clone(), memory)));
        }
        // Memories that were deleted meanwhile are left out.
        let hits = page.iter().filter_map(|one| {
            let memory = memories.remove(&one.id)?;
            let (score, lexical, vector) = (one.score, one.lexical, one.vector);
            Some(SearchHit { memory, score, lexical, vector })
        });
        Ok(hits.collect())
    }

    /// Answers an empty query: all admitted memories, newest first.
    fn list_newest(&self, query: &HybridQuery<'_>) -> Result<SearchResults, StoreError> {
        let &HybridQuery { filter, limit, now, .. } = query;
        let listed = self.store.list(filter, Order::Newest, None, limit, now)?;
        let total_matches =
            if listed.more { self.store.count(filter, now)? } else { listed.memories.len() as u64 };
        let hit = |memory| SearchHit { memory, score: 1.0, lexical: None, vector: None };
        Ok(SearchResults {
            hits: listed.memories.into_iter().map(hit).collect(),
            total_matches,
            // Pagination of this result uses a position in a listing, not in a ranking.
            more: false,
            ranked_by: RankedBy::Time,
            warning: None,
        })
    }
}

/// A memory with its combined score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RankedMatch {
    pub(crate) id: MemoryId,
    pub(crate) score: f64,
    pub(crate) lexical: Option<f64>,
    pub(crate) vector: Option<f64>,
    pub(crate) decays: bool,
}

/// Combines two rankings by reciprocal rank fusion: each adds `1 / (60 + rank)` to a memory's
/// score.
pub(crate) fn fuse(lexical: &[MemoryMatch], vector: &[MemoryMatch]) -> Vec<RankedMatch> {
    let mut places: HashMap<u128, usize> = HashMap::with_capacity(lexical.len() + vector.len());
    let mut all: Vec<RankedMatch> = Vec::with_capacity(lexical.len() + vector.len());
    for (ranking, is_lexical) in [(lexical, true), (vector, false)] {
        for (place, found) in ranking.iter().enumerate() {
            let slot = *places.entry(found.id.as_u128()).or_insert_with(|| {
                all.push(RankedMatch {
                    id: found.id.clone(),
                    score: 0.0,
                    lexical: None,
                    vector: None,
                    decays: found.decays,
                });
                all.len() - 1
            });
            let ranked = &mut all[slot];
            #[expect(clippy::cast_precision_loss, reason = "a place in a list in memory")]
            let place = place as f64;
            ranked.score += 1.0 / (RRF_K + 1.0 + place);
            *(if is_lexical { &mut ranked.lexical } else { &mut ranked.vector }) =
                Some(found.score);
        }
    }
    all
}

/// Sorts by score in descending order, and scales the scores so that the best is 1.
pub(crate) fn normalize_scores(mut ranked: Vec<RankedMatch>) -> Vec<RankedMatch> {
    ranked.sort_by(|a, b| compare_hits((a.score, &a.id), (b.score, &b.id)));
    let best = ranked.first().map_or(0.0, |first| first.score);
    if best > 0.0 {
        for one in &mut ranked {
            one.score /= best;
        }
    }
    ranked
}

/// The sort order of hits: score descending, then id.
pub(crate) fn compare_hits(a: (f64, &MemoryId), b: (f64, &MemoryId)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(ids: &[u128]) -> Vec<MemoryMatch> {
        ids.iter().map(|id| MemoryMatch::new(MemoryId::from_u128(*id), 1.0, false)).collect()
    }

    #[test]
    fn what_both_rankings_know_comes_first_and_the_best_has_1() {
        let ranked = normalize_scores(fuse(&matches(&[1, 2, 3]), &matches(&[3, 4])));
        let ids: Vec<u128> = ranked.iter().map(|one| one.id.as_u128()).collect();
        assert_eq!(ids, [3, 1, 2, 4]);
        assert!((ranked[0].score - 1.0).abs() < f64::EPSILON);
        assert!(ranked.windows(2).all(|two| two[0].score >= two[1].score));
        assert_eq!((ranked[0].lexical, ranked[0].vector), (Some(1.0), Some(1.0)));
        assert_eq!((ranked[1].lexical, ranked[1].vector), (Some(1.0), None));
    }

    #[test]
    fn nothing_found_is_nothing() {
        assert!(normalize_scores(fuse(&[], &[])).is_empty());
    }
}
