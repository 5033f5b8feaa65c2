//! Call: one question to an endpoint, and what can go wrong on the way.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::crypto::ring;
use serde::Deserialize;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use ureq::http::{Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::OpenAiLimits;
use crate::embed::EmbedError;
use crate::embed::endpoint::Endpoint;

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
