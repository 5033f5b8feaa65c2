//! Reports the calls of the services that a server depends on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atlatl_memory::{EmbedError, Embedder, FusionWeights, StoreError, TransactionSink};
use atlatl_server::Dependency;
use atlatl_server::auth::{Fetch, FetchError};
use atlatl_server::http::Metrics;
use lro_spool::RequestSink;

use crate::error::log_message;

/// The database.
pub(super) fn database(metrics: &Arc<Metrics>) -> Arc<Dependency> {
    Arc::new(Dependency::new("postgresql", Arc::clone(metrics)))
}

/// Reports the transactions of the database.
pub(super) fn transactions(database: Arc<Dependency>) -> TransactionSink {
    let is_outage = |error: &StoreError| {
        matches!(
            error,
            StoreError::Unavailable(_)
                | StoreError::Unsure(_)
                | StoreError::Connect(_)
                | StoreError::PlainText { .. }
        )
    };
    Arc::new(move |outcome: Result<(), &StoreError>, took: Duration| match outcome {
        Err(error) if is_outage(error) => database.failed(&log_message(error), took),
        // No connection was free: the database was not asked.
        Err(StoreError::Busy) => {}
        Ok(()) | Err(_) => database.answered(took),
    })
}

/// Reports the requests to the object store.
pub(super) fn bucket(metrics: &Arc<Metrics>) -> RequestSink {
    let bucket = Dependency::new("object_storage", Arc::clone(metrics));
    RequestSink::new(move |outcome, took| match outcome {
        Ok(()) => bucket.answered(took),
        Err(why) => bucket.failed(&why, took),
    })
}

/// An embedder whose calls are reported.
pub(super) struct ReportedEmbedder {
    embedder: Arc<dyn Embedder>,
    dependency: Dependency,
}

impl ReportedEmbedder {
    pub(super) fn wrap(embedder: Arc<dyn Embedder>, metrics: &Arc<Metrics>) -> Arc<dyn Embedder> {
        let dependency = Dependency::new("embedder", Arc::clone(metrics));
        Arc::new(Self { embedder, dependency })
    }

    fn reported<T>(&self, call: impl FnOnce() -> Result<T, EmbedError>) -> Result<T, EmbedError> {
        let began = Instant::now();
        let result = call();
        let took = began.elapsed();
        match &result {
            Ok(_) | Err(EmbedError::Empty { .. }) => self.dependency.answered(took),
            // The endpoint was not called.
            Err(EmbedError::Loading | EmbedError::CircuitOpen) => {}
            // It refuses these texts.
            Err(EmbedError::Refused { status: 400 | 413 | 422, .. }) => {
                self.dependency.answered(took);
            }
            Err(error) => self.dependency.failed(&log_message(error), took),
        }
        result
    }
}

impl Embedder for ReportedEmbedder {
    fn model(&self) -> &str {
        self.embedder.model()
    }

    fn dimensions(&self) -> usize {
        self.embedder.dimensions()
    }

    fn fusion(&self) -> FusionWeights {
        self.embedder.fusion()
    }

    fn knows_word(&self, word: &str) -> bool {
        self.embedder.knows_word(word)
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.reported(|| self.embedder.embed(texts))
    }

    fn check(&self) -> Result<(), EmbedError> {
        self.reported(|| self.embedder.check())
    }

    fn embed_query(&self, query: &str) -> Result<Vec<f32>, EmbedError> {
        self.reported(|| self.embedder.embed_query(query))
    }
}

/// A client for the documents of an authorization server whose requests are reported.
pub(super) struct ReportedFetch<F> {
    client: F,
    dependency: Dependency,
}

impl<F> ReportedFetch<F> {
    pub(super) fn new(client: F, metrics: &Arc<Metrics>) -> Self {
        Self { client, dependency: Dependency::new("identity_provider", Arc::clone(metrics)) }
    }
}

impl<F: Fetch> Fetch for ReportedFetch<F> {
    fn fetch(&self, url: &str) -> Result<String, FetchError> {
        let began = Instant::now();
        let document = self.client.fetch(url);
        match &document {
            // Of the two forms of metadata, issuers have the one or the other.
            Ok(_) | Err(FetchError::NotFound) => self.dependency.answered(began.elapsed()),
            Err(error) => self.dependency.failed(error, began.elapsed()),
        }
        document
    }
}
