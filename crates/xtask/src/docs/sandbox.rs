//! The sandbox for the examples of one document: a directory, a home and an environment of its own.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use snapbox::filter::NormalizeToExpected;
use snapbox::report::{Palette, write_diff};
use snapbox::{IntoData, Redactions};
use tempfile::TempDir;

use super::Step;
use crate::atlatl::Atlatl;
use crate::repository::Repository;

/// Files that examples may use, copied into the working directory.
const EXAMPLES: &str = "docs/examples";
/// No example may take longer.
const TIMEOUT_SECONDS: &str = "60";

/// A temporary directory that lives as long as its document is being run.
#[derive(Debug)]
pub(super) struct Sandbox {
    dir: TempDir,
    path: String,
}

impl Sandbox {
    /// Makes the directory, with the example files in it and `atlatl` first on the path.
    pub(super) fn new(repository: &Repository, atlatl: &Atlatl) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        for name in ["work", "home", "tmp"] {
            fs::create_dir(dir.path().join(name))?;
        }
        let examples = repository.path(EXAMPLES).join(".");
        let copied =
            Command::new("cp").arg("-R").arg(examples).arg(dir.path().join("work")).status()?;
        ensure!(copied.success(), "cannot copy {EXAMPLES}: {copied}");
        let inherited = std::env::var("PATH").context("PATH")?;
        Ok(Self { dir, path: format!("{}:{inherited}", atlatl.dir().display()) })
    }

    /// Runs one command; says what was wrong, if anything.
    pub(super) fn run(&self, step: &Step) -> Result<Option<String>> {
        // One stream, so that both are compared in the order they were written.
        let script = format!("exec 2>&1\n{}", step.command);
        let output = self.command(&["bash", "-c", &script]).output().context("starting bash")?;
        // A document shows the temporary directory that its reader has.
        let own = self.dir.path().join("tmp").display().to_string();
        let printed =
            String::from_utf8_lossy(&output.stdout).replace(&own, "/tmp").replace("\r\n", "\n");
        let mut wrong = Vec::new();
        if !output.status.success() {
            wrong.push(format!("{} (to show it: `; echo $?`)", output.status));
        }
        wrong.extend(difference(&step.expected, &printed));
        Ok((!wrong.is_empty()).then(|| format!("$ {}: {}", step.command, wrong.join("; "))))
    }

    /// Checks a configuration file; says what was wrong, if anything.
    pub(super) fn check_config(&self, text: &str) -> Result<Option<String>> {
        let file = self.dir.path().join("example.toml");
        fs::write(&file, text)?;
        let mut command = self.command(&["atlatl", "config", "check"]);
        let output = command.arg(&file).output().context("starting atlatl")?;
        let reason = || String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        Ok((!output.status.success()).then(reason))
    }

    fn command(&self, args: &[&str]) -> Command {
        let root = self.dir.path();
        let mut command = Command::new("timeout");
        // Only a home directory, as for a program that a client starts.
        command
            .arg(TIMEOUT_SECONDS)
            .args(args)
            .current_dir(root.join("work"))
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", &self.path)
            .env("LC_ALL", "C.UTF-8")
            .env("TMPDIR", root.join("tmp"))
            .env("HOME", root.join("home"));
        command
    }
}

/// The difference between the expected and the printed lines, `[..]` and `...` applied; `None` if they match.
fn difference(expected: &[String], printed: &str) -> Option<String> {
    let lines = |text: String| text.trim_end_matches('\n').to_owned().into_data();
    let expected = lines(expected.join("\n"));
    let redactions = Redactions::new();
    let filter = NormalizeToExpected::new().redact_with(&redactions);
    let printed = filter.normalize(lines(printed.to_owned()), &expected);
    if printed == expected {
        return None;
    }
    let mut text = String::from("the output differs");
    let (document, output) = (Some(&"document" as _), Some(&"output" as _));
    write_diff(&mut text, &expected, &printed, document, output, Palette::plain()).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::atlatl::BinArgs;

    /// A sandbox with a stand-in for `atlatl` that fails on the word `bad`.
    fn sandbox() -> (TempDir, Sandbox) {
        let bin = tempfile::tempdir().unwrap();
        let program = bin.path().join("atlatl");
        fs::write(&program, "#!/bin/sh\necho \"$1\"\n! grep bad \"$3\" >&2\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let repository = Repository::open().unwrap();
        let args = BinArgs { bin: Some(bin.path().to_path_buf()) };
        let atlatl = Atlatl::find(&repository, &args).unwrap();
        (bin, Sandbox::new(&repository, &atlatl).unwrap())
    }

    fn run(sandbox: &Sandbox, command: &str, expected: &[&str]) -> Option<String> {
        let expected = expected.iter().map(|&line| line.to_owned()).collect();
        sandbox.run(&Step { command: command.to_owned(), expected }).unwrap()
    }

    #[test]
    fn files_stay_from_command_to_command() {
        let (_bin, sandbox) = sandbox();
        assert_eq!(run(&sandbox, "echo one > file", &[]), None);
        assert_eq!(run(&sandbox, "cat file; pwd >&2", &["one", "[..]/work"]), None);
    }

    #[test]
    fn the_environment_is_the_sandboxs_own() {
        let (_bin, sandbox) = sandbox();
        let command = "echo \"$HOME ${XDG_CONFIG_HOME-none} ${CARGO-none}\"; command -v atlatl";
        assert_eq!(run(&sandbox, command, &["[..]/home none none", "/[..]"]), None);
    }

    #[test]
    fn wrong_output_and_failures_are_reported() {
        let (_bin, sandbox) = sandbox();
        let report = run(&sandbox, "echo b", &["a"]).unwrap();
        assert!(report.contains("- a") && report.contains("+ b"), "{report}");
        assert!(run(&sandbox, "exit 3", &[]).unwrap().contains("exit status: 3"));
        assert_eq!(run(&sandbox, "(exit 3); echo $?", &["3"]), None);
    }

    #[test]
    fn lines_are_compared_exactly_outside_the_two_wildcards() {
        let matches = |expected: &[&str], printed: &str| {
            let expected: Vec<String> = expected.iter().map(|&line| line.to_owned()).collect();
            difference(&expected, printed).is_none()
        };
        assert!(matches(&["a", "", "b"], "a\n\nb\n") && matches(&[], ""));
        assert!(!matches(&["a"], "a \n") && !matches(&["a"], "a\nb\n"));
        assert!(!matches(&["a", "b"], "a\n"));
        assert!(matches(&["took [..] ms"], "took 12 ms\n"));
        assert!(matches(&["a[..]b[..]c"], "a1b2b3c\n"));
        assert!(!matches(&["took [..] ms"], "took 12 s\n"));
        assert!(matches(&["a", "...", "z"], "a\nb\nc\nz\n"));
        assert!(matches(&["...", "x", "..."], "a\nx\nb\n"));
        assert!(!matches(&["...", "y"], "a\nx\n"));
        assert!(!matches(&["a ..."], "a\nb\n"), "only alone on a line");
    }

    #[test]
    fn configurations_are_handed_to_the_program() {
        let (_bin, sandbox) = sandbox();
        assert_eq!(sandbox.check_config("good = 1").unwrap(), None);
        assert_eq!(sandbox.check_config("bad = 1").unwrap(), Some("bad = 1".to_owned()));
    }
}
