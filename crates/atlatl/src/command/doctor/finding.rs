//! Finding: what a check came to, and checks that belong together.

use std::fmt::Display;

use serde::Serialize;

use crate::output::printable;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// It works, and may not always.
    Warning,
    /// Something does not work.
    Fault,
}

/// Something that is wrong. All of its texts can be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Which check found it: stable, for programs.
    pub(super) check: &'static str,
    pub(super) level: Level,
    /// What it is wrong with.
    pub(super) about: String,
    /// What is wrong.
    pub(super) says: String,
    /// What to run or to write.
    pub(super) fix: String,
}

impl Finding {
    pub(super) fn fault(
        check: &'static str,
        about: impl Display,
        says: impl Display,
        fix: impl Display,
    ) -> Self {
        Self::new(check, Level::Fault, &about, &says, &fix)
    }

    pub(super) fn warning(
        check: &'static str,
        about: impl Display,
        says: impl Display,
        fix: impl Display,
    ) -> Self {
        Self::new(check, Level::Warning, &about, &says, &fix)
    }

    fn new(
        check: &'static str,
        level: Level,
        about: &dyn Display,
        says: &dyn Display,
        fix: &dyn Display,
    ) -> Self {
        // Paths, names and what servers say come from others.
        let shown = |text: &dyn Display| printable(&text.to_string()).into_owned();
        Self { check, level, about: shown(about), says: shown(says), fix: shown(fix) }
    }
}

/// A check that found nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Passed {
    pub(super) check: &'static str,
    pub(super) says: String,
}

/// Something that was not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Skipped {
    pub(super) about: String,
    pub(super) why: String,
}

/// Checks that belong together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) title: &'static str,
    /// What there is, in one line, where nothing is wrong.
    pub(super) summary: String,
    pub(super) checks: u64,
    pub(super) findings: Vec<Finding>,
    pub(super) passed: Vec<Passed>,
    pub(super) skipped: Vec<Skipped>,
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

    /// One check was made: what it found, or what it says if that is nothing.
    pub(super) fn checked(
        &mut self,
        check: &'static str,
        findings: impl IntoIterator<Item = Finding>,
        ok: impl Display,
    ) {
        self.checks += 1;
        let before = self.findings.len();
        self.findings.extend(findings);
        if self.findings.len() == before {
            let says = printable(&ok.to_string()).into_owned();
            self.passed.push(Passed { check, says });
        }
    }

    pub(super) fn skip(&mut self, about: impl Display, why: impl Display) {
        let shown = |text: &dyn Display| printable(&text.to_string()).into_owned();
        self.skipped.push(Skipped { about: shown(&about), why: shown(&why) });
    }

    /// The worst of what was found.
    pub(super) fn level(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }
}
