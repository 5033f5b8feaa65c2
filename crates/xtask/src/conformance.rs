//! `cargo xtask conformance`: compares the clauses of the specification with the tests that show them,
//! and with the `JUnit` report of a run.

mod clauses;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use self::clauses::{Clause, Status};
pub(crate) use self::clauses::{ClauseTable, reference};
use super::markdown::Document;
use super::repository::Repository;
use super::test_list::{TestList, TestName, TestsArgs};
use super::{output, test_list};

/// The numbered requirements, checked when the file exists beside the checkout.
const REQUIREMENTS: &str = "../shared/conformance.md";

/// What `conformance` reads beside the clause table.
#[derive(Debug, clap::Args)]
pub(crate) struct ConformanceArgs {
    #[command(flatten)]
    tests: TestsArgs,
    /// `JUnit` report of a finished run; can be repeated; adds the outcomes to the table
    #[arg(long, value_name = "FILE")]
    junit: Vec<PathBuf>,
}

/// Checks the clause table, and prints it when a finished run is given.
pub(crate) fn run(repository: &Repository, args: &ConformanceArgs) -> Result<bool> {
    let table = ClauseTable::load(repository)?;
    let existing = test_list::load(repository, &args.tests)?;
    let mut runs = args.junit.iter().map(|file| load_run(file)).collect::<Result<Vec<_>>>()?;
    let run = runs.pop().map(|last| runs.into_iter().flatten().chain(last).collect::<Run>());

    let mut findings = table.findings();
    findings.extend(missing_or_extra(repository, &table)?);
    findings.extend(test_findings(&table, &existing, run.as_ref()));
    if let Some(run) = &run {
        for row in clauses::run_rows(&table, run) {
            output::line(row);
        }
    }
    output::line(clauses::summary(&table));
    Ok(output::verdict("conformance", &findings))
}

/// Compares the clause ids with those of the requirements.
fn missing_or_extra(repository: &Repository, table: &ClauseTable) -> Result<Vec<String>> {
    let file = repository.path(REQUIREMENTS);
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let required = required_ids(&text);
    let listed: BTreeSet<&str> = table.iter().map(|clause| clause.id.as_str()).collect();
    let missing = required.difference(&listed).map(|id| format!("{id}: not in the clause table"));
    let extra = listed.difference(&required).map(|id| format!("{id}: no such requirement"));
    Ok(missing.chain(extra).collect())
}

fn required_ids(text: &str) -> BTreeSet<&str> {
    Document::parse(text)
        .table_rows
        .iter()
        .map(|(_, cells)| cells[0])
        .filter(|id| clauses::is_id(id))
        .collect()
}

/// Compares the table with the existing tests and, if there is one, with a finished run.
fn test_findings(table: &ClauseTable, existing: &TestList, run: Option<&Run>) -> Vec<String> {
    table
        .iter()
        .flat_map(|clause| match clause.status() {
            Status::Planned => outdated(clause, existing, run),
            Status::Covered | Status::Partial => missing_tests(clause, existing, run),
        })
        .collect()
}

/// Named tests that do not exist, did not run or did not pass.
fn missing_tests(clause: &Clause, existing: &TestList, run: Option<&Run>) -> Vec<String> {
    let gap = |test: &TestName| {
        if !existing.contains(test) {
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

/// Passing tests of a clause that is marked as planned: the table is out of date.
///
/// Without a run an existing test counts as passing, since a failing one fails the gate anyway.
fn outdated(clause: &Clause, existing: &TestList, run: Option<&Run>) -> Vec<String> {
    let prefix = clause.test_prefix();
    let passes = |test: &&TestName| {
        run.is_none_or(|run| run.get(test).is_some_and(|outcome| *outcome == Outcome::Passed))
    };
    existing
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
fn load_run(file: &Path) -> Result<Run> {
    let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    parse_run(&text).with_context(|| format!("{}", file.display()))
}

fn parse_run(text: &str) -> Result<Run> {
    let document = roxmltree::Document::parse(text)?;
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

    #[test]
    fn ids_are_read_from_the_first_column() {
        let text = "| id | clause |\n|---|---|\n| T4 | more |\n| R10 | native |\n| Tx | no |\n";
        assert_eq!(required_ids(text), BTreeSet::from(["R10", "T4"]));
    }

    const TEST: &str = "lro-core::it threshold::t4_boundary";

    fn check(clause: &str, existing: &[&str], run: Option<&[(&str, Outcome)]>) -> Vec<String> {
        let text = format!("[[clause]]\nid = \"T4\"\ntext = \"x\"\n{clause}");
        let table = ClauseTable::parse(&text).unwrap();
        let existing = existing.iter().map(|name| TestName::new(name)).collect();
        let run = run.map(|run| run.iter().map(|(n, o)| (TestName::new(n), *o)).collect::<Run>());
        test_findings(&table, &existing, run.as_ref())
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
    fn outcomes_differ() {
        let run = parse_run(
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
