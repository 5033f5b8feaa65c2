//! The HTTP transport, and the client that enforces the SSRF policy on every request.
//!
//! All requests of rmcp and of this crate go through [`Guarded`].

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde::Deserialize;
use url::Url;

use crate::error::{LoginError, Refusal, Rule, shown};
use crate::ssrf_guard::{Filtered, Policy};

/// An answer of more bytes is none.
pub(crate) const LARGEST_ANSWER: usize = 256 * 1024;
/// Shorter than the wait for the lock, so that whoever waits outlasts whoever refreshes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Which addresses a name may resolve to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Any: the person named this host.
    Anywhere,
    /// Public ones only: a stranger named it.
    Public,
    /// Loopback only.
    Loopback,
}

/// One request, whose URL has passed the policy.
#[derive(Debug)]
pub struct Exchange {
    /// `GET` or `POST`.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// With which headers.
    pub headers: HeaderMap,
    /// With what.
    pub body: Vec<u8>,
    /// To which addresses at most.
    pub reach: Reach,
}

/// Why there is no answer.
pub type CarryError = Box<dyn Error + Send + Sync>;

/// The answer to come.
pub type Carried<'a> =
    Pin<Box<dyn Future<Output = Result<Response<Vec<u8>>, CarryError>> + Send + 'a>>;

/// Takes requests to the network and brings answers back.
///
/// # Contract
/// - The request goes where [`Exchange::url`] says and, by [`Exchange::reach`], nowhere else. A
///   redirect is given back, never followed.
/// - Nothing is added that identifies the person: no cookies, no credentials of a proxy.
/// - The answer is whole, of bounded size, and comes within bounded time; else it is an error.
pub trait Carrier: Send + Sync {
    /// Carries one.
    fn carry(&self, exchange: Exchange) -> Carried<'_>;
}

/// The real network, over TLS with the machine's certificates, without proxies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Internet;

impl Carrier for Internet {
    fn carry(&self, exchange: Exchange) -> Carried<'_> {
        Box::pin(async move {
            let Exchange { method, url, headers, body, reach } = exchange;
            let request = client(reach)?.request(method, url).headers(headers).body(body);
            let mut answer = request.send().await?;
            let mut head = Response::builder().status(answer.status());
            if let Some(headers) = head.headers_mut() {
                headers.clone_from(answer.headers());
            }
            let mut body = Vec::new();
            // A stream of events has no end: an MCP server without authorization begins one.
            while !is_stream(answer.headers())
                && let Some(chunk) = answer.chunk().await?
            {
                if body.len() + chunk.len() > LARGEST_ANSWER {
                    let seen = format!("more than {LARGEST_ANSWER} bytes");
                    return Err(Refusal::new(Rule::Answer, &seen).into());
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

/// A client per request: there are few of them, and each may have another reach.
fn client(reach: Reach) -> Result<reqwest::Client, reqwest::Error> {
    // The process has one provider. Whoever installed another first keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("atlatl/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        // Through a proxy the addresses would be its choice, not ours.
        .no_proxy()
        .referer(false)
        .dns_resolver(Filtered(reach))
        .timeout(REQUEST_TIMEOUT)
        .build()
}

/// Asks for one server.
pub(crate) struct Guarded {
    policy: Policy,
    carrier: Arc<dyn Carrier>,
    /// Why the first request that failed did so. rmcp turns every error into a text, which may
    /// quote an answer and its secrets; this keeps kinds.
    failed: Mutex<Option<LoginError>>,
}

impl Guarded {
    pub(crate) fn new(policy: Policy, carrier: Arc<dyn Carrier>) -> Self {
        Self { policy, carrier, failed: Mutex::default() }
    }

    /// What failed first since the last time this was asked.
    pub(crate) fn failure(&self) -> Option<LoginError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, failure: LoginError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
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
        let asked = place(&url);
        let answer = self.carrier.carry(Exchange { method, url, headers, body, reach }).await;
        let answer = answer.map_err(|error| match refusal_in(error.as_ref()) {
            Some(refusal) => refusal.into(),
            None => LoginError::Unreachable { asked, why: last_cause(error.as_ref()) },
        })?;
        self.check_resource(answer.body())?;
        Ok(answer)
    }

    /// Protected resource metadata must be about our server. rmcp passes over a document that it
    /// only guessed at; whoever publishes a wrong one there is told nothing by that.
    fn check_resource(&self, body: &[u8]) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct Document {
            resource: String,
            #[serde(rename = "authorization_servers")]
            _authorities: Vec<String>,
        }
        match serde_json::from_slice(body) {
            Ok(Document { resource, .. }) if !self.policy.is_resource(&resource) => {
                Err(Refusal::new(Rule::Resource, &resource))
            }
            _ => Ok(()),
        }
    }

    /// Sends a form, as to a token endpoint. A redirect is an answer like any other: it is not
    /// followed.
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

impl OAuthHttpClient for Guarded {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        // The redirect policy asked for is passed over on purpose: rmcp follows redirects within an
        // origin itself, request by request, and a registration is not sent twice.
        let (head, body) = request.request.into_parts();
        Box::pin(async move {
            let is_post = head.method == Method::POST;
            let answer =
                self.exchange(head.method, &head.uri.to_string(), head.headers, body).await;
            match answer {
                Ok(answer) => {
                    if is_post && !answer.status().is_success() {
                        self.note(LoginError::Denied { said: said(&answer) });
                    }
                    Ok(answer)
                }
                Err(failure) => {
                    let text = failure.to_string();
                    self.note(failure);
                    Err(text.into())
                }
            }
        })
    }
}

/// Host and path: a query may hold something that is nobody's business.
fn place(url: &Url) -> String {
    shown(&format!("{}{}", url.host_str().unwrap_or_default(), url.path()))
}

fn refusal_in(error: &(dyn Error + 'static)) -> Option<Refusal> {
    let mut error = Some(error);
    while let Some(cause) = error {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return Some(refusal.clone());
        }
        error = cause.source();
    }
    None
}

/// What an authority says when it says no (RFC 6749, 5.2; RFC 7591, 3.2.2). Nothing else of the
/// answer: only these two are meant to be read by a person.
fn said(answer: &Response<Vec<u8>>) -> String {
    let json: serde_json::Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let text = |name| json.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let (error, description) = (text("error"), text("error_description"));
    shown(format!("status {} {error} {description}", answer.status().as_u16()).trim_end())
}

/// What an error comes down to. Not what lies between: errors of reqwest hold whole URLs.
fn last_cause(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    shown(&last.to_string())
}
