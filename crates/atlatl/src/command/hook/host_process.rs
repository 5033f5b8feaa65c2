//! The process of the agent that started the hook.

use std::fs;
use std::path::{Path, PathBuf};

use crate::hook::Host;
use crate::hook::before_tool::HostProcess;
use crate::settings::Sources;

/// Shells, through which agents start hooks. Their options are not the agent's.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ash"];
/// The most shells between the agent and the hook.
const MAX_SHELLS: usize = 3;

/// What is known about the agent; `None` if there is no home directory.
pub(super) fn read(host: Host, sources: &Sources) -> Option<HostProcess> {
    let (project, configuration) = match host {
        Host::ClaudeCode => {
            (sources.os_variable("CLAUDE_PROJECT_DIR"), sources.os_variable("CLAUDE_CONFIG_DIR"))
        }
        Host::Codex => (None, sources.os_variable("CODEX_HOME")),
        Host::Copilot | Host::Gemini | Host::Opencode => (None, None),
    };
    Some(HostProcess {
        home: sources.home()?.to_owned(),
        project: project.map(PathBuf::from),
        configuration: configuration.map(PathBuf::from),
        shell_startup_file: sources.os_variable("BASH_ENV").map(PathBuf::from),
        arguments: host_arguments(),
    })
}

/// The arguments of the agent, without its name. `None` where they cannot be read.
fn host_arguments() -> Option<Vec<String>> {
    let mut pid = rustix::process::getppid()?.as_raw_nonzero().get();
    for _ in 0..=MAX_SHELLS {
        let mut words = command_line(pid)?.into_iter();
        let program = words.next()?;
        let name = Path::new(program.trim_start_matches('-')).file_name()?.to_str()?.to_owned();
        if !SHELLS.contains(&&*name) {
            return Some(words.collect());
        }
        pid = parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    }
    None
}

/// The words of a process's command line.
fn command_line(pid: i32) -> Option<Vec<String>> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(text.strip_suffix('\0')?.split('\0').map(str::to_owned).collect())
}

/// The parent in the `stat` file of a process. The name in parentheses may contain anything.
fn parent(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok().filter(|pid| *pid > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (sh) S 11 12 12 0"), Some(11));
        assert_eq!(parent("12 (a) b) c) S 11 12"), Some(11));
        assert_eq!(parent("12 (init) S 1 12"), None);
        assert_eq!(parent("12"), None);
    }
}
