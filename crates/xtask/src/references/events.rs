//! The reference of events: names and fields of the ledger's lines, from the documentation in the code.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};

use super::shipped::sources;
use crate::repository::Repository;

const SOURCE: &str = "crates/lro/src/event.rs";

const BEGINNING: &str = "\
# Events

What happens to results is told to whoever embeds the crate (`lro::EventSink`), and written into the ledger (`ledger.path`), a JSON object
a line. [`atlatl stats`](cli.md#atlatl-stats) sums it up. Contents are never part of it.

Every line has `time`, `event`, and `ref` where it is about one result. An amount of tokens is an object: `tokens`, and a `method`
which is `counted` where every token was.

```json
{\"time\":\"2026-11-15T10:00:00.123Z\",\"event\":\"ToolsListed\",\"server\":\"files\",\"definitions\":{\"tokens\":512,\"method\":\"counted\"}}
```
";

/// The whole page.
pub(super) fn reference(repository: &Repository) -> Result<String> {
    let sources = sources(repository)?;
    let source = sources.iter().find(|source| source.path == SOURCE);
    let events = events(&source.with_context(|| format!("no file {SOURCE}"))?.code)?;
    let mut text = BEGINNING.to_owned();
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
    let (mut said, mut skipped) = (Vec::new(), false);
    for line in body.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("/// ") {
            said.push(words.strip_prefix("Spec ").map_or(words, |words| {
                // The clause is for whoever reads the code.
                words.split_once(": ").map_or(words, |(_, words)| words)
            }));
        } else if line == "#[serde(skip)]" {
            skipped = true;
        } else if let Some(name) = line.strip_suffix(" {") {
            let (name, meaning) = (name.to_owned(), sentence(&said));
            found.push(Event { name, meaning, fields: Vec::new() });
            said.clear();
        } else if let Some((name, _)) = line.split_once(": ").filter(|_| !line.starts_with('#')) {
            let event = found.last_mut().context("a field before any event")?;
            if !std::mem::take(&mut skipped) {
                event.fields.push((name.to_owned(), sentence(&said)));
            }
            said.clear();
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
        let page = reference(&Repository::open().unwrap()).unwrap();
        assert!(page.contains("## ResultOffloaded\n") && page.contains("| `took_us` |"), "{page}");
    }
}
