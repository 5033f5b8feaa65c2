//! Checks of the hooks in agents: their program, hooks of other programs, and the agents' versions.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use atlatl_lro::clients::{
    CAPTURE, HOOK_CLIENTS, HomeLayout, HookClient, HookFormat, has_own_hook, hook_commands,
};

use chrono::SecondsFormat;
use lro::IdSeed;

use super::client_entry::{DEFAULT_PATH, find_program};
use super::report::{Finding, Group, quote_path};
use crate::hook::pause::PauseFile;
use crate::output::counted;
use crate::settings::{Settings, Sources};

/// Other programs whose hooks rewrite commands or outputs.
const OTHER_PROGRAMS: [&str; 3] = ["rtk", "lean-ctx", "squeez"];
/// The largest settings file that is read, in bytes.
const MAX_SETTINGS_LEN: u64 = 16 << 20;
/// How long an agent may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which the agent's process is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The most bytes of a version that are read.
const MAX_VERSION_LEN: u64 = 4096;

/// The hooks in a file of an agent.
struct AgentHooks {
    client: &'static HookClient,
    file: std::path::PathBuf,
    /// The commands, each with its event.
    commands: Vec<(String, String)>,
}

/// Checks the hooks of Atlatl, if an agent has them. Starts agents only if `start` is set.
pub(super) fn check_hooks(settings: &Settings, sources: &Sources, start: bool, group: &mut Group) {
    let state_dir = settings.surroundings().state_dir.as_deref();
    let pause =
        state_dir.and_then(|dir| PauseFile::in_state_dir(dir).end(IdSeed::from_system().now));
    if let Some(end) = pause {
        let until = end.to_rfc3339_opts(SecondsFormat::Secs, true);
        let message = format!("paused until {until}: they pass output unchanged");
        let finding = Finding::warning("pause", "hooks and atlatl run", message, "atlatl on");
        group.record("pause", [finding], "");
    }
    let agents = find_hooks(settings);
    let ours: Vec<&AgentHooks> = agents.iter().filter(|agent| agent.is_ours()).collect();
    if ours.is_empty() {
        return;
    }
    let path = sources.os_variable("PATH").cloned().unwrap_or_else(|| DEFAULT_PATH.into());
    group.record(
        "hook-command",
        ours.iter().filter_map(|agent| missing_program(agent, &path)),
        format!("{} Atlatl's hook", counted(ours.len() as u64, "agent has", "agents have")),
    );
    group.record(
        "other-hooks",
        ours.iter().flat_map(|agent| other_programs(agent)),
        "no other program rewrites output",
    );
    if start {
        let old = ours.iter().filter_map(|agent| old_version(agent.client, &path));
        group.record("agent-version", old.collect::<Vec<_>>(), "every agent is new enough");
    }
}

/// The hooks of every agent whose file can be read.
fn find_hooks(settings: &Settings) -> Vec<AgentHooks> {
    let Some(home) = &settings.surroundings().home else { return Vec::new() };
    let layout = if cfg!(target_os = "macos") { HomeLayout::MacOs } else { HomeLayout::Linux };
    let read = |client: &'static HookClient| {
        let file = home.join(client.relative_path(layout));
        let metadata = fs::metadata(&file).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_SETTINGS_LEN {
            return None;
        }
        let text = fs::read_to_string(&file).ok()?;
        let commands = match client.format {
            HookFormat::Settings(notation) => hook_commands(&text, notation).ok()?,
            _ => text
                .lines()
                .filter(|line| has_own_hook(line))
                .map(|line| (String::new(), line.to_owned()))
                .collect(),
        };
        Some(AgentHooks { client, file, commands })
    };
    HOOK_CLIENTS.iter().filter_map(read).collect()
}

impl AgentHooks {
    fn is_ours(&self) -> bool {
        self.commands.iter().any(|(_, command)| has_own_hook(command))
    }

    fn label(&self) -> String {
        format!("{} ({})", self.file.display(), self.client.title)
    }
}

/// Reports a hook whose program does not exist.
fn missing_program(agent: &AgentHooks, path: &OsStr) -> Option<Finding> {
    let HookFormat::Settings(_) = agent.client.format else { return None };
    let (_, command) = agent.commands.iter().find(|(_, command)| has_own_hook(command))?;
    // A quoted path has spaces, which are not taken apart here.
    let command = command.strip_prefix(CAPTURE).unwrap_or(command);
    let program = command.split_whitespace().next().filter(|word| !word.starts_with('\''))?;
    find_program(program, path, Path::new("/")).is_none().then(|| {
        Finding::fault(
            "hook-command",
            agent.label(),
            format!("its hook starts {program}, which does not exist"),
            format!("atlatl install --hooks {}", agent.client.name),
        )
    })
}

/// Reports hooks of other programs that rewrite the same output. Agents run hooks in parallel, and the
/// last rewrite wins.
fn other_programs(agent: &AgentHooks) -> Vec<Finding> {
    let other = |(event, command): &(String, String)| {
        let words = command.split(|c: char| c.is_whitespace() || "'\"/;|&()".contains(c));
        let name =
            OTHER_PROGRAMS.into_iter().find(|name| words.clone().any(|word| word == *name))?;
        Some(Finding::warning(
            "other-hooks",
            agent.label(),
            format!(
                "{name} has a hook for {event}, too: if both rewrite an output, the agent uses the \
                 one that ends last"
            ),
            format!("remove one of the two from {}", quote_path(&agent.file)),
        ))
    };
    agent.commands.iter().filter_map(other).collect()
}

/// Reports an agent that is older than the version that its hook was tested with.
fn old_version(client: &HookClient, path: &OsStr) -> Option<Finding> {
    let program = find_program(client.program, path, Path::new("/"))?;
    let text = version_text(&program)?;
    let version = numbers(&text)?;
    (version < numbers(client.tested_version)?).then(|| {
        let shown: Vec<String> = version.iter().map(ToString::to_string).collect();
        Finding::warning(
            "agent-version",
            client.title,
            format!(
                "it is version {}, and hooks are tested from {} on: its hooks may not replace \
                 output",
                shown.join("."),
                client.tested_version
            ),
            format!("update {}", client.title),
        )
    })
}

/// What an agent prints for `--version`; `None` if it takes too long.
fn version_text(program: &Path) -> Option<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + VERSION_TIMEOUT;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(POLL_INTERVAL);
    }
    let mut text = String::new();
    child.stdout.take()?.take(MAX_VERSION_LEN).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The numbers of the first version in a text.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let is_version =
        |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let version = words.map(|word| word.trim_matches('.')).find(is_version)?;
    version.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_agents_print() {
        for (text, version) in [
            ("2.1.325 (Claude Code)\n", Some(vec![2, 1, 325])),
            ("codex-cli 0.166.0", Some(vec![0, 166, 0])),
            ("GitHub Copilot CLI v1.0.102-2.", Some(vec![1, 0, 102])),
            ("unknown", None),
        ] {
            assert_eq!(numbers(text), version, "{text}");
        }
        assert!(numbers("2.1.99") < numbers("2.1.325") && numbers("0.61") < numbers("0.61.0"));
    }

    #[test]
    fn other_programs_are_recognised_by_name() {
        let command = |line: &str| AgentHooks {
            client: &HOOK_CLIENTS[0],
            file: "/h/settings.json".into(),
            commands: vec![("PreToolUse".to_owned(), line.to_owned())],
        };
        for (line, expected) in [
            ("rtk hook claude", true),
            ("/usr/local/bin/rtk hook", true),
            ("sh -c 'lean-ctx hook || true'", true),
            ("squeez wrap", true),
            ("/opt/atlatl hook claude-code post-tool-use", false),
            ("./artk", false),
        ] {
            assert_eq!(!other_programs(&command(line)).is_empty(), expected, "{line}");
        }
    }
}
