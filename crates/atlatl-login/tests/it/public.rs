//! A server with a public name, without a network.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use atlatl_login::{HttpTransport, NetworkTransport, TransportFuture, TransportRequest};
use http::{Response, header::WWW_AUTHENTICATE};
use serde_json::{Value, json};
use url::Url;

pub(crate) const SERVER: &str = "https://mcp.example.com/mcp";
pub(crate) const AUTHORITY: &str = "https://as.example.com";

/// Answers for the two hosts, goes to the real network for all others, and remembers every URL.
pub(crate) struct Public {
    pages: BTreeMap<String, Value>,
    challenge: String,
    pub(crate) requests: Mutex<Vec<Url>>,
}

impl Public {
    pub(crate) fn new() -> Self {
        let resource = json!({"resource": SERVER, "authorization_servers": [AUTHORITY]});
        let at = |path: &str| format!("{AUTHORITY}{path}");
        let authority = json!({
            "issuer": AUTHORITY,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "code_challenge_methods_supported": ["S256"],
        });
        let registered = json!({"client_id": "c", "redirect_uris": []});
        let pages = [
            ("https://mcp.example.com/.well-known/oauth-protected-resource/mcp", resource),
            ("https://as.example.com/.well-known/oauth-authorization-server", authority),
            ("https://as.example.com/register", registered),
        ];
        let pages = pages.into_iter().map(|(url, page)| (url.to_owned(), page)).collect();
        Self { pages, challenge: "Bearer".to_owned(), requests: Mutex::default() }
    }

    /// The challenge points there.
    pub(crate) fn pointing(mut self, url: &str) -> Self {
        let escaped = url.replace('\\', "\\\\").replace('"', "\\\"");
        self.challenge = format!("Bearer resource_metadata=\"{escaped}\"");
        self
    }

    /// The protected resource names this authority.
    pub(crate) fn trusting(mut self, url: &str) -> Self {
        let page = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
        self.pages.get_mut(page).unwrap()["authorization_servers"] = json!([url]);
        self
    }

    /// The authority's metadata has this field.
    pub(crate) fn with(mut self, field: &str, url: &str) -> Self {
        let page = "https://as.example.com/.well-known/oauth-authorization-server";
        self.pages.get_mut(page).unwrap()[field] = json!(url);
        self
    }
}

impl HttpTransport for Public {
    fn send(&self, exchange: TransportRequest) -> TransportFuture<'_> {
        self.requests.lock().unwrap().push(exchange.url.clone());
        let host = exchange.url.host_str().unwrap_or_default();
        if !["mcp.example.com", "as.example.com"].contains(&host) {
            return Box::pin(async move { NetworkTransport.send(exchange).await });
        }
        Box::pin(async move {
            if exchange.url.as_str() == SERVER {
                let answer = Response::builder().status(401);
                return Ok(answer
                    .header(WWW_AUTHENTICATE, self.challenge.as_bytes())
                    .body(vec![])?);
            }
            match self.pages.get(exchange.url.as_str()) {
                Some(page) => Ok(Response::new(page.to_string().into_bytes())),
                None => Ok(Response::builder().status(404).body(vec![])?),
            }
        })
    }
}

/// A login up to the browser: where that would have been sent, or why it was not.
pub(crate) async fn up_to_the_browser(
    network: Arc<Public>,
) -> Result<Url, atlatl_login::LoginError> {
    let dir = tempfile::tempdir().unwrap();
    let logins = atlatl_login::Logins::at(dir.path().join("logins")).through(network);
    let request = atlatl_login::LoginRequest::new(SERVER.parse().unwrap());
    let (tell, told) = tokio::sync::oneshot::channel();
    tokio::select! {
        biased;
        Ok(url) = told => Ok(url),
        ended = atlatl_login::login(&logins, &request, |url| drop(tell.send(url.clone()))) => {
            Err(ended.unwrap_err())
        }
    }
}
