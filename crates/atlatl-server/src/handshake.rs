//! Responses to `initialize` and `server/discover`.

use lro_wire::Object;
use lro_wire::meta::EXTENSION;
use lro_wire::version::{self, LEGACY, MODERN};
use serde_json::{Value, json};

use crate::client::{Client, TASKS, Transport};
use crate::server::MemoryServer;

const INSTRUCTIONS: &str = "A memory that outlasts conversations. Before you answer what may have \
    come up before, call recall_memories. When a decision, a preference, an incident or a way of \
    doing something is worth keeping, call capture_memory. Large results come as a reference with \
    tools to query them.";

impl MemoryServer {
    pub(crate) fn info(&self) -> Value {
        json!({"name": "atlatl", "title": "Atlatl memory", "version": self.0.version})
    }

    fn ours(&self) -> Value {
        json!({"level": 3, "threshold_tokens": self.0.threshold_tokens})
    }

    pub(crate) fn initialize(&self, params: &Object<'_>, client: Client) -> String {
        let asked = params.text("protocolVersion");
        let version = version::negotiated(asked.as_deref());
        let mut capabilities = json!({
            "tools": {},
            "resources": {},
            "prompts": {},
            "completions": {},
            "experimental": {EXTENSION: self.ours()},
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
                "extensions": {TASKS: {}, EXTENSION: self.ours()},
            },
            "instructions": INSTRUCTIONS,
        })
        .to_string()
    }
}
