//! Requests to an endpoint: retries with the delay that it asks for, streams, and errors by what they
//! mean for a conversation.

use std::fmt;
use std::io::{self, ErrorKind, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lro_wire::sse::{SseEvents, SsePart};
use rustls::crypto::ring;
use serde_json::Value;
use ureq::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ureq::http::{Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Timeout};

use super::EndpointError;
use super::api::{Api, Conversation, InvalidEvent, ModelReply, Parameters};
use super::budget::Budget;
use crate::tokens;
use crate::transcript::Usage;

/// The most bytes of a response.
const MAX_RESPONSE_LEN: u64 = 64 << 20;
const MAX_ERROR_LEN: u64 = 64 << 10;
/// The characters of an error message that are reported.
const MAX_MESSAGE_CHARS: usize = 300;
/// How much of a stream is read at a time.
const CHUNK_LEN: usize = 16 << 10;

/// Codes and types of errors that mean that the conversation is longer than the context window.
const OVERFLOW_CODES: [&str; 3] =
    ["context_length_exceeded", "exceed_context_size_error", "request_too_large"];
/// The same in the messages of Anthropic and vLLM, which have no code for it.
const OVERFLOW_PHRASES: [&str; 5] = [
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the available context size",
    "input is too long",
];
/// What llama.cpp reports, with the status 500, if it cannot parse what the model wrote: its
/// message, or the arguments of a call that a later request repeats. A retry fails in the same way.
const INVALID_OUTPUT_PHRASES: [&str; 3] = [
    "failed to parse input at pos",
    "failed to parse tool call arguments",
    "produced output that does not match the expected",
];
/// Codes of errors that mean that a filter refused the conversation.
const REFUSAL_CODES: [&str; 2] = ["content_filter", "content_policy_violation"];
/// Types of errors in a stream or a response that pass.
const TRANSIENT_TYPES: [&str; 4] =
    ["overloaded_error", "rate_limit_error", "api_error", "server_error"];

/// The retries of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is repeated after a 408, a 429, a 5xx or a broken connection.
    pub retries: u32,
    /// The delay before the first retry, if the endpoint does not ask for one. It doubles with each.
    pub first_delay: Duration,
    /// The longest delay. If the endpoint asks for more, the request fails.
    pub longest_delay: Duration,
    /// The time limit of a request with its response.
    pub timeout: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 6,
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_mins(2),
            // A model on a small machine reads 20 tokens in a second.
            timeout: Duration::from_mins(30),
        }
    }
}

/// A client of one endpoint with one key.
pub(super) struct Client {
    agent: Agent,
    api: Api,
    url: String,
    /// The same without a user name and a password, for messages.
    shown_url: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// To be removed from messages.
    secrets: Vec<String>,
    policy: RetryPolicy,
    /// The model takes no temperature.
    no_temperature: AtomicBool,
    /// The model wants the newer name of the output limit.
    completion_limit: AtomicBool,
}

/// A failed attempt.
enum Failure {
    Permanent(EndpointError),
    /// With the delay that the endpoint asks for.
    Transient(String, Option<Duration>),
    /// The model does not take the parameter of this name.
    Parameter(String, EndpointError),
}

/// Whether a failed attempt may cost money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Billing {
    /// The endpoint did not get the request, or refused it with a status.
    None,
    /// The endpoint may have worked on the request.
    Possible,
}

impl Client {
    /// A client of the endpoint at `url`, which is the part before the path of the API.
    pub(super) fn new(
        api: Api,
        url: &str,
        key: Option<String>,
        policy: RetryPolicy,
    ) -> Result<Self> {
        let (shown, user) = split_userinfo(url);
        let is_valid = |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic());
        ensure!(key.as_deref().is_none_or(is_valid), "the API key contains other characters");
        ensure!(
            key.is_none() && user.is_none() || is_private(&shown),
            "{shown}: an API key is sent over HTTPS only, or to this machine"
        );
        let headers = api.headers(key.as_deref()).context("the API key")?;
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            // The process has no default provider.
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(policy.timeout))
            .http_status_as_error(false)
            // A redirect target gets neither the conversation nor the key.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // The default reads the environment.
            .proxy(None)
            .user_agent(concat!("atlatl-evidence/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let with_path = |url: &str| format!("{}/{}", url.trim_end_matches('/'), api.path());
        Ok(Self {
            agent,
            api,
            url: with_path(url),
            shown_url: with_path(&shown),
            headers,
            secrets: key.into_iter().chain(user.map(str::to_owned)).collect(),
            policy,
            no_temperature: AtomicBool::new(false),
            completion_limit: AtomicBool::new(false),
        })
    }

    /// The body of the next request, without parameters that the model does not take.
    fn body(
        &self,
        conversation: &Conversation,
        mut parameters: Parameters<'_>,
    ) -> (String, TriedParameters) {
        let tried = TriedParameters {
            temperature: !self.no_temperature.load(Ordering::Relaxed)
                && parameters.temperature.is_some(),
            completion_limit: self.completion_limit.load(Ordering::Relaxed),
        };
        parameters.temperature = parameters.temperature.filter(|_| tried.temperature);
        parameters.completion_limit = tried.completion_limit;
        (self.api.body(conversation, parameters).to_string(), tried)
    }

    /// Whether the model has taken the temperature so far.
    pub(super) fn takes_temperature(&self) -> bool {
        !self.no_temperature.load(Ordering::Relaxed)
    }

    /// Sends a conversation, and repeats the request if it may help. Returns the reply with what
    /// the last attempt used. Every attempt counts in `budget`.
    pub(super) fn complete(
        &self,
        conversation: &Conversation,
        parameters: Parameters<'_>,
        budget: &Budget,
    ) -> Result<(ModelReply, Usage), EndpointError> {
        let mut delay = self.policy.first_delay;
        let mut retries = self.policy.retries;
        loop {
            let (body, tried) = self.body(conversation, parameters);
            let reservation = budget.reserve(Usage {
                // A token has at least one byte.
                fresh_input: body.len() as u64,
                cached_input: 0,
                output: parameters.max_output_tokens,
            })?;
            let failure = match self.attempt(&body) {
                Ok(reply) => {
                    let usage = reply.usage.unwrap_or_else(|| counted(&body, &reply));
                    reservation.settle(usage);
                    return Ok((reply, usage));
                }
                Err((failure, Billing::Possible)) => {
                    reservation.settle_most();
                    failure
                }
                Err((failure, Billing::None)) => {
                    drop(reservation);
                    failure
                }
            };
            match failure {
                Failure::Permanent(error) => return Err(error),
                Failure::Parameter(name, error) => {
                    // A parameter is left out once; then it is not the reason.
                    if !self.adapt(&name, tried) {
                        return Err(error);
                    }
                }
                Failure::Transient(message, retry_after) => {
                    let pause = retry_after.unwrap_or(delay);
                    if retries == 0 || pause > self.policy.longest_delay {
                        return Err(EndpointError::Failed { message });
                    }
                    retries -= 1;
                    thread::sleep(pause);
                    delay = delay.saturating_mul(2).min(self.policy.longest_delay);
                }
            }
        }
    }

    /// Leaves a parameter out of later requests. Returns false if the last one did not have it.
    fn adapt(&self, name: &str, tried: TriedParameters) -> bool {
        match name {
            "temperature" if tried.temperature => {
                self.no_temperature.store(true, Ordering::Relaxed);
                true
            }
            "max_tokens" if !tried.completion_limit => {
                self.completion_limit.store(true, Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }

    fn attempt(&self, body: &str) -> Result<ModelReply, (Failure, Billing)> {
        let mut request = self.agent.post(&self.url).header(CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let sent = request.send(body);
        let mut response =
            sent.map_err(|error| (self.connection_failure(&error), billing_of(&error)))?;
        if !response.status().is_success() {
            return Err((self.failed_status(response), Billing::None));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let reply = if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            self.read_stream(response.body_mut())
        } else {
            self.read_message(response.body_mut())
        };
        reply.map_err(|failure| (failure, Billing::Possible))
    }

    fn read_message(&self, body: &mut Body) -> Result<ModelReply, Failure> {
        let bytes = body.with_config().limit(MAX_RESPONSE_LEN).read_to_vec();
        let bytes = bytes.map_err(|error| self.connection_failure(&error))?;
        let message: Value =
            serde_json::from_slice(&bytes).map_err(|_| malformed("a response that is not JSON"))?;
        self.api.reply(&message).map_err(|error| self.invalid_event(error))
    }

    fn read_stream(&self, body: &mut Body) -> Result<ModelReply, Failure> {
        let mut reader = body.with_config().limit(MAX_RESPONSE_LEN).reader();
        let mut parser = SseEvents::default();
        let mut events = self.api.events();
        let mut data = Vec::new();
        let mut chunk = vec![0; CHUNK_LEN];
        loop {
            let length = reader.read(&mut chunk).map_err(|error| self.broken_stream(error))?;
            let mut outcome = Ok(false);
            parser.feed(&chunk[..length], |part| match part {
                SsePart::Data(piece) => data.extend_from_slice(piece),
                SsePart::End(_) => {
                    let event = std::mem::take(&mut data);
                    // After the end or an error, nothing counts.
                    if matches!(outcome, Ok(false)) && !event.is_empty() {
                        outcome = events.feed(&event);
                    }
                }
            });
            let done = outcome.map_err(|error| self.invalid_event(error))?;
            if done || length == 0 {
                break;
            }
        }
        events.finish().ok_or_else(|| malformed("a stream that ends before its message"))
    }

    fn broken_stream(&self, error: io::Error) -> Failure {
        // The reader wraps errors of its own.
        let error = ureq::Error::from(error);
        let message = self.message(format_args!("the stream broke: {error}"));
        // A slow model stays slow.
        if matches!(error, ureq::Error::Timeout(_)) {
            Failure::Permanent(EndpointError::Failed { message })
        } else {
            Failure::Transient(message, None)
        }
    }

    fn invalid_event(&self, error: InvalidEvent) -> Failure {
        match error {
            InvalidEvent::Malformed => malformed("a response that is not in the form of the API"),
            InvalidEvent::Error(error) => {
                let error = ApiError::new(&error);
                let transient = error.kind().is_some_and(|kind| TRANSIENT_TYPES.contains(&kind));
                let message = self.message(&error.message);
                match error.ending(&message) {
                    Some(ending) => Failure::Permanent(ending),
                    None if transient => Failure::Transient(message, None),
                    None => Failure::Permanent(EndpointError::Failed { message }),
                }
            }
        }
    }

    fn failed_status(&self, mut response: Response<Body>) -> Failure {
        let status = response.status();
        // A missing or broken body must not hide the status.
        let body = response.body_mut().with_config().limit(MAX_ERROR_LEN).read_to_vec();
        let body = body.unwrap_or_default();
        let json: Value = serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
        let error = ApiError::new(&json);
        let message = self.message(format_args!("status {}: {}", status.as_u16(), error.message));
        // Some servers report a full context window with a status that others use for passing errors.
        if let Some(ending) = error.ending(&message) {
            return Failure::Permanent(ending);
        }
        if is_transient(status) {
            return Failure::Transient(message, retry_after(response.headers()));
        }
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return Failure::Permanent(EndpointError::ContextOverflow { message });
        }
        let failed = EndpointError::Failed { message };
        match error.parameter {
            Some(name) if status == StatusCode::BAD_REQUEST => Failure::Parameter(name, failed),
            _ => Failure::Permanent(failed),
        }
    }

    fn connection_failure(&self, error: &ureq::Error) -> Failure {
        use ureq::Error as E;
        let message = self.message(error);
        match error {
            E::Io(_) | E::ConnectionFailed | E::HostNotFound => Failure::Transient(message, None),
            _ => Failure::Permanent(EndpointError::Failed { message }),
        }
    }

    /// The URL, and the beginning of a message on one line. An endpoint may repeat the key.
    fn message(&self, message: impl fmt::Display) -> String {
        let message = self
            .secrets
            .iter()
            .fold(message.to_string(), |message, secret| message.replace(secret, "[key]"));
        let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let line: String =
            line.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE_CHARS).collect();
        format!("{}: {line}", self.shown_url)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.shown_url).finish_non_exhaustive()
    }
}

/// The parameters of a request that a model may not take.
#[derive(Debug, Clone, Copy)]
struct TriedParameters {
    temperature: bool,
    completion_limit: bool,
}

/// The error object of a response.
struct ApiError {
    message: String,
    /// The code and the type, which are numbers in some servers.
    codes: [Option<String>; 2],
    parameter: Option<String>,
}

impl ApiError {
    fn new(body: &Value) -> Self {
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        let message = text("message").or_else(|| error.as_str().map(str::to_owned));
        Self {
            message: message.unwrap_or_else(|| error.to_string()),
            codes: [text("code"), text("type")],
            parameter: text("param"),
        }
    }

    fn kind(&self) -> Option<&str> {
        self.codes[1].as_deref()
    }

    /// The end of the conversation that the error means.
    fn ending(&self, message: &str) -> Option<EndpointError> {
        let has =
            |codes: &[&str]| self.codes.iter().flatten().any(|code| codes.contains(&code.as_str()));
        let lower = self.message.to_lowercase();
        let message = message.to_owned();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
        // What the model wrote is part of the message, so this is the first test.
        if says(&INVALID_OUTPUT_PHRASES) {
            return Some(EndpointError::InvalidOutput { message });
        }
        if has(&OVERFLOW_CODES) || says(&OVERFLOW_PHRASES) {
            return Some(EndpointError::ContextOverflow { message });
        }
        has(&REFUSAL_CODES).then_some(EndpointError::Refused { message })
    }
}

fn malformed(what: &str) -> Failure {
    Failure::Transient(format!("the endpoint sent {what}"), None)
}

/// The tokens of an attempt, for servers that do not count.
fn counted(body: &str, reply: &ModelReply) -> Usage {
    let calls = reply.calls.iter().map(|call| tokens::count(&call.arguments));
    Usage {
        fresh_input: tokens::count(body),
        cached_input: 0,
        output: tokens::count(&reply.text) + calls.sum::<u64>(),
    }
}

/// Whether a request may cost money that has no response.
fn billing_of(error: &ureq::Error) -> Billing {
    use ureq::Error as E;
    match error {
        E::HostNotFound
        | E::ConnectionFailed
        | E::BadUri(_)
        | E::Timeout(Timeout::Resolve | Timeout::Connect) => Billing::None,
        E::Io(error) if error.kind() == ErrorKind::ConnectionRefused => Billing::None,
        _ => Billing::Possible,
    }
}

fn is_transient(status: StatusCode) -> bool {
    // Anthropic reports that it is overloaded with 529.
    matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        || status.is_server_error()
}

/// The delay that an endpoint asks for, in seconds or milliseconds. The form as a date would need a
/// clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|millis| millis / 1000.0);
    let seconds = seconds.or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Whether a key can be sent to `url`: over HTTPS, or to this machine.
fn is_private(url: &str) -> bool {
    const LOCAL: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
    let host_ends = |rest: &str| rest.is_empty() || rest.starts_with([':', '/']);
    url.starts_with("https://")
        || url.strip_prefix("http://").is_some_and(|rest| {
            LOCAL.iter().filter_map(|host| rest.strip_prefix(host)).any(host_ends)
        })
}

/// The URL without its user name and password, and these.
fn split_userinfo(url: &str) -> (String, Option<&str>) {
    let start = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    match url[start..end].rsplit_once('@').filter(|(user, _)| !user.is_empty()) {
        Some((user, host)) => (format!("{}{host}{}", &url[..start], &url[end..]), Some(user)),
        None => (url.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ending(body: &Value) -> Option<EndpointError> {
        ApiError::new(body).ending("m")
    }

    #[test]
    fn endings_are_recognised_in_every_form() {
        let overflow = Some(EndpointError::ContextOverflow { message: "m".to_owned() });
        for body in [
            json!({"error": {"message": "x", "code": "context_length_exceeded"}}),
            json!({"error": {"message": "x", "type": "exceed_context_size_error", "code": 400}}),
            json!({"type": "error", "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 215840 tokens > 200000 maximum",
            }}),
            json!({"object": "error", "message": "This model's maximum context length is 4096 tokens."}),
        ] {
            assert_eq!(ending(&body), overflow, "{body}");
        }
        let refused = json!({"error": {"message": "x", "code": "content_filter"}});
        assert!(matches!(ending(&refused), Some(EndpointError::Refused { .. })));
        assert_eq!(ending(&json!({"error": {"message": "invalid model"}})), None);
        for message in [
            "Failed to parse input at pos 12: </tool_call> prompt is too long",
            "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]",
            "The model produced output that does not match the expected peg-native format",
        ] {
            let body = json!({"error": {"code": 500, "message": message, "type": "server_error"}});
            assert!(
                matches!(ending(&body), Some(EndpointError::InvalidOutput { .. })),
                "{message}"
            );
        }
        assert_eq!(ApiError::new(&json!("plain")).message, "plain");
    }

    #[test]
    fn delays_are_read_in_seconds_and_milliseconds() {
        let headers = |name: &'static str, value: &'static str| {
            let header = (HeaderName::from_static(name), HeaderValue::from_static(value));
            HeaderMap::from_iter([header])
        };
        let seconds = retry_after(&headers("retry-after", "2"));
        assert_eq!(seconds, Some(Duration::from_secs(2)));
        let millis = retry_after(&headers("retry-after-ms", "1500"));
        assert_eq!(millis, Some(Duration::from_millis(1500)));
        assert_eq!(retry_after(&headers("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")), None);
        assert_eq!(retry_after(&headers("retry-after", "-1")), None);
    }

    #[test]
    fn a_key_is_sent_to_no_other_machine_in_the_clear() {
        for url in ["https://api.example/v1", "http://127.0.0.1:8080/v1", "http://localhost"] {
            assert!(is_private(url), "{url}");
        }
        for url in ["http://api.example/v1", "http://127.0.0.1.example", "http://localhostx", ""] {
            assert!(!is_private(url), "{url}");
        }
    }

    #[test]
    fn messages_have_no_user_name_and_no_password() {
        let url = "https://ada:p@ss@api.example/v1?x=a@b";
        let expected = ("https://api.example/v1?x=a@b".to_owned(), Some("ada:p@ss"));
        assert_eq!(split_userinfo(url), expected);
        assert_eq!(split_userinfo("http://[::1]:80/v1").1, None);
        let policy = RetryPolicy::default();
        let client = Client::new(Api::Openai, url, Some("sk-1".to_owned()), policy).unwrap();
        let message = client.message("ada:p@ss was refused, and so was sk-1");
        assert!(message.ends_with(": [key] was refused, and so was [key]"), "{message}");
        assert!(!format!("{client:?} {message}").contains("p@ss"), "{client:?} {message}");
        let plain = "http://ada:p@ss@api.example/v1";
        let error = Client::new(Api::Openai, plain, None, policy).unwrap_err();
        assert!(!error.to_string().contains("p@ss"), "{error}");
    }

    #[test]
    fn only_requests_that_were_not_sent_are_free_for_sure() {
        use ureq::Error as E;
        let io = |kind: ErrorKind| E::Io(kind.into());
        for error in
            [E::HostNotFound, io(ErrorKind::ConnectionRefused), E::Timeout(Timeout::Connect)]
        {
            assert_eq!(billing_of(&error), Billing::None, "{error}");
        }
        for error in [io(ErrorKind::ConnectionReset), E::Timeout(Timeout::Global)] {
            assert_eq!(billing_of(&error), Billing::Possible, "{error}");
        }
    }
}
