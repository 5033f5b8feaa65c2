//! Search: memories that have certain words, or lie near a meaning.

pub(crate) mod fusion;
pub(crate) mod query;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use self::fusion::{Finder, MOST_HITS, Mode, Question};
use self::query::Need;
use super::embed::Embedder;
use super::listing::Filter;
use super::store::{MemoryStore, StoreError};

/// A search.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SearchRequest {
    /// Words that must all be there; in double quotes, one after the other.
    pub query: String,
    /// By words, by vectors, or by both.
    pub mode: Mode,
    /// Among which memories.
    pub filter: Filter,
    /// At most so many; `None` for all, up to [`MOST_HITS`].
    pub limit: Option<usize>,
    /// Behind this answer.
    pub after: Option<RankPosition>,
    /// The time it is, which decides what has faded or is gone.
    pub now: DateTime<Utc>,
}

impl SearchRequest {
    /// All that has the words of `query`.
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

/// Searches.
#[derive(Clone)]
pub struct SearchService(Finder);

impl SearchService {
    /// Searches `store`.
    pub fn new(store: Arc<dyn MemoryStore>, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self(Finder { store, embedder })
    }

    /// The memories that are meant, the best first.
    pub fn search(&self, request: &SearchRequest) -> Result<Vec<SearchHit>, StoreError> {
        self.found(request).map(|found| found.hits)
    }

    /// The same, with what is known about the answers as a whole.
    pub fn found(&self, request: &SearchRequest) -> Result<Found, StoreError> {
        self.0.find(&Question {
            query: &request.query,
            need: Need::All,
            mode: request.mode,
            filter: &request.filter,
            limit: request.limit.unwrap_or(MOST_HITS).min(MOST_HITS),
            after: request.after.as_ref(),
            now: request.now,
        })
    }
}

// --- Hit: a memory that answers a question, and how well.

/// A memory that answers a question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SearchHit {
    /// The memory.
    pub memory: Memory,
    /// How well it answers, from 0 to 1; the best answer has 1.
    pub score: f64,
    /// How well its words fit, in the measure of the index.
    pub lexical: Option<f64>,
    /// How near its vector is: the cosine.
    pub vector: Option<f64>,
}

/// A place among answers: after the one of this score and id.
#[derive(Debug, Clone, PartialEq)]
pub struct RankPosition {
    /// The score.
    pub score: f64,
    /// The memory, which decides between equal scores.
    pub id: MemoryId,
}

/// The answers to a question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// The best, the best first.
    pub hits: Vec<SearchHit>,
    /// How many there are in all.
    pub total_matches: u64,
    /// Whether there are more behind these.
    pub more: bool,
    /// What they were ranked by.
    pub ranked_by: RankedBy,
    /// What could not be done.
    pub warning: Option<String>,
}

/// What answers were ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankedBy {
    /// Their words.
    Lexical,
    /// Their vectors.
    Vector,
    /// Both.
    Hybrid,
    /// Nothing was asked: the newest first, without scores.
    Time,
}

impl RankedBy {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Vector => "vector",
            Self::Hybrid => "hybrid",
            Self::Time => "time",
        }
    }
}
