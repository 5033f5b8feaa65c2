//! The source of the crates that are shipped, for references whose rows must match the code.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::repository::{Repository, has_extension};

/// Crates for development only.
const UNSHIPPED: &[&str] = &["crates/loadtest/", "crates/testkit/", "crates/xtask/"];

/// A source file without its tests.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) code: String,
}

/// Every source file of the shipped crates.
pub(super) fn sources(repository: &Repository) -> Result<Vec<Source>> {
    let files = repository.files()?;
    let shipped = files.into_iter().filter(|file| is_shipped(file));
    shipped
        .map(|path| {
            let text = repository.read(&path)?;
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
            Ok(Source { path, code })
        })
        .collect()
}

fn is_shipped(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    has_extension(file, "rs")
        && matches!(parts[..], ["crates", _, "src", ..])
        && !file.ends_with("/tests.rs")
        && !UNSHIPPED.iter().any(|folder| file.starts_with(folder))
}

/// The string literals in `code` whose characters all pass, those of comments and attributes aside.
pub(super) fn literals(code: &str, passes: impl Fn(char) -> bool) -> BTreeSet<String> {
    let is_code =
        |line: &&str| !["//", "#["].iter().any(|mark| line.trim_start().starts_with(mark));
    let lines = code.lines().filter(is_code);
    let quoted = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    quoted.filter(|text| !text.is_empty() && text.chars().all(&passes)).map(str::to_owned).collect()
}

/// Fails where the rows of a table are not what the code has.
pub(super) fn same(what: &str, rows: &BTreeSet<String>, code: &BTreeSet<String>) -> Result<()> {
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
        a.difference(b).cloned().collect::<Vec<_>>().join(", ")
    };
    if rows == code {
        return Ok(());
    }
    bail!(
        "{what}: without a row: [{}]; not in the code: [{}]; fix the table of the document",
        only(code, rows),
        only(rows, code)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_of_shipped_crates_count() {
        assert!(is_shipped("crates/lro/src/a/b.rs"));
        assert!(!is_shipped("crates/xtask/src/a.rs") && !is_shipped("crates/lro/tests/it/a.rs"));
        assert!(!is_shipped("crates/atlatl/src/settings/tests.rs"));
    }

    #[test]
    fn literals_are_those_that_pass_outside_comments_and_attributes() {
        let code = "f(\"HOME\", \"home\");\n// \"PATH\"\n#[cfg(x = \"JQ\")]\n[\"A_B\", \"\"]";
        let found = literals(code, |c| c.is_ascii_uppercase() || c == '_');
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["A_B", "HOME"]);
    }

    #[test]
    fn a_row_too_many_and_one_too_few_are_told() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert!(same("x", &set(&["a"]), &set(&["a"])).is_ok());
        let error = same("x", &set(&["a", "b"]), &set(&["b", "c"])).unwrap_err().to_string();
        assert!(error.contains("without a row: [c]; not in the code: [a]"), "{error}");
    }
}
