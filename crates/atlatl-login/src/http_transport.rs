//! HTTP transport for requests that passed the SSRF checks.

use std::{error::Error, pin::Pin, time::Duration};

use http::{HeaderMap, Method, Response, header::CONTENT_TYPE};
use url::Url;

use crate::metadata_rules::{Refusal, Rule};
use crate::resolver::Filtered;

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
