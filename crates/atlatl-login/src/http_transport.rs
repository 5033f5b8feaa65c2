//! The HTTP transport, and the client that enforces the SSRF policy on every request.
//!
//! All requests of rmcp and of this crate go through [`GuardedClient`].

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde::Deserialize;
use url::Url;

use crate::error::{LoginError, Rule, RuleViolation, sanitize};
use crate::ssrf_guard::{FilteredResolver, Policy, Reach};

/// The largest response.
pub(crate) const MAX_RESPONSE_BYTES: usize = 256 * 1024;
/// Shorter than the wait for the lock, so that waiting processes outlast the one that refreshes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A request whose URL passed the policy.
#[derive(Debug)]
pub struct TransportRequest {
    /// `GET` or `POST`.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// The allowed addresses.
    pub reach: Reach,
}

/// Why there is no response.
pub type TransportError = Box<dyn Error + Send + Sync>;

/// A pending response.
pub type TransportFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Response<Vec<u8>>, TransportError>> + Send + 'a>>;

/// Sends HTTP requests.
///
/// # Contract
/// - The request goes to [`TransportRequest::url`], and only to addresses allowed by
///   [`TransportRequest::reach`]. A redirect is returned, never followed.
/// - Nothing is added that identifies the person: no cookies, no proxy credentials.
/// - The response is complete, limited in size, and arrives within a time limit; otherwise it is an
///   error.
pub trait HttpTransport: Send + Sync {
    /// Sends one request.
    fn send(&self, exchange: TransportRequest) -> TransportFuture<'_>;
}

/// The real network, over TLS with the certificates of the system, without proxies.
#[derive(Debug, Clone, Copy, Default)]
pub struct NetworkTransport;

impl HttpTransport for NetworkTransport {
    fn send(&self, exchange: TransportRequest) -> TransportFuture<'_> {
        Box::pin(async move {
            let TransportRequest { method, url, headers, body, reach } = exchange;
            let request = client(reach)?.request(method, url).headers(headers).body(body);
            let mut answer = request.send().await?;
            let mut head = Response::builder().status(answer.status());
            if let Some(headers) = head.headers_mut() {
                headers.clone_from(answer.headers());
            }
            let mut body = Vec::new();
            // An event stream never ends: an MCP server without authorization begins one.
            while !is_stream(answer.headers())
                && let Some(chunk) = answer.chunk().await?
            {
                if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                    let seen = format!("more than {MAX_RESPONSE_BYTES} bytes");
                    return Err(RuleViolation::new(Rule::Answer, &seen).into());
                }
                body.extend_from_slice(&chunk);
            }
            Ok(head.body(body)?)
        })
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Creates a client per request: there are few, and their allowed addresses differ.
fn client(reach: Reach) -> Result<reqwest::Client, reqwest::Error> {
    // The process has one provider; one that is already installed stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("atlatl/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        // A proxy would choose the addresses.
        .no_proxy()
        .referer(false)
        .dns_resolver(FilteredResolver(reach))
        .timeout(REQUEST_TIMEOUT)
        .build()
}

/// An HTTP client for one server that enforces the SSRF policy.
pub(crate) struct GuardedClient {
    policy: Policy,
    transport: Arc<dyn HttpTransport>,
    /// The first failure. rmcp turns every error into a text, which may quote a response with
    /// secrets; this keeps the typed error.
    first_failure: Mutex<Option<LoginError>>,
}

impl GuardedClient {
    pub(crate) fn new(policy: Policy, transport: Arc<dyn HttpTransport>) -> Self {
        Self { policy, transport, first_failure: Mutex::default() }
    }

    /// Takes the first failure since the last call.
    pub(crate) fn take_failure(&self) -> Option<LoginError> {
        self.first_failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn record_failure(&self, failure: LoginError) {
        self.first_failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    async fn exchange(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<Vec<u8>>, LoginError> {
        let url = self.policy.parse(url)?;
        let reach = self.policy.check(&url)?;
        let endpoint = host_and_path(&url);
        let answer =
            self.transport.send(TransportRequest { method, url, headers, body, reach }).await;
        let answer = answer.map_err(|error| match refusal_in(error.as_ref()) {
            Some(refusal) => refusal.into(),
            None => LoginError::Unreachable { endpoint, why: last_cause(error.as_ref()) },
        })?;
        self.check_resource(answer.body())?;
        Ok(answer)
    }

    /// Protected resource metadata must describe our server. rmcp ignores a wrong document at a
    /// guessed location; this reports it.
    fn check_resource(&self, body: &[u8]) -> Result<(), RuleViolation> {
        #[derive(Deserialize)]
        struct Document {
            resource: String,
            #[serde(rename = "authorization_servers")]
            _authorities: Vec<String>,
        }
        match serde_json::from_slice(body) {
            Ok(Document { resource, .. }) if !self.policy.is_resource(&resource) => {
                Err(RuleViolation::new(Rule::Resource, &resource))
            }
            _ => Ok(()),
        }
    }

    /// Posts a form, such as to a token endpoint. Redirects are not followed.
    pub(crate) async fn post_form(
        &self,
        url: &Url,
        authorization: Option<HeaderValue>,
        form: String,
    ) -> Result<Response<Vec<u8>>, LoginError> {
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, kind);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(mut authorization) = authorization {
            authorization.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, authorization);
        }
        self.exchange(Method::POST, url.as_str(), headers, form.into_bytes()).await
    }
}

impl OAuthHttpClient for GuardedClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        // The requested redirect policy is deliberately ignored: rmcp follows redirects within an
        // origin itself, and a registration is not sent twice.
        let (head, body) = request.request.into_parts();
        Box::pin(async move {
            let is_post = head.method == Method::POST;
            let answer =
                self.exchange(head.method, &head.uri.to_string(), head.headers, body).await;
            match answer {
                Ok(answer) => {
                    if is_post && !answer.status().is_success() {
                        self.record_failure(LoginError::Denied { message: error_text(&answer) });
                    }
                    Ok(answer)
                }
                Err(failure) => {
                    let text = failure.to_string();
                    self.record_failure(failure);
                    Err(text.into())
                }
            }
        })
    }
}

/// Host and path, without the query, which may be private.
fn host_and_path(url: &Url) -> String {
    sanitize(&format!("{}{}", url.host_str().unwrap_or_default(), url.path()))
}

fn refusal_in(error: &(dyn Error + 'static)) -> Option<RuleViolation> {
    let mut error = Some(error);
    while let Some(cause) = error {
        if let Some(refusal) = cause.downcast_ref::<RuleViolation>() {
            return Some(refusal.clone());
        }
        error = cause.source();
    }
    None
}

/// The error and description of an OAuth error response (RFC 6749, 5.2; RFC 7591, 3.2.2). Only
/// these two are meant for people.
fn error_text(answer: &Response<Vec<u8>>) -> String {
    let json: serde_json::Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let text = |name| json.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let (error, description) = (text("error"), text("error_description"));
    sanitize(format!("status {} {error} {description}", answer.status().as_u16()).trim_end())
}

/// The root cause of an error. Intermediate errors of reqwest contain whole URLs.
fn last_cause(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    sanitize(&last.to_string())
}
