//! Recall: what is remembered about something.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::embed::Embedder;
use crate::filter::Filter;
use crate::hit::{Found, RankPosition, SearchHit};
use crate::search::hybrid::{Finder, MOST_HITS, Mode, Question};
use crate::search::query::Need;
use crate::store::{MemoryStore, StoreError};

/// A wish to remember.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecallRequest {
    /// About what; nothing for everything, the newest first.
    pub query: String,
    /// Among which memories.
    pub filter: Filter,
    /// At most so many; `None` for all, up to [`MOST_HITS`].
    pub limit: Option<usize>,
    /// Behind this answer.
    pub after: Option<RankPosition>,
    /// The time it is, which decides what has faded or is gone.
    pub now: DateTime<Utc>,
}

impl RecallRequest {
    /// All that is remembered about `query`.
    pub fn new(query: impl Into<String>, now: DateTime<Utc>) -> Self {
        Self { query: query.into(), filter: Filter::default(), limit: None, after: None, now }
    }
}

/// Remembers.
#[derive(Clone)]
pub struct RecallService(pub(crate) Finder);

impl RecallService {
    /// Recalls from `store`, by words, and with an embedder by vectors too.
    pub fn new(store: Arc<dyn MemoryStore>, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self(Finder { store, embedder })
    }

    /// The memories that have to do with what is asked, the best first.
    pub fn recall(&self, request: &RecallRequest) -> Result<Vec<SearchHit>, StoreError> {
        self.found(request).map(|found| found.hits)
    }

    /// The same, with what is known about the answers as a whole.
    pub fn found(&self, request: &RecallRequest) -> Result<Found, StoreError> {
        self.0.find(&Question {
            query: &request.query,
            need: Need::Any,
            mode: Mode::Hybrid,
            filter: &request.filter,
            limit: request.limit.unwrap_or(MOST_HITS).min(MOST_HITS),
            after: request.after.as_ref(),
            now: request.now,
        })
    }
}
