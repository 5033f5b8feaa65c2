//! Read: a range of characters, lines or records of a result of any size (Spec V1).
//!
//! Positions count from 0 and a range ends before its `end`, so one piece's `next` is the `start`
//! of the following one, and all pieces together are the whole. The result streams through a small
//! buffer: only the piece itself is kept. A byte that is no UTF-8 reads as one U+FFFD.

use std::ops::Range;

use lro_spool::{PositionedRead, SpoolError};
use memchr::{memchr, memchr_iter};

use super::characters;
use super::characters::Part;

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
        Unit::Characters => read_characters(source, asked),
        Unit::Lines => read_lines(source, 0, asked),
        Unit::Records => read_lines(source, records_begin, asked),
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

// --- Reads a range of characters.

/// Reads a range of characters.
pub(super) fn read_characters(
    source: &dyn PositionedRead,
    asked: &Asked,
) -> Result<Piece, SpoolError> {
    let mut reader =
        CharacterReader { asked, text: String::new(), position: 0, end: None, not_text: 0 };
    let rest = stream(source, 0, u64::MAX, |bytes| {
        let unfinished = characters::unfinished(bytes);
        reader.look(&bytes[..bytes.len() - unfinished]);
        unfinished
    })?;
    // What never became a character.
    reader.look(&rest);
    let CharacterReader { text, position: total, end, not_text, .. } = reader;
    let start = asked.start.min(total);
    let asked_end = asked.end.unwrap_or(total).min(total);
    let end = end.unwrap_or(asked_end).max(start);
    Ok(Piece::new(text, start..end, total, not_text))
}

/// How many characters of the whole source lie before a place.
pub(super) fn position_of(source: &dyn PositionedRead, place: u64) -> Result<u64, SpoolError> {
    let mut position = 0;
    let rest = stream(source, 0, place, |bytes| {
        let unfinished = characters::unfinished(bytes);
        position += characters::count(&bytes[..bytes.len() - unfinished]);
        unfinished
    })?;
    Ok(position + characters::count(&rest))
}

struct CharacterReader<'a> {
    asked: &'a Asked,
    text: String,
    /// How many characters went by.
    position: u64,
    /// The first character behind the piece.
    end: Option<u64>,
    not_text: u64,
}

impl CharacterReader<'_> {
    fn look(&mut self, bytes: &[u8]) {
        for part in characters::parts(bytes) {
            let length = part.characters();
            let from = self.position;
            self.position += length;
            let outside = self.position <= self.asked.start
                || self.end.is_some()
                || self.asked.end.is_some_and(|end| end <= from);
            if !outside {
                self.take(part, from);
            }
        }
    }

    fn take(&mut self, part: Part<'_>, from: u64) {
        let skip = index(self.asked.start.saturating_sub(from));
        match part {
            Part::Text(text) => {
                for (c, position) in text.chars().zip(from..).skip(skip) {
                    if !self.push(c, position) {
                        return;
                    }
                }
            }
            Part::Bad(bytes) => {
                for position in (from..from + bytes as u64).skip(skip) {
                    if !self.push(char::REPLACEMENT_CHARACTER, position) {
                        return;
                    }
                    self.not_text += 1;
                }
            }
        }
    }

    /// Takes a character, unless the piece ends before it.
    fn push(&mut self, c: char, position: u64) -> bool {
        // A piece is never empty because of its size, or going on would lead nowhere.
        let fits = self.text.is_empty() || self.text.len() + c.len_utf8() <= self.asked.most_bytes;
        let taken = fits && self.asked.wants(position);
        if taken {
            self.text.push(c);
        } else {
            self.end = Some(position);
        }
        taken
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

// --- Reads a range of lines.

/// What is kept beyond a piece: a whole character, and enough to see that there is more.
const SURPLUS: usize = 5;

/// Reads a range of the lines that begin at `begin` or behind it.
pub(super) fn read_lines(
    source: &dyn PositionedRead,
    begin: u64,
    asked: &Asked,
) -> Result<Piece, SpoolError> {
    let mut reader =
        LineReader { asked, bytes: Vec::new(), place: begin, line: 0, inside: false, piece: None };
    stream(source, begin, u64::MAX, |bytes| {
        reader.look(bytes);
        0
    })?;
    let total = reader.line + u64::from(reader.inside);
    let start = asked.start.min(total);
    let whole = asked.end.unwrap_or(total).clamp(start, total);
    let (mut bytes, from) = (reader.bytes, reader.piece.unwrap_or(begin));
    if bytes.len() <= asked.most_bytes {
        return Ok(piece(&bytes, start..whole, total));
    }
    // Cut behind the last line that fits; within the first, when not even that does.
    let most = asked.most_bytes.max(1);
    if let Some(line_break) = memchr::memrchr(b'\n', &bytes[..most]) {
        bytes.truncate(line_break + 1);
        let lines = memchr_iter(b'\n', &bytes).count() as u64;
        return Ok(piece(&bytes, start..start + lines, total));
    }
    // A piece is never empty because of its size, or going on would lead nowhere.
    let cut = characters::floor(&bytes, most).max(characters::after(&bytes, 0));
    if cut == bytes.len() {
        // A single character, larger than a piece may be: nothing of the line is left.
        return Ok(piece(&bytes, start..whole, total));
    }
    bytes.truncate(cut);
    let next_character = position_of(source, from + bytes.len() as u64)?;
    let cut = Some(CutLine { next_character });
    Ok(Piece { cut, ..piece(&bytes, start..start + 1, total) })
}

fn piece(bytes: &[u8], given: Range<u64>, total: u64) -> Piece {
    let bad = characters::parts(bytes).map(|part| match part {
        Part::Bad(bytes) => bytes as u64,
        Part::Text(_) => 0,
    });
    let not_text = bad.sum();
    Piece::new(characters::lossy(bytes).into_owned(), given, total, not_text)
}

struct LineReader<'a> {
    asked: &'a Asked,
    /// The lines wanted, up to what a piece may be and a little more.
    bytes: Vec<u8>,
    /// Where the next byte lies.
    place: u64,
    /// How many lines have ended.
    line: u64,
    /// Whether bytes of a line came that has not ended.
    inside: bool,
    /// Where the piece begins.
    piece: Option<u64>,
}

impl LineReader<'_> {
    fn look(&mut self, block: &[u8]) {
        let mut rest = block;
        while !rest.is_empty() {
            if self.piece.is_none() && self.line < self.asked.start {
                rest = self.pass(rest);
                continue;
            }
            let room = self.asked.most_bytes.saturating_add(SURPLUS) - self.bytes.len();
            if room == 0 || !self.asked.wants(self.line) {
                return self.advance(rest);
            }
            self.piece.get_or_insert(self.place);
            let length = memchr(b'\n', rest).map_or(rest.len(), |i| i + 1);
            self.bytes.extend_from_slice(&rest[..length.min(room)]);
            self.advance(&rest[..length]);
            rest = &rest[length..];
        }
    }

    /// Moves towards the line where the piece begins, and returns what comes behind.
    fn pass<'b>(&mut self, rest: &'b [u8]) -> &'b [u8] {
        let wanted = usize::try_from(self.asked.start - self.line).unwrap_or(usize::MAX);
        let length = memchr_iter(b'\n', rest).nth(wanted - 1).map_or(rest.len(), |i| i + 1);
        self.advance(&rest[..length]);
        &rest[length..]
    }

    fn advance(&mut self, bytes: &[u8]) {
        self.place += bytes.len() as u64;
        self.line += memchr_iter(b'\n', bytes).count() as u64;
        if let Some(last) = bytes.last() {
            self.inside = *last != b'\n';
        }
    }
}
