//! The settings, environment and command line of each agent.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::model::PROMPT;
use super::{Agent, AgentSandbox};

/// The dummy key of every agent.
const KEY: &str = "sk-scripted";

/// An MCP server over stdio.
#[derive(Debug, Clone)]
pub struct McpServer {
    /// Its name in the agent's settings.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl McpServer {
    /// The server `program` with `arguments`.
    pub fn new(name: &str, program: impl AsRef<Path>, arguments: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            program: program.as_ref().to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        }
    }
}

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    /// Before a tool call.
    Before,
    /// After a tool call; in Claude Code, after one that succeeded.
    After,
    /// After a failing tool call, where the host has an event for it.
    AfterFailure,
}

impl Agent {
    /// The host's name of an event; `None` if it has no such event.
    pub fn event(self, event: HookEvent) -> Option<&'static str> {
        let (before, after, failure) = match self {
            Self::ClaudeCode => ("PreToolUse", "PostToolUse", Some("PostToolUseFailure")),
            Self::Codex => ("PreToolUse", "PostToolUse", None),
            Self::Copilot => ("preToolUse", "postToolUse", Some("postToolUseFailure")),
            Self::Gemini => ("BeforeTool", "AfterTool", None),
            Self::Opencode => ("tool.execute.before", "tool.execute.after", None),
        };
        match event {
            HookEvent::Before => Some(before),
            HookEvent::After => Some(after),
            HookEvent::AfterFailure => failure,
        }
    }
}

/// The arguments that make the agent run one prompt without a terminal.
pub(super) fn arguments(agent: Agent) -> Vec<&'static str> {
    match agent {
        Agent::ClaudeCode => vec!["-p", PROMPT],
        Agent::Codex => {
            vec!["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", PROMPT]
        }
        Agent::Copilot => {
            vec!["-p", PROMPT, "--allow-all-tools", "--allow-all-paths", "--no-color"]
        }
        Agent::Gemini => vec!["-p", PROMPT, "--yolo", "-m", "gemini-2.5-pro"],
        Agent::Opencode => vec!["run", PROMPT],
    }
}

/// The environment of the agent.
pub(super) fn variables(sandbox: &AgentSandbox, url: &str) -> Vec<(&'static str, String)> {
    let on = || "1".to_owned();
    match sandbox.agent {
        Agent::ClaudeCode => vec![
            ("ANTHROPIC_BASE_URL", url.to_owned()),
            ("ANTHROPIC_API_KEY", KEY.to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", on()),
            ("DISABLE_AUTOUPDATER", on()),
        ],
        Agent::Codex => vec![("SCRIPTED_KEY", KEY.to_owned())],
        Agent::Copilot => vec![
            ("COPILOT_OFFLINE", "true".to_owned()),
            ("COPILOT_AUTO_UPDATE", "false".to_owned()),
            ("COPILOT_PROVIDER_TYPE", "openai".to_owned()),
            ("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1")),
            ("COPILOT_PROVIDER_API_KEY", KEY.to_owned()),
            ("COPILOT_MODEL", "gpt-4.1".to_owned()),
        ],
        Agent::Gemini => vec![
            ("GEMINI_API_KEY", KEY.to_owned()),
            ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()),
        ],
        Agent::Opencode => vec![
            ("OPENCODE_DISABLE_AUTOUPDATE", on()),
            ("OPENCODE_DISABLE_MODELS_FETCH", on()),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", on()),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", on()),
        ],
    }
}

/// Writes the agent's settings into the home directory.
pub(super) fn write_settings(sandbox: &AgentSandbox, url: &str) {
    let write = |name: &str, content: &str| {
        sandbox.write(&sandbox.home().join(name), content.as_bytes());
    };
    match sandbox.agent {
        Agent::ClaudeCode => {
            let allowed: Vec<String> = ["Bash", "Read", "Grep"]
                .map(str::to_owned)
                .into_iter()
                .chain(sandbox.servers.iter().map(|server| format!("mcp__{}", server.name)))
                // The server that `atlatl install --hooks` adds.
                .chain(sandbox.installer.iter().map(|_| "mcp__atlatl".to_owned()))
                .collect();
            let settings = json!({"permissions": {"allow": allowed}, "hooks": matched_hooks(sandbox, sandbox.hook_timeout.as_secs())});
            write(".claude/settings.json", &settings.to_string());
            let state = json!({
                "hasCompletedOnboarding": true,
                "mcpServers": servers(sandbox, |server| json!({
                    "type": "stdio", "command": server.program, "args": server.arguments,
                })),
            });
            write(".claude.json", &state.to_string());
        }
        Agent::Codex => write(".codex/config.toml", &codex_config(sandbox, url)),
        Agent::Copilot => {
            let mut hooks = Map::new();
            for (event, command) in &sandbox.hooks {
                let hook = json!({"type": "command", "bash": command, "timeoutSec": sandbox.hook_timeout.as_secs()});
                push(&mut hooks, event, hook);
            }
            if !hooks.is_empty() {
                let hooks = json!({"version": 1, "hooks": hooks});
                write(".copilot/hooks/test.json", &hooks.to_string());
            }
            let servers = servers(sandbox, |server| {
                json!({
                    "type": "local", "command": server.program, "args": server.arguments,
                    "tools": ["*"],
                })
            });
            write(".copilot/mcp-config.json", &json!({"mcpServers": servers}).to_string());
        }
        Agent::Gemini => {
            let settings = json!({
                "general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
                "privacy": {"usageStatisticsEnabled": false},
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "hooks": matched_hooks(sandbox, sandbox.hook_timeout.as_secs() * 1000),
                "mcpServers": servers(sandbox, |server| json!({
                    "command": server.program, "args": server.arguments, "trust": true,
                })),
            });
            write(".gemini/settings.json", &settings.to_string());
        }
        Agent::Opencode => {
            let model = json!({
                "name": "Scripted", "tool_call": true,
                "limit": {"context": 1_000_000, "output": 10_000},
            });
            let settings = json!({
                "autoupdate": false,
                "share": "disabled",
                "model": "scripted/scripted",
                "small_model": "scripted/scripted",
                "provider": {"scripted": {
                    "npm": "@ai-sdk/openai-compatible", "name": "Scripted",
                    "options": {"baseURL": format!("{url}/v1"), "apiKey": KEY},
                    "models": {"scripted": model},
                }},
                "permission": {"*": "allow"},
                "mcp": servers(sandbox, |server| {
                    let mut command = vec![server.program.display().to_string()];
                    command.extend(server.arguments.iter().cloned());
                    json!({"type": "local", "command": command, "enabled": true})
                }),
            });
            write(".config/opencode/opencode.json", &settings.to_string());
            if !sandbox.hooks.is_empty() {
                write(".config/opencode/plugin/hooks.js", &opencode_plugin(sandbox));
            }
        }
    }
}

fn servers(sandbox: &AgentSandbox, entry: impl Fn(&McpServer) -> Value) -> Value {
    let entries = sandbox.servers.iter().map(|server| (server.name.clone(), entry(server)));
    Value::Object(entries.collect())
}

/// Hooks of Claude Code and Gemini CLI, whose units of time differ.
fn matched_hooks(sandbox: &AgentSandbox, timeout: u64) -> Value {
    let mut hooks = Map::new();
    for (event, command) in &sandbox.hooks {
        let hook = json!({"type": "command", "command": command, "timeout": timeout});
        push(&mut hooks, event, json!({"matcher": "*", "hooks": [hook]}));
    }
    Value::Object(hooks)
}

fn push(hooks: &mut Map<String, Value>, event: &str, hook: Value) {
    if let Value::Array(list) = hooks.entry(event).or_insert_with(|| json!([])) {
        list.push(hook);
    }
}

fn codex_config(sandbox: &AgentSandbox, url: &str) -> String {
    // JSON strings are TOML strings.
    let quoted = |text: &str| Value::from(text).to_string();
    let mut config = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"never\"\n\
         sandbox_mode = \"danger-full-access\"\ncheck_for_update_on_startup = false\n\n\
         [analytics]\nenabled = false\n\n\
         [model_providers.scripted]\nname = \"Scripted\"\nbase_url = {}\nwire_api = \"responses\"\n\
         env_key = \"SCRIPTED_KEY\"\n",
        quoted(&format!("{url}/v1"))
    );
    for server in &sandbox.servers {
        config += &*format!(
            "\n[mcp_servers.{}]\ncommand = {}\nargs = {}\n",
            server.name,
            quoted(&server.program.display().to_string()),
            json!(server.arguments)
        );
    }
    for (event, command) in &sandbox.hooks {
        config += &*format!(
            "\n[[hooks.{event}]]\nmatcher = \".*\"\n\n[[hooks.{event}.hooks]]\n\
             type = \"command\"\ncommand = {}\ntimeout = {}\n",
            quoted(command),
            sandbox.hook_timeout.as_secs()
        );
    }
    config
}

/// A plugin that passes the input and output of a tool to a command, as JSON.
fn opencode_plugin(sandbox: &AgentSandbox) -> String {
    let mut plugin = String::from(
        "import { spawnSync } from \"node:child_process\";\n\
         export const Hooks = async () => ({\n",
    );
    for (event, command) in &sandbox.hooks {
        plugin += &*format!(
            "  {event:?}: async (input, output) => {{\n    \
             spawnSync(\"sh\", [\"-c\", {}], {{\n      input: JSON.stringify({{ input, output }}), timeout: {},\n    }});\n  }},\n",
            Value::from(command.as_str()),
            sandbox.hook_timeout.as_millis()
        );
    }
    plugin + "});\n"
}
