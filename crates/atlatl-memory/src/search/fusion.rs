//! Rank fusion and time decay.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use super::query::{Need, Terms};
use super::{Found, RankPosition, RankedBy, SearchHit};
use crate::embed::Embedder;
use crate::listing::{Filter, Order};
use crate::store::{Match, Matches, MemoryStore, StoreError};

/// How much the first places of a ranking count against those behind them. The usual value: the two
/// rankings' scores cannot be compared, their places can.
const DAMPING: f64 = 60.0;

/// A memory on its way into the answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) id: MemoryId,
    pub(crate) score: f64,
    pub(crate) lexical: Option<f64>,
    pub(crate) vector: Option<f64>,
    pub(crate) fades: bool,
}

/// Reciprocal rank fusion: each ranking gives a memory `1 / (60 + place)`.
pub(crate) fn fused(lexical: &[Match], vector: &[Match]) -> Vec<Ranked> {
    let mut places: HashMap<u128, usize> = HashMap::with_capacity(lexical.len() + vector.len());
    let mut all: Vec<Ranked> = Vec::with_capacity(lexical.len() + vector.len());
    for (ranking, is_lexical) in [(lexical, true), (vector, false)] {
        for (place, found) in ranking.iter().enumerate() {
            let slot = *places.entry(found.id.as_u128()).or_insert_with(|| {
                all.push(Ranked {
                    id: found.id.clone(),
                    score: 0.0,
                    lexical: None,
                    vector: None,
                    fades: found.fades,
                });
                all.len() - 1
            });
            let ranked = &mut all[slot];
            // Places beyond 2^52 do not occur.
            #[expect(clippy::cast_precision_loss, reason = "a place in a list in memory")]
            let place = place as f64;
            ranked.score += 1.0 / (DAMPING + 1.0 + place);
            *(if is_lexical { &mut ranked.lexical } else { &mut ranked.vector }) =
                Some(found.score);
        }
    }
    all
}

/// The best first, their scores made such that the best has 1.
pub(crate) fn settled(mut ranked: Vec<Ranked>) -> Vec<Ranked> {
    ranked.sort_by(|a, b| order((a.score, &a.id), (b.score, &b.id)));
    let best = ranked.first().map_or(0.0, |first| first.score);
    if best > 0.0 {
        for one in &mut ranked {
            one.score /= best;
        }
    }
    ranked
}

/// The order of answers.
pub(crate) fn order(a: (f64, &MemoryId), b: (f64, &MemoryId)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1))
}

// --- Hybrid search by words, by vectors, or by both.

/// The most answers that one question has.
pub const MOST_HITS: usize = 10_000;
/// How many of the nearest vectors are answers: every vector is somewhere near.
const NEAREST: usize = 200;

/// How is looked for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// By words.
    Lexical,
    /// By vectors.
    Vector,
    /// By both, where there are vectors.
    #[default]
    Hybrid,
}

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Question<'a> {
    pub(crate) query: &'a str,
    pub(crate) need: Need,
    pub(crate) mode: Mode,
    pub(crate) filter: &'a Filter,
    pub(crate) limit: usize,
    pub(crate) after: Option<&'a RankPosition>,
    pub(crate) now: DateTime<Utc>,
}

/// Finds answers in a store.
#[derive(Clone)]
pub(crate) struct Finder {
    pub(crate) store: Arc<dyn MemoryStore>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
}

impl Finder {
    pub(crate) fn find(&self, question: &Question<'_>) -> Result<Found, StoreError> {
        let terms = Terms::parse(question.query, question.need);
        if question.query.trim().is_empty() {
            return self.everything(question);
        }
        let (near, warning) = self.near(question)?;
        let (filter, now) = (question.filter, question.now);
        // All of them, whatever page is wanted: what one ranking adds to the other, and what time
        // takes, must be the same on every page.
        let (words, read) = match (question.mode, &near) {
            (Mode::Vector, Some(_)) => (Matches::default(), Vec::new()),
            // The best are the first page, unless time or equal scores say otherwise.
            (_, None) if question.after.is_none() => {
                let first = question.limit;
                self.store.lexical_and_read(&terms, filter, MOST_HITS, first, now)?
            }
            _ => (self.store.lexical(&terms, filter, MOST_HITS, now)?, Vec::new()),
        };
        let ranked_by = match (&near, question.mode) {
            (None, _) => RankedBy::Lexical,
            (Some(_), Mode::Vector) => RankedBy::Vector,
            (Some(_), _) => RankedBy::Hybrid,
        };
        let ranked = fused(&words.best, near.as_deref().unwrap_or_default());
        // Beyond the most that are ranked nobody knows which of the nearest have the words too.
        let total_matches = words.total.max(ranked.len() as u64);
        let warning = warning.or_else(|| {
            let said = "the question has more words than are looked for: the first ones count";
            terms.cut.then(|| said.to_owned())
        });
        let ranked = settled(self.weighed(ranked, question.now)?);
        let rest = match question.after {
            None => &ranked[..],
            Some(after) => {
                let behind =
                    |one: &Ranked| order((after.score, &after.id), (one.score, &one.id)).is_lt();
                &ranked[ranked.partition_point(|one| !behind(one))..]
            }
        };
        let page = &rest[..rest.len().min(question.limit)];
        let more = rest.len() > page.len();
        Ok(Found { hits: self.hits(page, read)?, total_matches, more, ranked_by, warning })
    }

    /// The nearest vectors, `None` where there can be none; and why, where that is a failure.
    fn near(
        &self,
        question: &Question<'_>,
    ) -> Result<(Option<Vec<Match>>, Option<String>), StoreError> {
        if question.mode == Mode::Lexical {
            return Ok((None, None));
        }
        let Some(embedder) = &self.embedder else {
            let wanted = question.mode == Mode::Vector;
            let warning = "no embedder is configured (memory.embedder): ranked by words alone";
            return Ok((None, wanted.then(|| warning.to_owned())));
        };
        let vector = match embedder.embed_question(question.query) {
            Ok(vector) => vector,
            Err(error) => {
                let warning = format!("ranked by words alone, since {error}");
                return Ok((None, Some(warning)));
            }
        };
        let near = self.store.nearest(
            embedder.model(),
            &vector,
            question.filter,
            NEAREST,
            question.now,
        )?;
        Ok((Some(near), None))
    }

    /// Takes from each what time took from its weight.
    fn weighed(
        &self,
        mut ranked: Vec<Ranked>,
        now: DateTime<Utc>,
    ) -> Result<Vec<Ranked>, StoreError> {
        let fading: Vec<_> =
            ranked.iter().filter(|one| one.fades).map(|one| one.id.clone()).collect();
        let memories = self.store.get_all(&fading)?;
        // In the order they were asked for; one that was removed in between is left as it is.
        let mut memories = memories.iter().peekable();
        for one in ranked.iter_mut().filter(|one| one.fades) {
            if let Some(memory) = memories.next_if(|memory| memory.id == one.id) {
                one.score *= memory.strength_at(now.fixed_offset());
            }
        }
        Ok(ranked)
    }

    /// The page with its memories, of which some were read already.
    fn hits(&self, page: &[Ranked], read: Vec<Memory>) -> Result<Vec<SearchHit>, StoreError> {
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
        // What was removed in between is left out.
        let hits = page.iter().filter_map(|one| {
            let memory = memories.remove(&one.id)?;
            let (score, lexical, vector) = (one.score, one.lexical, one.vector);
            Some(SearchHit { memory, score, lexical, vector })
        });
        Ok(hits.collect())
    }

    /// A question without words: everything that is meant, the newest first.
    fn everything(&self, question: &Question<'_>) -> Result<Found, StoreError> {
        let &Question { filter, limit, now, .. } = question;
        let listed = self.store.list(filter, Order::Newest, None, limit, now)?;
        let total_matches =
            if listed.more { self.store.count(filter, now)? } else { listed.memories.len() as u64 };
        let hit = |memory| SearchHit { memory, score: 1.0, lexical: None, vector: None };
        Ok(Found {
            hits: listed.memories.into_iter().map(hit).collect(),
            total_matches,
            // Where to go on is a place in a listing, not among answers.
            more: false,
            ranked_by: RankedBy::Time,
            warning: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ids: &[u128]) -> Vec<Match> {
        ids.iter().map(|id| Match::new(MemoryId::from_u128(*id), 1.0, false)).collect()
    }

    #[test]
    fn what_both_rankings_know_comes_first_and_the_best_has_1() {
        let ranked = settled(fused(&found(&[1, 2, 3]), &found(&[3, 4])));
        let ids: Vec<u128> = ranked.iter().map(|one| one.id.as_u128()).collect();
        assert_eq!(ids, [3, 1, 2, 4]);
        assert!((ranked[0].score - 1.0).abs() < f64::EPSILON);
        assert!(ranked.windows(2).all(|two| two[0].score >= two[1].score));
        assert_eq!((ranked[0].lexical, ranked[0].vector), (Some(1.0), Some(1.0)));
        assert_eq!((ranked[1].lexical, ranked[1].vector), (Some(1.0), None));
    }

    #[test]
    fn nothing_found_is_nothing() {
        assert!(settled(fused(&[], &[])).is_empty());
    }
}
