//! What a finished run of the tests showed, read from nextest's `JUnit` report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use roxmltree::Document;

use crate::test_list::TestName;

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
