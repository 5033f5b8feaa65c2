//! The clause table as text: after a run, and as the reference document.

use std::fmt::Write;

use super::clauses::{Clause, ClauseTable, Status};
use super::junit::{Outcome, Run};

/// One line per clause: id, level, status after the run, tests.
pub(super) fn of_run(table: &ClauseTable, run: &Run) -> Vec<String> {
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
        count(Status::Shown),
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
        Status::Shown => "shown",
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

    const TABLE: &str = "[[clause]]\nid = \"T4\"\nlevel = 1\ntext = \"x\"\ntests = [\"a b\"]\n\
        [[clause]]\nid = \"V1\"\ntext = \"y\"\nplanned = \"extraction\"\n";

    #[test]
    fn a_run_decides_the_status() {
        let table = ClauseTable::parse(TABLE).unwrap();
        let run = Run::from([(TestName::new("a b"), Outcome::Passed)]);
        assert_eq!(
            of_run(&table, &run),
            ["T4   1  shown    a::b", "V1   –  planned  comes with: extraction"]
        );
        assert!(of_run(&table, &Run::new())[0].contains("FAILED"));
    }

    #[test]
    fn the_reference_has_a_row_per_clause() {
        let text = reference(&ClauseTable::parse(TABLE).unwrap());
        assert!(text.contains("2 clauses: 1 shown, 0 partial, 1 planned."));
        assert!(text.contains("| T4 | 1 | x | shown | `a::b` |\n"));
        assert!(text.contains("| V1 | – | y | planned | comes with: extraction |\n"));
    }
}
