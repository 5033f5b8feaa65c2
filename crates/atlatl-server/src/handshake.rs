//! Responses to `initialize` and `server/discover`.

use lro_wire::meta::{CLIENT_CAPABILITIES, EXTENSION, Era};
use lro_wire::version::{LEGACY, MODERN};
use lro_wire::{Message, Object, meta, version};
use serde_json::{Value, json};

use super::server::MemoryServer;

const INSTRUCTIONS: &str = "A memory that outlasts conversations. Before you answer what may have \
    come up before, call recall_memories. When a decision, a preference, an incident or a way of \
    doing something is worth keeping, call capture_memory. Large results come as a reference with \
    tools to query them.";

impl MemoryServer {
    pub(crate) fn info(&self) -> Value {
        json!({"name": "atlatl", "title": "Atlatl memory", "version": self.0.version})
    }

    fn extension_capability(&self) -> Value {
        json!({"level": 3, "threshold_tokens": self.0.threshold_tokens})
    }

    pub(crate) fn initialize(&self, params: &Object<'_>, client: ClientInfo) -> String {
        let asked = params.text("protocolVersion");
        let version = version::negotiated(asked.as_deref());
        let mut capabilities = json!({
            "tools": {},
            "resources": {},
            "prompts": {},
            "completions": {},
            "experimental": {EXTENSION: self.extension_capability()},
        });
        if version == LEGACY[0] {
            let mut tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
            // Over HTTP nobody knows whose tasks they are.
            if client.transport == Transport::Stdio {
                tasks["list"] = json!({});
            }
            capabilities["tasks"] = tasks;
        }
        json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": self.info(),
            "instructions": INSTRUCTIONS,
        })
        .to_string()
    }

    pub(crate) fn discover(&self) -> String {
        json!({
            "supportedVersions": MODERN,
            "capabilities": {
                "tools": {},
                "resources": {},
                "prompts": {},
                "completions": {},
                "extensions": {TASKS_EXTENSION: {}, EXTENSION: self.extension_capability()},
            },
            "instructions": INSTRUCTIONS,
        })
        .to_string()
    }
}

// --- Client: who asks, and what that says about the form of the answer.

/// The extension of tasks, from 2026-07-28 on.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Where a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// From the process that started us, on the same machine.
    Stdio,
    /// From anywhere.
    Http,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// How it speaks.
    pub era: Era,
    /// Spec P2: it stands between, and keeps large results itself. Anyone may say so: it changes the
    /// form of an answer and nothing else.
    pub proxy: bool,
    /// Where it is.
    pub transport: Transport,
    /// Whether it takes a task for an answer (2026-07-28).
    pub tasks: bool,
}

impl ClientInfo {
    /// A client that has said nothing yet.
    pub fn new(era: Era, transport: Transport) -> Self {
        Self { era, proxy: false, transport, tasks: false }
    }

    /// A client that says in every request who it is.
    pub fn from_request(message: &Message<'_>, transport: Transport) -> Self {
        let capabilities = meta::meta(message).and_then(|meta| meta.at(&[CLIENT_CAPABILITIES]));
        let tasks = capabilities.and_then(|has| has.at(&["extensions", TASKS_EXTENSION])).is_some();
        Self { era: Era::Modern, proxy: meta::is_proxy(message), transport, tasks }
    }

    /// The same client, known as a proxy or not.
    pub fn as_proxy(mut self, proxy: bool) -> Self {
        self.proxy = proxy;
        self
    }
}
