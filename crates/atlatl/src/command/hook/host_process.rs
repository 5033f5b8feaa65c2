//! The process of the agent that started the hook.

use std::fs;
use std::path::{Path, PathBuf};

use crate::hook::Host;
use crate::hook::before_tool::HostProcess;
use crate::settings::Sources;

/// The most processes above the hook that are read. Between the agent and the hook are shells, and
/// launchers such as npx.
const MAX_ANCESTORS: usize = 8;

/// What is known about the agent; `None` if there is no home directory.
pub(super) fn read(host: Host, sources: &Sources) -> Option<HostProcess> {
    let (project, configuration) = match host {
        Host::ClaudeCode => {
            (sources.os_variable("CLAUDE_PROJECT_DIR"), sources.os_variable("CLAUDE_CONFIG_DIR"))
        }
        Host::Codex => (None, sources.os_variable("CODEX_HOME")),
        Host::Copilot | Host::Gemini | Host::Opencode => (None, None),
    };
    let claude_pid = sources.variable("CLAUDE_PID").and_then(|pid| pid.parse().ok());
    Some(HostProcess {
        home: sources.home()?.to_owned(),
        project: project.map(PathBuf::from),
        configuration: configuration.map(PathBuf::from),
        shell_startup_file: sources.os_variable("BASH_ENV").map(PathBuf::from),
        arguments: host_arguments(host, claude_pid),
    })
}

/// The arguments of the agent, without its name. `None` where they cannot be read.
fn host_arguments(host: Host, claude_pid: Option<i32>) -> Option<Vec<String>> {
    let parent = rustix::process::getppid()?.as_raw_nonzero().get();
    find_arguments(host, claude_pid, parent, Process::read)
}

/// A process above the hook.
struct Process {
    parent: Option<i32>,
    /// The command line.
    words: Vec<String>,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let words = text.strip_suffix('\0')?.split('\0').map(str::to_owned).collect();
        Some(Self { parent: parent(&stat), words })
    }

    /// Whether this is Codex itself. The launcher of its package is replaced by the program, or starts it.
    fn is_codex(&self) -> bool {
        let program = self.words.first().map(Path::new);
        program.and_then(Path::file_name).is_some_and(|name| name == "codex")
    }
}

/// The arguments of the nearest process above the hook that is certainly the agent. Options of any other
/// process say nothing about the agent's rules, so that `None` is the answer without it.
fn find_arguments(
    host: Host,
    claude_pid: Option<i32>,
    parent: i32,
    read: impl Fn(i32) -> Option<Process>,
) -> Option<Vec<String>> {
    let mut pid = parent;
    for _ in 0..MAX_ANCESTORS {
        let process = read(pid)?;
        let is_host = match host {
            // Claude Code passes its process id to hooks.
            Host::ClaudeCode => claude_pid == Some(pid),
            Host::Codex => process.is_codex(),
            Host::Copilot | Host::Gemini | Host::Opencode => false,
        };
        if is_host {
            let (_, arguments) = process.words.split_first()?;
            return Some(arguments.to_vec());
        }
        pid = process.parent?;
    }
    None
}

/// The parent in the `stat` file of a process. The name in parentheses may contain anything.
fn parent(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (sh) S 11 12 12 0"), Some(11));
        assert_eq!(parent("12 (a) b) c) S 11 12"), Some(11));
        assert_eq!(parent("12 (sh) S 1 12"), Some(1));
        assert_eq!(parent("1 (init) S 0 1"), None);
        assert_eq!(parent("12"), None);
    }

    /// The arguments of the host, where each process is the parent of the one before it and the first has
    /// the number 1.
    fn arguments(host: Host, claude_pid: Option<i32>, lines: &[&str]) -> Option<Vec<String>> {
        find_arguments(host, claude_pid, 1, |pid| {
            let at = usize::try_from(pid - 1).ok()?;
            let words = lines.get(at)?.split(' ').map(str::to_owned).collect();
            Some(Process { parent: (at + 1 < lines.len()).then_some(pid + 1), words })
        })
    }

    #[test]
    fn the_agent_is_found_behind_shells_and_launchers() {
        let claude = |pid, lines: &[&str]| arguments(Host::ClaudeCode, pid, lines);
        let lines = [
            "node /n/bin/atlatl hook claude-code pre-tool-use",
            "sh -c atlatl-lro",
            "node /n/npx -y atlatl-lro",
            "/bin/sh -c npx",
            "claude -p --settings x",
            "bash --norc",
        ];
        let expected = ["-p", "--settings", "x"].map(str::to_owned).to_vec();
        assert_eq!(claude(Some(5), &lines), Some(expected));
        // Without the number of its process, any ancestor could be the agent.
        assert_eq!(claude(None, &lines), None);
        assert_eq!(claude(Some(7), &lines), None);
        assert_eq!(claude(Some(1), &["claude"]), Some(Vec::new()));
    }

    #[test]
    fn codex_is_found_by_the_name_of_its_program() {
        let codex = |lines: &[&str]| arguments(Host::Codex, None, lines);
        let program = "/n/@openai/codex-linux-x64/vendor/bin/codex exec -c x=1";
        let expected = ["exec", "-c", "x=1"].map(str::to_owned).to_vec();
        let lines =
            ["node /n/bin/atlatl hook codex", "bash -lc x", program, "node /n/bin/codex exec"];
        assert_eq!(codex(&lines), Some(expected));
        assert_eq!(codex(&["sh -c codex", "node /n/bin/codex.js exec", "bash"]), None);
        let far = ["sh"; MAX_ANCESTORS];
        assert_eq!(codex(&[&far[..], &["codex"]].concat()), None);
        assert_eq!(codex(&[&far[1..], &["codex"]].concat()), Some(Vec::new()));
    }

    #[test]
    fn other_agents_are_not_looked_for() {
        assert_eq!(arguments(Host::Gemini, Some(1), &["gemini", "codex"]), None);
    }
}
