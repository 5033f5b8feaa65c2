//! Rewriting commands of coding agents: expected decisions, and the same effect in every shell.

mod generator;
mod sandbox;

use std::path::{Path, PathBuf};

use atlatl_lro::hook::rewrite::{Decision, ShellNames, rewrite};
use testkit::SplitMix64;

use self::sandbox::Sandbox;

const LINES: &str = include_str!("rewrite/lines.txt");

/// The mark in a line before which the program is inserted.
const MARK: &str = "▸";

/// The decision on a line, as the file of lines writes it.
fn decide(line: &str) -> (String, String) {
    match rewrite(line, "atlatl", "codex", &ShellNames::from_scripts([""])) {
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
        let expected = text.replace(MARK, "atlatl run --agent codex -- ");
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

/// The built program, at a path that needs quotes.
fn program(directory: &Path) -> PathBuf {
    let program = directory.join("it's a program");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_atlatl"), &program).unwrap();
    program
}

/// Runs random lines with and without the rewrite. `ATLATL_SOAK_CASES` is the number of rewritten
/// lines.
#[test]
fn a_rewritten_line_has_the_same_effect_in_every_shell() {
    let cases = std::env::var("ATLATL_SOAK_CASES").map_or(60, |cases| cases.parse().unwrap());
    let shells = ["sh", "bash", "zsh"];
    for shell in shells {
        testkit::tool::require(shell);
    }
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path());
    let sandbox = Sandbox::new(directory.path());
    let names = ShellNames::from_scripts([""]);
    let mut random = SplitMix64::new(24);
    let (mut rewritten_lines, mut lines) = (0, 0);
    while rewritten_lines < cases {
        let line = generator::line(&mut random);
        lines += 1;
        let decision = rewrite(&line, program.to_str().unwrap(), "codex", &names);
        let Decision::Rewrite(rewritten) = decision else { continue };
        rewritten_lines += 1;
        for shell in &shells {
            let original = sandbox.run(shell, &line);
            let replaced = sandbox.run(shell, &rewritten);
            assert_eq!(original, replaced, "{shell}: {line}\n{rewritten}");
        }
    }
    eprintln!("soak: {rewritten_lines} of {lines} lines rewritten, no difference in {shells:?}");
}
