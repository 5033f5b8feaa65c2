//! Source files: one concept each, of a length one can read, with a first line that says which.

use std::path::Path;

use anyhow::Result;

use crate::output;
use crate::repository::{Repository, has_extension};

/// Above this a file is split before anything else happens.
const MAX_LINES: usize = 800;
/// Above this a file is named, to think about.
const LONG_LINES: usize = 400;
/// A program's `main.rs` only starts the program.
const MAX_MAIN_LINES: usize = 20;
/// Names that say nothing, and so collect everything.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helpers", "misc", "types"];

/// Looks at every Rust file; long ones that are still allowed are only named.
pub(super) fn check(repository: &Repository, files: &[String]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| has_extension(file, "rs")) {
        let text = repository.read(file)?;
        findings.extend(findings_in(file, &text));
        let lines = code_lines(file, &text);
        if (LONG_LINES + 1..=MAX_LINES).contains(&lines) {
            output::line(format_args!("warning: {file}: {lines} lines, think about a split"));
        }
    }
    Ok(findings)
}

fn findings_in(file: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(format!("{file}: does not begin with `//!`"));
    }
    let path = Path::new(file);
    let parts = path.iter().filter_map(|part| part.to_str());
    if let Some(name) = parts.map(|part| part.trim_end_matches(".rs")).find(is_empty_name) {
        findings.push(format!("{file}: the name `{name}` says nothing; name the concept"));
    }
    let lines = code_lines(file, text);
    if lines > MAX_LINES {
        findings.push(format!("{file}: {lines} lines, at most {MAX_LINES}"));
    }
    if path.ends_with("src/main.rs") && lines > MAX_MAIN_LINES {
        findings.push(format!("{file}: {lines} lines, a main.rs has at most {MAX_MAIN_LINES}"));
    }
    findings
}

fn is_empty_name(name: &&str) -> bool {
    EMPTY_NAMES.contains(name)
}

/// The number of lines before the in-file tests; 0 for a file of tests.
fn code_lines(file: &str, text: &str) -> usize {
    let is_test_file = Path::new(file).iter().any(|part| part == "tests" || part == "tests.rs");
    if is_test_file {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod ")
    });
    tests.unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(lines: usize) -> String {
        format!("//! Doc.\n{}", "x\n".repeat(lines - 1))
    }

    #[test]
    fn a_file_of_exactly_the_limit_passes() {
        assert!(findings_in("a/src/x.rs", &long(MAX_LINES)).is_empty());
        let findings = findings_in("a/src/x.rs", &long(MAX_LINES + 1));
        assert_eq!(findings, ["a/src/x.rs: 801 lines, at most 800"]);
    }

    #[test]
    fn tests_do_not_count() {
        assert!(findings_in("a/tests/it/x.rs", &long(2000)).is_empty());
        let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}", long(700), "y\n".repeat(700));
        assert!(findings_in("a/src/x.rs", &with_tests).is_empty());
    }

    #[test]
    fn names_first_lines_and_mains_are_checked() {
        assert_eq!(findings_in("a/src/util.rs", "//! Doc.\n").len(), 1);
        assert_eq!(findings_in("a/src/common/x.rs", "//! Doc.\n").len(), 1);
        assert_eq!(findings_in("a/src/x.rs", "use y;\n").len(), 1);
        assert_eq!(findings_in("a/src/main.rs", &long(MAX_MAIN_LINES + 1)).len(), 1);
        assert!(findings_in("a/src/main.rs", &long(MAX_MAIN_LINES)).is_empty());
    }
}
