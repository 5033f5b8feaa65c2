//! Entry: a stored result as the commands show it.

use chrono::{DateTime, Utc};
use lro_spool::{FurtherPart, Listed, StoredForm};
use serde::Serialize;

use crate::output::{Table, distance, grouped, size};

/// How much of a tool's name a table shows.
const TITLE_CHARS: usize = 32;

/// As a program reads it.
#[derive(Debug, Serialize)]
pub(super) struct Entry {
    #[serde(rename = "ref")]
    pub(super) reference: String,
    pub(super) operation: String,
    /// As its server calls it: text from outside.
    pub(super) tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) query: Option<String>,
    pub(super) content: StoredForm,
    /// Nothing where it has no records.
    pub(super) records: Option<usize>,
    /// Of all its files but the sidecar.
    pub(super) bytes: u64,
    pub(super) created_at: DateTime<Utc>,
    pub(super) expires_at: DateTime<Utc>,
    pub(super) expired: bool,
    /// As text, also where the system's own name is none.
    pub(super) path: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<FurtherPart>,
}

impl Entry {
    /// A result, looked at `now`.
    pub(super) fn from_listed(listed: &Listed, now: DateTime<Utc>) -> Self {
        let sidecar = &listed.sidecar;
        Self {
            reference: listed.id().reference().to_string(),
            operation: listed.name.operation().to_owned(),
            tool: sidecar.tool.clone(),
            query: sidecar.header.query.clone(),
            content: sidecar.content,
            records: sidecar.content.has_records().then_some(sidecar.header.count),
            bytes: sidecar.bytes + sidecar.parts.iter().map(|part| part.bytes).sum::<u64>(),
            created_at: sidecar.created_at,
            expires_at: sidecar.expires_at,
            expired: sidecar.is_expired(listed.id(), now),
            path: listed.path.as_ref().map(|path| path.display().to_string()),
            parts: sidecar.parts.clone(),
        }
    }

    /// What it is called in a table: the tool, or the operation where nobody named one.
    pub(super) fn title(&self) -> &str {
        if self.tool.is_empty() { &self.operation } else { &self.tool }
    }

    pub(super) fn holds(&self) -> String {
        match (self.records, self.content) {
            (Some(records), _) => grouped(records as u64),
            (None, StoredForm::Document) => "JSON".to_owned(),
            (None, StoredForm::Text) => "text".to_owned(),
            (None, _) => "binary".to_owned(),
        }
    }
}

/// A tool may be called anything.
fn shortened(title: &str) -> String {
    match title.char_indices().nth(TITLE_CHARS) {
        Some((end, _)) => format!("{}\u{2026}", &title[..end]),
        None => title.to_owned(),
    }
}

/// As a person reads them.
pub(super) fn table(entries: &[Entry], now: DateTime<Utc>) -> Table {
    let mut table = Table::new(["REF", "TOOL", "RECORDS", "SIZE", "STORED", "EXPIRES"]);
    for entry in entries {
        table.row([
            entry.reference.clone(),
            shortened(entry.title()),
            entry.holds(),
            size(entry.bytes),
            distance(entry.created_at, now),
            distance(entry.expires_at, now),
        ]);
    }
    table
}
