//! Ledger: one line per event, for statistics; never contents.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::event::{Event, EventKind, EventSink};

/// A file that events are appended to, a JSON object a line.
#[derive(Debug)]
pub struct Ledger(File);

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    event: &'static str,
    #[serde(rename = "ref")]
    reference: String,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_method: Option<lro_core::tokens::Method>,
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptor_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl Ledger {
    /// Opens or creates the ledger at `path`, readable by its owner alone.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self(options.open(path)?))
    }
}

impl EventSink for Ledger {
    fn publish(&self, event: Event) {
        let blank = Line {
            time: event.time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            event: "",
            reference: event.result.reference().to_string(),
            tool: "",
            server: None,
            records: None,
            inline_tokens: None,
            inline_method: None,
            descriptor_bytes: None,
            way: None,
            given: None,
            total: None,
            reply_tokens: None,
            bytes: None,
        };
        let line = match &event.kind {
            EventKind::ResultOffloaded { tool, server, records, inline, descriptor_bytes } => {
                Line {
                    event: "ResultOffloaded",
                    tool,
                    server: server.as_deref(),
                    records: Some(*records),
                    inline_tokens: Some(inline.tokens.0),
                    inline_method: Some(inline.method),
                    descriptor_bytes: Some(*descriptor_bytes),
                    ..blank
                }
            }
            EventKind::ResultExtracted { tool, way, given, total, records, reply_tokens } => Line {
                event: "ResultExtracted",
                tool,
                records: Some(*records),
                way: Some(way),
                given: Some(*given),
                total: Some(*total),
                reply_tokens: Some(*reply_tokens),
                ..blank
            },
            EventKind::OffloadWriteFailed { tool, .. } => {
                Line { event: "OffloadWriteFailed", tool, ..blank }
            }
            EventKind::ResultPassed { tool, server, bytes } => Line {
                event: "ResultPassed",
                tool,
                server: Some(server),
                bytes: Some(*bytes),
                ..blank
            },
            EventKind::OffloadFileExpired(listed) => {
                Line { event: "OffloadFileExpired", tool: &listed.sidecar.tool, ..blank }
            }
        };
        let Ok(mut bytes) = serde_json::to_vec(&line) else { return };
        bytes.push(b'\n');
        // One write to a file that only grows: lines of several processes do not mix. Statistics
        // that cannot be written must not disturb a delivery.
        let _ = (&self.0).write_all(&bytes);
    }
}
