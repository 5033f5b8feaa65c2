//! OpenAI: vectors from an endpoint that speaks OpenAI's embeddings API.
//!
//! It is the API of vLLM, llama.cpp, Ollama, text-embeddings-inference and most gateways too.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, thread};

use rustls::crypto::ring;
use serde::{Deserialize, Serialize};
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use ureq::http::{Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::config::Endpoint;
use super::{EmbedError, Embedder, none_blank, normalize};

/// How long, how often and how much an endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenAiLimits {
    /// For one request, from the connection to the last byte of the answer.
    pub timeout: Duration,
    /// How often a request is made again after a 429, a 5xx or a broken connection. Not after a
    /// timeout: who is slow once is slow again, and the caller waits.
    pub retries: u32,
    /// The wait before the first retry; it doubles.
    pub wait: Duration,
    /// The longest wait; an endpoint that asks for more with `Retry-After` is left alone at once.
    pub longest_wait: Duration,
    /// The largest answer that is read.
    pub answer_bytes: u64,
    /// The most texts in one request.
    pub batch_texts: usize,
    /// The most bytes of text in one request; a longer text is sent alone.
    pub batch_bytes: usize,
}

impl Default for OpenAiLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            retries: 2,
            wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(5),
            answer_bytes: 64 << 20,
            batch_texts: 64,
            // OpenAI takes 300,000 tokens a request, and a token has hardly less than a byte.
            batch_bytes: 256 << 10,
        }
    }
}

/// An endpoint that speaks OpenAI's embeddings API.
///
/// Its [`model`](Embedder::model) is the configured name: no endpoint tells a version. Whoever puts
/// another model behind the same name has to configure another name.
pub struct OpenAi {
    caller: Caller,
    model: String,
    dimensions: usize,
    limits: OpenAiLimits,
}

#[derive(Serialize)]
struct Question<'a> {
    model: &'a str,
    input: &'a [&'a str],
}

impl OpenAi {
    /// Connects, and asks for one vector to learn how many dimensions the model has.
    pub fn open(
        endpoint: &Endpoint,
        model: &str,
        api_key: Option<String>,
        limits: OpenAiLimits,
    ) -> Result<Self, EmbedError> {
        let caller = Caller::new(endpoint, api_key, limits)?;
        let mut opened = Self { caller, model: model.to_owned(), dimensions: 0, limits };
        let probe = opened.ask(&["How many dimensions?"], None)?;
        opened.dimensions = probe.first().map_or(0, Vec::len);
        Ok(opened)
    }

    fn ask(&self, texts: &[&str], dimensions: Option<usize>) -> Result<Vec<Vec<f32>>, EmbedError> {
        let question = Question { model: &self.model, input: texts };
        let question = serde_json::to_vec(&question).expect("strings can always be written");
        vectors(&self.caller.post(&question)?, texts.len(), dimensions)
    }
}

impl Embedder for OpenAi {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        none_blank(texts)?;
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in batches(texts, self.limits) {
            vectors.extend(self.ask(&texts[batch], Some(self.dimensions))?);
        }
        Ok(vectors)
    }
}

fn batches(texts: &[&str], limits: OpenAiLimits) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (index, text) in texts.iter().enumerate() {
        bytes += text.len();
        match batches.last_mut() {
            Some(last) if last.len() < limits.batch_texts && bytes <= limits.batch_bytes => {
                last.end = index + 1;
            }
            _ => {
                batches.push(index..index + 1);
                bytes = text.len();
            }
        }
    }
    batches
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("caller", &self.caller)
            .field("model", &self.model)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

// --- Answer: what an endpoint said, checked before anybody searches with it.

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    /// As JSON has numbers; what is too large for a vector's is found below.
    embedding: Vec<f64>,
}

/// The vectors of an answer in the order of the texts, each with length 1.
pub(super) fn vectors(
    answer: &[u8],
    count: usize,
    dimensions: Option<usize>,
) -> Result<Vec<Vec<f32>>, EmbedError> {
    // Only the place of the error: serde quotes what it found, and an endpoint may echo anything.
    let answer: Answer = serde_json::from_slice(answer).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        nonsense(format!("not a list of embeddings (line {line}, column {column})"))
    })?;
    if answer.data.len() != count {
        return Err(nonsense(format!("{} vectors for {count} texts", answer.data.len())));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    let mut expected = dimensions;
    for Item { index, embedding } in answer.data {
        let Some(place @ None) = vectors.get_mut(index) else {
            return Err(nonsense(format!("index {index} twice, or out of {count}")));
        };
        let found = embedding.len();
        let expected = *expected.get_or_insert(found);
        if found != expected {
            return Err(nonsense(format!("{found} dimensions where there were {expected}")));
        }
        #[expect(clippy::cast_possible_truncation, reason = "a vector's numbers are that precise")]
        let embedding = embedding.into_iter().map(|number| number as f32).collect();
        let Some(vector) = normalize(embedding) else {
            return Err(nonsense(format!("vector {index} is empty, all zeros or not finite")));
        };
        *place = Some(vector);
    }
    // As many items as places, no place twice: all are taken.
    Ok(vectors.into_iter().flatten().collect())
}

fn nonsense(why: String) -> EmbedError {
    EmbedError::Answer { why }
}

// --- Call: one question to an endpoint, and what can go wrong on the way.

/// How much of an answer that is an error is read, and how much of it told on.
const REFUSAL_BYTES: u64 = 64 << 10;
const MESSAGE_CHARS: usize = 300;

/// Sends questions to one endpoint, with one key.
pub(super) struct Caller {
    agent: Agent,
    url: String,
    /// Marked as sensitive, so that it does not show in `Debug`, ours or the client's.
    authorization: Option<HeaderValue>,
    limits: OpenAiLimits,
}

/// A failed attempt, and whether another one makes sense.
enum Failure {
    Final(EmbedError),
    /// With the wait that the endpoint asked for, if it did.
    Passing(EmbedError, Option<Duration>),
}

impl Caller {
    pub(super) fn new(
        endpoint: &Endpoint,
        api_key: Option<String>,
        limits: OpenAiLimits,
    ) -> Result<Self, EmbedError> {
        let authorization = api_key.map(bearer).transpose()?;
        // The machine's certificates, not Mozilla's list: a company's endpoint has a company's
        // certificate. The provider is named since nobody else in the process has to set one.
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(limits.timeout))
            .http_status_as_error(false)
            // Whoever answers for another address gets neither the texts nor the key.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // The default reads the environment.
            .proxy(None)
            .user_agent(concat!("atlatl/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let url = format!("{endpoint}/embeddings");
        Ok(Self { agent, url, authorization, limits })
    }

    /// Asks, again if that may help, and returns the body of a successful answer.
    pub(super) fn post(&self, question: &[u8]) -> Result<Vec<u8>, EmbedError> {
        let mut wait = self.limits.wait;
        for _ in 0..self.limits.retries {
            match self.attempt(question) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(error, asked)) => {
                    let pause = asked.unwrap_or(wait);
                    if pause > self.limits.longest_wait {
                        return Err(error);
                    }
                    thread::sleep(pause);
                    wait *= 2;
                }
            }
        }
        self.attempt(question).map_err(|failure| match failure {
            Failure::Final(error) | Failure::Passing(error, _) => error,
        })
    }

    fn attempt(&self, question: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut request = self.agent.post(&self.url).header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut response = request.send(question).map_err(failure)?;
        if !response.status().is_success() {
            return Err(self.refusal(response));
        }
        let body = response.body_mut().with_config().limit(self.limits.answer_bytes);
        body.read_to_vec().map_err(failure)
    }

    fn refusal(&self, mut response: Response<Body>) -> Failure {
        let status = response.status();
        if status.is_redirection() {
            let message = "redirects are not followed; configure the address itself".to_owned();
            return Failure::Final(EmbedError::Refused { status: status.as_u16(), message });
        }
        // A missing or broken explanation must not hide the status.
        let body = response.body_mut().with_config().limit(REFUSAL_BYTES).read_to_vec();
        let message = self.message(&body.unwrap_or_default());
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            let asked = response.headers().get(RETRY_AFTER).and_then(seconds);
            let why = format!("status {}: {message}", status.as_u16());
            let error = EmbedError::Unreachable { why, source: None, retry_after: asked };
            return Failure::Passing(error, asked);
        }
        Failure::Final(EmbedError::Refused { status: status.as_u16(), message })
    }

    /// What the endpoint said about its refusal: on one line, short, without the key.
    fn message(&self, body: &[u8]) -> String {
        #[derive(Deserialize)]
        struct Wrapped {
            error: Said,
        }
        #[derive(Deserialize)]
        struct Said {
            message: String,
        }
        let said = serde_json::from_slice::<Wrapped>(body)
            .map_or_else(|_| String::from_utf8_lossy(body).into_owned(), |w| w.error.message);
        // Before shortening, which could leave half a key that nobody finds.
        let said = match self.key() {
            Some(key) => said.replace(key, "[key]"),
            None => said,
        };
        let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS).collect()
    }

    fn key(&self) -> Option<&str> {
        self.authorization.as_ref()?.to_str().ok()?.strip_prefix(BEARER)
    }
}

const BEARER: &str = "Bearer ";

fn bearer(mut key: String) -> Result<HeaderValue, EmbedError> {
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(EmbedError::Key);
    }
    key.insert_str(0, BEARER);
    let mut header = HeaderValue::try_from(key).map_err(|_| EmbedError::Key)?;
    header.set_sensitive(true);
    Ok(header)
}

/// `Retry-After` in seconds; its other form, a date, would need a clock.
fn seconds(header: &HeaderValue) -> Option<Duration> {
    header.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn failure(error: ureq::Error) -> Failure {
    use ureq::Error as E;
    let unreachable = |why: &str, error: ureq::Error| {
        let why = why.to_owned();
        EmbedError::Unreachable { why, source: Some(Box::new(error)), retry_after: None }
    };
    match error {
        E::BodyExceedsLimit(bytes) => {
            Failure::Final(EmbedError::Answer { why: format!("more than {bytes} bytes") })
        }
        E::Protocol(_) => Failure::Final(EmbedError::Answer { why: "not HTTP".to_owned() }),
        E::Timeout(_) => Failure::Final(unreachable("no answer in time", error)),
        E::HostNotFound => Failure::Passing(unreachable("no such host", error), None),
        E::Io(_) | E::ConnectionFailed => {
            Failure::Passing(unreachable("the connection failed", error), None)
        }
        error => Failure::Final(unreachable("the request could not be made", error)),
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_so_many_texts_and_bytes_and_leave_none_out() {
        let limits = OpenAiLimits { batch_texts: 3, batch_bytes: 10, ..Default::default() };
        let long = "a text of more than ten bytes";
        let texts = ["a", "b", "c", "d", long, "12345", "67890", "e"];
        assert_eq!(batches(&texts, limits), [0..3, 3..4, 4..5, 5..7, 7..8]);
        assert!(batches(&[], limits).is_empty());
    }
}
