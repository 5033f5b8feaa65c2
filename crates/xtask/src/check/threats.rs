//! Threats: each row of the threat table names tests that exist, or a step of the gate.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::args::TestsArgs;
use crate::markdown::{Document, code_spans};
use crate::repository::Repository;
use crate::test_list::{self, TestList, TestName};

const TABLE: &str = "docs/threats.md";
const GATE: &str = ".ci/run";
/// What a step of the gate is named behind.
const STEP: &str = "gate:";

/// One row: where it stands, which threat, what its last cell says.
#[derive(Debug)]
struct Row<'a> {
    line: usize,
    id: &'a str,
    shown_by: &'a str,
}

impl Row<'_> {
    fn tests(&self) -> impl Iterator<Item = TestName> {
        code_spans(self.shown_by).into_iter().map(TestName::new)
    }

    fn step(&self) -> Option<&str> {
        self.shown_by.split_once(STEP).map(|(_, step)| step.trim())
    }
}

/// Reads the table; the tests are listed only when some row names one.
pub(super) fn check(repository: &Repository, args: &TestsArgs) -> Result<Vec<String>> {
    let text = repository.read(TABLE)?;
    let document = Document::parse(&text);
    let rows = rows(&document);
    let names_tests = rows.iter().any(|row| row.tests().next().is_some());
    let known = if names_tests { test_list::load(repository, args)? } else { TestList::new() };
    Ok(findings(&rows, &known, &repository.read(GATE)?))
}

/// Rows whose first cell is an id in backticks.
fn rows<'a>(document: &Document<'a>) -> Vec<Row<'a>> {
    document
        .table_rows
        .iter()
        .filter_map(|&(line, ref cells)| {
            let id = cells[0].strip_prefix('`')?.strip_suffix('`')?;
            Some(Row { line, id, shown_by: cells[cells.len() - 1] })
        })
        .collect()
}

fn findings(rows: &[Row<'_>], known: &TestList, gate: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut ids = BTreeSet::new();
    if rows.is_empty() {
        findings.push(format!("{TABLE}: no threat found"));
    }
    for row in rows {
        let at = format!("{TABLE}:{}: {}", row.line, row.id);
        if !ids.insert(row.id) {
            findings.push(format!("{at}: listed twice"));
        }
        let unknown = row.tests().filter(|test| !known.contains(test));
        findings.extend(unknown.map(|test| format!("{at}: no such test, {test}")));
        match row.step() {
            None if row.tests().next().is_none() => {
                findings.push(format!("{at}: neither a test nor `{STEP} …`"));
            }
            Some(step) if !gate.contains(&format!("\nstep \"{step}\" ")) => {
                findings.push(format!("{at}: no such step, {step}"));
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_of(table: &str) -> Vec<String> {
        let known = TestList::from([TestName::new("lro-core::it a::b")]);
        let gate = "set -e\nstep \"bans, sources\" cargo deny\n";
        findings(&rows(&Document::parse(table)), &known, gate)
    }

    #[test]
    fn a_test_or_a_step_is_enough() {
        let table = "| id | threat | shown by |\n|---|---|---|\n\
            | `t-one` | x | `lro-core::it a::b` |\n\
            | `t-two` | y | gate: bans, sources |\n";
        assert_eq!(findings_of(table), Vec::<String>::new());
    }

    #[test]
    fn an_empty_row_and_an_unknown_test_are_found() {
        let found = findings_of(
            "| id | threat | shown by |\n|---|---|---|\n| `t-one` | x | |\n\
             | `t-two` | y | `lro-core no::test` |\n| `t-three` | z | gate: bans |\n",
        );
        assert_eq!(
            found,
            [
                "docs/threats.md:3: t-one: neither a test nor `gate: …`",
                "docs/threats.md:4: t-two: no such test, lro-core::no::test",
                "docs/threats.md:5: t-three: no such step, bans",
            ]
        );
    }

    #[test]
    fn an_empty_table_is_a_finding() {
        assert_eq!(findings_of("nothing here\n"), ["docs/threats.md: no threat found"]);
    }
}
