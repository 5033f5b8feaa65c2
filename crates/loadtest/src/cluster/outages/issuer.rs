//! An authorization server that can be stopped and started again, and that rotates its key.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::authority::AccessTokenSigner;
use testkit::http::{HttpServer, ReceivedRequest, reply_json};

const METADATA_PATH: &str = "/.well-known/oauth-authorization-server";
const KEYS_PATH: &str = "/keys";
const SCOPE: &str = "memory:read";
const TOKEN_LIFETIME_SECONDS: u64 = 300;

/// A running authorization server.
#[derive(Debug)]
pub(super) struct TokenIssuer {
    port: u16,
    keys: Arc<IssuerKeys>,
    /// `None` while it is stopped.
    server: Option<HttpServer>,
}

/// The keys of an authorization server, for the server and for clients that need tokens.
#[derive(Debug)]
pub(super) struct IssuerKeys {
    url: String,
    /// The number of published keys. Earlier keys stay published after a rotation, so that their
    /// tokens stay valid.
    published: AtomicUsize,
}

impl TokenIssuer {
    /// Starts a server with one key.
    pub(super) fn start(port: u16) -> Self {
        let url = format!("http://127.0.0.1:{port}");
        let keys = Arc::new(IssuerKeys { url, published: AtomicUsize::new(1) });
        let mut issuer = Self { port, keys, server: None };
        issuer.restart();
        issuer
    }

    /// The issuer, as in the claim `iss`.
    pub(super) fn url(&self) -> &str {
        &self.keys.url
    }

    /// The port, which is free while the server is stopped.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The keys, which outlive the server.
    pub(super) fn keys(&self) -> Arc<IssuerKeys> {
        Arc::clone(&self.keys)
    }

    /// Closes the port and all connections.
    pub(super) fn stop(&mut self) {
        self.server = None;
    }

    /// Starts the server again at the same port, which must be free.
    pub(super) fn restart(&mut self) {
        let keys = Arc::clone(&self.keys);
        let answer =
            move |request: &ReceivedRequest, stream: &mut TcpStream| keys.answer(request, stream);
        self.server = Some(HttpServer::start_at(self.port, answer));
    }

    /// Adds a key, which signs new tokens from now on.
    pub(super) fn rotate_key(&self) {
        self.keys.published.fetch_add(1, Ordering::Relaxed);
    }
}

impl IssuerKeys {
    /// The index of the newest key.
    pub(super) fn newest(&self) -> usize {
        self.published.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// A token for a tenant and an audience, signed by the key with this index.
    pub(super) fn token(&self, tenant: &str, audience: &str, key: usize) -> String {
        let signer = AccessTokenSigner { key, ..AccessTokenSigner::new(tenant, audience) };
        signer.sign(&signer.claims(&self.url, SCOPE, TOKEN_LIFETIME_SECONDS))
    }

    fn answer(&self, request: &ReceivedRequest, stream: &mut TcpStream) -> io::Result<()> {
        match request.path() {
            METADATA_PATH => {
                let keys_url = format!("{}{KEYS_PATH}", self.url);
                let metadata = json!({"issuer": self.url, "jwks_uri": keys_url});
                reply_json(stream, "200 OK", &metadata)
            }
            KEYS_PATH => reply_json(stream, "200 OK", &self.key_set()),
            _ => reply_json(stream, "404 Not Found", &json!({"error": "not_found"})),
        }
    }

    fn key_set(&self) -> Value {
        let keys = (0..=self.newest()).flat_map(|key| {
            let signer = AccessTokenSigner { key, ..AccessTokenSigner::new("", "") };
            signer.key_set()["keys"].as_array().cloned().unwrap_or_default()
        });
        json!({"keys": keys.collect::<Vec<Value>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g43_earlier_keys_stay_published() {
        let keys =
            IssuerKeys { url: "http://127.0.0.1:1".to_owned(), published: AtomicUsize::new(1) };
        let count = || keys.key_set()["keys"].as_array().map(Vec::len);
        assert_eq!((count(), keys.newest()), (Some(1), 0));
        keys.published.fetch_add(1, Ordering::Relaxed);
        assert_eq!((count(), keys.newest()), (Some(2), 1));
        assert_eq!(keys.key_set()["keys"][1]["kid"], "key-1");
        assert_ne!(keys.token("a", "b", 0), keys.token("a", "b", 1));
    }
}
