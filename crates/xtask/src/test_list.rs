//! The tests that exist, as `cargo nextest list` names them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::repository::Repository;

/// Where the names of the existing tests come from.
#[derive(Debug, clap::Args)]
pub(crate) struct TestsArgs {
    /// Saved output of `cargo nextest list --workspace --message-format json` [default: run it]
    #[arg(long, value_name = "FILE")]
    tests: Option<PathBuf>,
}

/// A test's full name: binary id, then path, joined by `::`.
///
/// nextest prints a space between the two; both spellings name the same test here, so that a name
/// can be pasted from a run or written as a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TestName(String);

impl TestName {
    /// The name as someone wrote it.
    pub(crate) fn new(written: &str) -> Self {
        Self(written.trim().replace(' ', "::"))
    }

    /// The name from its two parts.
    pub(crate) fn join(binary_id: &str, test: &str) -> Self {
        Self(format!("{binary_id}::{test}"))
    }

    /// The name of the test function.
    pub(crate) fn function(&self) -> &str {
        self.0.rsplit("::").next().unwrap_or(&self.0)
    }
}

impl fmt::Display for TestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names of all tests of the workspace.
pub(crate) type TestList = BTreeSet<TestName>;

#[derive(Deserialize)]
struct Listed {
    #[serde(rename = "rust-suites")]
    suites: BTreeMap<String, Suite>,
}

#[derive(Deserialize)]
struct Suite {
    #[serde(default)]
    testcases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
struct Case {
    ignored: bool,
}

/// Reads the saved list, or asks cargo (which builds the tests first).
pub(crate) fn load(repository: &Repository, args: &TestsArgs) -> Result<TestList> {
    let listed = match &args.tests {
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
            serde_json::from_str(&text).with_context(|| format!("{}", file.display()))?
        }
        None => repository.cargo_json(&[
            "nextest",
            "list",
            "--workspace",
            "--all-features",
            "--message-format",
            "json",
        ])?,
    };
    Ok(names(&listed))
}

fn names(listed: &Listed) -> TestList {
    let mut names = TestList::new();
    for (id, suite) in &listed.suites {
        // A test that never runs shows nothing.
        let cases = suite.testcases.iter().filter(|(_, case)| !case.ignored);
        names.extend(cases.map(|(test, _)| TestName::join(id, test)));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_one_test() {
        let joined = TestName::join("lro-core::it", "threshold::t4_boundary");
        assert_eq!(TestName::new("lro-core::it threshold::t4_boundary"), joined);
        assert_eq!(TestName::new("lro-core::it::threshold::t4_boundary"), joined);
        assert_eq!(joined.function(), "t4_boundary");
    }

    #[test]
    fn a_list_of_nextest_is_read() {
        let text = r#"{"rust-suites":{"a::it":{"testcases":{"m::x":{"ignored":false},
            "m::y":{"ignored":true}}},"b":{}}}"#;
        let listed: Listed = serde_json::from_str(text).unwrap();
        assert_eq!(names(&listed), TestList::from([TestName::new("a::it m::x")]));
    }
}
