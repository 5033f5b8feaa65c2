//! Decides whether a command line of a coding agent can run under `atlatl run`, and rewrites it.
//!
//! A rewrite inserts `PROGRAM run --agent AGENT --` before the last command of each pipeline and changes
//! nothing else: words stay as they were typed, and the host's own shell expands them, chooses between the
//! commands of a list, and runs its own builtins. What the parser or the table of programs does not know is
//! kept as it is.
//!
//! ```
//! use atlatl_lro::hook::rewrite::{Decision, Reason, ShellNames, rewrite};
//!
//! let names = ShellNames::from_scripts([""]);
//! let decide = |line| rewrite(line, "atlatl", "codex", &names);
//! assert_eq!(
//!     decide("cargo test | tail -n 50 && git log"),
//!     Decision::Rewrite(
//!         "cargo test | atlatl run --agent codex -- tail -n 50 && atlatl run --agent codex -- git log"
//!             .to_owned()
//!     ),
//! );
//! assert_eq!(decide("cargo test > log"), Decision::Keep(Reason::Redirection));
//! assert_eq!(decide("cd src && ls"), Decision::Keep(Reason::ShellState));
//! ```

mod programs;
mod shell_names;
pub(crate) mod syntax;

use std::fmt;

use self::programs::Usage;
pub use self::programs::program_name;
pub use self::shell_names::ShellNames;

/// Whether a command line is rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The line to run instead.
    Rewrite(String),
    /// The line runs as it is.
    Keep(Reason),
}

/// Why a command line is not rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing but blanks.
    Empty,
    /// Longer than any line that is parsed.
    TooLong,
    /// A line break, a tab, another control character, or a blank that is not ASCII.
    ControlCharacter,
    /// A redirection, here-document, here-string or process substitution.
    Redirection,
    /// A background job.
    Background,
    /// A command substitution or arithmetic expansion.
    Substitution,
    /// A subshell, function definition, array, or pattern with parentheses.
    Grouping,
    /// A brace group or brace expansion.
    Braces,
    /// A parameter expansion other than `$NAME`, `${NAME}` and `$?`, or a word such as `=ls`, which
    /// zsh expands to a path.
    Parameter,
    /// A comment.
    Comment,
    /// A quote without its end.
    Quote,
    /// An operator without a command.
    Operator,
    /// A variable assignment.
    Assignment,
    /// A command name that is quoted, expanded or a negation.
    CommandName,
    /// A reserved word of a shell.
    ReservedWord,
    /// A builtin that changes or reads the state of the calling shell.
    ShellState,
    /// A builtin or wrapper whose behaviour depends on the shell or on the process tree.
    ShellDependent,
    /// A program that talks to a person, or an interpreter without a script.
    Interactive,
    /// A program that runs until it is stopped: a server, a watcher, a follower.
    LongRunning,
    /// A program that is not in the table.
    UnknownProgram,
    /// An argument with which the program is not in the table.
    Arguments,
    /// The line runs Atlatl already.
    Atlatl,
    /// The host's shell may define an alias or a function of this name.
    Shadowed,
    /// Only builtins, whose output stays short.
    NothingToWrap,
    /// Atlatl's own path or the agent's name cannot be written as a shell word.
    ProgramPath,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty",
            Self::TooLong => "too long",
            Self::ControlCharacter => "control character",
            Self::Redirection => "redirection",
            Self::Background => "background",
            Self::Substitution => "substitution",
            Self::Grouping => "grouping",
            Self::Braces => "braces",
            Self::Parameter => "parameter",
            Self::Comment => "comment",
            Self::Quote => "quote",
            Self::Operator => "operator",
            Self::Assignment => "assignment",
            Self::CommandName => "command name",
            Self::ReservedWord => "reserved word",
            Self::ShellState => "shell state",
            Self::ShellDependent => "shell dependent",
            Self::Interactive => "interactive",
            Self::LongRunning => "long running",
            Self::UnknownProgram => "unknown program",
            Self::Arguments => "arguments",
            Self::Atlatl => "atlatl",
            Self::Shadowed => "shadowed",
            Self::NothingToWrap => "nothing to wrap",
            Self::ProgramPath => "program path",
        })
    }
}

/// Rewrites `line` so that `program` runs the last command of each pipeline, or keeps it.
///
/// `agent` is the host's name, by which `program` knows how much of an output the host would show. `names`
/// are the aliases and functions of the host's shell.
pub fn rewrite(line: &str, program: &str, agent: &str, names: &ShellNames) -> Decision {
    try_rewrite(line, program, agent, names).map_or_else(Decision::Keep, Decision::Rewrite)
}

fn try_rewrite(
    line: &str,
    program: &str,
    agent: &str,
    names: &ShellNames,
) -> Result<String, Reason> {
    let word = |text| shell_word(text).ok_or(Reason::ProgramPath);
    let prefix = format!("{} run --agent {} -- ", word(program)?, word(agent)?);
    let parsed = syntax::parse(line)?;
    let mut offsets = Vec::new();
    for pipeline in &parsed.pipelines {
        let mut last = None;
        for command in &pipeline.commands {
            let usage = programs::classify(&command.words, program)?;
            last = (usage == Usage::Program).then_some(command);
        }
        if let Some(command) = last {
            // What a wrapper runs is a program; only the first word can be an alias or a function.
            if names.may_define(command.words[0].raw) || names.may_define(program) {
                return Err(Reason::Shadowed);
            }
            offsets.push(command.offset);
        }
    }
    if offsets.is_empty() {
        return Err(Reason::NothingToWrap);
    }
    let mut rewritten = String::with_capacity(line.len() + offsets.len() * prefix.len());
    let mut copied = 0;
    for offset in offsets {
        rewritten.push_str(&line[copied..offset]);
        rewritten.push_str(&prefix);
        copied = offset;
    }
    rewritten.push_str(&line[copied..]);
    Ok(rewritten)
}

/// `text` as one word of every shell; none for text that no shell takes, or that a display would hide.
fn shell_word(text: &str) -> Option<String> {
    if text.is_empty() || text.starts_with('-') || text.chars().any(char::is_control) {
        return None;
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) {
        return Some(text.to_owned());
    }
    Some(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(line: &str, program: &str, script: &str) -> Decision {
        rewrite(line, program, "codex", &ShellNames::from_scripts([script]))
    }

    #[test]
    fn the_path_of_the_program_and_the_agent_are_quoted() {
        let expected = "'/a b/it'\\''s' run --agent codex -- ls";
        assert_eq!(decide("ls", "/a b/it's", ""), Decision::Rewrite(expected.to_owned()));
        for program in ["", "-x", "a\nb"] {
            assert_eq!(decide("ls", program, ""), Decision::Keep(Reason::ProgramPath));
        }
        let decide = |agent| rewrite("ls", "atlatl", agent, &ShellNames::from_scripts([""]));
        assert_eq!(decide("a b"), Decision::Rewrite("atlatl run --agent 'a b' -- ls".to_owned()));
        assert_eq!(decide("--"), Decision::Keep(Reason::ProgramPath));
    }

    #[test]
    fn the_program_itself_is_not_wrapped() {
        for line in ["/opt/lro/tool run -- ls", "tool extract x | head", "atlatl stats"] {
            let decision = decide(line, "/opt/lro/tool", "");
            assert_eq!(decision, Decision::Keep(Reason::Atlatl), "{line}");
        }
    }

    #[test]
    fn aliases_and_functions_are_kept() {
        let script = "alias ls='ls --color'\ngit () {\n hub \"$@\"\n}\n";
        assert_eq!(decide("ls", "atlatl", script), Decision::Keep(Reason::Shadowed));
        assert_eq!(decide("git log", "atlatl", script), Decision::Keep(Reason::Shadowed));
        // What is not wrapped runs as before.
        let expected = "git log | atlatl run --agent codex -- wc -l";
        assert_eq!(
            decide("git log | wc -l", "atlatl", script),
            Decision::Rewrite(expected.to_owned())
        );
        let decision = rewrite("ls", "atlatl", "codex", &ShellNames::Unknown);
        assert_eq!(decision, Decision::Keep(Reason::Shadowed));
    }

    #[test]
    fn a_line_is_kept_if_the_program_itself_may_be_an_alias() {
        let script = "alias atlatl='atlatl --set x'\n";
        assert_eq!(decide("ls", "atlatl", script), Decision::Keep(Reason::Shadowed));
        let expected = Decision::Rewrite("/opt/atlatl run --agent codex -- ls".to_owned());
        assert_eq!(decide("ls", "/opt/atlatl", script), expected);
        let decision = rewrite("./check", "atlatl", "codex", &ShellNames::Unknown);
        assert_eq!(decision, Decision::Keep(Reason::Shadowed));
        let decision = rewrite("./check", "/opt/atlatl", "codex", &ShellNames::Unknown);
        let expected = "/opt/atlatl run --agent codex -- ./check";
        assert_eq!(decision, Decision::Rewrite(expected.to_owned()));
    }
}
