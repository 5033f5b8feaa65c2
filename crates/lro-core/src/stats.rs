//! Statistics about records: count, shape, namespaces and the first lines.
//!
//! They are collected while records are scanned, in either pass.

use std::collections::HashMap;

use lro_json::{TokenKind, TokenVisitor, decode};

use super::field_stats::RecordSample;
use super::operation::Detail;
use super::records::{Column, SiblingTable};
use super::sanitize;
use super::shape::{Presence, Shape, ShapeBuilder};

/// Bytes of the first lines that are kept for the preview and for sampling.
pub(crate) const MAX_HEAD_BYTES: usize = crate::tokens::SAMPLE_BYTES;

/// Statistics about the records of one payload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordStats {
    /// The number of records.
    pub count: u64,
    /// The shape that all records have in common.
    pub shape: Shape,
    /// The most frequent namespaces, at most five, with invisible characters escaped.
    pub top_namespaces: Vec<String>,
    /// The first complete lines; the beginning of the first line if that is too long.
    pub head: String,
    /// The lines that show the values of the fields.
    pub(crate) sample: RecordSample,
    /// The other tables of the same document.
    pub tables: Vec<TableStats>,
}

/// Statistics about a table besides the main one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// The table name in SQL.
    pub name: String,
    /// The member names that lead to the table, joined by dots.
    pub path: String,
    /// The size of the record lines, in bytes.
    pub bytes: u64,
    /// The statistics about its records.
    pub stats: RecordStats,
}

impl TableStats {
    /// The statistics about the records of `table`, whose lines have `bytes` bytes.
    pub fn new(table: &SiblingTable, bytes: u64, stats: RecordStats) -> Self {
        let path = table.records.form.path().join(".");
        Self { name: table.name.clone(), path, bytes, stats }
    }
}

impl RecordStats {
    /// Whether every record is a memory: it has an id, a type and a creation date.
    pub fn is_of_memories(&self) -> bool {
        self.count > 0
            && ["id", "memory_type", "created"]
                .iter()
                .all(|field| self.shape.string(&[field]) == Presence::Always)
    }

    /// The detail level of memories, inferred from their fields.
    pub fn detail(&self) -> Detail {
        let has = |path: &[&str]| self.shape.string(path) != Presence::Never;
        if !has(&["content"]) {
            Detail::Light
        } else if has(&["confidence"]) {
            Detail::Medium
        } else if ["provenance", "temporal", "entities", "extensions"].iter().any(|f| has(&[f])) {
            Detail::Full
        } else {
            Detail::Medium
        }
    }
}

/// Collects [`RecordStats`] from scanner events.
pub(crate) struct RecordStatsBuilder {
    base: usize,
    count: u64,
    shape: ShapeSource,
    namespaces: Namespaces,
    /// Whether the current member is the `namespace` of a record.
    at_namespace: bool,
    head: Vec<u8>,
    head_full: bool,
    sample: RecordSample,
}

/// Where the shape comes from.
enum ShapeSource {
    /// The scanned records.
    Records(ShapeBuilder),
    /// The columns of a table.
    Columns(Shape),
}

impl RecordStatsBuilder {
    pub(crate) fn new(base: usize) -> Self {
        Self::with(base, ShapeSource::Records(ShapeBuilder::new(base)))
    }

    pub(crate) fn for_table(columns: &[Column], count: u64) -> Self {
        let columns = columns.iter().map(|column| {
            let kinds: &[TokenKind] = match (column.numeric, column.gaps) {
                (false, _) => &[TokenKind::String],
                (true, false) => &[TokenKind::Number],
                (true, true) => &[TokenKind::Null, TokenKind::Number],
            };
            (column.name.as_str(), kinds)
        });
        Self::with(0, ShapeSource::Columns(Shape::from_columns(columns, count)))
    }

    fn with(base: usize, shape: ShapeSource) -> Self {
        Self {
            base,
            count: 0,
            shape,
            namespaces: Namespaces::default(),
            at_namespace: false,
            head: Vec::new(),
            head_full: false,
            sample: RecordSample::default(),
        }
    }

    /// Counts records that do not come as events.
    pub(crate) fn add(&mut self, records: u64) {
        self.count += records;
    }

    /// Keeps the first of the written lines.
    pub(crate) fn add_lines(&mut self, lines: &[u8]) {
        self.sample.add_lines(lines);
        if !self.head_full {
            let free = MAX_HEAD_BYTES - self.head.len();
            self.head.extend_from_slice(&lines[..lines.len().min(free)]);
            self.head_full = self.head.len() == MAX_HEAD_BYTES;
        }
    }

    /// The statistics so far, between two records and without their lines.
    pub(crate) fn snapshot(&self) -> RecordStats {
        let shape = match &self.shape {
            ShapeSource::Records(builder) => builder.snapshot(),
            ShapeSource::Columns(shape) => shape.clone(),
        };
        let top_namespaces = self.namespaces.top();
        RecordStats { count: self.count, shape, top_namespaces, ..RecordStats::default() }
    }

    pub(crate) fn finish(self) -> RecordStats {
        let top_namespaces = self.namespaces.top();
        let mut head = self.head;
        if let Some(end) = head.iter().rposition(|b| *b == b'\n') {
            head.truncate(end + 1);
        }
        RecordStats {
            count: self.count,
            shape: match self.shape {
                ShapeSource::Records(builder) => builder.finish(),
                ShapeSource::Columns(shape) => shape,
            },
            top_namespaces,
            head: valid_utf8_prefix(head),
            sample: self.sample,
            tables: Vec::new(),
        }
    }
}

/// The longest prefix of `bytes` that is UTF-8; a truncated last character is dropped.
pub(crate) fn valid_utf8_prefix(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let valid = error.utf8_error().valid_up_to();
        let mut bytes = error.into_bytes();
        bytes.truncate(valid);
        String::from_utf8(bytes).unwrap_or_default()
    })
}

impl TokenVisitor for RecordStatsBuilder {
    #[inline]
    fn begin(&mut self, kind: TokenKind, at: u64, depth: usize) {
        self.count += u64::from(depth == self.base);
        if let ShapeSource::Records(shape) = &mut self.shape {
            shape.begin(kind, at, depth);
        }
    }

    #[inline]
    fn end(&mut self, kind: TokenKind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        if self.at_namespace && depth == self.base + 1 {
            self.at_namespace = false;
            if kind == TokenKind::String
                && let Some(name) = lexeme
            {
                self.namespaces.count(name);
            }
        }
        if let ShapeSource::Records(shape) = &mut self.shape {
            shape.end(kind, end, depth, lexeme);
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        // An inner object may have a member of that name as well. The next end event at the level
        // of the record's members then ends that object, which is not a string and is not counted.
        self.at_namespace = lexeme == Some(b"namespace");
        if let ShapeSource::Records(shape) = &mut self.shape {
            shape.key(lexeme);
        }
    }
}

/// The number of namespaces that are reported.
const TOP_NAMESPACES: usize = 5;
/// The number of distinct namespaces that are counted.
const MAX_NAMESPACES: usize = 4096;
/// Longer names are not counted.
const MAX_NAME_BYTES: usize = 256;
/// Characters of a reported name.
const LABEL_CHARS: usize = 80;
/// The number of entries in the cache of recent spellings.
const RECENT_SPELLINGS: usize = 64;

/// Counts the namespaces of records.
#[derive(Default)]
pub(super) struct Namespaces {
    counts: Vec<(String, u64)>,
    by_name: HashMap<String, usize>,
    /// Recent spellings with the index of their count. Records share few namespaces; for those, one
    /// comparison replaces decoding and a collision-resistant hash.
    recent: Vec<(Vec<u8>, usize)>,
}

impl Namespaces {
    /// Counts the namespace that the string lexeme `lexeme` names.
    pub(super) fn count(&mut self, lexeme: &[u8]) {
        let slot = slot(lexeme);
        if let Some((spelling, index)) = self.recent.get(slot)
            && spelling == lexeme
        {
            // An unused slot has an empty spelling, and no count if the empty name is still unseen.
            if let Some((_, count)) = self.counts.get_mut(*index) {
                *count += 1;
                return;
            }
        }
        if lexeme.len() > MAX_NAME_BYTES {
            return;
        }
        let Some(name) = decode(lexeme) else { return };
        let index = match self.by_name.get(name.as_ref()) {
            Some(index) => *index,
            None if self.counts.len() == MAX_NAMESPACES => return,
            None => {
                self.by_name.insert(name.clone().into_owned(), self.counts.len());
                self.counts.push((name.into_owned(), 0));
                self.counts.len() - 1
            }
        };
        self.counts[index].1 += 1;
        if self.recent.is_empty() {
            self.recent.resize(RECENT_SPELLINGS, (Vec::new(), usize::MAX));
        }
        let (spelling, cached_index) = &mut self.recent[slot];
        spelling.clear();
        spelling.extend_from_slice(lexeme);
        *cached_index = index;
    }

    /// The most frequent namespaces, with invisible characters escaped.
    pub(super) fn top(&self) -> Vec<String> {
        let mut sorted: Vec<&(String, u64)> = self.counts.iter().collect();
        sorted.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        sorted
            .iter()
            .take(TOP_NAMESPACES)
            .map(|(name, _)| sanitize::label(name, LABEL_CHARS))
            .collect()
    }
}

/// The cache slot of a spelling, by its length and last two bytes.
#[inline]
fn slot(lexeme: &[u8]) -> usize {
    let last = lexeme.last_chunk::<2>().map_or(0, |[a, b]| usize::from(*a) * 5 + usize::from(*b));
    (lexeme.len() * 7 + last) % RECENT_SPELLINGS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_count_together_and_the_most_frequent_lead() {
        let mut namespaces = Namespaces::default();
        for lexeme in ["b", "", r"\u0062", "a", "", "", "c", "b", r"\ud800", "a"] {
            namespaces.count(lexeme.as_bytes());
        }
        namespaces.count("x".repeat(MAX_NAME_BYTES + 1).as_bytes());
        assert_eq!(namespaces.top(), ["", "b", "a", "c"]);
    }

    #[test]
    fn only_so_many_are_counted_and_few_are_reported() {
        let mut namespaces = Namespaces::default();
        for round in 0..3 {
            for n in 0..MAX_NAMESPACES + 100 {
                namespaces.count(format!("{n:05}").as_bytes());
                if n > MAX_NAMESPACES && round > 0 {
                    namespaces.count(b"00007");
                }
            }
        }
        assert_eq!(namespaces.counts.len(), MAX_NAMESPACES);
        assert_eq!(namespaces.top(), ["00007", "00000", "00001", "00002", "00003"]);
    }
}
