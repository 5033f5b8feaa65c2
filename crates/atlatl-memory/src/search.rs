//! Search: memories that have certain words, or lie near a meaning.

pub(crate) mod fusion;
pub(crate) mod hybrid;
pub(crate) mod query;

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::embed::Embedder;
use crate::filter::Filter;
use crate::hit::{Found, RankPosition, SearchHit};
use crate::search::hybrid::{Finder, MOST_HITS, Mode, Question};
use crate::search::query::Need;
use crate::store::{MemoryStore, StoreError};

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
