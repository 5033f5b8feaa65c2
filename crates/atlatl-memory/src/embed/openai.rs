//! A client of OpenAI's embeddings API.
//!
//! vLLM, llama.cpp, Ollama, text-embeddings-inference and most gateways have the same API.

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

use super::config::EmbeddingEndpoint;
use super::{EmbedError, Embedder, normalize, reject_blank};

/// Limits on the body of an error response that is read, and on the message taken from it.
const MAX_ERROR_BODY_LEN: u64 = 64 << 10;
const MAX_ERROR_MESSAGE_CHARS: usize = 300;
const BEARER: &str = "Bearer ";

/// Timeouts, retries and batch sizes of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenAiLimits {
    /// The timeout of one request, from the connection to the last byte of the response.
    pub timeout: Duration,
    /// The number of retries after a 429, a 5xx or a broken connection. A timeout is not retried: a
    /// slow endpoint stays slow, and the caller waits.
    pub retries: u32,
    /// The delay before the first retry. It doubles with each retry.
    pub wait: Duration,
    /// The maximum delay. If the endpoint asks for more with `Retry-After`, the call fails at once.
    pub longest_wait: Duration,
    /// The maximum size of a response.
    pub answer_bytes: u64,
    /// The maximum number of texts in one request.
    pub batch_texts: usize,
    /// The maximum size of the texts in one request. A longer text is sent alone.
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
            // OpenAI accepts 300,000 tokens per request, and a token is rarely shorter than a byte.
            batch_bytes: 256 << 10,
        }
    }
}

/// An endpoint with OpenAI's embeddings API.
///
/// Its [`model`](Embedder::model) is the configured name, because endpoints report no version. If
/// you change the model behind a name, configure another name.
pub struct OpenAi {
    client: EmbeddingsClient,
    model: String,
    dimensions: usize,
    limits: OpenAiLimits,
}

#[derive(Serialize)]
struct EmbeddingsRequest<'a> {
    model: &'a str,
    input: &'a [&'a str],
}

impl OpenAi {
    /// Connects, and requests one vector to learn the number of dimensions.
    pub fn open(
        endpoint: &EmbeddingEndpoint,
        model: &str,
        api_key: Option<String>,
        limits: OpenAiLimits,
    ) -> Result<Self, EmbedError> {
        let client = EmbeddingsClient::new(endpoint, api_key, limits)?;
        let mut embedder = Self { client, model: model.to_owned(), dimensions: 0, limits };
        let probe = embedder.request_vectors(&["How many dimensions?"], None)?;
        embedder.dimensions = probe.first().map_or(0, Vec::len);
        Ok(embedder)
    }

    fn request_vectors(
        &self,
        texts: &[&str],
        dimensions: Option<usize>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let body = EmbeddingsRequest { model: &self.model, input: texts };
        let body = serde_json::to_vec(&body).expect("strings can always be written");
        parse_vectors(&self.client.post(&body)?, texts.len(), dimensions)
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
        reject_blank(texts)?;
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in batches(texts, self.limits) {
            vectors.extend(self.request_vectors(&texts[batch], Some(self.dimensions))?);
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
            .field("caller", &self.client)
            .field("model", &self.model)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<EmbeddingItem>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    index: usize,
    /// Parsed as `f64`; values out of the range of `f32` are rejected below.
    embedding: Vec<f64>,
}

/// Parses a response and returns the vectors in the order of the texts, each with length 1.
pub(super) fn parse_vectors(
    response: &[u8],
    count: usize,
    dimensions: Option<usize>,
) -> Result<Vec<Vec<f32>>, EmbedError> {
    // Only the position of the error: serde quotes the input, and an endpoint may echo anything.
    let response: EmbeddingsResponse = serde_json::from_slice(response).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        invalid_response(format!("not a list of embeddings (line {line}, column {column})"))
    })?;
    if response.data.len() != count {
        return Err(invalid_response(format!("{} vectors for {count} texts", response.data.len())));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    let mut expected = dimensions;
    for EmbeddingItem { index, embedding } in response.data {
        let Some(place @ None) = vectors.get_mut(index) else {
            return Err(invalid_response(format!("index {index} twice, or out of {count}")));
        };
        let found = embedding.len();
        let expected = *expected.get_or_insert(found);
        if found != expected {
            return Err(invalid_response(format!(
                "{found} dimensions where there were {expected}"
            )));
        }
        #[expect(clippy::cast_possible_truncation, reason = "a vector's numbers are that precise")]
        let embedding = embedding.into_iter().map(|number| number as f32).collect();
        let Some(vector) = normalize(embedding) else {
            return Err(invalid_response(format!(
                "vector {index} is empty, all zeros or not finite"
            )));
        };
        *place = Some(vector);
    }
    // There are as many items as texts and no index occurs twice, so every vector is set.
    Ok(vectors.into_iter().flatten().collect())
}

fn invalid_response(why: String) -> EmbedError {
    EmbedError::InvalidResponse { why }
}

/// An HTTP client for one endpoint with one key.
pub(super) struct EmbeddingsClient {
    agent: Agent,
    url: String,
    /// Marked as sensitive, so that it does not appear in `Debug`.
    authorization: Option<HeaderValue>,
    limits: OpenAiLimits,
}

/// The message of an endpoint, which may quote the texts that it was sent. It is a cause of its own, so that
/// a log can leave it out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct EndpointMessage(String);

/// A failed attempt, by whether to retry.
enum Failure {
    Permanent(EmbedError),
    /// With the delay that the endpoint asked for, if it did.
    Transient(EmbedError, Option<Duration>),
}

impl EmbeddingsClient {
    pub(super) fn new(
        endpoint: &EmbeddingEndpoint,
        api_key: Option<String>,
        limits: OpenAiLimits,
    ) -> Result<Self, EmbedError> {
        let authorization = api_key.map(bearer).transpose()?;
        // The certificates of the machine, since a company's endpoint may have a certificate of the
        // company's own authority. The provider is set explicitly because the process has no
        // default.
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(limits.timeout))
            .http_status_as_error(false)
            // A redirect target gets neither the texts nor the key.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // The default would read the environment.
            .proxy(None)
            .user_agent(concat!("atlatl/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let url = format!("{endpoint}/embeddings");
        Ok(Self { agent, url, authorization, limits })
    }

    /// Sends a request with retries, and returns the body of a successful response.
    pub(super) fn post(&self, body: &[u8]) -> Result<Vec<u8>, EmbedError> {
        let mut wait = self.limits.wait;
        for _ in 0..self.limits.retries {
            match self.attempt(body) {
                Ok(response) => return Ok(response),
                Err(Failure::Permanent(error)) => return Err(error),
                Err(Failure::Transient(error, retry_after)) => {
                    let pause = retry_after.unwrap_or(wait);
                    if pause > self.limits.longest_wait {
                        return Err(error);
                    }
                    thread::sleep(pause);
                    wait *= 2;
                }
            }
        }
        self.attempt(body).map_err(|failure| match failure {
            Failure::Permanent(error) | Failure::Transient(error, _) => error,
        })
    }

    fn attempt(&self, body: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut request = self.agent.post(&self.url).header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut response = request.send(body).map_err(failure)?;
        if !response.status().is_success() {
            return Err(self.refusal(response));
        }
        let body = response.body_mut().with_config().limit(self.limits.answer_bytes);
        body.read_to_vec().map_err(failure)
    }

    fn refusal(&self, mut response: Response<Body>) -> Failure {
        let status = response.status();
        if status.is_redirection() {
            let message = "redirects are not followed; configure the final URL".to_owned();
            return Failure::Permanent(EmbedError::Refused { status: status.as_u16(), message });
        }
        // A missing or broken body must not hide the status.
        let body = response.body_mut().with_config().limit(MAX_ERROR_BODY_LEN).read_to_vec();
        let message = self.message(&body.unwrap_or_default());
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            let retry_after = response.headers().get(RETRY_AFTER).and_then(parse_retry_after);
            let why = format!("status {}", status.as_u16());
            let source = (!message.is_empty()).then(|| EndpointMessage(message).into());
            let error = EmbedError::Unreachable { why, source, retry_after };
            return Failure::Transient(error, retry_after);
        }
        Failure::Permanent(EmbedError::Refused { status: status.as_u16(), message })
    }

    /// Returns the error message of the endpoint: one line, shortened, without the key.
    fn message(&self, body: &[u8]) -> String {
        #[derive(Deserialize)]
        struct ErrorResponse {
            error: ErrorDetail,
        }
        #[derive(Deserialize)]
        struct ErrorDetail {
            message: String,
        }
        let text = serde_json::from_slice::<ErrorResponse>(body)
            .map_or_else(|_| String::from_utf8_lossy(body).into_owned(), |w| w.error.message);
        // Before shortening, which could leave a part of the key.
        let text = match self.key() {
            Some(key) => text.replace(key, "[key]"),
            None => text,
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().filter(|c| !c.is_control()).take(MAX_ERROR_MESSAGE_CHARS).collect()
    }

    fn key(&self) -> Option<&str> {
        self.authorization.as_ref()?.to_str().ok()?.strip_prefix(BEARER)
    }
}

fn bearer(mut key: String) -> Result<HeaderValue, EmbedError> {
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(EmbedError::InvalidKey);
    }
    key.insert_str(0, BEARER);
    let mut header = HeaderValue::try_from(key).map_err(|_| EmbedError::InvalidKey)?;
    header.set_sensitive(true);
    Ok(header)
}

/// Parses `Retry-After` in seconds. Its other form, a date, would need a clock.
fn parse_retry_after(header: &HeaderValue) -> Option<Duration> {
    header.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn failure(error: ureq::Error) -> Failure {
    use ureq::Error as E;
    let unreachable = |why: &str, error: ureq::Error| {
        let why = why.to_owned();
        EmbedError::Unreachable { why, source: Some(Box::new(error)), retry_after: None }
    };
    match error {
        E::BodyExceedsLimit(bytes) => Failure::Permanent(EmbedError::InvalidResponse {
            why: format!("more than {bytes} bytes"),
        }),
        E::Protocol(_) => {
            Failure::Permanent(EmbedError::InvalidResponse { why: "not HTTP".to_owned() })
        }
        E::Timeout(_) => Failure::Permanent(unreachable("timed out", error)),
        E::HostNotFound => Failure::Transient(unreachable("no such host", error), None),
        E::Io(_) | E::ConnectionFailed => {
            Failure::Transient(unreachable("the connection failed", error), None)
        }
        error => Failure::Permanent(unreachable("the request could not be made", error)),
    }
}

impl fmt::Debug for EmbeddingsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingsClient").field("url", &self.url).finish_non_exhaustive()
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
