//! Rewriting commands of coding agents: expected decisions, and the same effect in every shell.

mod generator;
mod sandbox;

use std::path::{Path, PathBuf};
use std::process::Command;

use atlatl_lro::hook::rewrite::{Decision, ShellNames, rewrite};
use testkit::SplitMix64;

use self::sandbox::Sandbox;

const LINES: &str = include_str!("rewrite/lines.txt");

/// The mark in a line before which the program is inserted.
const MARK: &str = "▸";

/// The decision on a line, as the file of lines writes it.
fn decide(line: &str) -> (String, String) {
    match rewrite(line, "atlatl", &ShellNames::from_scripts([""])) {
        Decision::Rewrite(rewritten) => ("rewrite".to_owned(), rewritten),
        Decision::Keep(reason) => (format!("keep {reason}"), line.to_owned()),
    }
}

#[test]
fn every_line_has_its_expected_decision() {
    let (mut section, mut count, mut differences) = ("", 0, Vec::new());
    for text in LINES.lines().filter(|text| !text.is_empty()) {
        let name = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Some(name) = name.filter(|name| *name == "rewrite" || name.starts_with("keep ")) {
            section = name;
            continue;
        }
        if section.is_empty() {
            continue;
        }
        let line = text.replace(MARK, "");
        let expected = text.replace(MARK, "atlatl run -- ");
        let (decision, rewritten) = decide(&line);
        count += 1;
        if decision != section || rewritten != expected {
            differences
                .push(format!("{line}\n    expected {section}, found {decision}: {rewritten}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(count >= 500, "{count} lines");
}

#[test]
fn control_characters_and_long_lines_are_kept() {
    for line in
        ["ls\nrm x", "ls\r", "ls\tx", "ls \u{1b}[0m", "ls \u{a0}x", "ls 'a\nb'", "ls \u{7f}"]
    {
        assert_eq!(decide(line).0, "keep control character", "{line:?}");
    }
    assert_eq!(decide(&format!("ls {}", "x".repeat(40_000))).0, "keep too long");
    assert_eq!(decide("").0, "keep empty");
}

/// A stand-in that only starts the command, at a path that needs quotes, and the built program once it
/// has the command `run`.
fn programs(directory: &Path) -> Vec<PathBuf> {
    let stand_in = directory.join("it's a program");
    sandbox::write_script(&stand_in, "shift 2\nexec \"$@\"\n");
    let real = PathBuf::from(env!("CARGO_BIN_EXE_atlatl"));
    let mut probe = Command::new(&real);
    probe.args(["run", "--", "/bin/true"]).env_clear().env("HOME", directory);
    let probe = probe.output().unwrap();
    let mut programs = vec![stand_in];
    programs.extend(probe.status.success().then_some(real));
    programs
}

/// Runs random lines with and without the rewrite. `ATLATL_SOAK_CASES` is the number of rewritten
/// lines.
#[test]
fn a_rewritten_line_has_the_same_effect_in_every_shell() {
    let cases = std::env::var("ATLATL_SOAK_CASES").map_or(60, |cases| cases.parse().unwrap());
    let shells: Vec<&str> = ["sh", "bash", "zsh"]
        .into_iter()
        .filter(|shell| {
            let found = Command::new(shell).args(["-c", "true"]).output().is_ok();
            if !found {
                eprintln!("skipped: {shell} is not installed");
            }
            found
        })
        .collect();
    assert!(shells.len() >= 2, "needs sh and bash, found {shells:?}");
    let directory = tempfile::tempdir().unwrap();
    let programs = programs(directory.path());
    let sandbox = Sandbox::new(directory.path());
    let names = ShellNames::from_scripts([""]);
    let mut random = SplitMix64::new(24);
    let (mut rewritten_lines, mut lines) = (0, 0);
    while rewritten_lines < cases {
        let line = generator::line(&mut random);
        lines += 1;
        let program = &programs[lines % programs.len()];
        let Decision::Rewrite(rewritten) = rewrite(&line, program.to_str().unwrap(), &names) else {
            continue;
        };
        rewritten_lines += 1;
        for shell in &shells {
            let original = sandbox.run(shell, &line);
            let replaced = sandbox.run(shell, &rewritten);
            assert_eq!(original, replaced, "{shell}: {line}\n{rewritten}");
        }
    }
    eprintln!(
        "{rewritten_lines} of {lines} lines were rewritten, {} programs, shells {shells:?}: no \
         difference",
        programs.len()
    );
}
