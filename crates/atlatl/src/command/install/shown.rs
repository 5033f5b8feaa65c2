//! Shown: what is to be changed, for a person and for a program.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use atlatl_clients::{Journal, Kind, entries};
use serde_json::{Value, json};
use similar::TextDiff;

use super::found::Found;
use crate::output::printable;

/// A file that is to be changed.
pub(crate) struct Changed {
    pub(crate) found: Found,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) journal: Journal,
}

/// The change, line by line.
pub(crate) fn diff(change: &Changed) -> String {
    let name = change.found.shown();
    let diff = TextDiff::from_lines(&change.before, &change.after);
    let mut out = String::new();
    // Writing into a text does not fail.
    let _ = writeln!(out, "{}", printable(&name));
    for hunk in diff.unified_diff().context_radius(2).iter_hunks() {
        for line in hunk.to_string().lines() {
            let style = match line.as_bytes().first() {
                Some(b'+') => AnsiColor::Green.on_default(),
                Some(b'-') => AnsiColor::Red.on_default(),
                Some(b'@') => Style::new().dimmed(),
                _ => Style::new(),
            };
            let _ = writeln!(out, "  {style}{}{style:#}", printable(line));
        }
    }
    for (server, url) in at_urls(change) {
        let _ = writeln!(out, "  left alone: {} is at {}", printable(&server), printable(&url));
    }
    out
}

/// As a program reads it.
pub(crate) fn report(changes: &[Changed], dry_run: bool) -> Value {
    let names = |change: &Changed| {
        let left: Vec<_> = at_urls(change).into_iter().map(|(server, _)| server).collect();
        json!({
            "client": change.found.client.name,
            "file": change.found.file,
            "wrapped": change.journal.wrapped.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "replaced": change.journal.replaced.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "added": change.journal.added.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "left_alone": left,
        })
    };
    json!({"dry_run": dry_run, "files": changes.iter().map(names).collect::<Vec<_>>()})
}

/// Servers over HTTP: their login would move to the proxy, which a person has to decide.
fn at_urls(change: &Changed) -> Vec<(String, String)> {
    let all = entries(&change.before, &change.found.place).unwrap_or_default();
    let replaced = |name: &str| change.journal.replaced.iter().any(|one| one.name == name);
    let url = |entry: atlatl_clients::Entry| match entry.kind {
        Kind::Url(url) if !replaced(&entry.name) => Some((entry.name, url)),
        _ => None,
    };
    all.into_iter().filter_map(url).collect()
}
