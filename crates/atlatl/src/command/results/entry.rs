//! The description of a stored result, in JSON and in tables.

use chrono::{DateTime, Utc};
use lro_spool::{FurtherPart, ResultInfo, StoredForm};
use serde::Serialize;

use crate::output::{Table, distance, grouped, size};

/// The maximum width of a tool name in a table.
const MAX_TITLE_CHARS: usize = 32;

/// The description of a stored result, in JSON and for tables.
#[derive(Debug, Serialize)]
pub(super) struct ResultEntry {
    #[serde(rename = "ref")]
    pub(super) reference: String,
    pub(super) operation: String,
    /// The tool name as the server reports it: untrusted text.
    pub(super) tool: String,
    /// The server of the tool, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    /// A digest of the arguments: untrusted text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) query: Option<String>,
    pub(super) content: StoredForm,
    /// `None` if the content has no records.
    pub(super) records: Option<usize>,
    /// The size of all files except the sidecar.
    pub(super) bytes: u64,
    pub(super) created_at: DateTime<Utc>,
    pub(super) expires_at: DateTime<Utc>,
    pub(super) expired: bool,
    /// The path as text, lossy if it is not UTF-8.
    pub(super) path: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<FurtherPart>,
    /// The number of texts beside the payload.
    #[serde(skip)]
    pub(super) further_texts: usize,
}

impl ResultEntry {
    /// Describes a result at the time `now`.
    pub(super) fn from_listed(listed: &ResultInfo, now: DateTime<Utc>) -> Self {
        let sidecar = &listed.sidecar;
        Self {
            reference: listed.id().reference().to_string(),
            operation: listed.name.operation().to_owned(),
            tool: sidecar.tool.clone(),
            server: sidecar.server.clone(),
            arguments: sidecar.arguments.clone(),
            query: sidecar.header.query.clone(),
            content: sidecar.content,
            records: sidecar.content.has_records().then_some(sidecar.header.count),
            bytes: sidecar.bytes + sidecar.parts.iter().map(|part| part.bytes).sum::<u64>(),
            created_at: sidecar.created_at,
            expires_at: sidecar.expires_at,
            expired: sidecar.is_expired(listed.id(), now),
            path: listed.path.as_ref().map(|path| path.display().to_string()),
            parts: sidecar.parts.clone(),
            further_texts: sidecar.further_texts(),
        }
    }

    /// The title in a table: the tool, or the operation if the tool is unknown.
    pub(super) fn title(&self) -> &str {
        if self.tool.is_empty() { &self.operation } else { &self.tool }
    }

    /// The name of the server, without the hash that distinguishes servers of the same name.
    pub(super) fn server_name(&self) -> &str {
        let server = self.server.as_deref().unwrap_or_default();
        server.split(':').next().unwrap_or_default()
    }

    /// The number of records, or the kind of content.
    pub(super) fn content_summary(&self) -> String {
        match (self.records, self.content) {
            (Some(records), _) => grouped(records as u64),
            (None, StoredForm::Document) => "JSON".to_owned(),
            (None, StoredForm::Text) => "text".to_owned(),
            (None, _) => "binary".to_owned(),
        }
    }
}

/// Truncates a title.
fn truncate(title: &str) -> String {
    match title.char_indices().nth(MAX_TITLE_CHARS) {
        Some((end, _)) => format!("{}\u{2026}", &title[..end]),
        None => title.to_owned(),
    }
}

/// A table of results, with servers and arguments if any result has them.
pub(super) fn render_table(entries: &[ResultEntry], now: DateTime<Utc>) -> Table {
    let has_servers = entries.iter().any(|entry| entry.server.is_some());
    let has_arguments = entries.iter().any(|entry| entry.arguments.is_some());
    let mut columns = vec!["REF"];
    columns.extend(has_servers.then_some("SERVER"));
    columns.extend(["TOOL", "RECORDS", "SIZE", "STORED", "EXPIRES"]);
    columns.extend(has_arguments.then_some("ARGUMENTS"));
    let mut table = Table::new(columns);
    for entry in entries {
        let mut row = vec![entry.reference.clone()];
        row.extend(has_servers.then(|| truncate(entry.server_name())));
        row.extend([
            truncate(entry.title()),
            entry.content_summary(),
            size(entry.bytes),
            distance(entry.created_at, now),
            distance(entry.expires_at, now),
        ]);
        row.extend(has_arguments.then(|| entry.arguments.clone().unwrap_or_default()));
        table.row(row);
    }
    table
}
