//! The client of a request, and the responses to `initialize` and `server/discover`.

use lro_wire::meta::{CLIENT_CAPABILITIES, EXTENSION, ProtocolGeneration};
use lro_wire::version::{SESSION_VERSIONS, STATELESS_VERSIONS};
use lro_wire::{Message, Object, meta, version};
use serde_json::{Value, json};

use super::server::MemoryServer;

/// The tasks extension, from 2026-07-28 on.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

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
        let version = version::negotiate(asked.as_deref());
        let mut capabilities = json!({
            "tools": {},
            "resources": {},
            "prompts": {},
            "completions": {},
            "experimental": {EXTENSION: self.extension_capability()},
        });
        if version == SESSION_VERSIONS[0] {
            let mut tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
            // Over HTTP the owner of a task is unknown.
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
            "supportedVersions": STATELESS_VERSIONS,
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

/// The transport of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// From the parent process, on the same machine.
    Stdio,
    /// From anywhere.
    Http,
}

/// The properties of a client that determine the form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The protocol generation.
    pub era: ProtocolGeneration,
    /// Spec P2: the client is a proxy that offloads large results itself. Any client may claim
    /// that, since it only changes the form of a response.
    pub proxy: bool,
    /// The transport.
    pub transport: Transport,
    /// Whether it accepts a task as a result (2026-07-28).
    pub tasks: bool,
}

impl ClientInfo {
    /// Creates a client without declared capabilities.
    pub fn new(era: ProtocolGeneration, transport: Transport) -> Self {
        Self { era, proxy: false, transport, tasks: false }
    }

    /// Determines the client from a request that declares its capabilities.
    pub fn from_request(message: &Message<'_>, transport: Transport) -> Self {
        let capabilities = meta::meta(message).and_then(|meta| meta.at(&[CLIENT_CAPABILITIES]));
        let tasks = capabilities.and_then(|has| has.at(&["extensions", TASKS_EXTENSION])).is_some();
        Self {
            era: ProtocolGeneration::Stateless,
            proxy: meta::is_proxy(message),
            transport,
            tasks,
        }
    }

    /// Sets whether the client is a proxy.
    pub fn as_proxy(mut self, proxy: bool) -> Self {
        self.proxy = proxy;
        self
    }
}
