//! Hybrid search: finds candidates by words and by vectors, ranks them, and returns pages.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use super::fusion::{
    COMBINED, Nearest, RankedMatch, compare_hits, fuse, is_settled, scale_scores, time_bonus,
};
use super::query::{Need, Terms};
use super::spelling::{self, Correction};
use super::time_expression::TimeExpression;
use super::{EmptyAnswer, MatchedBy, RankPosition, RankedBy, SearchHit, SearchResults};
use crate::blocking;
use crate::embed::{EmbedError, Embedder};
use crate::listing::{Filter, Order};
use crate::store::{Matches, MemoryStore, StoreError, TotalAccuracy, UNRANKED_SCORE};

/// The maximum number of hits of one query.
pub const MAX_HITS: usize = 10_000;
/// The maximum number of matches that are counted.
pub(crate) const MAX_COUNTED: u64 = 10_000;
/// The maximum number of hits of a vector search. Every vector has some similarity, so there is no
/// natural end.
const MAX_VECTOR_HITS: usize = 200;
/// The minimum number of candidates for a first page: decay changes the order of neighbors.
const MIN_CANDIDATES: usize = 200;
/// The number of candidates for each hit of a first page.
const CANDIDATES_PER_HIT: usize = 4;

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

impl HybridQuery<'_> {
    /// Returns how many matches by words to rank. Later pages rank all of them, since a position
    /// does not say how many hits are before it.
    fn candidates(&self, min: usize) -> usize {
        match self.after {
            Some(_) => MAX_HITS,
            None => self.limit.saturating_mul(CANDIDATES_PER_HIT).clamp(min, MAX_HITS),
        }
    }
}

/// The matches of a query by words.
struct WordMatches {
    terms: Terms,
    corrections: Vec<Correction>,
    matches: Matches,
    /// The best of the memories, if they were read in the same round trip.
    read: Vec<Memory>,
}

/// What is ranked.
struct Candidates {
    words: WordMatches,
    /// The nearest vectors, if any took part.
    near: Option<Nearest>,
    warning: Option<String>,
}

/// Searches a store by words and vectors.
#[derive(Clone)]
pub(crate) struct HybridSearch {
    pub(crate) store: Arc<dyn MemoryStore>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
}

impl HybridSearch {
    pub(crate) async fn search(
        &self,
        query: &HybridQuery<'_>,
    ) -> Result<SearchResults, StoreError> {
        if query.query.trim().is_empty() {
            return self.list_newest(query).await;
        }
        let time = match query.mode {
            Mode::Vector => None,
            _ => TimeExpression::parse(query.query, query.now),
        };
        let min_candidates = if time.is_some() { COMBINED } else { MIN_CANDIDATES };
        let Candidates { mut words, near, warning } =
            self.candidates(query, min_candidates).await?;
        let (near_ref, time_ref, now) = (near.as_ref(), time.as_ref(), query.now);
        let mut ranked = self.rank(&words.matches, near_ref, time_ref, now).await?;
        let found = &words.matches;
        let has_more =
            found.accuracy != TotalAccuracy::Exact || found.total > found.best.len() as u64;
        let is_partial = query.after.is_none() && has_more && found.best.len() < MAX_HITS;
        if is_partial && !is_settled(&ranked, &words.matches, near.as_ref(), query.limit) {
            words.matches = self.store.lexical(&words.terms, query.filter, MAX_HITS, now).await?;
            ranked = self.rank(&words.matches, near_ref, time_ref, now).await?;
        }
        scale_scores(&mut ranked);
        let matches = &words.matches;
        let total_matches = matches.total.max(ranked.len() as u64);
        // It is unknown how many of the matches beyond the candidates are among the nearest too.
        let is_cut = near.is_some() && matches.total > matches.best.len() as u64;
        let accuracy = match matches.accuracy {
            TotalAccuracy::Exact if is_cut => TotalAccuracy::AtLeast,
            accuracy => accuracy,
        };
        let ranked_by = match query.mode {
            _ if near.is_none() => RankedBy::Lexical,
            Mode::Vector => RankedBy::Vector,
            _ => RankedBy::Hybrid,
        };
        let warning = warning.or_else(|| {
            let said = "the query has too many words: only the first ones are used";
            words.terms.cut.then(|| said.to_owned())
        });
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
        let empty = if ranked.is_empty() { self.explain_empty(query, &words).await? } else { None };
        Ok(SearchResults {
            hits: self.hits(page, words.read, near.as_ref()).await?,
            total_matches,
            accuracy,
            more,
            ranked_by,
            warning,
            terms: words.terms,
            corrections: words.corrections,
            empty,
        })
    }

    /// Finds the matches by words, at least `min` if there are so many, and the nearest vectors.
    async fn candidates(
        &self,
        query: &HybridQuery<'_>,
        min: usize,
    ) -> Result<Candidates, StoreError> {
        let (embedder, warning) = match (query.mode, &self.embedder) {
            (Mode::Lexical, _) | (Mode::Hybrid, None) => (None, None),
            (Mode::Vector, None) => {
                let warning = "no embedder is configured (memory.embedder): ranked only by words";
                (None, Some(warning.to_owned()))
            }
            (_, Some(embedder)) => (Some(embedder), None),
        };
        let Some(embedder) = embedder else {
            return Ok(Candidates {
                words: self.words_alone(query, min).await?,
                near: None,
                warning,
            });
        };
        let words = match query.mode {
            Mode::Vector => None,
            _ => Some(self.words(query, query.candidates(COMBINED), 0).await?),
        };
        let corrections = words.as_ref().map_or(&[][..], |words| &words.corrections[..]);
        let text = corrected_text(query.query, corrections);
        let (near, warning) = match embed_query(embedder, text.into_owned()).await? {
            Ok(vector) => (self.nearest(&**embedder, &vector, query, words.as_ref()).await?, None),
            Err(error) => (None, Some(format!("ranked only by words: {error}"))),
        };
        let words = match words {
            Some(words) => words,
            None if near.is_none() => self.words_alone(query, min).await?,
            None => WordMatches {
                terms: Terms::parse(query.query, query.need),
                corrections: Vec::new(),
                matches: Matches::default(),
                read: Vec::new(),
            },
        };
        let warning = warning.or_else(|| {
            let said = "no memory has a vector yet: ranked only by words";
            (near.is_none() && !words.matches.best.is_empty()).then(|| said.to_owned())
        });
        Ok(Candidates { words, near, warning })
    }

    /// Finds the matches of a query that is ranked by words. Usually the best of them are the first
    /// page, so they are read in the same round trip.
    async fn words_alone(
        &self,
        query: &HybridQuery<'_>,
        min: usize,
    ) -> Result<WordMatches, StoreError> {
        let first = if query.after.is_none() { query.limit } else { 0 };
        self.words(query, query.candidates(min), first).await
    }

    /// Finds at most `limit` matches by words, and reads the `first` of them. Words that no memory
    /// contains are corrected.
    async fn words(
        &self,
        query: &HybridQuery<'_>,
        limit: usize,
        first: usize,
    ) -> Result<WordMatches, StoreError> {
        let terms = Terms::parse(query.query, query.need);
        let (matches, read) = self.find(&terms, query, limit, first).await?;
        if !matches.unknown.is_empty()
            && let Some((terms, corrections)) =
                spelling::correct(&*self.store, &terms, &matches.unknown, self.embedder.as_deref())
                    .await?
        {
            let (matches, read) = self.find(&terms, query, limit, first).await?;
            return Ok(WordMatches { terms, corrections, matches, read });
        }
        Ok(WordMatches { terms, corrections: Vec::new(), matches, read })
    }

    /// Finds at most `limit` matches of `terms`, and reads the `first` of them.
    async fn find(
        &self,
        terms: &Terms,
        query: &HybridQuery<'_>,
        limit: usize,
        first: usize,
    ) -> Result<(Matches, Vec<Memory>), StoreError> {
        let (filter, now) = (query.filter, query.now);
        if first == 0 {
            return Ok((self.store.lexical(terms, filter, limit, now).await?, Vec::new()));
        }
        self.store.lexical_and_read(terms, filter, limit, first, now).await
    }

    /// Returns the nearest vectors, and the cosines of the best matches by words. Returns `None` if
    /// no memory has a vector.
    async fn nearest(
        &self,
        embedder: &dyn Embedder,
        vector: &[f32],
        query: &HybridQuery<'_>,
        words: Option<&WordMatches>,
    ) -> Result<Option<Nearest>, StoreError> {
        let model = embedder.model();
        let best =
            self.store.nearest(model, vector, query.filter, MAX_VECTOR_HITS, query.now).await?;
        if best.is_empty() {
            return Ok(None);
        }
        let near: HashSet<u128> = best.iter().map(|one| one.id.as_u128()).collect();
        let matches = words.map_or(&[][..], |words| &words.matches.best[..]);
        let others: Vec<MemoryId> = matches
            .iter()
            .take(COMBINED)
            .take_while(|one| one.score > UNRANKED_SCORE)
            .filter(|one| !near.contains(&one.id.as_u128()))
            .map(|one| one.id.clone())
            .collect();
        let cosines = self.store.cosines(model, vector, &others).await?;
        let cosines = others.iter().zip(cosines);
        let others = cosines.filter_map(|(id, cosine)| Some((id.as_u128(), cosine?))).collect();
        Ok(Some(Nearest::new(best, others, embedder.fusion(), query.query)))
    }

    /// Scores and sorts the candidates, best first.
    async fn rank(
        &self,
        matches: &Matches,
        near: Option<&Nearest>,
        time: Option<&TimeExpression>,
        now: DateTime<Utc>,
    ) -> Result<Vec<RankedMatch>, StoreError> {
        let mut ranked = fuse(matches, near);
        let named = time.map(|time| (time, time_bonus(matches, near)));
        self.apply_times(&mut ranked, named, now).await?;
        ranked.sort_by(|a, b| compare_hits((a.score, &a.id), (b.score, &b.id)));
        Ok(ranked)
    }

    /// Adds a bonus to the scores of the memories of a named time, and then multiplies each score by
    /// the strength that is left at `now`.
    async fn apply_times(
        &self,
        ranked: &mut [RankedMatch],
        named: Option<(&TimeExpression, f64)>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let is_read = |one: &RankedMatch| one.decays || (one.is_dated && named.is_some());
        let ids: Vec<_> =
            ranked.iter().filter(|one| is_read(one)).map(|one| one.id.clone()).collect();
        let memories = self.store.get_all(&ids).await?;
        // The memories come back in the requested order. One that was deleted meanwhile keeps its
        // score.
        let mut memories = memories.iter().peekable();
        for one in ranked.iter_mut().filter(|one| is_read(one)) {
            let Some(memory) = memories.next_if(|memory| memory.id == one.id) else { continue };
            if let Some((time, bonus)) = named
                && one.is_dated
                && time.matches(memory)
            {
                one.score += bonus;
            }
            one.score *= memory.strength_at(now.fixed_offset());
        }
        Ok(())
    }

    /// Reads the memories of a page, except those in `read`.
    async fn hits(
        &self,
        page: &[RankedMatch],
        read: Vec<Memory>,
        near: Option<&Nearest>,
    ) -> Result<Vec<SearchHit>, StoreError> {
        let mut memories: HashMap<MemoryId, Memory> =
            read.into_iter().map(|memory| (memory.id.clone(), memory)).collect();
        let missing: Vec<MemoryId> = page
            .iter()
            .filter(|one| !memories.contains_key(&one.id))
            .map(|one| one.id.clone())
            .collect();
        if !missing.is_empty() {
            let more = self.store.get_all(&missing).await?.into_iter();
            memories.extend(more.map(|memory| (memory.id.clone(), memory)));
        }
        // Memories that were deleted meanwhile are left out.
        let hits = page.iter().filter_map(|one| {
            let memory = memories.remove(&one.id)?;
            let (score, lexical, vector) = (one.score, one.lexical, one.vector);
            let matched_by = near.map_or(MatchedBy::Words, |near| near.matched_by(one));
            Some(SearchHit { memory, score, lexical, vector, matched_by: Some(matched_by) })
        });
        Ok(hits.collect())
    }

    /// Answers an empty query: all admitted memories, newest first.
    async fn list_newest(&self, query: &HybridQuery<'_>) -> Result<SearchResults, StoreError> {
        let &HybridQuery { filter, limit, now, .. } = query;
        let listed = self.store.list(filter, Order::Newest, None, limit, now).await?;
        let total_matches = if listed.more {
            self.store.count(filter, now).await?
        } else {
            listed.memories.len() as u64
        };
        let hit = |memory| SearchHit {
            memory,
            score: 1.0,
            lexical: None,
            vector: None,
            matched_by: None,
        };
        Ok(SearchResults {
            hits: listed.memories.into_iter().map(hit).collect(),
            total_matches,
            accuracy: TotalAccuracy::Exact,
            // Pagination of this result uses a position in a listing, not in a ranking.
            more: false,
            ranked_by: RankedBy::Time,
            warning: None,
            terms: Terms::parse(query.query, query.need),
            corrections: Vec::new(),
            empty: None,
        })
    }

    /// Finds out why nothing matches.
    async fn explain_empty(
        &self,
        query: &HybridQuery<'_>,
        words: &WordMatches,
    ) -> Result<Option<EmptyAnswer>, StoreError> {
        let (terms, now) = (&words.terms, query.now);
        let any = Filter { status: None, ..Filter::default() };
        if self.store.list(&any, Order::Newest, None, 1, now).await?.memories.is_empty() {
            return Ok(Some(EmptyAnswer::NothingStored));
        }
        if *query.filter != any {
            let found = self.store.lexical(terms, &any, 1, now).await?;
            // An estimate is no evidence that a memory matches.
            if !found.best.is_empty() {
                let (matches, accuracy) = (found.total, found.accuracy);
                let filters = query.filter.restrictions();
                return Ok(Some(EmptyAnswer::Filtered { matches, accuracy, filters }));
            }
        }
        let unknown = words.matches.unknown.iter().filter_map(|&index| terms.phrases.get(index));
        let unknown: Vec<String> = unknown.map(|phrase| phrase.words.clone()).collect();
        if !unknown.is_empty() {
            return Ok(Some(EmptyAnswer::UnknownWords(unknown)));
        }
        if terms.need == Need::All && terms.phrases.len() > 1 {
            let some = Terms { need: Need::Any, ..terms.clone() };
            let found = self.store.lexical(&some, query.filter, 1, now).await?;
            let (some, accuracy) = (found.total, found.accuracy);
            return Ok(Some(EmptyAnswer::NotTogether { some, accuracy }));
        }
        Ok(None)
    }
}

/// Embeds a query on a blocking thread.
async fn embed_query(
    embedder: &Arc<dyn Embedder>,
    query: String,
) -> Result<Result<Vec<f32>, EmbedError>, StoreError> {
    let embedder = Arc::clone(embedder);
    let embedded = blocking::run(move || embedder.embed_query(&query));
    embedded.await.map_err(|shutdown| StoreError::Engine(shutdown.into()))
}

/// Returns the query with corrected words.
fn corrected_text<'a>(query: &'a str, corrections: &[Correction]) -> Cow<'a, str> {
    if corrections.is_empty() {
        return Cow::Borrowed(query);
    }
    let correct = |piece: &'a str| {
        // A piece is a word with the character that ends it.
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
        let correction = corrections.iter().find(|correction| correction.written == word);
        let used = correction.and_then(|correction| correction.used.first());
        used.map_or(Cow::Borrowed(piece), |used| format!("{used}{}", &piece[word.len()..]).into())
    };
    let pieces = query.split_inclusive(|c: char| !c.is_alphanumeric());
    Cow::Owned(pieces.map(correct).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corrected_text_keeps_everything_else() {
        let correction = |written: &str, used: &[&str]| Correction {
            written: written.to_owned(),
            used: used.iter().map(|&word| word.to_owned()).collect(),
        };
        let corrections =
            [correction("deplyo", &["deploy", "employ"]), correction("teh", &["the"])];
        let text = corrected_text("(deplyo), deplyos; teh…deplyo", &corrections);
        assert_eq!(text, "(deploy), deplyos; the…deploy");
        assert!(matches!(corrected_text("as it is", &[]), Cow::Borrowed("as it is")));
    }
}
