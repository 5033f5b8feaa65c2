//! Hooks of coding agents: replaces the large output of a built-in tool by a descriptor.
//!
//! An agent (the *host*) starts `atlatl hook` after a tool call and passes the output as JSON in its own
//! shape. Each host has a module that reads this input into a [`ToolEvent`] and writes the answer in the
//! shape that the host accepts. [`store`] decides about the output, stores it and describes it.
//!
//! Everything in the input is untrusted: the output, and the paths in it. `None` always means that the
//! host's own output stays as it is.

pub(crate) mod before_tool;
mod claude_code;
mod codex;
mod copilot;
mod gemini;
pub(crate) mod guidance;
mod opencode;
pub(crate) mod pause;
pub(crate) mod policy;
mod reread;
pub(crate) mod spill_file;
pub(crate) mod store;
pub(crate) mod tool;

use std::borrow::Cow;

use lro_core::ClientLimit;
use lro_core::tool_result::ToolResult;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::spill_file::SpillPath;
use crate::stored_output::SHELL_TOOL;

/// A coding agent with hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Host {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Copilot CLI.
    Copilot,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

impl Host {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Copilot => "copilot",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// The server of this host's results in the ledger: of its hook after a tool call, and of `atlatl run`
    /// in its shell.
    pub(crate) fn ledger_label(self) -> &'static str {
        match self {
            Self::ClaudeCode => "hook claude-code",
            Self::Codex => "hook codex",
            Self::Copilot => "hook copilot",
            Self::Gemini => "hook gemini",
            Self::Opencode => "hook opencode",
        }
    }

    /// How much of a command's output the host would show to the model, if that is known.
    pub(crate) fn shell_limit(self) -> Option<ClientLimit> {
        match self {
            Self::ClaudeCode => Some(claude_code::BASH_LIMIT),
            Self::Codex => Some(ClientLimit::first_bytes(codex::SHOWN_LIMIT)),
            Self::Gemini => Some(ClientLimit::first_bytes(gemini::SHOWN_LIMIT)),
            Self::Copilot | Self::Opencode => None,
        }
    }

    /// The names of the event after a tool call, as its hook is started with.
    fn after_tool_events(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode | Self::Codex => &["post-tool-use", "PostToolUse"],
            Self::Copilot => &["post-tool-use", "postToolUse"],
            Self::Gemini => &["after-tool", "AfterTool"],
            Self::Opencode => &["tool.execute.after"],
        }
    }

    /// Whether `event` is the event after a tool call.
    pub(crate) fn is_after_tool(self, event: &str) -> bool {
        self.after_tool_events().contains(&event)
    }

    /// The name of a built-in tool that all hosts share, such as `Bash`. Other names stay.
    pub(crate) fn common_name(self, tool: &str) -> &str {
        match (self, tool) {
            (Self::Codex, "exec_command" | "shell" | "local_shell" | "shell_command")
            | (Self::Copilot | Self::Opencode, "bash")
            | (Self::Gemini, "run_shell_command") => "Bash",
            (Self::Copilot, "view")
            | (Self::Gemini, "read_file" | "read_many_files")
            | (Self::Opencode, "read") => "Read",
            (Self::Copilot | Self::Opencode, "grep")
            | (Self::Copilot, "rg")
            | (Self::Gemini, "search_file_content" | "grep_search") => "Grep",
            (Self::Copilot | Self::Gemini | Self::Opencode, "glob") => "Glob",
            (Self::Copilot | Self::Gemini, "web_fetch") | (Self::Opencode, "webfetch") => {
                "WebFetch"
            }
            _ => tool,
        }
    }

    /// Reads the input of the hook after a tool call. `None` if it has no output that can be replaced.
    pub(crate) fn read_after_tool(self, input: &[u8]) -> Option<ToolEvent<'_>> {
        let event = match self {
            Self::ClaudeCode => claude_code::read(input),
            Self::Codex => codex::read(input),
            Self::Copilot => copilot::read(input),
            Self::Gemini => gemini::read(input),
            Self::Opencode => opencode::read(input),
        }?;
        (!tool::is_own(self, &event.tool, event.mcp_tool.as_deref())).then_some(event)
    }
}

/// A finished tool call with its output, as the host reports it.
pub(crate) struct ToolEvent<'a> {
    /// The host's name of the tool.
    pub(crate) tool: Cow<'a, str>,
    /// The server's name of an MCP tool, if the host reports it.
    pub(crate) mcp_tool: Option<Cow<'a, str>>,
    /// The session of the agent.
    pub(crate) session: Option<Cow<'a, str>>,
    /// The arguments of the call, a JSON object.
    pub(crate) arguments: Option<&'a str>,
    /// What the call is about: the command of a shell, the path of a file, a URL.
    pub(crate) subject: Option<String>,
    /// The output.
    pub(crate) output: ToolText<'a>,
    /// A file of the host with the whole output, if `output` has only a part of it.
    pub(crate) spill: Option<SpillPath>,
    /// The most bytes of the output that the host would show to the model.
    pub(crate) shown_bytes: Option<u64>,
    /// Writes the answer of the hook, with this text in place of the output.
    pub(crate) answer: Answer<'a>,
}

impl ToolEvent<'_> {
    /// The command line, if the tool is a shell.
    fn shell_command(&self, host: Host) -> Option<&str> {
        self.subject.as_deref().filter(|_| host.common_name(&self.tool) == SHELL_TOOL)
    }
}

/// Writes the answer of a hook, with the text in place of the output.
type Answer<'a> = Box<dyn FnOnce(&str) -> String + 'a>;

/// The output of a tool.
pub(crate) enum ToolText<'a> {
    /// Text, and a further text such as the standard error.
    Text {
        /// The output.
        text: Cow<'a, str>,
        /// A further text.
        further: Option<Cow<'a, str>>,
    },
    /// The result of an MCP tool: a `CallToolResult`.
    Result(Cow<'a, str>),
}

impl ToolText<'_> {
    /// The size in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Text { text, further } => {
                (text.len() + further.as_ref().map_or(0, |further| further.len())) as u64
            }
            Self::Result(json) => json.len() as u64,
        }
    }
}

/// The members of a hook's input that Claude Code, Codex and Gemini CLI share.
#[derive(Deserialize)]
struct SnakeCaseInput<'a> {
    #[serde(borrow, default)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_name: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_response: Option<&'a RawValue>,
    /// Of Gemini CLI, for MCP tools.
    #[serde(borrow, default)]
    mcp_context: Option<&'a RawValue>,
}

/// An MCP tool as its server names it.
#[derive(Deserialize)]
struct McpContext<'a> {
    #[serde(borrow)]
    tool_name: Cow<'a, str>,
}

impl<'a> SnakeCaseInput<'a> {
    fn read(input: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(input).ok()
    }

    /// The arguments of the call, a JSON object.
    fn arguments(&self) -> Option<&'a str> {
        self.tool_input.map(RawValue::get).filter(|json| json.starts_with('{'))
    }

    /// The call with its output, of which the host would show at most `shown_limit` bytes.
    fn event(self, output: ToolText<'a>, shown_limit: u64, answer: Answer<'a>) -> ToolEvent<'a> {
        let arguments = self.arguments();
        let context: Option<McpContext<'a>> =
            self.mcp_context.and_then(|json| serde_json::from_str(json.get()).ok());
        ToolEvent {
            subject: subject(arguments, &SUBJECTS),
            arguments,
            tool: self.tool_name,
            mcp_tool: context.map(|context| context.tool_name),
            session: self.session_id,
            shown_bytes: Some(output.len().min(shown_limit)),
            output,
            spill: None,
            answer,
        }
    }
}

/// The text of the first of `names` that is a string among the arguments of a call.
fn subject(arguments: Option<&str>, names: &[&str]) -> Option<String> {
    let arguments: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(arguments?).ok()?;
    names.iter().find_map(|name| arguments.get(*name)?.as_str().map(str::to_owned))
}

/// A descriptor, and what the host says about the tool call behind its output.
fn with_status(descriptor: &str, status: &str) -> String {
    if status.is_empty() { descriptor.to_owned() } else { format!("{descriptor}\n{status}") }
}

/// The arguments that say what a call of a built-in tool is about, in any host.
const SUBJECTS: [&str; 8] =
    ["command", "cmd", "file_path", "filePath", "absolute_path", "path", "url", "pattern"];

/// A block array, or an object with one, as a `CallToolResult`. `None` if it has no blocks.
fn tool_result(json: &str) -> Option<Cow<'_, str>> {
    let result = match json.as_bytes().first()? {
        b'[' => Cow::Owned(format!("{{\"content\":{json}}}")),
        b'{' => Cow::Borrowed(json),
        _ => return None,
    };
    let has_text = !ToolResult::read(&result)?.parts.is_empty();
    has_text.then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_share_the_names_of_built_in_tools() {
        for (host, tool, common) in [
            (Host::ClaudeCode, "Bash", "Bash"),
            (Host::Codex, "exec_command", "Bash"),
            (Host::Copilot, "bash", "Bash"),
            (Host::Gemini, "run_shell_command", "Bash"),
            (Host::Opencode, "bash", "Bash"),
            (Host::Opencode, "webfetch", "WebFetch"),
            (Host::Gemini, "grep_search", "Grep"),
            (Host::ClaudeCode, "bash", "bash"),
            (Host::Gemini, "mcp_files_read", "mcp_files_read"),
        ] {
            assert_eq!(host.common_name(tool), common, "{host:?} {tool}");
        }
    }

    const CLAUDE_CODE: &str = include_str!("../../testkit/fixtures/agents/claude-code.json");
    const CODEX: &str = include_str!("../../testkit/fixtures/agents/codex.json");
    const COPILOT: &str = include_str!("../../testkit/fixtures/agents/copilot.json");
    const GEMINI: &str = include_str!("../../testkit/fixtures/agents/gemini.json");
    const OPENCODE: &str = include_str!("../../testkit/fixtures/agents/opencode.json");

    /// The recorded input of the hook after the tool call of a case. Long strings in it are shortened.
    fn recorded(host: Host, recording: &str, case: &str) -> String {
        let recording = recording.replace("[DIR]", "/dir");
        let recording: serde_json::Value = serde_json::from_str(&recording).unwrap();
        let hooks = recording["cases"][case]["hooks"].as_array().unwrap();
        let is_after = |event: &str| host.is_after_tool(event);
        let hook = hooks.iter().find(|hook| hook["event"].as_str().is_some_and(is_after)).unwrap();
        let mut input = hook["input"].clone();
        if host == Host::Opencode {
            // As the plugin passes it.
            let output = input["output"].take();
            input = input["input"].take();
            input["output"] = output;
        }
        input.to_string()
    }

    #[test]
    fn recorded_inputs_are_read() {
        // Whether the output is read, and whether it comes from a file of the host.
        let (text, file, nothing) = (Some(false), Some(true), None);
        for (host, recording, case, expected) in [
            (Host::ClaudeCode, CLAUDE_CODE, "small", text),
            (Host::ClaudeCode, CLAUDE_CODE, "large-success", file),
            (Host::ClaudeCode, CLAUDE_CODE, "mcp", text),
            (Host::ClaudeCode, CLAUDE_CODE, "binary", file),
            (Host::ClaudeCode, CLAUDE_CODE, "50-mb", file),
            (Host::Codex, CODEX, "small", text),
            (Host::Codex, CODEX, "large-success", nothing),
            (Host::Codex, CODEX, "large-failure", nothing),
            (Host::Codex, CODEX, "mcp", text),
            (Host::Codex, CODEX, "binary", nothing),
            (Host::Codex, CODEX, "50-mb", nothing),
            (Host::Copilot, COPILOT, "small", text),
            (Host::Copilot, COPILOT, "large-success", file),
            (Host::Copilot, COPILOT, "large-failure", file),
            (Host::Copilot, COPILOT, "mcp", file),
            (Host::Gemini, GEMINI, "small", text),
            (Host::Gemini, GEMINI, "large-failure", text),
            (Host::Gemini, GEMINI, "mcp", text),
            (Host::Opencode, OPENCODE, "small", text),
            (Host::Opencode, OPENCODE, "large-success", file),
            (Host::Opencode, OPENCODE, "large-failure", file),
            (Host::Opencode, OPENCODE, "mcp", text),
        ] {
            let input = recorded(host, recording, case);
            let event = host.read_after_tool(input.as_bytes());
            let found = event.as_ref().map(|event| event.spill.is_some());
            assert_eq!(found, expected, "{host:?} {case}");
            let mcp_tool = event.as_ref().and_then(|event| event.mcp_tool.as_deref());
            let is_named = host == Host::Gemini && case == "mcp";
            assert_eq!(mcp_tool, is_named.then_some("big"), "{host:?} {case}");
        }
    }

    #[test]
    fn blocks_are_read_as_a_tool_result_and_other_json_is_not() {
        assert!(tool_result(r#"[{"type":"text","text":"a"}]"#).is_some());
        assert!(tool_result(r#"{"content":[{"type":"text","text":"a"}]}"#).is_some());
        for json in ["[1,2]", "\"text\"", "{\"a\":1}", "", "[{\"type\":1}]"] {
            assert!(tool_result(json).is_none(), "{json}");
        }
    }

    #[test]
    fn input_that_is_not_as_expected_leaves_the_output_alone() {
        let hosts = [Host::ClaudeCode, Host::Codex, Host::Copilot, Host::Gemini, Host::Opencode];
        let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
        for input in [
            "",
            "null",
            "[]",
            "{}",
            "7",
            "{\"tool_name\":5}",
            "{\"tool_name\":\"Bash\"",
            r#"{"tool_name":"Bash","tool_response":null}"#,
            r#"{"tool_name":"Bash","tool_response":[]}"#,
            r#"{"tool_name":"Bash","tool_response":{"stdout":7}}"#,
            r#"{"tool_name":"Read","tool_response":{"type":"text","file":[]}}"#,
            r#"{"tool_name":"Grep","tool_response":{"filenames":"x"}}"#,
            r#"{"tool_name":"mcp__a__b","tool_response":7}"#,
            r#"{"toolName":"bash","toolResult":"x"}"#,
            r#"{"toolName":7,"toolResult":{}}"#,
            r#"{"tool":"bash","output":7}"#,
            r#"{"tool":"bash","output":{"output":{}}}"#,
            &deep,
            &format!(r#"{{"tool_name":"Bash","tool_response":{deep}}}"#),
        ] {
            for host in hosts {
                assert!(host.read_after_tool(input.as_bytes()).is_none(), "{host:?}: {input}");
            }
        }
        for host in hosts {
            assert!(host.read_after_tool(b"\xff\xfe{").is_none());
        }
    }
}
