//! Hybrid search by words, by vectors, or by both.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use crate::embed::Embedder;
use crate::filter::Filter;
use crate::hit::{Found, RankPosition, RankedBy, SearchHit};
use crate::order::Order;
use crate::search::fusion::{self, Ranked, fused, settled};
use crate::search::query::{Need, Terms};
use crate::store::{Match, Matches, MemoryStore, StoreError};

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
                let behind = |one: &Ranked| {
                    fusion::order((after.score, &after.id), (one.score, &one.id)).is_lt()
                };
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
