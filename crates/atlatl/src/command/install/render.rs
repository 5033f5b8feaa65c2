//! Renders planned changes as text and as JSON.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use similar::TextDiff;

use super::plan::{Change, Servers};
use crate::output::{counted, printable};

/// Why a server of the legacy transport is not put behind the proxy.
const SSE: &str = "legacy HTTP+SSE transport is not supported";

/// The change, line by line.
pub(super) fn diff(change: &Change) -> String {
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
    for server in &change.restored {
        let _ = writeln!(out, "  restored: {}: {SSE}", printable(server));
    }
    out
}

/// The servers of a file that stay as they are, each with the reason.
pub(super) fn unchanged(servers: &Servers) -> String {
    let mut out = String::new();
    let mut line = |name: &str, why: &str| {
        let _ = writeln!(out, "  left unchanged: {}: {}", printable(name), printable(why));
    };
    for (name, _) in &servers.sse {
        line(name, SSE);
    }
    for (name, url) in &servers.at_url {
        line(name, &format!("at {url}; --http includes it"));
    }
    for (name, url) in &servers.with_settings {
        line(name, &format!("at {url}, with settings that the proxy would lose"));
    }
    out
}

/// What a run came to, over all files.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) wrapped: usize,
    pub(super) repaired: usize,
    pub(super) restored: usize,
    pub(super) already: usize,
    pub(super) at_url: usize,
    pub(super) with_settings: usize,
    pub(super) sse: usize,
}

impl Summary {
    pub(super) fn add(&mut self, change: Option<&Change>, servers: &Servers) {
        if let Some(change) = change {
            self.wrapped += change.journal.wrapped.len() + change.journal.replaced.len();
            self.repaired += change.rewritten.len();
            self.restored += change.restored.len();
        }
        self.already += servers.already.len();
        self.at_url += servers.at_url.len();
        self.with_settings += servers.with_settings.len();
        self.sse += servers.sse.len();
    }

    /// In one line.
    pub(super) fn text(&self, dry_run: bool) -> String {
        let wrapped = if dry_run { "to wrap" } else { "wrapped" };
        let mut parts = vec![format!("{} {wrapped}", self.wrapped)];
        let mut part = |count: usize, what: &str| {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        };
        part(self.repaired, if dry_run { "to repair" } else { "repaired" });
        part(self.already, "behind the proxy already");
        part(self.at_url, "at a URL: run `atlatl install --http` to include them");
        part(self.with_settings, "at a URL left unchanged (with headers or other settings)");
        part(self.sse, "left unchanged (SSE)");
        parts.join(", ")
    }

    fn json(&self) -> Value {
        json!({
            "wrapped": self.wrapped,
            "repaired": self.repaired,
            "restored": self.restored,
            "already_wrapped": self.already,
            "at_url": self.at_url,
            "url_with_settings": self.with_settings,
            "sse": self.sse,
        })
    }
}

/// Files that stay as they are for another reason than their content, each with the reason.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) unreadable: Vec<(String, String)>,
    pub(super) tracked: Vec<String>,
}

/// As a program reads it.
pub(super) fn report(
    changes: &[(Change, Servers)],
    (summary, passed): (&Summary, &Passed),
    dry_run: bool,
) -> Value {
    let names = |(change, servers): &(Change, Servers)| {
        let left = servers.at_url.iter().chain(&servers.with_settings).chain(&servers.sse);
        json!({
            "client": change.found.client.name,
            "file": change.found.file,
            "wrapped": change.journal.wrapped.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "replaced": change.journal.replaced.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "added": change.journal.added.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "repaired": change.rewritten,
            "restored": change.restored,
            "left_alone": left.map(|(name, _)| name).collect::<Vec<_>>(),
        })
    };
    let unreadable = passed.unreadable.iter().map(|(file, why)| json!({"file": file, "why": why}));
    json!({
        "dry_run": dry_run,
        "files": changes.iter().map(names).collect::<Vec<_>>(),
        "unreadable": unreadable.collect::<Vec<_>>(),
        "tracked": passed.tracked,
        "summary": summary.json(),
    })
}

/// The error of a run in which files could not be read.
pub(super) fn unreadable(passed: &Passed) -> String {
    let files = counted(passed.unreadable.len() as u64, "file", "files");
    let which = passed.unreadable.iter().map(|(file, why)| format!("{file}: {why}"));
    format!("cannot read {files}: {}", which.collect::<Vec<_>>().join("; "))
}
