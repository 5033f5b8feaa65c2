//! A stub server for `atlatl tools`: the relay with no server behind it.
//!
//! What stands in the server's place can greet and nothing else; the relay adds the tools, as it
//! does for any server that has none.

use lro_wire::protocol::{ProtocolGeneration, PROTOCOL_VERSION};
use lro_wire::protocol::{self, STATELESS_VERSIONS};
use lro_wire::{JsonRpcError, METHOD_NOT_FOUND, Message, Messages};
use serde_json::{Value, json};

/// What a server without anything of its own says.
#[derive(Debug, Clone)]
pub struct Greeting {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What a client may tell its model.
    pub instructions: String,
}

impl Greeting {
    /// Answers a line; `None` where it wants no answer.
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
            _ => return Some(unknown(message).response(&id)),
        };
        Some(id.response(&result))
    }

    fn info(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }

    fn initialize(&self, message: &Message<'_>) -> Value {
        let asked = message.params().and_then(|params| params.text("protocolVersion"));
        json!({
            "protocolVersion": protocol::negotiate(asked.as_deref()),
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

fn unknown(message: &Message<'_>) -> JsonRpcError {
    let asked = lro_wire::protocol::meta(message).and_then(|meta| meta.text(PROTOCOL_VERSION));
    match asked {
        Some(asked)
            if ProtocolGeneration::from_request(message) == Some(ProtocolGeneration::Stateless)
                && !protocol::is_supported(&asked, ProtocolGeneration::Stateless) =>
        {
            protocol::unsupported(&STATELESS_VERSIONS, &asked)
        }
        _ => JsonRpcError::new(METHOD_NOT_FOUND, "there is no such method"),
    }
}
