//! The search service, and the hits that search and recall return.

pub(crate) mod bm25;
pub(crate) mod fusion;
pub(crate) mod hybrid;
pub(crate) mod query;
pub(crate) mod snippet;
pub(crate) mod spelling;
pub(crate) mod time_expression;
pub(crate) mod tokenizer;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use self::hybrid::{HybridQuery, HybridSearch, MAX_HITS, Mode};
use self::query::{Need, Terms};
use self::spelling::Correction;
use super::embed::Embedder;
use super::listing::Filter;
use super::store::{MemoryStore, StoreError, TotalAccuracy};

/// A search for words or for similar meaning.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SearchRequest {
    /// The words, all of which must occur. Words in double quotes form a phrase.
    pub query: String,
    /// Whether to search by words, by vectors, or by both.
    pub mode: Mode,
    /// Which memories to consider.
    pub filter: Filter,
    /// The maximum number of hits; `None` for all, up to [`MAX_HITS`].
    pub limit: Option<usize>,
    /// Return only hits after this position.
    pub after: Option<RankPosition>,
    /// The current time, which decides about decay and expiry.
    pub now: DateTime<Utc>,
}

impl SearchRequest {
    /// Creates a search for all memories with the words of `query`.
    pub fn new(query: impl Into<String>, now: DateTime<Utc>) -> Self {
        Self {
            query: query.into(),
            mode: Mode::default(),
            filter: Filter::default(),
            limit: None,
            after: None,
            now,
        }
    }
}

/// Searches memories.
#[derive(Clone)]
pub struct SearchService(HybridSearch);

impl SearchService {
    /// Creates a service over `store`. Without an embedder it ranks by words alone.
    pub fn new(store: Arc<dyn MemoryStore>, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self(HybridSearch { store, embedder })
    }

    /// Returns the matching memories, best first.
    pub async fn search(&self, request: &SearchRequest) -> Result<Vec<SearchHit>, StoreError> {
        self.results(request).await.map(|results| results.hits)
    }

    /// Like [`search`](Self::search), and also returns the total, the ranking and a warning.
    pub async fn results(&self, request: &SearchRequest) -> Result<SearchResults, StoreError> {
        self.0
            .search(&HybridQuery {
                query: &request.query,
                need: Need::All,
                mode: request.mode,
                filter: &request.filter,
                limit: request.limit.unwrap_or(MAX_HITS).min(MAX_HITS),
                after: request.after.as_ref(),
                now: request.now,
            })
            .await
    }
}

/// A memory that matches a query.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SearchHit {
    /// The memory.
    pub memory: Memory,
    /// The score, from 0 to 1. The best hit has 1.
    pub score: f64,
    /// The score of the full-text index, in its own scale.
    pub lexical: Option<f64>,
    /// The cosine similarity of its vector.
    pub vector: Option<f64>,
    /// Why it matches; `None` if the query was empty.
    pub matched_by: Option<MatchedBy>,
}

/// Why a memory matches a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatchedBy {
    /// It contains words of the query.
    Words,
    /// Its vector is similar.
    Meaning,
    /// It contains words of the query, and its vector is similar.
    Both,
}

impl MatchedBy {
    /// Returns the name of this reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Meaning => "meaning",
            Self::Both => "both",
        }
    }
}

/// A pagination position in a ranking: after the hit with this score and id.
#[derive(Debug, Clone, PartialEq)]
pub struct RankPosition {
    /// The score.
    pub score: f64,
    /// The id of the memory, which breaks ties.
    pub id: MemoryId,
}

/// The results of a search or a recall.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SearchResults {
    /// The hits, best first.
    pub hits: Vec<SearchHit>,
    /// The total number of matches.
    pub total_matches: u64,
    /// How accurate `total_matches` is.
    pub accuracy: TotalAccuracy,
    /// Whether more hits follow.
    pub more: bool,
    /// How the hits were ranked.
    pub ranked_by: RankedBy,
    /// A part of the search that could not be done.
    pub warning: Option<String>,
    /// The query as it was searched, with corrections.
    pub terms: Terms,
    /// The words that no memory contains, and similar words that were searched instead.
    pub corrections: Vec<Correction>,
    /// Why there are no hits, if there are none and the reason is known.
    pub empty: Option<EmptyAnswer>,
}

/// Why a query has no hits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EmptyAnswer {
    /// The store has no memories.
    NothingStored,
    /// Memories match, but the filter does not admit them.
    Filtered {
        /// The number of memories that match without the filter.
        matches: u64,
        /// How accurate `matches` is.
        accuracy: TotalAccuracy,
        /// The names of the conditions.
        filters: Vec<&'static str>,
    },
    /// No memory contains these words, or words of similar spelling.
    UnknownWords(Vec<String>),
    /// All words must match, and no memory contains all of them.
    NotTogether {
        /// The number of memories that contain at least one.
        some: u64,
        /// How accurate `some` is.
        accuracy: TotalAccuracy,
    },
}

/// How hits are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankedBy {
    /// By words.
    Lexical,
    /// By vectors.
    Vector,
    /// By words and vectors.
    Hybrid,
    /// By time: the query was empty, and the newest memories come first, without scores.
    Time,
}

impl RankedBy {
    /// Returns the name of this ranking.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Vector => "vector",
            Self::Hybrid => "hybrid",
            Self::Time => "time",
        }
    }
}
