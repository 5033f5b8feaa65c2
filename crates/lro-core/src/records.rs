//! Record detection and record lines.
//!
//! There are two passes over the same bytes, both streaming with bounded memory. [`Detector`]
//! determines the format of the payload and, for records, their position and size. [`RecordLines`]
//! then writes one compact line per record and collects statistics. The decision whether to offload
//! needs only the first pass.
//!
//! *The* record array is the root, if that is an array; otherwise the largest array reached through
//! object members alone, provided it makes up at least half of the document, or holds only objects
//! and has less than a kilobyte around it. Without one, the same holds for maps of records, and for
//! the largest of several tables that make up half of the document together. Other tables of the
//! document are [`SiblingTable`]s. Anything else is stored as one document.
//!
//! JSON and tables in text may have a short text before and after them, such as a sentence or a code
//! fence.

mod base64;
mod detect;
mod first_pass;
mod json;
mod lines;
mod table;
mod text_table;

use std::ops::Range;

use lro_json::{Scanner, TokenVisitor};
use serde::{Deserialize, Serialize};

pub use self::base64::Base64Data;
pub use self::detect::Detector;
pub use self::first_pass::FirstPassStats;
pub(crate) use self::json::MAP_KEY;
use self::json::contains;
pub use self::lines::RecordLines;
pub use self::table::{Column, Delimiter};
pub use self::text_table::TextLayout;
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
    /// The other tables of a document, the largest first.
    pub tables: Vec<SiblingTable>,
    /// The range of the JSON or the table, if the payload has text before or after it.
    pub main_range: Option<Range<u64>>,
    /// The number of lines of a text, unless much of it looks like JSON.
    pub lines: Option<u64>,
}

/// A table of a document besides the main one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SiblingTable {
    /// The table name in SQL: the member name if that is an identifier, otherwise `t2`, `t3`, ….
    pub name: String,
    /// The records.
    pub records: RecordSet,
}

/// The most tables of a document besides the main one.
const MAX_SIBLING_TABLES: usize = 7;
/// The longest table name.
const MAX_TABLE_NAME_LEN: usize = 40;

/// The tables besides the one with `main_span`, without those that overlap with it or are in another
/// table.
fn sibling_tables(main_span: Option<&Range<u64>>, mut sets: Vec<RecordSet>) -> Vec<SiblingTable> {
    let span = |set: &RecordSet| set.form.span().cloned().unwrap_or_default();
    sets.sort_by_key(|set| std::cmp::Reverse(span(set).end - span(set).start));
    let mut chosen: Vec<Range<u64>> = main_span.into_iter().cloned().collect();
    let mut names = vec!["results".to_owned()];
    let mut tables = Vec::new();
    for records in sets {
        let range = span(&records);
        let overlaps =
            chosen.iter().any(|other| contains(other, &range) || contains(&range, other));
        if overlaps || tables.len() == MAX_SIBLING_TABLES {
            continue;
        }
        let name = table_name(records.form.path().last().map_or("", String::as_str))
            .filter(|name| !names.contains(name))
            .unwrap_or_else(|| format!("t{}", tables.len() + 2));
        names.push(name.clone());
        chosen.push(range);
        tables.push(SiblingTable { name, records });
    }
    tables
}

/// The table name for a member, if the member name is an identifier.
fn table_name(member: &str) -> Option<String> {
    let name = member.to_ascii_lowercase();
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    let reserved = ["sqlite_", "pragma_", "json_"].iter().any(|prefix| name.starts_with(prefix));
    let numbered = name
        .strip_prefix('t')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
    let valid = starts
        && name.len() <= MAX_TABLE_NAME_LEN
        && name.bytes().all(is_word)
        && !reserved
        && !numbered;
    valid.then_some(name)
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
    /// Text that is the base64 encoding of other data.
    Base64(Base64Data),
    /// Bytes that are not UTF-8 text.
    Binary,
}

impl Content {
    /// The name of the format, as in a descriptor.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Records(_) => "records",
            Self::Document => "json",
            Self::Text => "text",
            Self::Base64(_) => "base64",
            Self::Binary => "binary",
        }
    }
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
    /// The members of a JSON object, each an object itself. A record has its key as the member
    /// `_key`, before its own members.
    Map {
        /// The member names that lead to it; empty for the root.
        path: Vec<String>,
        /// The bytes between its braces.
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
    /// Rows of another table in text, or lines of a log.
    TextTable {
        /// The bytes of the header and the rows.
        range: Range<u64>,
        /// The layout.
        layout: TextLayout,
        /// The columns, in order; none for JSON after a prefix.
        columns: Vec<Column>,
    },
}

impl RecordForm {
    /// The name of a form in text other than JSON, as in a descriptor.
    pub fn text_form(&self) -> Option<&'static str> {
        match self {
            Self::Table { delimiter: Delimiter::Tab, .. } => Some("tsv"),
            Self::Table { .. } => Some("csv"),
            Self::TextTable { layout, .. } => Some(layout.as_str()),
            Self::Array { .. } | Self::Map { .. } | Self::Lines { .. } => None,
        }
    }

    /// The bytes of the records inside a JSON document.
    pub fn span(&self) -> Option<&Range<u64>> {
        match self {
            Self::Array { span, .. } | Self::Map { span, .. } => Some(span),
            Self::Lines { .. } | Self::Table { .. } | Self::TextTable { .. } => None,
        }
    }

    /// The member names that lead to the records.
    pub fn path(&self) -> &[String] {
        match self {
            Self::Array { path, .. } | Self::Map { path, .. } => path,
            Self::Lines { .. } | Self::Table { .. } | Self::TextTable { .. } => &[],
        }
    }
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

/// A payload without its records: valid JSON with an empty array or object at `at`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The JSON of the payload without the records and without white space between lexemes. It is
    /// text and not a value, so that every lexeme is preserved.
    pub json: String,
    /// The byte offset of the records in `json`, after the opening bracket or brace.
    pub at: usize,
}

impl Envelope {
    /// Removes the records at `span` from `payload`, one JSON document. `None` if it is not that.
    pub fn parse(payload: &[u8], span: &Range<u64>) -> Option<Self> {
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
