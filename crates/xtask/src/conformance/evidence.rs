//! Checks the clause table against the existing tests and the `JUnit` report of a run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use roxmltree::Document;

use super::clauses::{Clause, ClauseTable, Status};
use crate::test_list::{TestList, TestName};

/// Compares the table with the tests that exist and, when given, with a finished run.
pub(super) fn findings(table: &ClauseTable, known: &TestList, run: Option<&Run>) -> Vec<String> {
    table
        .iter()
        .flat_map(|clause| match clause.status() {
            Status::Planned => surprises(clause, known, run),
            Status::Shown | Status::Partial => gaps(clause, known, run),
        })
        .collect()
}

/// Named tests that do not exist, did not run or did not pass.
fn gaps(clause: &Clause, known: &TestList, run: Option<&Run>) -> Vec<String> {
    let gap = |test: &TestName| {
        if !known.contains(test) {
            return Some("does not exist");
        }
        match run?.get(test) {
            Some(Outcome::Passed) => None,
            Some(Outcome::Failed) => Some("failed"),
            Some(Outcome::Skipped) | None => Some("did not run"),
        }
    };
    let tests = clause.tests();
    tests.filter_map(|test| Some(format!("{}: {test} {}", clause.id, gap(&test)?))).collect()
}

/// Tests that show a clause which claims to be unbuilt: the table has fallen behind.
///
/// Without a run an existing test counts as passing, since a failing one fails the gate anyway.
fn surprises(clause: &Clause, known: &TestList, run: Option<&Run>) -> Vec<String> {
    let prefix = clause.test_prefix();
    let passes = |test: &&TestName| {
        run.is_none_or(|run| run.get(test).is_some_and(|outcome| *outcome == Outcome::Passed))
    };
    known
        .iter()
        .filter(|test| test.function().starts_with(&prefix))
        .filter(passes)
        .map(|test| format!("{}: planned, but {test} shows it: name it", clause.id))
        .collect()
}

/// How one test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It passed, perhaps not at the first try.
    Passed,
    /// It failed, crashed or ran out of time.
    Failed,
    /// It was left out.
    Skipped,
}

/// The outcome of every test of one run.
pub(super) type Run = BTreeMap<TestName, Outcome>;

/// Reads a report.
pub(super) fn load(file: &Path) -> Result<Run> {
    let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    parse(&text).with_context(|| format!("{}", file.display()))
}

fn parse(text: &str) -> Result<Run> {
    let document = Document::parse(text)?;
    let mut run = Run::new();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let name = case.attribute("name").context("a testcase without a name")?;
        let suite = case.attribute("classname").context("a testcase without a classname")?;
        let has = |tag: &str| case.children().any(|child| child.has_tag_name(tag));
        let outcome = if has("failure") || has("error") {
            Outcome::Failed
        } else if has("skipped") {
            Outcome::Skipped
        } else {
            Outcome::Passed
        };
        run.insert(TestName::join(suite, name), outcome);
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "lro-core::it threshold::t4_boundary";

    fn check(clause: &str, known: &[&str], run: Option<&[(&str, Outcome)]>) -> Vec<String> {
        let text = format!("[[clause]]\nid = \"T4\"\ntext = \"x\"\n{clause}");
        let table = ClauseTable::parse(&text).unwrap();
        let known = known.iter().map(|name| TestName::new(name)).collect();
        let run = run.map(|run| run.iter().map(|(n, o)| (TestName::new(n), *o)).collect::<Run>());
        findings(&table, &known, run.as_ref())
    }

    #[test]
    fn a_named_test_exists_runs_and_passes() {
        let named = format!("tests = [\"{TEST}\"]");
        let passed: &[_] = &[(TEST, Outcome::Passed)];
        assert!(check(&named, &[TEST], None).is_empty());
        assert!(check(&named, &[TEST], Some(passed)).is_empty());
        let name = "T4: lro-core::it::threshold::t4_boundary";
        assert_eq!(check(&named, &[], None), [format!("{name} does not exist")]);
        assert_eq!(check(&named, &[TEST], Some(&[])), [format!("{name} did not run")]);
        let failed: &[_] = &[(TEST, Outcome::Failed)];
        assert_eq!(check(&named, &[TEST], Some(failed)), [format!("{name} failed")]);
    }

    #[test]
    fn a_planned_clause_with_a_passing_test_is_a_finding() {
        let planned = "planned = \"core\"";
        let found = "T4: planned, but lro-core::it::threshold::t4_boundary shows it: name it";
        assert_eq!(check(planned, &[TEST], None), [found]);
        assert_eq!(check(planned, &[TEST], Some(&[(TEST, Outcome::Passed)])), [found]);
        assert!(check(planned, &[TEST], Some(&[(TEST, Outcome::Failed)])).is_empty());
        assert!(check(planned, &["lro-core::it threshold::t40_other"], None).is_empty());
    }

    #[test]
    fn outcomes_are_told_apart() {
        let run = parse(
            r#"<testsuites tests="3"><testsuite name="a::it">
                 <testcase name="m::x" classname="a::it"/>
                 <testcase name="m::y" classname="a::it"><failure type="test failure"/></testcase>
                 <testcase name="m::z" classname="a::it"><skipped/></testcase>
               </testsuite></testsuites>"#,
        )
        .unwrap();
        let outcomes: Vec<_> = run.values().copied().collect();
        assert_eq!(outcomes, [Outcome::Passed, Outcome::Failed, Outcome::Skipped]);
        assert!(run.contains_key(&TestName::new("a::it m::x")));
    }
}
