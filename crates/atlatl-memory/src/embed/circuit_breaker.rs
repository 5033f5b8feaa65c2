//! A circuit breaker for remote embedding endpoints.
//!
//! Whoever recalls must not wait for an endpoint that did not answer a moment ago: for a while it
//! is not asked again, and memories are found by their words. Texts that wait for their vectors have
//! all the time they need, and what fails there says nothing about questions.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::config::Endpoint;
use super::{EmbedError, Embedder, OpenAi, OpenAiLimits};

/// How long an endpoint that did not answer a question is left alone.
const COOLDOWN: Duration = Duration::from_secs(30);
/// The longest that a question may wait for its vector.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that a request for many texts may take. One that hangs holds up the embedding of all
/// others, so that a slow endpoint gets fewer texts at a time instead of more time.
const BATCH_TIMEOUT: Duration = Duration::from_secs(20);

/// An endpoint, asked for its dimensions when it is first reached.
pub(super) struct Remote {
    endpoint: Endpoint,
    model: String,
    api_key: Option<String>,
    texts: OnceLock<OpenAi>,
    questions: OnceLock<OpenAi>,
    failed_at: Mutex<Option<Instant>>,
}

impl Remote {
    /// Asks the endpoint. One that cannot be reached is asked again later; one that refuses is an
    /// error: the set-up has to change.
    pub(super) fn open(
        endpoint: &Endpoint,
        model: &str,
        api_key: Option<String>,
    ) -> Result<Self, EmbedError> {
        let remote = Self {
            endpoint: endpoint.clone(),
            model: model.to_owned(),
            api_key,
            texts: OnceLock::new(),
            questions: OnceLock::new(),
            failed_at: Mutex::default(),
        };
        match remote.for_questions() {
            Ok(_) | Err(EmbedError::Unreachable { .. }) => Ok(remote),
            Err(error) => Err(error),
        }
    }

    fn for_questions(&self) -> Result<&OpenAi, EmbedError> {
        let limits = OpenAiLimits { timeout: QUERY_TIMEOUT, retries: 0, ..OpenAiLimits::default() };
        self.opened(&self.questions, limits).inspect_err(|error| self.note(error))
    }

    fn opened<'a>(
        &'a self,
        kept: &'a OnceLock<OpenAi>,
        limits: OpenAiLimits,
    ) -> Result<&'a OpenAi, EmbedError> {
        if let Some(opened) = kept.get() {
            return Ok(opened);
        }
        let opened = OpenAi::open(&self.endpoint, &self.model, self.api_key.clone(), limits)?;
        Ok(kept.get_or_init(|| opened))
    }

    fn failed_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.failed_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, error: &EmbedError) {
        if matches!(error, EmbedError::Unreachable { .. }) {
            *self.failed_at() = Some(Instant::now());
        }
    }
}

impl Embedder for Remote {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimensions(&self) -> usize {
        let opened = self.questions.get().or_else(|| self.texts.get());
        opened.map_or(0, Embedder::dimensions)
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        // The backfill retries: it respects what the endpoint asks for, and reports.
        let limits = OpenAiLimits { timeout: BATCH_TIMEOUT, retries: 0, ..OpenAiLimits::default() };
        self.opened(&self.texts, limits)?.embed(texts)
    }

    fn check(&self) -> Result<(), EmbedError> {
        // Not as a question: those give up for a while where one was not answered.
        let limits = OpenAiLimits { timeout: QUERY_TIMEOUT, retries: 0, ..OpenAiLimits::default() };
        self.opened(&self.questions, limits)?.check()
    }

    fn embed_question(&self, question: &str) -> Result<Vec<f32>, EmbedError> {
        if self.failed_at().is_some_and(|at| at.elapsed() < COOLDOWN) {
            let why = "it did not answer a moment ago".to_owned();
            return Err(EmbedError::Unreachable { why, source: None, retry_after: None });
        }
        let asked = self.for_questions()?.embed_question(question);
        asked.inspect_err(|error| self.note(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_away_is_not_asked_again_at_once() {
        // Nothing listens on the port that discards everything.
        let endpoint: Endpoint = "http://127.0.0.1:9/v1".parse().expect("an endpoint");
        let remote = Remote::open(&endpoint, "m", None).expect("away is no error");
        let began = Instant::now();
        for _ in 0..1000 {
            assert!(matches!(remote.embed_question("x"), Err(EmbedError::Unreachable { .. })));
        }
        assert!(began.elapsed() < Duration::from_secs(1));
    }
}
