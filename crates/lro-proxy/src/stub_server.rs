//! A stub server for `atlatl tools`, which has no server behind its relay.
//!
//! It answers only the handshake and `ping`; the relay adds the extraction tools, as it does for any
//! server without tools.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use lro_wire::protocol::{self, PROTOCOL_VERSION, ProtocolGeneration, STATELESS_VERSIONS};
use lro_wire::{JsonRpcError, Line, Lines, METHOD_NOT_FOUND, Message, Messages};
use serde_json::{Value, json};

use crate::downstream::stdio::SharedLineWriter;
use crate::relay::local_tools::LocalCallPool;
use crate::relay::{Forward, Relay};
use crate::session::EXIT_TIMEOUT;

/// The identity of a server without tools, resources or prompts.
#[derive(Debug, Clone)]
pub struct StubServer {
    /// The server's name.
    pub name: String,
    /// The server's version.
    pub version: String,
    /// Instructions for the client's model.
    pub instructions: String,
}

impl StubServer {
    /// Answers a line. Returns `None` if it contains no request.
    pub fn answer(&self, line: &str) -> Option<String> {
        match Messages::read(line) {
            Some(Messages::One(message)) => self.message(&message),
            Some(Messages::Batch(batch)) => {
                let answers: Vec<String> =
                    batch.into_iter().filter_map(|(_, message)| self.message(&message?)).collect();
                (!answers.is_empty()).then(|| format!("[{}]", answers.join(",")))
            }
            _ => None,
        }
    }

    fn message(&self, message: &Message<'_>) -> Option<String> {
        let (id, method) = (message.id()?, message.method.as_deref()?);
        let result = match method {
            "initialize" => self.initialize(message),
            "server/discover" => self.discover(),
            "ping" => json!({}),
            _ => return Some(unknown_method(message).response(&id)),
        };
        Some(id.response(&result))
    }

    fn info(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }

    fn initialize(&self, message: &Message<'_>) -> Value {
        let requested = message.params().and_then(|params| params.text("protocolVersion"));
        json!({
            "protocolVersion": protocol::negotiate(requested.as_deref()),
            "capabilities": {},
            "serverInfo": self.info(),
            "instructions": self.instructions,
        })
    }

    fn discover(&self) -> Value {
        json!({
            "resultType": "complete",
            "supportedVersions": STATELESS_VERSIONS,
            "capabilities": {},
            "instructions": self.instructions,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": self.info()},
        })
    }
}

fn unknown_method(message: &Message<'_>) -> JsonRpcError {
    let requested = protocol::meta(message).and_then(|meta| meta.text(PROTOCOL_VERSION));
    match requested {
        Some(requested)
            if ProtocolGeneration::from_request(message) == Some(ProtocolGeneration::Stateless)
                && !protocol::is_supported(&requested, ProtocolGeneration::Stateless) =>
        {
            protocol::unsupported(&STATELESS_VERSIONS, &requested)
        }
        _ => JsonRpcError::new(METHOD_NOT_FOUND, "there is no such method"),
    }
}

/// Serves a stdio client from `server` and the relay's extraction tools until the client closes its
/// stream.
pub fn run_stub(
    relay: &Arc<Relay>,
    server: &StubServer,
    (from_client, to_client): (impl Read, impl Write + Send + 'static),
) {
    let to_client = Arc::new(SharedLineWriter::new(to_client));
    let pool = LocalCallPool::new(Arc::clone(relay), Arc::clone(&to_client));
    let mut lines = Lines::new(from_client);
    // No request to these tools is that long, so an oversize line ends the session.
    while let Ok(Some(Line::Whole(line))) = lines.next() {
        let outcome = relay.from_client(line);
        outcome.calls.into_iter().for_each(|call| pool.answer(call));
        let request = match outcome.forward {
            Forward::Unchanged => std::str::from_utf8(line).unwrap_or_default().to_owned(),
            Forward::Changed(text) => text,
            Forward::Dropped => continue,
        };
        let Some(answer) = server.answer(&request) else { continue };
        let written = match relay.from_server(answer.as_bytes()) {
            Forward::Changed(text) => to_client.line(&text),
            _ => to_client.line(&answer),
        };
        if written.is_err() {
            break;
        }
    }
    pool.finish(Instant::now() + EXIT_TIMEOUT);
}
