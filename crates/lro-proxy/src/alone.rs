//! Alone: the relay without a server behind it, which is a server of our own tools.
//!
//! What stands in the server's place can greet and nothing else; the relay adds the tools, as it
//! does for any server that has none.

use lro_wire::meta::{Era, PROTOCOL_VERSION};
use lro_wire::{Failure, METHOD_NOT_FOUND, Message, Messages};
use serde_json::{Value, json};

/// Versions with `initialize`, the newest first.
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Versions without.
const MODERN: [&str; 1] = ["2026-07-28"];

const UNSUPPORTED_VERSION: i32 = -32022;

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

    /// Answers with the version that was asked for where it is known, else with the newest.
    fn initialize(&self, message: &Message<'_>) -> Value {
        let asked = message.params().and_then(|params| params.text("protocolVersion"));
        let version = LEGACY.into_iter().find(|known| asked.as_deref() == Some(known));
        json!({
            "protocolVersion": version.unwrap_or(LEGACY[0]),
            "capabilities": {},
            "serverInfo": self.info(),
            "instructions": self.instructions,
        })
    }

    fn discover(&self) -> Value {
        json!({
            "resultType": "complete",
            "supportedVersions": MODERN,
            "capabilities": {},
            "instructions": self.instructions,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": self.info()},
        })
    }
}

fn unknown(message: &Message<'_>) -> Failure {
    let version = lro_wire::meta::meta(message).and_then(|meta| meta.text(PROTOCOL_VERSION));
    match version {
        Some(version)
            if Era::of_request(message) == Some(Era::Modern) && !MODERN.contains(&&*version) =>
        {
            Failure {
                code: UNSUPPORTED_VERSION,
                message: format!("this server speaks {}", MODERN.join(", ")),
            }
        }
        _ => Failure { code: METHOD_NOT_FOUND, message: "there is no such method".to_owned() },
    }
}
