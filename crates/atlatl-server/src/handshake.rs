//! The responses to `initialize` and `server/discover`.

use lro_wire::meta::EXTENSION;
use lro_wire::version::{SESSION_VERSIONS, STATELESS_VERSIONS};
use lro_wire::{Object, version};
use serde_json::{Value, json};

use super::client::{ClientInfo, TASKS_EXTENSION, Transport};
use super::server::MemoryServer;

const INSTRUCTIONS: &str = "Long-term memory across conversations. Before you answer, call \
     recall_memories if the topic may have come up before. When a decision, a preference, an \
     incident or a procedure is worth remembering, call capture_memory. Large results are returned \
     as a reference, with tools to query them.";

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
