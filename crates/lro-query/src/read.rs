//! Read: a range of characters, lines or records of a result of any size (Spec V1).
//!
//! Positions count from 0 and a range ends before its `end`, so one piece's `next` is the `start`
//! of the following one, and all pieces together are the whole. The result streams through a small
//! buffer: only the piece itself is kept. A byte that is no UTF-8 reads as one U+FFFD.

mod chars;
mod lines;

use std::ops::Range;

use lro_spool::{PositionedRead, SpoolError};

/// What a range is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Unicode characters of the whole file.
    Characters,
    /// Lines of the whole file.
    Lines,
    /// Records: the lines behind the header.
    Records,
}

/// A range that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked {
    /// What it is counted in.
    pub unit: Unit,
    /// The first of them, from 0.
    pub start: u64,
    /// The one before which it ends; the end of the file when absent.
    pub end: Option<u64>,
    /// How many bytes are given at most. Lines are given whole, unless the first alone is longer.
    pub most_bytes: usize,
}

impl Asked {
    /// A range of `unit`s.
    pub fn new(unit: Unit, start: u64, end: Option<u64>, most_bytes: usize) -> Self {
        Self { unit, start, end, most_bytes }
    }

    fn wants(&self, position: u64) -> bool {
        position >= self.start && self.end.is_none_or(|end| position < end)
    }
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// The text; of lines with their line breaks.
    pub text: String,
    /// What was really given, in the unit asked for.
    pub given: Range<u64>,
    /// How many there are in all.
    pub total: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
    /// Where a line that is longer than a piece may be was cut.
    pub cut: Option<CutLine>,
    /// How many bytes of the piece are no UTF-8 and read as U+FFFD.
    pub not_text: u64,
}

/// A line of which only the beginning was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutLine {
    /// The character of the whole file at which the line goes on.
    pub next_character: u64,
}

/// Reads a range.
///
/// `records_begin` is where the first record begins, behind the header; it matters for
/// [`Unit::Records`] only.
pub fn read(
    source: &dyn PositionedRead,
    records_begin: u64,
    asked: &Asked,
) -> Result<Piece, SpoolError> {
    match asked.unit {
        Unit::Characters => chars::read(source, asked),
        Unit::Lines => lines::read(source, 0, asked),
        Unit::Records => lines::read(source, records_begin, asked),
    }
}

impl Piece {
    /// The piece, when its text and the number of all are known.
    fn new(text: String, given: Range<u64>, total: u64, not_text: u64) -> Self {
        let next = (given.end < total && given.start < total).then_some(given.end);
        Self { text, given, total, next, cut: None, not_text }
    }
}

/// What is read at a time.
const BLOCK: usize = 256 * 1024;

/// Lets `each` see the bytes of `source` from `begin` up to `end`, and how many of each block it
/// shall be shown again, before the next.
fn stream(
    source: &dyn PositionedRead,
    begin: u64,
    end: u64,
    mut each: impl FnMut(&[u8]) -> usize,
) -> Result<Vec<u8>, SpoolError> {
    let mut buf = vec![0; BLOCK];
    let (mut kept, mut at) = (0, begin);
    loop {
        let room = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(BLOCK - kept);
        let read = crate::lines::fill(source, at, &mut buf[kept..kept + room])?;
        if read == 0 {
            buf.truncate(kept);
            return Ok(buf);
        }
        at += read as u64;
        let filled = kept + read;
        kept = each(&buf[..filled]).min(filled);
        buf.copy_within(filled - kept..filled, 0);
    }
}
