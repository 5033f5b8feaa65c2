//! References that come from the source code: errors and environment variables, whose pages are
//! written by hand and checked against the code, and events, whose page is made from doc comments.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};

use crate::atlatl::Atlatl;
use crate::check::arrows::DEVELOPMENT;
use crate::markdown;
use crate::markdown::{Document, code_spans};
use crate::repository::{Repository, has_extension};

/// A source file without its tests.
#[derive(Debug)]
struct Source {
    path: String,
    code: String,
}

/// Every source file of the shipped crates.
fn sources(repository: &Repository) -> Result<Vec<Source>> {
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
        && matches!(parts[..], ["crates", name, "src", ..] if !DEVELOPMENT.contains(&name))
        && !file.ends_with("/tests.rs")
}

/// The string literals in `code` whose characters all pass, those of comments and attributes aside.
fn literals(code: &str, passes: impl Fn(char) -> bool) -> BTreeSet<String> {
    let is_code =
        |line: &&str| !["//", "#["].iter().any(|mark| line.trim_start().starts_with(mark));
    let lines = code.lines().filter(is_code);
    let quoted = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    quoted.filter(|text| !text.is_empty() && text.chars().all(&passes)).map(str::to_owned).collect()
}

/// Fails where the rows of a table are not what the code has.
fn check_equal(what: &str, rows: &BTreeSet<String>, code: &BTreeSet<String>) -> Result<()> {
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

pub(super) const ERRORS_PAGE: &str = "docs/reference/errors.md";

/// Statuses that are not errors.
const SUCCESSES: &[&str] = &["ACCEPTED", "CREATED", "NO_CONTENT", "OK", "PARTIAL_CONTENT"];

/// Where classes are named: a file, and the text before and after the names.
const CLASS_SOURCES: &[(&str, &str, &str)] = &[
    ("crates/lro-query/src/error.rs", "fn as_str(self)", "\n    }\n"),
    ("crates/lro/src/extract_error.rs", "fn class(&self)", "\n    }\n"),
    ("crates/lro/src/mcp/tools.rs", "fn wrong(", "\n}\n"),
    ("crates/atlatl-server/src/tools/response.rs", "fn class(&self)", "\n    }\n"),
    ("crates/lro-proxy/src/relay/reference.rs", "let (class, hint) = match self", "\n        };\n"),
];

/// The sources of HTTP responses.
const HTTP_SOURCES: &[&str] =
    &["crates/lro-http/src/", "crates/atlatl-server/src/http", "crates/lro-proxy/src/downstream"];

/// The page with a fresh table of JSON-RPC codes; an error if its classes and statuses are not those
/// of the code.
pub(super) fn error_reference(repository: &Repository) -> Result<String> {
    let page = repository.read(ERRORS_PAGE)?;
    let sources = sources(repository)?;
    let (listed_classes, mut listed_statuses) = documented_errors(&page);
    check_equal("classes of errors", &listed_classes, &classes(&sources)?)?;
    listed_statuses.extend(SUCCESSES.iter().map(|&name| name.to_owned()));
    check_equal("HTTP statuses", &listed_statuses, &statuses(&sources))?;
    let mut table = String::from("| code | means |\n|---|---|\n");
    for (code, meaning) in codes(&sources) {
        let _ = writeln!(table, "| `{code}` | {meaning} |");
    }
    markdown::replace_generated(&page, "codes", &table).context("no generated part `codes`")
}

/// The classes and the statuses (`404 Not Found` as `NOT_FOUND`) that the page describes.
fn documented_errors(page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
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
    for (path, begin, end) in CLASS_SOURCES {
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
        .filter(|source| HTTP_SOURCES.iter().any(|place| source.path.starts_with(place)));
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

pub(super) const ENVIRONMENT_PAGE: &str = "docs/reference/environment.md";

/// Variables that libraries read; our own code does not name them.
const LIBRARIES: &[&str] = &[
    "TMPDIR",
    "OTEL_TRACES_SAMPLER",
    "OTEL_BSP_…",
    "RUST_LOG",
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
pub(super) fn environment_reference(repository: &Repository, atlatl: &Atlatl) -> Result<String> {
    let page = repository.read(ENVIRONMENT_PAGE)?;
    check_equal(ENVIRONMENT_PAGE, &documented_variables(&page), &variables_read(repository)?)?;
    let mut table = String::from("| variable | key | default |\n|---|---|---|\n");
    let configuration = atlatl.stdout(&["config", "reference"])?;
    for (variable, key, default) in configuration_keys(&configuration) {
        let _ = writeln!(table, "| {variable} | {key} | {default} |");
    }
    markdown::replace_generated(&page, "keys", &table).context("no generated part `keys`")
}

/// The variables that the page describes, without those of libraries and configuration keys.
fn documented_variables(page: &str) -> BTreeSet<String> {
    let document = Document::parse(page);
    let rows = document.table_rows.iter();
    let names = rows.filter_map(|(_, cells)| code_spans(cells[0]).first().copied());
    let own = names.filter(|name| !name.starts_with("ATLATL_") && !LIBRARIES.contains(name));
    own.map(str::to_owned).collect()
}

/// The names in upper case in files that read variables.
fn variables_read(repository: &Repository) -> Result<BTreeSet<String>> {
    let capitals = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let mut found = BTreeSet::new();
    for source in sources(repository)? {
        if source.code.contains("env::var") {
            found.extend(literals(&source.code, capitals));
        }
        // Other files read them with a function of ours, by name.
        for call in source.code.split("variable(").skip(1) {
            let name = call.strip_prefix('"').and_then(|rest| rest.split_once('"'));
            found.extend(
                name.map(|(name, _)| name.to_owned()).filter(|name| name.chars().all(capitals)),
            );
        }
    }
    // Cargo sets these for the compiler; `env!` reads them.
    found.retain(|name| !name.starts_with("CARGO_"));
    Ok(found)
}

/// Variable, key and default of each row of the configuration reference.
fn configuration_keys(configuration: &str) -> Vec<(String, String, String)> {
    let document = Document::parse(configuration);
    let rows = document.table_rows.iter().filter_map(|(_, cells)| match cells[..] {
        [key, _, default, variable, ..] if variable.starts_with("`ATLATL_") => {
            Some((variable.to_owned(), key.to_owned(), default.to_owned()))
        }
        _ => None,
    });
    rows.collect()
}

const EVENTS_SOURCE: &str = "crates/lro/src/event.rs";

const EVENTS_INTRODUCTION: &str = "\
# Events

The library reports what happens to results to its embedder (`lro::EventSink`), and the program writes it to the ledger (`ledger.path`), a
JSON object a line. [`atlatl stats`](cli.md#atlatl-stats) sums it up. Contents are never part of it.

Every line has `id` (a ULID), `time`, `source` (the command), `event`, and `ref` if it is about one result. `correlation` is the id of the
request that caused it, otherwise the result, otherwise the event itself. An amount of tokens is an object: `tokens`, and a `method`, which is `counted`
if every token was counted.

```json
{\"id\":\"01KA35ZK000J6HB7H9NF6YV4D3\",\"time\":\"2026-11-15T10:00:00.123Z\",\"source\":\"atlatl proxy\",\"correlation\":\"01KA35ZK000J6HB7H9NF6YV4D3\",\"event\":\"ToolsListed\",\"server\":\"files\",\"definitions\":{\"tokens\":512,\"method\":\"counted\"}}
```
";

/// The whole page.
pub(super) fn event_reference(repository: &Repository) -> Result<String> {
    let sources = sources(repository)?;
    let source = sources.iter().find(|source| source.path == EVENTS_SOURCE);
    let events = events(&source.with_context(|| format!("no file {EVENTS_SOURCE}"))?.code)?;
    let mut text = EVENTS_INTRODUCTION.to_owned();
    for event in events {
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n| field | meaning |\n|---|---|\n",
            event.name, event.meaning
        );
        for (name, meaning) in event.fields {
            let _ = writeln!(text, "| `{name}` | {meaning} |");
        }
    }
    Ok(text)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    name: String,
    meaning: String,
    fields: Vec<(String, String)>,
}

/// The variants of `EventKind` with their fields, each with the documentation above it. A field that
/// is not written into the ledger is left out.
fn events(code: &str) -> Result<Vec<Event>> {
    let (_, rest) = code.split_once("pub enum EventKind {").context("no `pub enum EventKind`")?;
    let (body, _) = rest.split_once("\n}\n").context("`EventKind` has no end")?;
    let mut found: Vec<Event> = Vec::new();
    let (mut doc, mut skipped) = (Vec::new(), false);
    for line in body.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("/// ") {
            doc.push(words.strip_prefix("Spec ").map_or(words, |words| {
                // The clause id is for readers of the code.
                words.split_once(": ").map_or(words, |(_, words)| words)
            }));
        } else if line == "#[serde(skip)]" {
            skipped = true;
        } else if let Some(name) = line.strip_suffix(" {") {
            let (name, meaning) = (name.to_owned(), sentence(&doc));
            found.push(Event { name, meaning, fields: Vec::new() });
            doc.clear();
        } else if let Some((name, _)) = line.split_once(": ").filter(|_| !line.starts_with('#')) {
            let event = found.last_mut().context("a field before any event")?;
            if !std::mem::take(&mut skipped) {
                event.fields.push((name.to_owned(), sentence(&doc)));
            }
            doc.clear();
        }
    }
    ensure!(!found.is_empty(), "no events");
    Ok(found)
}

/// Lines of documentation as one sentence that begins with a capital.
fn sentence(lines: &[&str]) -> String {
    let text = lines.join(" ");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
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
    fn a_row_too_many_and_one_too_few_are_reported() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert!(check_equal("x", &set(&["a"]), &set(&["a"])).is_ok());
        let error = check_equal("x", &set(&["a", "b"]), &set(&["b", "c"])).unwrap_err().to_string();
        assert!(error.contains("without a row: [c]; not in the code: [a]"), "{error}");
    }

    fn source(path: &str, code: &str) -> Source {
        Source { path: path.to_owned(), code: code.to_owned() }
    }

    #[test]
    fn the_tables_have_what_the_code_names() {
        error_reference(&Repository::open().unwrap()).unwrap();
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
    fn a_class_that_moved_is_reported() {
        let error = classes(&[source("crates/lro-query/src/error.rs", "fn other() {}")]);
        assert!(error.unwrap_err().to_string().contains("no `fn as_str(self)`"));
    }

    #[test]
    fn the_table_has_what_the_program_reads() {
        let repository = Repository::open().unwrap();
        let page = repository.read(ENVIRONMENT_PAGE).unwrap();
        assert_eq!(documented_variables(&page), variables_read(&repository).unwrap());
        assert!(LIBRARIES.iter().all(|name| page.contains(&format!("| `{name}` |"))));
    }

    #[test]
    fn rows_of_keys_differ_from_their_head() {
        let text = "| key | takes | default | environment variable | meaning | project file | read by |\n\
                    |---|---|---|---|---|---|---|\n\
                    | `a.b` | text | `\"\"` | `ATLATL_A__B` | A. | yes | `proxy` |\n";
        let expected = ("`ATLATL_A__B`".to_owned(), "`a.b`".to_owned(), "`\"\"`".to_owned());
        assert_eq!(configuration_keys(text), [expected]);
    }

    #[test]
    fn events_have_the_fields_that_are_written() {
        let code = "pub enum EventKind {\n    /// Spec L3: it broke\n    /// twice.\n    Broke {\n        \
                    /// Which.\n        #[serde(default)]\n        tool: String,\n        /// Why.\n        \
                    #[serde(skip)]\n        error: String,\n        /// How often.\n        n: u64,\n    },\n}\n";
        let fields = [("tool", "Which."), ("n", "How often.")];
        let event = Event {
            name: "Broke".to_owned(),
            meaning: "It broke twice.".to_owned(),
            fields: fields.map(|(name, meaning)| (name.to_owned(), meaning.to_owned())).to_vec(),
        };
        assert_eq!(events(code).unwrap(), [event]);
        assert!(events("enum Other {}").is_err());
    }

    #[test]
    fn the_code_has_events() {
        let page = event_reference(&Repository::open().unwrap()).unwrap();
        assert!(page.contains("## ResultOffloaded\n") && page.contains("| `took_us` |"), "{page}");
    }
}
