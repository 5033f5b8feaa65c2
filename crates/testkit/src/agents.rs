//! The real coding agents, run against a scripted model on loopback.
//!
//! `.ci/agents` installs the agents. Each run has a home directory of its own, a dummy key, and a model that
//! plays a [`Script`]: a list of tool calls, then a text. The model records every request, so a test sees
//! what an agent sends as the result of a tool. Other hosts are out of reach: the agents get the model's
//! address as their proxy, which refuses and records every other host.

mod api;
mod case;
mod model;
mod observation;
mod recorder;
mod sandbox;
mod setup;
mod shape;

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};

pub use self::api::{ModelRequest, ToolResult};
pub use self::case::Case;
pub use self::model::{FINAL_TEXT, Script, ScriptedModel};
pub use self::observation::{Delivery, Handling, Observation, observe, reference};
pub use self::recorder::{HookInput, Recorder, abridge, record};
pub use self::sandbox::{AgentRun, AgentSandbox};
pub use self::setup::{HookEvent, McpServer};
pub use self::shape::{differences, shape};

/// A coding agent that runs hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agent {
    /// Claude Code.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// GitHub Copilot CLI.
    Copilot,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

/// A call of a tool by the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The namespace of the tool, which only Codex has.
    pub namespace: Option<String>,
    /// The name of the tool as the agent lists it.
    pub name: String,
    /// Its arguments, an object.
    pub arguments: Value,
}

impl ToolCall {
    /// A call of the tool `name`.
    pub fn new(name: &str, arguments: Value) -> Self {
        Self { namespace: None, name: name.to_owned(), arguments }
    }
}

impl Agent {
    /// All agents.
    pub const ALL: [Self; 5] =
        [Self::ClaudeCode, Self::Codex, Self::Copilot, Self::Gemini, Self::Opencode];

    /// The name on the command line of `atlatl hook`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Copilot => "copilot",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Copilot => "Copilot CLI",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "opencode",
        }
    }

    /// The name of its program.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            _ => self.name(),
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::ClaudeCode => "@anthropic-ai/claude-code",
            Self::Codex => "@openai/codex",
            Self::Copilot => "@github/copilot",
            Self::Gemini => "@google/gemini-cli",
            Self::Opencode => "opencode-ai",
        }
    }

    /// The installed program.
    ///
    /// # Panics
    ///
    /// Panics, naming the command that installs it, if it is not there.
    pub fn program(self) -> PathBuf {
        // Scripts of packages do not run, so the packages of the platform are used where a script would
        // copy the program.
        let candidates: &[&str] = match self {
            Self::ClaudeCode => &[
                "@anthropic-ai/claude-code-linux-x64/claude",
                "@anthropic-ai/claude-code-linux-arm64/claude",
                "@anthropic-ai/claude-code-darwin-arm64/claude",
            ],
            Self::Codex => &[".bin/codex"],
            Self::Copilot => &[".bin/copilot"],
            Self::Gemini => &[".bin/gemini"],
            Self::Opencode => &[
                "opencode-linux-x64-baseline/bin/opencode",
                "opencode-linux-arm64/bin/opencode",
                "opencode-darwin-arm64/bin/opencode",
            ],
        };
        let modules = modules();
        let programs = candidates.iter().map(|candidate| modules.join(candidate));
        programs.into_iter().find(|program| program.exists()).unwrap_or_else(|| {
            panic!(
                "this test runs the real {}, which is not installed; install it with: .ci/agents",
                self.title()
            )
        })
    }

    /// The version of the installed package.
    ///
    /// # Panics
    ///
    /// Panics, naming the command that installs it, if it is not there.
    pub fn version(self) -> String {
        let manifest = modules().join(self.package()).join("package.json");
        let text = fs::read(manifest).unwrap_or_else(|_| {
            panic!("{} is not installed; install it with: .ci/agents", self.package())
        });
        let manifest: Value = serde_json::from_slice(&text).expect("a package manifest");
        manifest["version"].as_str().expect("a version").to_owned()
    }

    /// A call of the agent's own shell tool.
    pub fn shell(self, command: &str) -> ToolCall {
        let described = json!({"command": command, "description": "Run a command"});
        match self {
            Self::ClaudeCode => ToolCall::new("Bash", described),
            Self::Codex => ToolCall::new("exec_command", json!({"cmd": command})),
            Self::Copilot | Self::Opencode => ToolCall::new("bash", described),
            Self::Gemini => ToolCall::new("run_shell_command", json!({"command": command})),
        }
    }

    /// A call of a tool of an MCP server.
    pub fn mcp(self, server: &str, tool: &str, arguments: Value) -> ToolCall {
        let name = match self {
            Self::ClaudeCode => format!("mcp__{server}__{tool}"),
            Self::Codex => {
                let namespace = Some(format!("mcp__{server}"));
                return ToolCall { namespace, name: tool.to_owned(), arguments };
            }
            Self::Copilot => format!("{server}-{tool}"),
            Self::Gemini => format!("mcp_{server}_{tool}"),
            Self::Opencode => format!("{server}_{tool}"),
        };
        ToolCall::new(&name, arguments)
    }
}

/// The directory of the installed packages: in `TESTKIT_AGENTS`, or where `.ci/agents` puts them.
fn modules() -> PathBuf {
    let configured = env::var_os("TESTKIT_AGENTS").map(PathBuf::from);
    let cached = || Some(env::home_dir()?.join(".cache/atlatl/agents"));
    configured
        .or_else(cached)
        .map_or_else(|| Path::new("node_modules").to_owned(), |cache| cache.join("node_modules"))
}

/// The file with the recorded hook inputs of an agent.
pub fn fixture_path(agent: Agent) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/agents");
    fixtures.join(agent.name()).with_extension("json")
}
