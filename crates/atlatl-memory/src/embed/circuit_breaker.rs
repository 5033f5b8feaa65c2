//! A circuit breaker for remote embedding endpoints.
//!
//! A recall must not wait for an endpoint that failed a moment ago: during a cooldown the endpoint
//! is not called, and memories are found by words alone. The backfill has its own client and its
//! own backoff, and its failures do not open the breaker.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::config::EmbeddingEndpoint;
use super::{EmbedError, Embedder, OpenAi, OpenAiLimits};

/// How long no queries are sent after a failed one.
const COOLDOWN: Duration = Duration::from_secs(30);
/// The timeout of embedding a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of embedding a batch. A hanging request delays the embedding of all other texts, so
/// a slow endpoint gets smaller batches instead of more time.
const BATCH_TIMEOUT: Duration = Duration::from_secs(20);

/// A remote embedder whose dimensions are determined on first contact.
pub(super) struct RemoteEmbedder {
    endpoint: EmbeddingEndpoint,
    model: String,
    api_key: Option<String>,
    batch_client: OnceLock<OpenAi>,
    query_client_cell: OnceLock<OpenAi>,
    failed_at: Mutex<Option<Instant>>,
}

impl RemoteEmbedder {
    /// Calls the endpoint once. One that cannot be reached is called again later; one that refuses
    /// is an error, since the configuration has to change.
    pub(super) fn open(
        endpoint: &EmbeddingEndpoint,
        model: &str,
        api_key: Option<String>,
    ) -> Result<Self, EmbedError> {
        let remote = Self {
            endpoint: endpoint.clone(),
            model: model.to_owned(),
            api_key,
            batch_client: OnceLock::new(),
            query_client_cell: OnceLock::new(),
            failed_at: Mutex::default(),
        };
        match remote.query_client() {
            Ok(_) | Err(EmbedError::Unreachable { .. }) => Ok(remote),
            Err(error) => Err(error),
        }
    }

    fn query_client(&self) -> Result<&OpenAi, EmbedError> {
        let limits = OpenAiLimits { timeout: QUERY_TIMEOUT, retries: 0, ..OpenAiLimits::default() };
        self.get_or_open(&self.query_client_cell, limits)
            .inspect_err(|error| self.record_failure(error))
    }

    fn get_or_open<'a>(
        &'a self,
        cell: &'a OnceLock<OpenAi>,
        limits: OpenAiLimits,
    ) -> Result<&'a OpenAi, EmbedError> {
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let client = OpenAi::open(&self.endpoint, &self.model, self.api_key.clone(), limits)?;
        Ok(cell.get_or_init(|| client))
    }

    fn failed_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.failed_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_failure(&self, error: &EmbedError) {
        if matches!(error, EmbedError::Unreachable { .. }) {
            *self.failed_at() = Some(Instant::now());
        }
    }
}

impl Embedder for RemoteEmbedder {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimensions(&self) -> usize {
        let client = self.query_client_cell.get().or_else(|| self.batch_client.get());
        client.map_or(0, Embedder::dimensions)
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        // No retries here: the backfill retries, respects `Retry-After`, and reports.
        let limits = OpenAiLimits { timeout: BATCH_TIMEOUT, retries: 0, ..OpenAiLimits::default() };
        self.get_or_open(&self.batch_client, limits)?.embed(texts)
    }

    fn check(&self) -> Result<(), EmbedError> {
        // Not through `embed_query`, which fails during the cooldown.
        let limits = OpenAiLimits { timeout: QUERY_TIMEOUT, retries: 0, ..OpenAiLimits::default() };
        self.get_or_open(&self.query_client_cell, limits)?.check()
    }

    fn embed_query(&self, query: &str) -> Result<Vec<f32>, EmbedError> {
        if self.failed_at().is_some_and(|at| at.elapsed() < COOLDOWN) {
            return Err(EmbedError::CircuitOpen);
        }
        let vector = self.query_client()?.embed_query(query);
        vector.inspect_err(|error| self.record_failure(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_away_is_not_asked_again_at_once() {
        // Nothing listens on the discard port.
        let endpoint: EmbeddingEndpoint = "http://127.0.0.1:9/v1".parse().expect("an endpoint");
        let remote = RemoteEmbedder::open(&endpoint, "m", None).expect("away is no error");
        let began = Instant::now();
        for _ in 0..1000 {
            assert!(matches!(remote.embed_query("x"), Err(EmbedError::CircuitOpen)));
        }
        assert!(began.elapsed() < Duration::from_secs(1));
    }
}
