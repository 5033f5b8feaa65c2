//! Secrets for one server are sent to no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderValue};
use lro_core::config::Config;
use lro_proxy::upstream::http::{CredentialFuture, Credentials};
use serde_json::json;
use testkit::http::{HttpServer, ReceivedRequest, reply};

use super::client::{Client, Options, answer, call, default_response, stateless_request};

/// A token that is renewed when it is refused.
#[derive(Default)]
struct Renewed(AtomicUsize);

impl Credentials for Renewed {
    fn present(&self) -> CredentialFuture<'_, Option<HeaderValue>> {
        let which = self.0.load(Ordering::Relaxed);
        Box::pin(async move { Ok(HeaderValue::from_str(&format!("Bearer token-{which}")).ok()) })
    }

    fn refused<'a>(
        &'a self,
        sent: Option<&'a HeaderValue>,
        challenge: Option<&'a str>,
    ) -> CredentialFuture<'a, HeaderValue> {
        Box::pin(async move {
            let challenge = challenge.unwrap();
            if challenge.contains("insufficient_scope") {
                return Err(challenge.to_owned());
            }
            assert_eq!(challenge, "Bearer realm=\"x\"");
            assert!(sent.is_some());
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                return Err("run `atlatl login X`".to_owned());
            }
            Ok(HeaderValue::from_static("Bearer token-1"))
        })
    }
}

fn secret_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_static("SECRET"));
    headers
}

fn with_credentials() -> Options {
    Options {
        headers: secret_headers(),
        credentials: Some(Arc::new(Renewed::default())),
        ..Options::default()
    }
}

#[test]
fn a_redirect_to_another_origin_is_not_followed_and_nothing_is_sent_there() {
    let elsewhere = Arc::new(HttpServer::start(default_response));
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let to = elsewhere.url("/mcp");
        let server =
            HttpServer::start(move |_, stream| reply(stream, status, &[("Location", &to)], b""));
        let mut client = Client::with(&server, with_credentials(), &Config::default());
        let heard = client.request(&call(1));
        assert!(heard["error"]["message"].as_str().unwrap().contains("redirects"), "{heard}");
        assert_eq!(server.asked()[0].header("x-api-key"), Some("SECRET"));
        assert_eq!(server.asked()[0].header("authorization"), Some("Bearer token-0"));
    }
    assert_eq!(elsewhere.asked().len(), 0);
}

#[test]
fn a_path_that_moved_within_the_origin_is_followed_with_method_and_body() {
    let server = HttpServer::start(|received, stream| {
        if received.path() == "/mcp" {
            return reply(stream, "307 Temporary", &[("Location", "/mcp/")], b"");
        }
        default_response(received, stream)
    });
    let mut client = Client::with(&server, with_credentials(), &Config::default());
    assert_eq!(client.request(&call(1)), answer(&json!(1)));
    let received = server.asked();
    assert_eq!((received[1].path(), received[1].method.as_str()), ("/mcp/", "POST"));
    assert_eq!(received[1].header("x-api-key"), Some("SECRET"));
    assert_eq!(received[1].json()["id"], 1);
}

#[test]
fn a_path_that_moves_for_ever_is_given_up() {
    let server =
        HttpServer::start(|_, stream| reply(stream, "308 Permanent", &[("Location", "/mcp")], b""));
    let mut client = Client::connect(&server);
    let heard = client.request(&call(1));
    assert!(heard["error"]["message"].as_str().unwrap().contains("redirects"), "{heard}");
    assert!(server.asked().len() <= 5, "{}", server.asked().len());
}

fn wants(
    token: &'static str,
) -> impl Fn(&ReceivedRequest, &mut std::net::TcpStream) -> std::io::Result<()> {
    move |received, stream| {
        if received.header("authorization") == Some(token) {
            return default_response(received, stream);
        }
        let challenge = [("WWW-Authenticate", "Bearer realm=\"x\"")];
        reply(stream, "401 Unauthorized", &challenge, b"")
    }
}

#[test]
fn a_token_that_is_refused_is_renewed_once() {
    let server = HttpServer::start(wants("Bearer token-1"));
    let mut client = Client::with(&server, with_credentials(), &Config::default());
    assert_eq!(client.request(&call(1)), answer(&json!(1)));
    assert_eq!(client.request(&stateless_request(2, "tools/call", json!({"name": "t"})))["id"], 2);
    let sent: Vec<_> = server
        .asked()
        .iter()
        .map(|received| received.header("authorization").map(str::to_owned))
        .collect();
    assert_eq!(sent[..2], [Some("Bearer token-0".to_owned()), Some("Bearer token-1".to_owned())]);
    assert_eq!(sent.len(), 3);
}

#[test]
fn a_token_that_is_refused_again_reports_what_to_run() {
    let server = HttpServer::start(wants("Bearer other"));
    let mut client = Client::with(&server, with_credentials(), &Config::default());
    // Refused, renewed, refused: the error says what the user has to do.
    let heard = client.request(&call(1));
    assert_eq!(heard["error"]["message"], "run `atlatl login X`", "{heard}");
    assert_eq!(server.asked().len(), 2, "bounded");
    assert!(!heard.to_string().contains("token-"));
}

#[test]
fn missing_rights_are_reported() {
    let server = HttpServer::start(|_, stream| {
        let challenge = [("WWW-Authenticate", "Bearer error=\"insufficient_scope\"")];
        reply(stream, "403 Forbidden", &challenge, b"")
    });
    let mut client = Client::with(&server, with_credentials(), &Config::default());
    let heard = client.request(&call(1));
    assert!(heard["error"]["message"].as_str().unwrap().contains("insufficient_scope"), "{heard}");
}
