//! The reference of errors: written by hand, checked against the code.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result};

use super::shipped::{Source, literals, same, sources};
use crate::markdown::{Document, code_spans, generated};
use crate::repository::Repository;

pub(super) const PATH: &str = "docs/reference/errors.md";

/// Statuses that are no error.
const SUCCESSES: &[&str] = &["ACCEPTED", "CREATED", "NO_CONTENT", "OK", "PARTIAL_CONTENT"];

/// Where classes are named: a file, and what stands before and behind the names.
const NAMED: &[(&str, &str, &str)] = &[
    ("crates/lro-query/src/error.rs", "fn as_str(self)", "\n    }\n"),
    ("crates/lro/src/extract_error.rs", "fn class(&self)", "\n    }\n"),
    ("crates/lro/src/mcp/tools.rs", "fn wrong(", "\n}\n"),
    ("crates/atlatl-server/src/tool_error.rs", "fn class(&self)", "\n    }\n"),
    ("crates/lro-proxy/src/reference.rs", "let (class, hint) = match self", "\n        };\n"),
];

/// Where HTTP is answered.
const ANSWERING: &[&str] =
    &["crates/lro-http/src/", "crates/atlatl-server/src/http", "crates/lro-proxy/src/downstream"];

/// The page with a fresh table of JSON-RPC codes; an error if its classes and statuses are not those
/// of the code.
pub(super) fn reference(repository: &Repository) -> Result<String> {
    let page = repository.read(PATH)?;
    let sources = sources(repository)?;
    let (listed_classes, mut listed_statuses) = documented(&page);
    same("classes of errors", &listed_classes, &classes(&sources)?)?;
    listed_statuses.extend(SUCCESSES.iter().map(|&name| name.to_owned()));
    same("HTTP statuses", &listed_statuses, &statuses(&sources))?;
    let mut table = String::from("| code | means |\n|---|---|\n");
    for (code, meaning) in codes(&sources) {
        let _ = writeln!(table, "| `{code}` | {meaning} |");
    }
    generated::replace(&page, "codes", &table).context("no generated part `codes`")
}

/// The classes and the statuses (`404 Not Found` as `NOT_FOUND`) that the page describes.
fn documented(page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut classes, mut statuses) = (BTreeSet::new(), BTreeSet::new());
    for (_, cells) in Document::parse(page).table_rows {
        match (code_spans(cells[0]).first(), cells[0].split_once(' ')) {
            (Some(class), _) if !class.starts_with('-') => {
                classes.insert((*class).to_owned());
            }
            (None, Some((code, name))) if code.parse::<u16>().is_ok() => {
                statuses.insert(name.to_uppercase().replace(' ', "_"));
            }
            _ => {}
        }
    }
    (classes, statuses)
}

/// The classes that the code names.
fn classes(sources: &[Source]) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for (path, begin, end) in NAMED {
        let source = sources.iter().find(|source| source.path == *path);
        let code = &source.with_context(|| format!("no file {path}"))?.code;
        let (_, rest) = code.split_once(begin).with_context(|| format!("{path}: no `{begin}`"))?;
        let (body, _) = rest.split_once(end).with_context(|| format!("{path}: no end"))?;
        found.extend(literals(body, |c| c.is_ascii_lowercase() || c == '_'));
    }
    Ok(found)
}

/// The statuses that the code answers with.
fn statuses(sources: &[Source]) -> BTreeSet<String> {
    let answering = sources
        .iter()
        .filter(|source| ANSWERING.iter().any(|place| source.path.starts_with(place)));
    let named = answering.flat_map(|source| source.code.split("StatusCode::").skip(1));
    let names = named.map(|rest| {
        rest.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect::<String>()
    });
    // What is not in capitals is a function of the type.
    names.filter(|name| name.len() > 1).collect()
}

/// Each code of ours with the line of documentation above it, the largest first.
fn codes(sources: &[Source]) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for source in sources {
        let lines: Vec<&str> = source.code.lines().collect();
        for pair in lines.windows(2) {
            let Some(meaning) = pair[0].strip_prefix("/// ") else { continue };
            let value =
                pair[1].split_once(": i32 = ").map(|(_, value)| value.trim_end_matches(';'));
            let code = value.and_then(|value| value.parse().ok()).filter(|code| *code <= -32000);
            found.extend(code.map(|code| (code, meaning.to_owned())));
        }
    }
    found.sort_by_key(|(code, _)| -code);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, code: &str) -> Source {
        Source { path: path.to_owned(), code: code.to_owned() }
    }

    #[test]
    fn the_tables_have_what_the_code_names() {
        reference(&Repository::open().unwrap()).unwrap();
    }

    #[test]
    fn codes_come_with_the_line_above_them() {
        let code = "/// No JSON.\npub const A: i32 = -32700;\n/// Two.\nconst B: i32 = 2;\n\
                    /// Gone.\nconst C: i32 = -32002;\n";
        let expected = [(-32002, "Gone.".to_owned()), (-32700, "No JSON.".to_owned())];
        assert_eq!(codes(&[source("a.rs", code)]), expected);
    }

    #[test]
    fn statuses_are_read_where_http_is_answered() {
        let code = "f(StatusCode::NOT_FOUND); StatusCode::from_u16(3)";
        let sources =
            [source("crates/lro-http/src/a.rs", code), source("crates/lro/src/b.rs", code)];
        assert_eq!(statuses(&sources).into_iter().collect::<Vec<_>>(), ["NOT_FOUND"]);
        assert!(statuses(&sources[1..]).is_empty());
    }

    #[test]
    fn a_class_that_moved_is_told() {
        let error = classes(&[source("crates/lro-query/src/error.rs", "fn other() {}")]);
        assert!(error.unwrap_err().to_string().contains("no `fn as_str(self)`"));
    }
}
