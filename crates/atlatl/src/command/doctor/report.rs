//! Findings of the checks, the report in text and JSON, and the wording of fixes.

use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::output::{counted, printable};
use crate::settings::{Origin, Settings};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// It works now, but may fail later.
    Warning,
    /// Something does not work.
    Fault,
}

/// A problem with a suggested fix. Its texts are safe to print: control characters are escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The stable identifier of the check, for programs.
    pub(super) check: &'static str,
    pub(super) level: Level,
    /// The file, entry or setting that has the problem.
    pub(super) about: String,
    /// The problem.
    #[serde(rename = "says")]
    pub(super) message: String,
    /// The command to run or the edit to make.
    pub(super) fix: String,
}

impl Finding {
    pub(super) fn fault(
        check: &'static str,
        about: impl Display,
        message: impl Display,
        fix: impl Display,
    ) -> Self {
        Self::new(check, Level::Fault, &about, &message, &fix)
    }

    pub(super) fn warning(
        check: &'static str,
        about: impl Display,
        message: impl Display,
        fix: impl Display,
    ) -> Self {
        Self::new(check, Level::Warning, &about, &message, &fix)
    }

    fn new(
        check: &'static str,
        level: Level,
        about: &dyn Display,
        message: &dyn Display,
        fix: &dyn Display,
    ) -> Self {
        // Paths, names and server messages are untrusted text.
        let escape = |text: &dyn Display| printable(&text.to_string()).into_owned();
        Self { check, level, about: escape(about), message: escape(message), fix: escape(fix) }
    }
}

/// A check without findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PassedCheck {
    pub(super) check: &'static str,
    #[serde(rename = "says")]
    pub(super) message: String,
}

/// Something that was not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct SkippedCheck {
    pub(super) about: String,
    pub(super) why: String,
}

/// The checks of one area, shown under one heading.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) title: &'static str,
    /// The state of the area in one line.
    pub(super) summary: String,
    pub(super) checks: u64,
    pub(super) findings: Vec<Finding>,
    pub(super) passed: Vec<PassedCheck>,
    pub(super) skipped: Vec<SkippedCheck>,
}

impl Group {
    pub(super) fn new(title: &'static str) -> Self {
        Self {
            title,
            summary: String::new(),
            checks: 0,
            findings: Vec::new(),
            passed: Vec::new(),
            skipped: Vec::new(),
        }
    }

    pub(super) fn summary(&mut self, text: impl Display) {
        self.summary = printable(&text.to_string()).into_owned();
    }

    /// Records one check: its findings, or `ok` as its message if it has none.
    pub(super) fn record(
        &mut self,
        check: &'static str,
        findings: impl IntoIterator<Item = Finding>,
        ok: impl Display,
    ) {
        self.checks += 1;
        let before = self.findings.len();
        self.findings.extend(findings);
        if self.findings.len() == before {
            let message = printable(&ok.to_string()).into_owned();
            self.passed.push(PassedCheck { check, message });
        }
    }

    pub(super) fn skip(&mut self, about: impl Display, why: impl Display) {
        let escape = |text: &dyn Display| printable(&text.to_string()).into_owned();
        self.skipped.push(SkippedCheck { about: escape(&about), why: escape(&why) });
    }

    /// The highest severity of the findings.
    pub(super) fn level(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }
}

/// The width of wrapped text without a terminal. A fix is never wrapped, so that it can be copied.
const LINE_WIDTH: usize = 80;
/// The width of the longest title.
const TITLE_WIDTH: usize = "configuration".len();

/// The report in JSON.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    checks: u64,
    faults: u64,
    warnings: u64,
    findings: Vec<&'a Finding>,
    passed: Vec<&'a PassedCheck>,
    skipped: Vec<&'a SkippedCheck>,
}

impl Report<'_> {
    /// The number of findings in words.
    pub(super) fn headline(&self) -> String {
        let counts = [(self.faults, "fault", "faults"), (self.warnings, "warning", "warnings")];
        let found: Vec<String> = counts
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, many)| counted(count, one, many))
            .collect();
        match &*found {
            [] => "no problems (quick checks)".to_owned(),
            found => format!("{}: atlatl doctor", found.join(", ")),
        }
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(groups: &'a [Group]) -> Self {
        let findings: Vec<_> = groups.iter().flat_map(|group| &group.findings).collect();
        let count = |level| findings.iter().filter(|finding| finding.level == level).count() as u64;
        Self {
            checks: groups.iter().map(|group| group.checks).sum(),
            faults: count(Level::Fault),
            warnings: count(Level::Warning),
            passed: groups.iter().flat_map(|group| &group.passed).collect(),
            skipped: groups.iter().flat_map(|group| &group.skipped).collect(),
            findings,
        }
    }

    pub(super) fn has_faults(&self) -> bool {
        self.faults > 0
    }

    pub(super) fn last_line(&self) -> String {
        format!(
            "{}, {}, {}",
            counted(self.checks, "check", "checks"),
            counted(self.faults, "fault", "faults"),
            counted(self.warnings, "warning", "warnings")
        )
    }
}

/// How the report is laid out as text: a line per group, its findings below it and, with `all`, the passed
/// checks. Paths below `home` are abbreviated to `~/`, except in a fix, which is copied into a shell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout<'a> {
    pub(super) all: bool,
    pub(super) home: Option<&'a Path>,
    /// The columns of the terminal.
    pub(super) room: Option<usize>,
}

impl Layout<'_> {
    /// A group as text.
    pub(super) fn group(self, group: &Group) -> String {
        let mut out = String::new();
        let home = self.home.map(|home| format!("{}/", home.display()));
        let home = home.filter(|home| home.len() > 1);
        let abbreviate = |text: &str| match &home {
            Some(home) => text.replace(home.as_str(), "~/"),
            None => text.to_owned(),
        };
        let room = self.room.unwrap_or(LINE_WIDTH);
        let (symbol, word, style) = level_symbol(group.level());
        let begin = format!("{symbol} {word:<7}  {:TITLE_WIDTH$}  ", group.title);
        let mut lines = String::new();
        let then = " ".repeat(begin.chars().count());
        wrap(&mut lines, room, &begin, &then, &abbreviate(&group.summary));
        // Escape sequences have no width, so the style is added after wrapping.
        let after = &lines[symbol.len_utf8() + 1 + word.len()..];
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{style}{symbol} {word}{style:#}{after}");
        for finding in &group.findings {
            render_finding(&mut out, room, finding, &abbreviate);
        }
        if self.all {
            for PassedCheck { check, message } in &group.passed {
                let text = abbreviate(&format!("{check}: {message}"));
                wrap(&mut out, room, "  ✓ ", "    ", &text);
            }
        }
        for SkippedCheck { about, why } in &group.skipped {
            let text = abbreviate(&format!("not checked: {about}: {why}"));
            wrap(&mut out, room, "  - ", "    ", &text);
        }
        out
    }
}

fn render_finding(
    out: &mut String,
    room: usize,
    finding: &Finding,
    abbreviate: &impl Fn(&str) -> String,
) {
    let (symbol, word, style) = level_symbol(Some(finding.level));
    let Finding { check, about, message, fix, .. } = finding;
    let mut lines = String::new();
    let begin = format!("  {symbol} {word} ");
    wrap(&mut lines, room, &begin, "    ", &abbreviate(&format!("{check}: {about}")));
    let _ = write!(out, "  {style}{symbol} {word}{style:#} {}", &lines[begin.len()..]);
    wrap(out, room, "    ", "    ", &abbreviate(message));
    let bold = Style::new().bold();
    let _ = writeln!(out, "    {bold}fix:{bold:#} {fix}");
}

fn level_symbol(level: Option<Level>) -> (char, &'static str, Style) {
    match level {
        None => ('✓', "ok", AnsiColor::Green.on_default()),
        Some(Level::Warning) => ('!', "warning", AnsiColor::Yellow.on_default().bold()),
        Some(Level::Fault) => ('✗', "fault", AnsiColor::Red.on_default().bold()),
    }
}

/// Appends `text`, wrapped between words; the first line starts with `first`, the others with
/// `then`.
fn wrap(out: &mut String, room: usize, first: &str, then: &str, text: &str) {
    let mut line = first.to_owned();
    let mut line_started = false;
    for word in text.split(' ') {
        if line_started && line.chars().count() + 1 + word.chars().count() > room {
            let _ = writeln!(out, "{line}");
            then.clone_into(&mut line);
            line_started = false;
        }
        if line_started {
            line.push(' ');
        }
        line.push_str(word);
        line_started = true;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

/// Quotes a path as one word of a shell command.
pub(super) fn quote_path(path: &Path) -> String {
    shell_quote(&path.to_string_lossy())
}

/// Quotes a text as one word of a shell command.
pub(super) fn shell_quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The edit that sets `key` to `to`: where the key is set now, otherwise in the user's file.
pub(super) fn config_fix(settings: &Settings, key: &str, to: impl Display) -> String {
    let entry = settings.entries().iter().find(|entry| entry.key.name == key);
    let last = key.rsplit('.').next().unwrap_or(key);
    match entry.map(|entry| &entry.origin) {
        Some(Origin::File { path, line: Some(line), .. }) => {
            format!("in {path}, line {line}, write {last} = {to}")
        }
        Some(Origin::File { path, line: None, .. }) => format!("in {path}, write {last} = {to}"),
        Some(Origin::Environment { variable }) => {
            format!("export {variable}={}", shell_quote(to.to_string().trim_matches('"')))
        }
        Some(Origin::Flag) => format!("--set {key}={to}"),
        Some(Origin::Default) | None => {
            let file = user_file(settings);
            format!("at the top of {}, write {key} = {to}", file.display())
        }
    }
}

/// The user's configuration file, or the last file in the search order if there is no home.
fn user_file(settings: &Settings) -> PathBuf {
    let files = settings.files();
    let user = files
        .iter()
        .find(|(path, _)| path.ends_with("/atlatl/config.toml") && !path.starts_with("/etc/"));
    user.or(files.last()).map_or_else(|| PathBuf::from("atlatl.toml"), |(path, _)| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_says_what_is_wrong_and_how_it_is_fixed() {
        let mut good = Group::new("clock");
        good.record("clock", [], "it is right");
        good.summary("12:00");
        let mut bad = Group::new("clients");
        let message =
            "something that takes more than a line to be said, as things do that go wrong";
        bad.record("x", [Finding::fault("x", "/home/me/a\u{1b}[2J", message, "rm /home/me/a")], "");
        bad.skip("y", "it is at a URL");
        let groups = [good, bad];
        let layout = Layout { all: true, home: Some(Path::new("/home/me")), room: None };
        let text: String = groups.iter().map(|group| layout.group(group)).collect();
        let text = text + &Report::new(&groups).last_line();
        let plain = anstream::adapter::strip_str(&text).to_string();
        insta::assert_snapshot!(plain, @"
        ✓ ok       clock          12:00
          ✓ clock: it is right
        ✗ fault    clients
          ✗ fault x: ~/a<U+001B>[2J
            something that takes more than a line to be said, as things do that go wrong
            fix: rm /home/me/a
          - not checked: y: it is at a URL
        2 checks, 1 fault, 0 warnings
        ");
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell_quote("/a/b-c.json"), "/a/b-c.json");
        assert_eq!(shell_quote("/a b/it's"), r"'/a b/it'\''s'");
        assert_eq!((&*shell_quote("-rf"), &*shell_quote("")), ("'-rf'", "''"));
    }
}
