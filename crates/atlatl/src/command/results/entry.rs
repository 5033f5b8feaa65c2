//! The description of a stored result, in JSON and in tables.

use std::borrow::Borrow;

use chrono::{DateTime, Utc};
use lro_spool::{FurtherPart, ResultInfo, StoredForm};
use serde::Serialize;

use crate::output::{Table, counted, distance, expiry, grouped, size};

/// The description of a stored result, in JSON and for tables.
#[derive(Debug, Serialize)]
pub(crate) struct ResultEntry {
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    pub(crate) operation: String,
    /// The tool name as the server reports it: untrusted text.
    pub(crate) tool: String,
    /// The server of the tool, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// A digest of the arguments: untrusted text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) query: Option<String>,
    pub(crate) content: StoredForm,
    /// `None` if the content has no records.
    pub(crate) records: Option<usize>,
    /// The size of all files except the sidecar.
    pub(crate) bytes: u64,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) expires_at: DateTime<Utc>,
    pub(crate) expired: bool,
    /// The path as text, lossy if it is not UTF-8.
    pub(crate) path: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<FurtherPart>,
    /// The number of texts beside the payload.
    #[serde(skip)]
    pub(crate) further_texts: usize,
}

impl ResultEntry {
    /// Describes a result at the time `now`.
    pub(crate) fn from_listed(listed: &ResultInfo, now: DateTime<Utc>) -> Self {
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
    pub(crate) fn title(&self) -> &str {
        if self.tool.is_empty() { &self.operation } else { &self.tool }
    }

    /// The name of the server, without the hash that distinguishes servers of the same name.
    pub(crate) fn server_name(&self) -> &str {
        let server = self.server.as_deref().unwrap_or_default();
        server.split(':').next().unwrap_or_default()
    }

    /// What the result is, in a line.
    pub(crate) fn about(&self) -> String {
        let content = match self.records {
            Some(records) => counted(records as u64, "record", "records"),
            None => self.content_summary(),
        };
        let arguments = self.arguments.as_deref().unwrap_or_default();
        format!("{} {arguments}: {content}, {}", self.title(), size(self.bytes))
    }

    /// The number of records, or the kind of content.
    pub(crate) fn content_summary(&self) -> String {
        match (self.records, self.content) {
            (Some(records), _) => grouped(records as u64),
            (None, StoredForm::Document) => "JSON".to_owned(),
            (None, StoredForm::Text) => "text".to_owned(),
            (None, _) => "binary".to_owned(),
        }
    }
}

/// A table of results, with servers and arguments if any result has them.
pub(crate) fn render_table<E: Borrow<ResultEntry>>(entries: &[E], now: DateTime<Utc>) -> Table {
    let entries: Vec<&ResultEntry> = entries.iter().map(Borrow::borrow).collect();
    let has_servers = entries.iter().any(|entry| entry.server.is_some());
    let has_arguments = entries.iter().any(|entry| entry.arguments.is_some());
    let mut columns = vec!["REF"];
    columns.extend(has_servers.then_some("SERVER"));
    columns.extend(["TOOL", "RECORDS", "SIZE", "STORED", "EXPIRES"]);
    columns.extend(has_arguments.then_some("ARGUMENTS"));
    let mut table = Table::new(columns).cut(&["SERVER", "TOOL", "ARGUMENTS"]).omit(&[
        "SIZE",
        "SERVER",
        "EXPIRES",
        "ARGUMENTS",
        "RECORDS",
    ]);
    for entry in entries {
        let mut row = vec![entry.reference.clone()];
        row.extend(has_servers.then(|| entry.server_name().to_owned()));
        row.extend([
            entry.title().to_owned(),
            entry.content_summary(),
            size(entry.bytes),
            distance(entry.created_at, now),
            expiry(entry.expires_at, now),
        ]);
        row.extend(has_arguments.then(|| entry.arguments.clone().unwrap_or_default()));
        table.row(row);
    }
    table
}
