//! The reference of environment variables: written by hand, checked against the code.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result};

use super::shipped::{literals, same, sources};
use crate::atlatl::Atlatl;
use crate::markdown::{Document, code_spans, generated};
use crate::repository::Repository;

pub(super) const PATH: &str = "docs/reference/environment.md";

/// Variables that libraries read; our own code does not name them.
const LIBRARIES: &[&str] = &[
    "TMPDIR",
    "OTEL_TRACES_SAMPLER",
    "OTEL_BSP_…",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The page with a fresh table of keys; an error if its variables are not those of the code.
pub(super) fn reference(repository: &Repository, atlatl: &Atlatl) -> Result<String> {
    let page = repository.read(PATH)?;
    same(PATH, &documented(&page), &read(repository)?)?;
    let mut table = String::from("| variable | key | default |\n|---|---|---|\n");
    let configuration = atlatl.stdout(&["config", "reference"])?;
    for (variable, key, default) in keys(&configuration) {
        let _ = writeln!(table, "| {variable} | {key} | {default} |");
    }
    generated::replace(&page, "keys", &table).context("no generated part `keys`")
}

/// The variables that the page describes, without those of libraries and configuration keys.
fn documented(page: &str) -> BTreeSet<String> {
    let document = Document::parse(page);
    let rows = document.table_rows.iter();
    let names = rows.filter_map(|(_, cells)| code_spans(cells[0]).first().copied());
    let own = names.filter(|name| !name.starts_with("ATLATL_") && !LIBRARIES.contains(name));
    own.map(str::to_owned).collect()
}

/// The names in upper case in files that read variables.
fn read(repository: &Repository) -> Result<BTreeSet<String>> {
    let capitals = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let mut found = BTreeSet::new();
    for source in sources(repository)? {
        if source.code.contains("env::var") {
            found.extend(literals(&source.code, capitals));
        }
        // Other files read them with a function of ours, by name.
        for asked in source.code.split("variable(").skip(1) {
            let name = asked.strip_prefix('"').and_then(|rest| rest.split_once('"'));
            found.extend(
                name.map(|(name, _)| name.to_owned()).filter(|name| name.chars().all(capitals)),
            );
        }
    }
    Ok(found)
}

/// Variable, key and default of each row of the configuration reference.
fn keys(configuration: &str) -> Vec<(String, String, String)> {
    let document = Document::parse(configuration);
    let rows = document.table_rows.iter().filter_map(|(_, cells)| match cells[..] {
        [key, _, default, variable, ..] if variable.starts_with("`ATLATL_") => {
            Some((variable.to_owned(), key.to_owned(), default.to_owned()))
        }
        _ => None,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_what_the_program_reads() {
        let repository = Repository::open().unwrap();
        let page = repository.read(PATH).unwrap();
        assert_eq!(documented(&page), read(&repository).unwrap());
        assert!(LIBRARIES.iter().all(|name| page.contains(&format!("| `{name}` |"))));
    }

    #[test]
    fn rows_of_keys_are_told_from_their_head() {
        let text = "| key | takes | default | environment variable | meaning | project file | read by |\n\
                    |---|---|---|---|---|---|---|\n\
                    | `a.b` | text | `\"\"` | `ATLATL_A__B` | A. | yes | `proxy` |\n";
        let expected = ("`ATLATL_A__B`".to_owned(), "`a.b`".to_owned(), "`\"\"`".to_owned());
        assert_eq!(keys(text), [expected]);
    }
}
