//! What the first pass learns about records, so that the second one copies them without a scan.

use lro_json::{Scanner, TokenKind, TokenVisitor};
use memchr::memchr_iter;

use super::{PayloadChanged, RecordSet};
use crate::stats::{RecordStats, RecordStatsBuilder};

/// The number of record lengths that are kept. More records are scanned again when they are written,
/// so that memory stays bounded.
const MAX_RECORD_LENGTHS: usize = 4 << 20;

/// Statistics about the records of an array or of JSON lines, from the first pass.
pub struct FirstPassStats {
    pub(super) stats: RecordStatsBuilder,
    pub(super) spacing: RecordSpacing,
    /// The offset of the current record.
    record_start: u64,
    /// The nesting depth of a record.
    base: usize,
}

/// What is between the records of a payload, if there is no white space within them.
pub(super) enum RecordSpacing {
    /// A comma between two records; with the length of each record.
    Commas(Vec<u32>),
    /// A line break after each record, which the last one may lack; with the end of the last record.
    LineBreaks { record_end: u64 },
    /// Other white space, or there are more records than lengths are kept.
    Other,
}

impl FirstPassStats {
    /// Collects statistics about the elements of an array, which have the nesting depth `base`.
    pub(super) fn new(base: usize) -> Self {
        Self::with(base, RecordSpacing::Commas(Vec::new()))
    }

    /// Collects statistics about several root values. `first` is everything before the second one; it
    /// begins with the first one, at the offset `start`.
    pub(super) fn after_first_root(first: &[u8], start: u64) -> Option<Self> {
        let mut stats = Self::with(0, RecordSpacing::LineBreaks { record_end: start });
        Scanner::new(start).feed(first, &mut stats).ok()?;
        Some(stats)
    }

    fn with(base: usize, spacing: RecordSpacing) -> Self {
        Self { stats: RecordStatsBuilder::new(base), spacing, record_start: 0, base }
    }

    /// Whether the records are lines as they are.
    pub(super) fn are_lines(&self) -> bool {
        matches!(self.spacing, RecordSpacing::LineBreaks { .. })
    }

    /// Notes that the records are not lines as they are.
    pub(super) fn reject_lines(&mut self) {
        self.spacing = RecordSpacing::Other;
    }

    /// The statistics about all records, without their first lines, which are not yet written.
    pub fn record_stats(&self) -> RecordStats {
        self.stats.snapshot()
    }
}

impl std::fmt::Debug for FirstPassStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let compact = !matches!(self.spacing, RecordSpacing::Other);
        f.debug_struct("FirstPassStats").field("compact", &compact).finish_non_exhaustive()
    }
}

impl TokenVisitor for FirstPassStats {
    #[inline]
    fn begin(&mut self, kind: TokenKind, at: u64, depth: usize) {
        if depth == self.base {
            self.record_start = at;
        }
        self.stats.begin(kind, at, depth);
    }

    #[inline]
    fn end(&mut self, kind: TokenKind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        self.stats.end(kind, end, depth, lexeme);
        if depth != self.base {
            return;
        }
        match &mut self.spacing {
            RecordSpacing::Commas(lengths) => match u32::try_from(end - self.record_start) {
                Ok(length) if lengths.len() < MAX_RECORD_LENGTHS => lengths.push(length),
                _ => self.spacing = RecordSpacing::Other,
            },
            RecordSpacing::LineBreaks { record_end } => *record_end = end,
            RecordSpacing::Other => {}
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        self.stats.key(lexeme);
    }

    #[inline]
    fn space(&mut self, start: u64, end: u64) {
        let one_byte = end - start == 1;
        match self.spacing {
            // One byte between two records is a line break, or the scanner would reject the second
            // one. After the last record, the caller checks it.
            RecordSpacing::LineBreaks { record_end } if one_byte && start == record_end => {}
            _ => self.spacing = RecordSpacing::Other,
        }
    }
}

/// Copies compact records, each to its own line.
pub(super) struct CompactLines {
    lengths: std::vec::IntoIter<u32>,
    /// The missing bytes of the current record; `None` between records.
    left: Option<usize>,
    started: bool,
}

impl CompactLines {
    pub(super) fn new(lengths: Vec<u32>) -> Self {
        Self { lengths: lengths.into_iter(), left: None, started: false }
    }

    /// Processes the next chunk of the array. Returns false if it differs from the first pass in a way
    /// that affects lines: commas have to be between records, and there are no line breaks.
    pub(super) fn feed(&mut self, mut chunk: &[u8], out: &mut Vec<u8>) -> bool {
        if chunk.contains(&b'\n') {
            return false;
        }
        // One line break for each comma, and one after the last record.
        out.reserve(chunk.len() + 1);
        loop {
            if let Some(left) = self.left {
                let (part, rest) = chunk.split_at(left.min(chunk.len()));
                out.extend_from_slice(part);
                chunk = rest;
                self.left = Some(left - part.len());
                if part.len() < left {
                    return true;
                }
                out.push(b'\n');
                self.left = None;
            }
            let Some((first, rest)) = chunk.split_first() else { return true };
            if std::mem::replace(&mut self.started, true) {
                if *first != b',' {
                    return false;
                }
                chunk = rest;
            }
            match self.lengths.next() {
                Some(length) => self.left = Some(length as usize),
                None => return false,
            }
        }
    }

    /// Whether all records were copied completely.
    pub(super) fn is_complete(&self) -> bool {
        self.left.is_none() && self.lengths.as_slice().is_empty()
    }
}

/// Copies record lines as they are.
pub(super) struct VerbatimLines {
    /// The bytes and the line breaks that are missing.
    bytes_left: u64,
    breaks_left: u64,
    at_line_start: bool,
}

impl VerbatimLines {
    pub(super) fn new(records: &RecordSet) -> Self {
        // The measure is without line breaks.
        let bytes_left = records.measure.bytes + records.count;
        Self { bytes_left, breaks_left: records.count, at_line_start: true }
    }

    /// Copies the next chunk. Length and number of the lines must be as in the first pass.
    pub(super) fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), PayloadChanged> {
        let breaks = memchr_iter(b'\n', chunk).count() as u64;
        self.bytes_left = self.bytes_left.checked_sub(chunk.len() as u64).ok_or(PayloadChanged)?;
        self.breaks_left = self.breaks_left.checked_sub(breaks).ok_or(PayloadChanged)?;
        self.at_line_start = chunk.last().map_or(self.at_line_start, |last| *last == b'\n');
        out.extend_from_slice(chunk);
        Ok(())
    }

    /// Ends the last line, if its line break is missing.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), PayloadChanged> {
        if !self.at_line_start {
            self.feed(b"\n", out)?;
        }
        if self.bytes_left == 0 && self.breaks_left == 0 { Ok(()) } else { Err(PayloadChanged) }
    }
}
