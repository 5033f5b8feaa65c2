//! An authorization server, strict to the letter, with a protected MCP endpoint beside it.
//!
//! It checks what an authority has to check (PKCE, exact redirect, `resource`, single use of codes,
//! rotation of refresh tokens) and remembers what it was asked. Faults make it break single rules.

mod browser;
mod fault;
mod grant;
mod ledger;
mod mcp;
mod metadata;
mod signer;

use std::{
    collections::BTreeMap,
    io,
    net::TcpStream,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::json;

pub use self::{
    browser::{visit, visit_in_background},
    fault::Fault,
    ledger::{Counts, Ledger},
    signer::Signer,
};
use crate::http::{Asked, HttpServer, reply, reply_json};

/// A running authority; it ends with this value.
#[derive(Debug)]
pub struct Authority {
    server: HttpServer,
    ledger: Arc<Mutex<Ledger>>,
}

impl Authority {
    /// Starts one that keeps to all rules.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts one with faults.
    pub fn with(faults: &[Fault]) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::new(faults)));
        let known = Arc::clone(&ledger);
        let server = HttpServer::start(move |asked, stream| answer(asked, stream, &known));
        let authority = Self { server, ledger };
        authority.ledger().base = authority.server.url("");
        authority
    }

    /// The protected MCP endpoint.
    pub fn mcp(&self) -> String {
        self.server.url("/mcp")
    }

    /// A path of it.
    pub fn url(&self, path: &str) -> String {
        self.server.url(path)
    }

    /// What it remembers, and knobs to turn.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it was asked for what.
    pub fn counts(&self) -> Counts {
        self.ledger().counts
    }

    /// All requests, as they came.
    pub fn asked(&self) -> Vec<Asked> {
        self.server.asked().clone()
    }
}

/// The fields of a form or query; of one that stands twice, nothing.
pub(crate) fn fields(text: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(text) {
        let twice = fields.insert(name.clone().into_owned(), value.into_owned()).is_some();
        if twice {
            fields.remove(&*name);
        }
    }
    fields
}

fn answer(asked: &Asked, stream: &mut TcpStream, ledger: &Mutex<Ledger>) -> io::Result<()> {
    let lock = || ledger.lock().unwrap_or_else(PoisonError::into_inner);
    match (&*asked.method, asked.path()) {
        ("GET", "/.well-known/oauth-protected-resource/mcp") => {
            reply_json(stream, "200 OK", &metadata::of_resource(&lock()))
        }
        ("GET", "/.well-known/oauth-authorization-server") => {
            let ledger = lock();
            match ledger.redirect_metadata_to() {
                Some(place) => reply(stream, "302 Found", &[("Location", &place)], b""),
                None => reply_json(stream, "200 OK", &metadata::of_authority(&ledger)),
            }
        }
        ("GET", "/keys") => match &lock().signer {
            Some(signer) => reply_json(stream, "200 OK", &signer.key_set()),
            None => reply_json(stream, "404 Not Found", &json!({"error": "not_found"})),
        },
        ("POST", "/register") => grant::register(asked, stream, &mut lock()),
        ("GET", "/authorize") => grant::authorize(asked, stream, &mut lock()),
        ("POST", "/token") => grant::token(asked, stream, ledger),
        ("POST", "/revoke") => grant::revoke(asked, stream, &mut lock()),
        (_, "/mcp") => mcp::answer(asked, stream, &mut lock()),
        _ => reply_json(stream, "404 Not Found", &json!({"error": "not_found"})),
    }
}
