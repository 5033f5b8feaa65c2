//! The aliases and functions of the host's shell, as far as they can be known.
//!
//! Hosts start their shells from a snapshot of the user's configuration. A command name that is an
//! alias or a function there must not be passed to `atlatl run`, which starts programs only.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::hook::permission::{Client, Context};

/// The names that the host's shell may define.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShellNames {
    /// The host's shell reads files that were not found or not understood: any name may be an alias or
    /// a function, except one with a slash.
    Unknown,
    /// The names that look like definitions in the scripts that the shell reads.
    Known(BTreeSet<String>),
}

/// The size of the largest script that is read.
const MAX_SCRIPT_LEN: u64 = 4 * 1024 * 1024;

/// Words after which a name is defined.
const DEFINING_WORDS: &[&str] = &["alias", "function", "autoload", "hash"];

/// Words that run code which is not in the script.
const OPAQUE_WORDS: &[&str] = &["source", "eval", ".", "zmodload", "enable"];

/// Lines that run other code and define no name: installers write them.
const HARMLESS_LINES: &[&str] =
    &[". \"$HOME/.cargo/env\"", "source \"$HOME/.cargo/env\"", ". \"$HOME/.local/bin/env\""];

impl ShellNames {
    /// Reads the snapshots of a host's shell and the files that zsh always reads.
    ///
    /// `session` is the id of the host's session. Codex names its snapshots after it; Claude Code does
    /// not, so that all snapshots count.
    pub fn read(client: Client, context: &Context, session: Option<&str>) -> Self {
        Self::try_read(client, context, session).unwrap_or(Self::Unknown)
    }

    fn try_read(client: Client, context: &Context, session: Option<&str>) -> Option<Self> {
        let (default, directory, prefix) = match client {
            Client::ClaudeCode => (".claude", "shell-snapshots", "snapshot-"),
            Client::Codex => (".codex", "shell_snapshots", session?),
            Client::CopilotCli | Client::GeminiCli | Client::Opencode => return None,
        };
        if prefix.is_empty() || context.shell_startup_file.is_some() {
            return None;
        }
        let configuration =
            context.configuration.clone().unwrap_or_else(|| context.home.join(default));
        let mut snapshots = Vec::new();
        for entry in fs::read_dir(configuration.join(directory)).ok()? {
            let entry = entry.ok()?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                snapshots.push(read_script(&entry.path())?);
            }
        }
        if snapshots.is_empty() {
            return None;
        }
        let names = Self::from_scripts(snapshots.iter().map(String::as_str));
        let startup_files = [
            context.root.join("etc/zshenv"),
            context.root.join("etc/zsh/zshenv"),
            context.home.join(".zshenv"),
        ];
        let existing = startup_files.iter().filter(|path| path.exists());
        let texts: Vec<String> =
            existing.map(|path: &PathBuf| read_script(path)).collect::<Option<_>>()?;
        Some(texts.iter().fold(names, |names, text| names.with_startup_file(text)))
    }

    /// Reads a host's snapshot scripts, which hosts generate. An `eval` of base64, with which functions
    /// are stored, is decoded.
    pub fn from_scripts<'a>(scripts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = BTreeSet::new();
        for script in scripts {
            names.extend(definitions(script));
            for encoded in script.split('\'').filter(|text| text.len() >= 8) {
                let decoded =
                    decode_base64(encoded).and_then(|bytes| String::from_utf8(bytes).ok());
                names.extend(decoded.iter().flat_map(|decoded| definitions(decoded)));
            }
        }
        Self::Known(names)
    }

    /// Adds a file that a user wrote and that the shell reads. If it runs code from elsewhere, no name
    /// is known.
    pub fn with_startup_file(self, script: &str) -> Self {
        let Self::Known(mut names) = self else { return Self::Unknown };
        let relevant = |line: &&str| !line.starts_with('#') && !HARMLESS_LINES.contains(line);
        for line in script.lines().map(str::trim).filter(relevant) {
            if tokens(line).any(|(token, _, _)| OPAQUE_WORDS.contains(&token)) {
                return Self::Unknown;
            }
        }
        names.extend(definitions(script));
        Self::Known(names)
    }

    /// Whether `name` may be an alias or a function. A path is neither, except for the suffix aliases
    /// of zsh.
    pub(crate) fn may_define(&self, name: &str) -> bool {
        let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix).filter(|s| !s.contains('/'));
        match self {
            Self::Unknown => !name.contains('/') || suffix.is_some(),
            Self::Known(names) => {
                names.contains(name) || suffix.is_some_and(|suffix| names.contains(suffix))
            }
        }
    }
}

/// The text of a script; none if it cannot be read or is too large.
fn read_script(path: &Path) -> Option<String> {
    let is_small = fs::metadata(path).ok()?.len() <= MAX_SCRIPT_LEN;
    is_small.then(|| fs::read_to_string(path).ok()).flatten()
}

/// The names in `script` that look defined: `NAME=`, `NAME (`, `[NAME]=`, and what follows a word that
/// defines. More names than there are do no harm.
fn definitions(script: &str) -> impl Iterator<Item = String> + '_ {
    script.lines().flat_map(|line| {
        let mut after_word = false;
        tokens(line).filter_map(move |(token, next, after_blanks)| {
            let is_option = token.starts_with('-');
            let is_defined = after_word || matches!(next, Some('=')) || after_blanks == Some('(');
            // `alias -- a=b c=d`: options and further names follow the word.
            after_word = DEFINING_WORDS.contains(&token) || (after_word && is_option);
            (is_defined && !is_option).then(|| token.to_owned())
        })
    })
}

/// The words of a line of a script: each with the character after it, quotes and brackets aside, and
/// the character after it and blanks.
fn tokens(line: &str) -> impl Iterator<Item = (&str, Option<char>, Option<char>)> {
    let is_name = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "_.-+:@%,!?".contains(c);
    let mut position = 0;
    std::iter::from_fn(move || {
        let rest = &line[position..];
        let start = position + rest.find(is_name)?;
        let len = line[start..].find(|c| !is_name(c)).unwrap_or(line.len() - start);
        position = start + len;
        let after = &line[position..];
        let next = after.trim_start_matches(['\'', '"', ']']).chars().next();
        let after_blanks = after.trim_start().chars().next();
        Some((&line[start..position], next, after_blanks))
    })
}

/// Decodes base64 with padding; none for other text.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().trim_end_matches('=');
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for c in digits.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'\n' | b'\r' => continue,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_in_every_form() {
        let script = "alias -- ls='ls -G'\nalias ll=\"ls -l\" la='ls -a'\nalias 'gs'='git status'\n\
                      nvm () \n{\n  npm ls\n}\nfoo(){ bar; }\nfunction deploy { x; }\n\
                      aliases[zz]=1\nalias -s py=python3\nautoload -Uz compinit\nexport PATH=/usr/bin\n";
        let names = ShellNames::from_scripts([script]);
        let defined =
            ["ls", "ll", "la", "gs", "nvm", "foo", "deploy", "zz", "compinit", "./x.py", "/a/b.py"];
        for name in defined {
            assert!(names.may_define(name), "{name}");
        }
        for name in ["npm", "bar", "git", "python3", "./x.rb", "cargo", "/usr/bin/ls"] {
            assert!(!names.may_define(name), "{name}");
        }
    }

    #[test]
    fn functions_in_base64_are_found() {
        // kubectl () { kubecolor "$@"; }
        let script = "eval \"$(echo 'a3ViZWN0bCAoKSB7IGt1YmVjb2xvciAiJEAiOyB9Cg==' | base64 -d)\"";
        let names = ShellNames::from_scripts([script]);
        assert!(names.may_define("kubectl") && !names.may_define("kubecolor"));
    }

    #[test]
    fn a_startup_file_that_runs_other_code_makes_names_unknown() {
        let known = || ShellNames::from_scripts([""]);
        let harmless = "# source x\nexport A=1\n. \"$HOME/.cargo/env\"\nrg() { x; }\n";
        let names = known().with_startup_file(harmless);
        assert!(names.may_define("rg") && !names.may_define("ls"));
        for script in ["source ~/.aliases", ". ~/x", "eval \"$(brew shellenv)\""] {
            assert_eq!(known().with_startup_file(script), ShellNames::Unknown, "{script}");
        }
        assert!(
            ShellNames::Unknown.may_define("ls") && !ShellNames::Unknown.may_define("./gradlew")
        );
        assert!(ShellNames::Unknown.may_define("./run.py"));
    }

    #[test]
    fn names_are_known_only_with_a_snapshot_of_the_session() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        let mut context = Context::new(home, home);
        context.root = home.to_path_buf();
        let read = |context: &Context, client, session| ShellNames::read(client, context, session);
        assert_eq!(read(&context, Client::ClaudeCode, None), ShellNames::Unknown);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
            fs::write(home.join(path), text).unwrap();
        };
        write(".claude/shell-snapshots/snapshot-bash-1-x.sh", "alias ls='ls -G'\n");
        write(".codex/shell_snapshots/s1.9.sh", "rg () { x; }\n");
        let names = read(&context, Client::ClaudeCode, None);
        assert!(names.may_define("ls") && !names.may_define("rg"));
        let names = read(&context, Client::Codex, Some("s1"));
        assert!(names.may_define("rg") && !names.may_define("ls"));
        for session in [None, Some(""), Some("s2")] {
            assert_eq!(read(&context, Client::Codex, session), ShellNames::Unknown);
        }
        assert_eq!(read(&context, Client::GeminiCli, Some("s1")), ShellNames::Unknown);
        write(".zshenv", "git () { hub; }\n");
        assert!(read(&context, Client::ClaudeCode, None).may_define("git"));
        write(".zshenv", "source ~/.aliases\n");
        assert_eq!(read(&context, Client::ClaudeCode, None), ShellNames::Unknown);
        write(".zshenv", "");
        context.shell_startup_file = Some(home.join("env.sh"));
        assert_eq!(read(&context, Client::ClaudeCode, None), ShellNames::Unknown);
    }
}
