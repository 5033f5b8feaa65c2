//! A stub server for `atlatl tools`, which has no server behind its relay.
//!
//! It answers only the handshake and `ping`; the relay adds the extraction tools, as it does for any
//! server without tools.

use lro_wire::protocol::{self, PROTOCOL_VERSION, ProtocolGeneration, STATELESS_VERSIONS};
use lro_wire::{JsonRpcError, METHOD_NOT_FOUND, Message, Messages};
use serde_json::{Value, json};

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
        _ => JsonRpcError::new(METHOD_NOT_FOUND, "method not found"),
    }
}
