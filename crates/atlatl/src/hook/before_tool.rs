//! The hook before a command: puts `atlatl run --agent AGENT --` in front of it where that changes no
//! permission.
//!
//! Codex truncates the output of a command before its hook, and Claude Code has no replacing hook for a
//! command that fails. `atlatl run` sees all of the output of both.

use std::path::PathBuf;

use atlatl_lro::hook::permission::{Client, Context, Verdict, may_rewrite};
use atlatl_lro::hook::rewrite::{Decision, ShellNames, rewrite};
use lro_core::Policies;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Host, policy};

/// The input of the hook.
#[derive(Deserialize)]
pub(crate) struct CommandEvent {
    tool_name: String,
    tool_input: Map<String, Value>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    permission_mode: Option<String>,
}

/// What the hook knows about the process that started it.
pub(crate) struct HostProcess {
    /// The user's home directory.
    pub(crate) home: PathBuf,
    /// The directory in which the host was started, if it says so.
    pub(crate) project: Option<PathBuf>,
    /// The host's configuration directory, if a variable sets it.
    pub(crate) configuration: Option<PathBuf>,
    /// A file that non-interactive shells read.
    pub(crate) shell_startup_file: Option<PathBuf>,
    /// The arguments of the host's process; none if they cannot be read.
    pub(crate) arguments: Option<Vec<String>>,
}

impl Host {
    /// Whether `event` is the event before a tool call.
    pub(crate) fn is_before_tool(self, event: &str) -> bool {
        matches!(self, Self::ClaudeCode | Self::Codex)
            && matches!(event, "pre-tool-use" | "PreToolUse")
    }

    fn permission_client(self) -> Client {
        match self {
            Self::ClaudeCode => Client::ClaudeCode,
            Self::Codex => Client::Codex,
            Self::Copilot => Client::CopilotCli,
            Self::Gemini => Client::GeminiCli,
            Self::Opencode => Client::Opencode,
        }
    }
}

impl CommandEvent {
    /// Reads the input. `None` if it is not a call of a shell.
    pub(crate) fn read(host: Host, input: &[u8]) -> Option<Self> {
        let event: Self = serde_json::from_slice(input).ok()?;
        // A host may take other values than `true` for it.
        let background =
            event.tool_input.get("run_in_background").is_some_and(|flag| flag != false);
        (host.common_name(&event.tool_name) == "Bash" && !background).then_some(event)
    }

    /// The answer that runs the command under `program`. `None` leaves the command as it is.
    pub(crate) fn answer(
        mut self,
        host: Host,
        process: HostProcess,
        policies: &Policies,
        program: &str,
    ) -> Option<String> {
        let command = self.tool_input.get("command")?.as_str()?.to_owned();
        if policy::is_inline(policies, host, &self.tool_name, &command) {
            return None;
        }
        let client = host.permission_client();
        let mut context = Context::new(process.home, self.cwd?);
        context.project = process.project;
        context.configuration = process.configuration;
        context.shell_startup_file = process.shell_startup_file;
        context.permission_mode = self.permission_mode;
        context.host_arguments = process.arguments;
        let names = ShellNames::read(client, &context, self.session_id.as_deref());
        let Decision::Rewrite(rewritten) = rewrite(&command, program, host.name(), &names) else {
            return None;
        };
        let verdict = may_rewrite(client, &context, &command, &rewritten).ok()?;
        self.tool_input.insert("command".to_owned(), rewritten.into());
        let mut output = json!({
            "hookEventName": "PreToolUse",
            "updatedInput": self.tool_input,
        });
        match verdict {
            Verdict::UpdatedInput => {}
            Verdict::UpdatedInputWithAllow => output["permissionDecision"] = "allow".into(),
            // A form that this version does not know.
            _ => return None,
        }
        Some(json!({"hookSpecificOutput": output}).to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The answer of the hook in a home with these files.
    fn answer(host: Host, files: &[(&str, &str)], input: &Value) -> Option<Value> {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut input = input.clone();
        input["cwd"] = home.path().to_str().unwrap().into();
        let process = HostProcess {
            home: home.path().into(),
            project: None,
            configuration: None,
            shell_startup_file: None,
            arguments: Some(Vec::new()),
        };
        let event = CommandEvent::read(host, input.to_string().as_bytes())?;
        let answer = event.answer(host, process, &Policies::default(), "/opt/atlatl")?;
        Some(serde_json::from_str(&answer).unwrap())
    }

    const SNAPSHOT: (&str, &str) = (".claude/shell-snapshots/snapshot-bash-1.sh", "");
    const ALLOW: (&str, &str) = (
        ".claude/settings.json",
        r#"{"permissions": {"allow": ["Bash(cargo test:*)", "Bash(/opt/atlatl run --agent claude-code -- cargo test:*)"]}}"#,
    );

    fn call(command: &str) -> Value {
        json!({"session_id": "s", "permission_mode": "default", "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": command, "description": "Test"}})
    }

    #[test]
    fn a_command_that_both_rules_allow_is_rewritten_and_keeps_its_other_arguments() {
        let answer = answer(Host::ClaudeCode, &[SNAPSHOT, ALLOW], &call("cargo test")).unwrap();
        let output = &answer["hookSpecificOutput"];
        assert_eq!(
            output["updatedInput"],
            json!({
                "command": "/opt/atlatl run --agent claude-code -- cargo test",
                "description": "Test",
            })
        );
        assert!(output.get("permissionDecision").is_none());
    }

    #[test]
    fn everything_else_stays() {
        for (files, input) in [
            (&[SNAPSHOT, ALLOW][..], call("cargo test > log")),
            (&[SNAPSHOT, ALLOW][..], call("cd x && cargo test")),
            (&[SNAPSHOT][..], call("cargo test")),
            (&[ALLOW][..], call("cargo test")),
            (
                &[SNAPSHOT, ALLOW][..],
                json!({"tool_name": "Read", "tool_input": {"command": "cargo test"}}),
            ),
            (&[SNAPSHOT, ALLOW][..], json!({"tool_name": "Bash", "tool_input": {"command": 7}})),
        ] {
            assert_eq!(answer(Host::ClaudeCode, files, &input), None, "{input}");
        }
        for flag in [json!(true), json!("true"), json!(1), Value::Null] {
            let mut background = call("cargo test");
            background["tool_input"]["run_in_background"] = flag;
            assert_eq!(answer(Host::ClaudeCode, &[SNAPSHOT, ALLOW], &background), None);
        }
        let mut foreground = call("cargo test");
        foreground["tool_input"]["run_in_background"] = false.into();
        assert!(answer(Host::ClaudeCode, &[SNAPSHOT, ALLOW], &foreground).is_some());
        assert!(CommandEvent::read(Host::ClaudeCode, b"{").is_none());
    }
}
