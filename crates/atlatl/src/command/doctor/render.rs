//! Renders findings as text and as JSON.

use std::{fmt::Write as _, path::Path};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::finding::{Finding, Group, Level, Passed, Skipped};
use crate::output::counted;

/// Lines of words fit every terminal; a fix is one line, so that it can be copied.
const WIDTH: usize = 80;

/// As a program reads it.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    checks: u64,
    faults: u64,
    warnings: u64,
    findings: Vec<&'a Finding>,
    passed: Vec<&'a Passed>,
    skipped: Vec<&'a Skipped>,
}

impl<'a> Report<'a> {
    pub(super) fn new(groups: &'a [Group]) -> Self {
        let findings: Vec<_> = groups.iter().flat_map(|group| &group.findings).collect();
        let of = |level| findings.iter().filter(|finding| finding.level == level).count() as u64;
        Self {
            checks: groups.iter().map(|group| group.checks).sum(),
            faults: of(Level::Fault),
            warnings: of(Level::Warning),
            passed: groups.iter().flat_map(|group| &group.passed).collect(),
            skipped: groups.iter().flat_map(|group| &group.skipped).collect(),
            findings,
        }
    }

    pub(super) fn has_faults(&self) -> bool {
        self.faults > 0
    }

    fn last_line(&self) -> String {
        format!(
            "{}, {}, {}",
            counted(self.checks, "check", "checks"),
            counted(self.faults, "fault", "faults"),
            counted(self.warnings, "warning", "warnings")
        )
    }
}

/// As a person reads it: a line per group, and below it what is wrong; with `all` also what is not.
/// Paths below `home` are shown as people write them, but for those of a fix, which is copied.
pub(super) fn text(groups: &[Group], all: bool, home: Option<&Path>) -> String {
    let mut out = String::new();
    let home = home.map(|home| format!("{}/", home.display())).filter(|home| home.len() > 1);
    let near = |text: &str| match &home {
        Some(home) => text.replace(home.as_str(), "~/"),
        None => text.to_owned(),
    };
    let width = groups.iter().map(|group| group.title.len()).max().unwrap_or(0);
    // Writing into a text does not fail.
    for group in groups {
        let (sign, word, style) = sign(group.level());
        let begin = format!("{sign} {word:<7}  {:width$}  ", group.title);
        let mut lines = String::new();
        wrapped(&mut lines, &begin, &" ".repeat(begin.chars().count()), &near(&group.summary));
        // What a terminal colours has no width.
        let _ = write!(
            out,
            "{style}{sign} {word}{style:#}{}",
            &lines[sign.len_utf8() + 1 + word.len()..]
        );
        for finding in &group.findings {
            one(&mut out, finding, &near);
        }
        if all {
            for Passed { check, says } in &group.passed {
                wrapped(&mut out, "  ✓ ", "    ", &near(&format!("{check}: {says}")));
            }
        }
        for Skipped { about, why } in &group.skipped {
            wrapped(&mut out, "  - ", "    ", &near(&format!("not checked: {about}: {why}")));
        }
    }
    let _ = writeln!(out, "{}", Report::new(groups).last_line());
    out
}

fn one(out: &mut String, finding: &Finding, near: &impl Fn(&str) -> String) {
    let (sign, word, style) = sign(Some(finding.level));
    let Finding { check, about, says, fix, .. } = finding;
    let mut lines = String::new();
    let begin = format!("  {sign} {word} ");
    wrapped(&mut lines, &begin, "    ", &near(&format!("{check}: {about}")));
    let _ = write!(out, "  {style}{sign} {word}{style:#} {}", &lines[begin.len()..]);
    wrapped(out, "    ", "    ", &near(says));
    let bold = Style::new().bold();
    let _ = writeln!(out, "    {bold}fix:{bold:#} {fix}");
}

fn sign(level: Option<Level>) -> (char, &'static str, Style) {
    match level {
        None => ('✓', "ok", AnsiColor::Green.on_default()),
        Some(Level::Warning) => ('!', "warning", AnsiColor::Yellow.on_default().bold()),
        Some(Level::Fault) => ('✗', "fault", AnsiColor::Red.on_default().bold()),
    }
}

/// `text` in lines that are broken between words.
fn wrapped(out: &mut String, first: &str, then: &str, text: &str) {
    let mut line = first.to_owned();
    let mut begun = false;
    for word in text.split(' ') {
        if begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            then.clone_into(&mut line);
            begun = false;
        }
        if begun {
            line.push(' ');
        }
        line.push_str(word);
        begun = true;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_says_what_is_wrong_and_how_it_is_mended() {
        let mut good = Group::new("clock");
        good.checked("clock", [], "it is right");
        good.summary("12:00");
        let mut bad = Group::new("clients");
        let says = "something that takes more than a line to be said, as things do that go wrong";
        bad.checked("x", [Finding::fault("x", "/home/me/a\u{1b}[2J", says, "rm /home/me/a")], "");
        bad.skip("y", "it is at a URL");
        let groups = [good, bad];
        let plain = anstream::adapter::strip_str(&text(&groups, true, Some(Path::new("/home/me"))))
            .to_string();
        insta::assert_snapshot!(plain, @"
        ✓ ok       clock    12:00
          ✓ clock: it is right
        ✗ fault    clients
          ✗ fault x: ~/a<U+001B>[2J
            something that takes more than a line to be said, as things do that go wrong
            fix: rm /home/me/a
          - not checked: y: it is at a URL
        2 checks, 1 fault, 0 warnings
        ");
    }
}
