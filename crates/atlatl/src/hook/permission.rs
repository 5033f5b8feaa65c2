//! Decides whether a hook may rewrite a command without changing what the user permits.
//!
//! A host that receives a rewritten command applies its rules to the new text. A rule about `git push`
//! does not match `atlatl run … git push`, so a rewrite could run what a rule denies, or ask for what
//! a rule allows. [`may_rewrite`] reads the rules of the user, the project and the administrator, and
//! permits a rewrite only if the host decides the same for both texts. Everything that it cannot read
//! or does not understand means: leave the command alone, and the host decides on the original.

mod claude_code;
mod codex;
mod rules;

use std::fmt;
use std::path::{Path, PathBuf};

/// A coding agent whose commands a hook sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// GitHub Copilot CLI.
    CopilotCli,
    /// Gemini CLI.
    GeminiCli,
    /// opencode.
    Opencode,
}

/// What is known about the host that runs the hook.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Context {
    /// The user's home directory.
    pub home: PathBuf,
    /// The directory in which the command runs.
    pub directory: PathBuf,
    /// The directory in which the host was started, if the host says so (`CLAUDE_PROJECT_DIR`).
    pub project: Option<PathBuf>,
    /// The host's configuration directory, if a variable sets it (`CLAUDE_CONFIG_DIR`, `CODEX_HOME`).
    pub configuration: Option<PathBuf>,
    /// The root of the file system, which tests replace.
    pub root: PathBuf,
    /// A file that non-interactive shells read (`BASH_ENV`), if the variable is set.
    pub shell_startup_file: Option<PathBuf>,
    /// The member `permission_mode` of the hook's input.
    pub permission_mode: Option<String>,
    /// The arguments of the host's process, without its name; none if they cannot be read.
    pub host_arguments: Option<Vec<String>>,
}

impl Context {
    /// A context with the root directory `/` and nothing known about the host.
    pub fn new(home: impl Into<PathBuf>, directory: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            directory: directory.into(),
            root: PathBuf::from("/"),
            ..Self::default()
        }
    }

    /// The path of a file of the system, such as `etc/codex`.
    fn system(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The directories whose project settings a host may read: those of the command and of the project
    /// with their parents, and the main working tree of a linked one.
    fn project_directories(&self) -> Vec<PathBuf> {
        let starts = [Some(self.directory.as_path()), self.project.as_deref()];
        let mut found: Vec<PathBuf> = Vec::new();
        for start in starts.into_iter().flatten() {
            for directory in start.ancestors() {
                found.extend(main_working_tree(directory));
                found.push(directory.to_path_buf());
            }
        }
        found.sort();
        found.dedup();
        found
    }
}

/// The main working tree of a repository, if `directory` is a linked one.
fn main_working_tree(directory: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(directory.join(".git")).ok()?;
    let (main, _) = text.trim().strip_prefix("gitdir: ")?.split_once("/.git/worktrees/")?;
    Some(directory.join(main))
}

/// The form of the answer with which the host takes the rewritten command and applies its own rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// `updatedInput` without `permissionDecision`: the host decides on the rewritten command.
    UpdatedInput,
    /// `updatedInput` with `permissionDecision: "allow"`: the host takes no other form, and still
    /// decides on the rewritten command.
    UpdatedInputWithAllow,
}

/// Why a command must not be rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Commands of this client are never rewritten.
    Client,
    /// The line is not one that the rules can be compared with.
    Line,
    /// The host's command line cannot be read.
    HostCommandLine,
    /// The host's command line has an option that may change its rules.
    HostOption,
    /// The permission mode is unknown, or decides by the text of a command.
    PermissionMode,
    /// A settings or rules file cannot be read or has an unknown form.
    Settings,
    /// The settings run commands in a sandbox with exceptions by their text.
    Sandbox,
    /// A rule that denies or asks may match the command or a part of it.
    Rule,
    /// A rule about files, or the host's check of working directories, may match an argument.
    PathRule,
    /// No rule allows both the original and the rewritten command.
    NotAllowed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "this client's commands are not rewritten",
            Self::Line => "the command line is not understood",
            Self::HostCommandLine => "the host's command line cannot be read",
            Self::HostOption => "an option of the host may change its permission rules",
            Self::PermissionMode => "the permission mode decides by the text of the command",
            Self::Settings => "a settings or rules file is not understood",
            Self::Sandbox => "the host's sandbox has exceptions by command",
            Self::Rule => "a deny or ask rule may match",
            Self::PathRule => "a rule about files or directories may match",
            Self::NotAllowed => "no rule allows both the original and the rewritten command",
        })
    }
}

/// Decides whether `rewritten` may replace `command`.
///
/// # Errors
///
/// The reason why the host must decide on the original.
pub fn may_rewrite(
    client: Client,
    context: &Context,
    command: &str,
    rewritten: &str,
) -> Result<Verdict, Refusal> {
    match client {
        Client::ClaudeCode => claude_code::may_rewrite(context, command, rewritten),
        Client::Codex => codex::may_rewrite(context, command),
        // Their hooks after a command can replace its output. A rewrite would hide paths from
        // opencode's check of outside directories, and commands from Gemini's policies.
        Client::CopilotCli | Client::GeminiCli | Client::Opencode => Err(Refusal::Client),
    }
}

/// Fails unless every option among the host's arguments is one of `harmless`.
fn check_host_options(context: &Context, harmless: &[&str]) -> Result<(), Refusal> {
    let arguments = context.host_arguments.as_ref().ok_or(Refusal::HostCommandLine)?;
    let mut options = arguments.iter().filter(|argument| argument.starts_with('-'));
    let known = |argument: &String| {
        let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        harmless.contains(&name)
    };
    if options.all(known) { Ok(()) } else { Err(Refusal::HostOption) }
}

/// The text of a file, or none if there is no such file.
fn read_if_exists(path: &Path) -> Result<Option<String>, Refusal> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(_) => Err(Refusal::Settings),
    }
}

/// The files in `directory` whose names end with `extension`.
fn files_with_extension(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, Refusal> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(_) => return Err(Refusal::Settings),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|_| Refusal::Settings)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(files)
}

fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

#[cfg(test)]
mod tests;
