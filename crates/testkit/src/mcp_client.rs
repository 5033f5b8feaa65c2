//! An independent MCP client (rmcp) for tests of the built program.

use std::process::Command;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde_json::Value;
use tokio::runtime::Runtime;

/// How a client begins its conversation with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifecycle {
    /// A handshake with `initialize`.
    Initialize,
    /// `server/discover` and metadata in every request: 2026-07-28.
    Discover,
}

impl Lifecycle {
    /// All lifecycles.
    pub const ALL: [Self; 2] = [Self::Initialize, Self::Discover];

    fn mode(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Initialize => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Discover { preferred_versions },
        }
    }
}

/// A client of rmcp with its runtime.
pub struct Peer {
    runtime: Runtime,
    client: Option<RunningService<RoleClient, ()>>,
}

impl Peer {
    /// Connects to a server that `command` starts.
    pub fn stdio(command: Command, lifecycle: Lifecycle) -> Self {
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(async {
            let child = TokioChildProcess::new(tokio::process::Command::from(command)).unwrap();
            ().serve_with_lifecycle(child, lifecycle.mode()).await.unwrap()
        });
        Self { runtime, client: Some(client) }
    }

    fn client(&self) -> &RunningService<RoleClient, ()> {
        self.client.as_ref().unwrap()
    }

    /// The negotiated protocol version.
    pub fn version(&self) -> String {
        self.client().peer_info().unwrap().protocol_version.to_string()
    }

    /// The names of all tools.
    pub fn tools(&self) -> Vec<String> {
        let tools = self.runtime.block_on(self.client().list_all_tools()).unwrap();
        tools.into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    /// The number of resources.
    pub fn resources(&self) -> usize {
        self.runtime.block_on(self.client().list_all_resources()).unwrap().len()
    }

    /// Calls a tool; returns its result as rmcp parsed it.
    pub fn result(&self, tool: &'static str, arguments: &Value) -> Value {
        let arguments = arguments.as_object().unwrap().clone();
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.runtime.block_on(self.client().call_tool(params)).unwrap();
        let result = serde_json::to_value(result).unwrap();
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result
    }

    /// Calls a tool; returns its structured content.
    pub fn call(&self, tool: &'static str, arguments: &Value) -> Value {
        self.result(tool, arguments)["structuredContent"].clone()
    }

    /// Calls a tool; returns its text.
    pub fn text(&self, tool: &'static str, arguments: &Value) -> String {
        self.result(tool, arguments)["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            // The client may have ended already.
            let _ = self.runtime.block_on(client.cancel());
        }
    }
}
