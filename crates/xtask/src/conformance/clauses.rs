//! The clause table, its consistency checks and its output.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{Outcome, Run};
use crate::repository::Repository;
use crate::test_list::TestName;

const FILE: &str = "conformance/clauses.toml";

/// One requirement and what shows it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clause {
    /// A letter and a number.
    pub(crate) id: String,
    /// The requirement in short.
    pub(crate) text: String,
    /// Step of the conformance ladder, where the clause has one.
    pub(crate) level: Option<u8>,
    #[serde(default)]
    tests: Vec<String>,
    /// The part of the product that will bring it.
    pub(crate) planned: Option<String>,
    /// What the tests do not show yet.
    pub(crate) partial: Option<String>,
}

/// How far a clause is built, as the table itself says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Tests show all of it.
    Covered,
    /// Tests show some of it.
    Partial,
    /// Nothing shows it yet.
    Planned,
}

impl Clause {
    /// The tests that show the clause.
    pub(crate) fn tests(&self) -> impl Iterator<Item = TestName> {
        self.tests.iter().map(|name| TestName::new(name))
    }

    /// How far the clause is built.
    pub(crate) fn status(&self) -> Status {
        match (self.tests.is_empty(), &self.partial) {
            (true, _) => Status::Planned,
            (false, Some(_)) => Status::Partial,
            (false, None) => Status::Covered,
        }
    }

    /// What the name of a test function begins with when it shows this clause.
    pub(crate) fn test_prefix(&self) -> String {
        format!("{}_", self.id.to_lowercase())
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let (tests, planned) = (!self.tests.is_empty(), self.planned.is_some());
        if !is_id(&self.id) {
            findings.push("an id is a letter and a number");
        }
        if self.text.trim().is_empty() {
            findings.push("no text");
        }
        if self.level.is_some_and(|level| !(1..=3).contains(&level)) {
            findings.push("the level is 1, 2, 3 or absent");
        }
        match (tests, planned, self.partial.is_some()) {
            (false, false, _) => findings.push("neither tests nor planned"),
            (true, true, false) => findings.push("tests and planned, but no partial to explain it"),
            (true, false, true) => findings.push("partial, but nothing planned"),
            (false, true, true) => findings.push("partial, but without a test"),
            _ => {}
        }
        let blank = |text: &Option<String>| text.as_ref().is_some_and(|t| t.trim().is_empty());
        if blank(&self.planned) || blank(&self.partial) {
            findings.push("planned or partial is empty");
        }
        findings.iter().map(|finding| format!("{}: {finding}", self.id)).collect()
    }
}

/// All clauses in the order of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClauseTable {
    clause: Vec<Clause>,
}

impl ClauseTable {
    /// Reads the table of the checkout.
    pub(crate) fn load(repository: &Repository) -> Result<Self> {
        Self::parse(&repository.read(FILE)?).context(FILE)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// The clauses in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Clause> {
        self.clause.iter()
    }

    /// What is wrong with the table in itself.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let twice = self.iter().filter(|clause| !seen.insert(&clause.id));
        let twice = twice.map(|clause| format!("{}: listed twice", clause.id)).collect();
        [twice, self.iter().flat_map(Clause::findings).collect::<Vec<_>>()].concat()
    }
}

/// Whether `text` is a clause id such as `T4` or `R10`.
pub(super) fn is_id(text: &str) -> bool {
    let mut chars = text.chars();
    let letter = chars.next().is_some_and(|c| c.is_ascii_uppercase());
    let number = chars.as_str();
    letter && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// One line per clause: id, level, status after the run, tests.
pub(super) fn run_rows(table: &ClauseTable, run: &Run) -> Vec<String> {
    table
        .iter()
        .map(|clause| {
            let passed = |test| run.get(&test) == Some(&Outcome::Passed);
            let status = if clause.tests().all(passed) { word(clause.status()) } else { "FAILED" };
            let id = &clause.id;
            format!("{id:<4} {:<2} {status:<8} {}", level(clause), evidence(clause, "", ", "))
        })
        .collect()
}

/// How many clauses are shown, of how many.
pub(super) fn summary(table: &ClauseTable) -> String {
    let count = |status| table.iter().filter(|clause| clause.status() == status).count();
    format!(
        "{} clauses: {} shown, {} partial, {} planned",
        table.iter().count(),
        count(Status::Covered),
        count(Status::Partial),
        count(Status::Planned)
    )
}

/// The body of `docs/reference/conformance.md`.
pub(crate) fn reference(table: &ClauseTable) -> String {
    let mut text = format!(
        "# Conformance\n\nEvery clause of the specification, and the tests that show it. *Shown*: by \
         the tests named. *Partial*: some of it, and what is missing. *Planned*: not built.\n\n\
         {}.\n\n| clause | level | requirement | status | shown by |\n|---|---|---|---|---|\n",
        summary(table)
    );
    for clause in table.iter() {
        let (id, status) = (&clause.id, word(clause.status()));
        let (requirement, tests) = (&clause.text, evidence(clause, "`", "<br>"));
        let _ = writeln!(text, "| {id} | {} | {requirement} | {status} | {tests} |", level(clause));
    }
    text
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Covered => "shown",
        Status::Partial => "partial",
        Status::Planned => "planned",
    }
}

fn level(clause: &Clause) -> String {
    clause.level.map_or_else(|| "–".to_owned(), |level| level.to_string())
}

/// The tests, then what is missing or planned.
fn evidence(clause: &Clause, quote: &str, separator: &str) -> String {
    let mut parts: Vec<String> =
        clause.tests().map(|test| format!("{quote}{test}{quote}")).collect();
    parts.extend(clause.partial.as_ref().map(|missing| format!("missing: {missing}")));
    parts.extend(clause.planned.as_ref().map(|part| format!("comes with: {part}")));
    parts.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_list::TestName;

    fn findings(rest: &str) -> Vec<String> {
        let text = format!("[[clause]]\nid = \"T4\"\ntext = \"x\"\n{rest}");
        ClauseTable::parse(&text).unwrap().findings()
    }

    #[test]
    fn a_clause_has_tests_or_a_plan() {
        assert!(findings("tests = [\"a b\"]").is_empty());
        assert!(findings("planned = \"spool\"").is_empty());
        assert_eq!(findings("level = 2"), ["T4: neither tests nor planned"]);
    }

    #[test]
    fn both_need_an_explanation() {
        let both = "tests = [\"a b\"]\nplanned = \"spool\"\n";
        assert_eq!(findings(both), ["T4: tests and planned, but no partial to explain it"]);
        assert!(findings(&format!("{both}partial = \"the file\"")).is_empty());
        assert_eq!(
            findings("planned = \"x\"\npartial = \"y\""),
            ["T4: partial, but without a test"]
        );
    }

    #[test]
    fn levels_ids_and_repeats_are_checked() {
        assert_eq!(findings("planned = \"x\"\nlevel = 4"), ["T4: the level is 1, 2, 3 or absent"]);
        let twice = "planned = \"x\"\n[[clause]]\nid = \"T4\"\ntext = \"y\"\nplanned = \"x\"";
        assert_eq!(findings(twice), ["T4: listed twice"]);
        assert!(is_id("R10") && !is_id("r1") && !is_id("R") && !is_id("R1a"));
    }

    const TABLE: &str = "[[clause]]\nid = \"T4\"\nlevel = 1\ntext = \"x\"\ntests = [\"a b\"]\n\
        [[clause]]\nid = \"V1\"\ntext = \"y\"\nplanned = \"extraction\"\n";

    #[test]
    fn a_run_decides_the_status() {
        let table = ClauseTable::parse(TABLE).unwrap();
        let run = Run::from([(TestName::new("a b"), Outcome::Passed)]);
        assert_eq!(
            run_rows(&table, &run),
            ["T4   1  shown    a::b", "V1   –  planned  comes with: extraction"]
        );
        assert!(run_rows(&table, &Run::new())[0].contains("FAILED"));
    }

    #[test]
    fn the_reference_has_a_row_per_clause() {
        let text = reference(&ClauseTable::parse(TABLE).unwrap());
        assert!(text.contains("2 clauses: 1 shown, 0 partial, 1 planned."));
        assert!(text.contains("| T4 | 1 | x | shown | `a::b` |\n"));
        assert!(text.contains("| V1 | – | y | planned | comes with: extraction |\n"));
    }
}
