//! Record detection and record lines.
//!
//! There are two passes over the same bytes, both streaming with bounded memory. [`Detector`]
//! determines the format of the payload and, for records, their position and size. [`RecordLines`]
//! then writes one compact line per record and collects statistics. The decision whether to offload
//! needs only the first pass.
//!
//! *The* record array is the root, if that is an array; otherwise the largest array reached through
//! object members alone, provided it makes up at least half of the document, or holds only objects
//! and has less than a kilobyte around it. Anything else is stored as one document.

mod detect;
mod lines;
mod table;

use std::ops::Range;

use lro_json::{Scanner, TokenVisitor};
use serde::{Deserialize, Serialize};

pub use self::detect::Detector;
pub use self::lines::{FirstPassStats, RecordLines};
pub use self::table::{Column, Delimiter};
use crate::tokens::Measure;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The outcome of the first pass over a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detected {
    /// The format of the payload.
    pub content: Content,
    /// The measure of the whole payload.
    pub measure: Measure,
}

/// The format of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// A set of records.
    Records(RecordSet),
    /// One JSON document.
    Document,
    /// Text of any other format.
    Text,
    /// Bytes that are not UTF-8 text.
    Binary,
}

/// The records of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordSet {
    /// Their form in the payload.
    pub form: RecordForm,
    /// The number of records.
    pub count: u64,
    /// The measure of the record lines; for a table, of the payload.
    pub measure: Measure,
}

/// The form of records in a payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "form", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecordForm {
    /// The elements of a JSON array.
    Array {
        /// The member names that lead to it; empty for the root.
        path: Vec<String>,
        /// The bytes between its brackets.
        span: Range<u64>,
    },
    /// One JSON value per line (JSONL).
    Lines {
        /// The offset of the first value.
        start: u64,
    },
    /// Rows below a header of column names (CSV, TSV).
    Table {
        /// The offset of the header.
        start: u64,
        /// The delimiter between cells.
        delimiter: Delimiter,
        /// The columns, in order.
        columns: Vec<Column>,
    },
}

impl Detected {
    /// Runs the first pass over a payload in memory.
    pub fn detect(payload: &[u8]) -> Self {
        let mut detector = Detector::new();
        detector.feed(payload);
        detector.finish()
    }

    /// The records, if the payload has any.
    pub fn records(&self) -> Option<&RecordSet> {
        match &self.content {
            Content::Records(records) => Some(records),
            _ => None,
        }
    }
}

/// The bytes of the second pass differ from the bytes of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the payload changed between finding its records and writing them")]
pub struct PayloadChanged;

/// A payload without its records: valid JSON with an empty array at `at`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The JSON of the payload without the records and without white space between lexemes. It is
    /// text and not a value, so that every lexeme is preserved.
    pub json: String,
    /// The byte offset of the records in `json`, after the opening bracket.
    pub at: usize,
}

impl Envelope {
    /// Removes the records from `payload`. `None` if the records are not an array.
    pub fn parse(payload: &[u8], records: &RecordSet) -> Option<Self> {
        let RecordForm::Array { span, .. } = &records.form else { return None };
        let (start, end) = (usize::try_from(span.start).ok()?, usize::try_from(span.end).ok()?);
        let around = [payload.get(..start)?, payload.get(end..)?].concat();
        let unmarked = around.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&around);
        let lead = around.len() - unmarked.len();
        let mut compact =
            Compact { text: &around, json: Vec::new(), from: lead, cut: start, at: 0 };
        let mut scanner = Scanner::new(lead as u64);
        scanner.feed(&around[lead..], &mut compact).ok()?;
        scanner.finish(&mut compact).ok()?;
        compact.copy_to(around.len());
        Some(Self { at: compact.at, json: String::from_utf8(compact.json).ok()? })
    }

    /// Rebuilds the JSON of the payload from the record lines.
    pub fn reassemble<'a>(&self, lines: impl IntoIterator<Item = &'a str>) -> String {
        let mut json = self.json[..self.at].to_owned();
        for (i, line) in lines.into_iter().enumerate() {
            if i > 0 {
                json.push(',');
            }
            json.push_str(line);
        }
        json.push_str(&self.json[self.at..]);
        json
    }
}

/// Removes white space, and tracks the offset at which the records were removed.
struct Compact<'a> {
    text: &'a [u8],
    json: Vec<u8>,
    from: usize,
    cut: usize,
    at: usize,
}

impl Compact<'_> {
    fn copy_to(&mut self, to: usize) {
        if self.from < self.cut && self.cut <= to {
            self.at = self.json.len() + self.cut - self.from;
        }
        self.json.extend_from_slice(&self.text[self.from..to]);
        self.from = to;
    }
}

impl TokenVisitor for Compact<'_> {
    fn space(&mut self, start: u64, end: u64) {
        // The text is in memory, so its offsets fit.
        let index = |offset| usize::try_from(offset).unwrap_or(usize::MAX);
        self.copy_to(index(start));
        self.from = index(end);
    }
}
