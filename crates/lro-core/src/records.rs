//! Records: what a payload consists of, found without interpreting it.
//!
//! Two passes over the same bytes, both streaming with bounded memory. [`Finder`] says what the
//! payload is and, for records, where they lie and how large they are; [`RecordLines`] then writes
//! one compact line per record and surveys their shape on the way. Between the passes stands the
//! decision whether to offload at all, which needs only the first.
//!
//! Which array is *the* record array: the root, if it is one; otherwise the largest array that is
//! reached through object members alone, provided it makes up at least half of the document, or
//! holds objects only and has less than a kilobyte around it. Anything else is one document, and is
//! kept as one.

mod detect;
mod envelope;
mod first_pass_stats;
mod lines;
mod table;
mod utf8;

use std::ops::Range;

use serde::Serialize;

pub use self::detect::Finder;
pub use self::envelope::Envelope;
pub use self::first_pass_stats::Surveyed;
pub use self::lines::{PayloadChanged, RecordLines};
pub use self::table::{Column, Delimiter};
use crate::tokens::Measure;

/// What was found in a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// What the payload is.
    pub content: Content,
    /// The counts of the whole payload as it came.
    pub measure: Measure,
}

/// What a payload is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// A set of records.
    Records(RecordSet),
    /// One JSON document.
    Document,
    /// Text that is nothing more particular.
    Text,
    /// Bytes that are not text.
    Binary,
}

/// The records of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordSet {
    /// How they are written in the payload.
    pub form: RecordForm,
    /// How many there are.
    pub count: u64,
    /// The counts of the record lines (for a table: of the payload).
    pub measure: Measure,
}

/// How records are written in a payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "form", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecordForm {
    /// The elements of a JSON array.
    Array {
        /// The names of the members that lead to it; empty for the root.
        path: Vec<String>,
        /// The bytes between its brackets.
        span: Range<u64>,
    },
    /// JSON values on lines of their own (JSONL).
    Lines {
        /// Where the first one begins.
        start: u64,
    },
    /// Rows under a header of column names (CSV, TSV).
    Table {
        /// Where the header begins.
        start: u64,
        /// What stands between two cells.
        delimiter: Delimiter,
        /// The columns, in order.
        columns: Vec<Column>,
    },
}

impl Found {
    /// Looks at a payload that lies in memory.
    pub fn detect(payload: &[u8]) -> Self {
        let mut finder = Finder::new();
        finder.feed(payload);
        finder.finish()
    }

    /// The records, where the payload consists of some.
    pub fn records(&self) -> Option<&RecordSet> {
        match &self.content {
            Content::Records(records) => Some(records),
            _ => None,
        }
    }
}
