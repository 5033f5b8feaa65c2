//! Threats: each row of the threat table names tests that exist, or says what is still planned.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::args::TestsArgs;
use crate::markdown::{Document, code_spans};
use crate::repository::Repository;
use crate::test_list::{self, TestList, TestName};

const TABLE: &str = "docs/threats.md";
const PLANNED: &str = "planned:";

/// One row: where it stands, which threat, what its last cell says.
#[derive(Debug)]
struct Row<'a> {
    line: usize,
    id: &'a str,
    shown_by: &'a str,
}

impl Row<'_> {
    fn tests(&self) -> impl Iterator<Item = TestName> {
        let before_plan = self.shown_by.split(PLANNED).next().unwrap_or_default();
        code_spans(before_plan).into_iter().map(TestName::new)
    }

    fn plan(&self) -> Option<&str> {
        self.shown_by.split_once(PLANNED).map(|(_, plan)| plan.trim())
    }
}

/// Reads the table; the tests are listed only when some row names one.
pub(super) fn check(repository: &Repository, args: &TestsArgs) -> Result<Vec<String>> {
    let text = repository.read(TABLE)?;
    let document = Document::parse(&text);
    let rows = rows(&document);
    let names_tests = rows.iter().any(|row| row.tests().next().is_some());
    let known = if names_tests { test_list::load(repository, args)? } else { TestList::new() };
    Ok(findings(&rows, &known))
}

/// Rows whose first cell is an id in backticks.
fn rows<'a>(document: &Document<'a>) -> Vec<Row<'a>> {
    document
        .table_rows()
        .filter_map(|(line, cells)| {
            let id = cells[0].strip_prefix('`')?.strip_suffix('`')?;
            Some(Row { line, id, shown_by: cells[cells.len() - 1] })
        })
        .collect()
}

fn findings(rows: &[Row<'_>], known: &TestList) -> Vec<String> {
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
        match row.plan() {
            None if row.tests().next().is_none() => {
                findings.push(format!("{at}: neither a test nor `{PLANNED} …`"));
            }
            Some("") => findings.push(format!("{at}: planned, but not what")),
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
        findings(&rows(&Document::parse(table)), &known)
    }

    #[test]
    fn a_test_or_a_plan_is_enough() {
        let table = "| id | threat | shown by |\n|---|---|---|\n\
            | `t-one` | x | `lro-core::it a::b` |\n\
            | `t-two` | y | planned: spool, with `openat2` |\n\
            | `t-three` | z | `lro-core::it::a::b`; planned: the rest |\n";
        assert_eq!(findings_of(table), Vec::<String>::new());
    }

    #[test]
    fn an_empty_row_and_an_unknown_test_are_found() {
        let found = findings_of("| `t-one` | x | |\n| `t-two` | y | `lro-core no::test` |\n");
        assert_eq!(
            found,
            [
                "docs/threats.md:1: t-one: neither a test nor `planned: …`",
                "docs/threats.md:2: t-two: no such test, lro-core::no::test",
            ]
        );
    }

    #[test]
    fn an_empty_table_is_a_finding() {
        assert_eq!(findings_of("nothing here\n"), ["docs/threats.md: no threat found"]);
    }
}
