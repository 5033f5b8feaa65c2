//! Reads a range of characters, lines or records of a result of any size (Spec V1).
//!
//! Positions count from 0 and a range excludes its `end`. The `next` of a piece is the `start` of the
//! following one, and all pieces together are the whole result. The result streams through a small
//! buffer; only the piece itself is in memory. Each invalid UTF-8 byte reads as one U+FFFD.

use std::ops::Range;

use lro_spool::{PositionedRead, SpoolError};
use memchr::{memchr, memchr_iter, memrchr_iter};

use super::characters;
use super::characters::Part;
use super::page::Offset;

/// The unit in which a range is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadUnit {
    /// Unicode characters of the whole file.
    Characters,
    /// Lines of the whole file.
    Lines,
    /// Records: the lines after the header.
    Records,
}

/// A request to read a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadRequest {
    /// The unit of `start` and `end`.
    pub unit: ReadUnit,
    /// The first position, from 0 or from the end.
    pub start: Offset,
    /// The position after the last one; the end of the file if absent.
    pub end: Option<u64>,
    /// The maximum number of units.
    pub limit: u64,
    /// The maximum size of the piece in bytes. Lines are whole, unless the first alone is longer.
    pub max_bytes: usize,
}

impl ReadRequest {
    /// Creates a request.
    pub fn new(
        unit: ReadUnit,
        start: impl Into<Offset>,
        end: Option<u64>,
        max_bytes: usize,
    ) -> Self {
        Self { unit, start: start.into(), end, limit: u64::MAX, max_bytes }
    }

    /// Sets the maximum number of units.
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// The range from a known start on.
    fn range_from(&self, start: u64) -> ReadRange {
        let limit = start.saturating_add(self.limit);
        let end = match (self.end, self.limit) {
            (Some(end), _) => Some(end.min(limit)),
            (None, u64::MAX) => None,
            (None, _) => Some(limit),
        };
        ReadRange { start, end, max_bytes: self.max_bytes }
    }
}

/// A range with a known start.
struct ReadRange {
    start: u64,
    end: Option<u64>,
    max_bytes: usize,
}

impl ReadRange {
    fn wants(&self, position: u64) -> bool {
        position >= self.start && self.end.is_none_or(|end| position < end)
    }
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// The text, with line breaks.
    pub text: String,
    /// The range of the piece, in the unit of the request.
    pub given: Range<u64>,
    /// The number of all characters, lines or records.
    pub total: u64,
    /// The start of the next piece; `None` at the end.
    pub next: Option<u64>,
    /// Set if the first line is longer than a piece and was cut.
    pub cut: Option<CutLine>,
    /// The number of invalid UTF-8 bytes in the piece, which read as U+FFFD.
    pub not_text: u64,
}

/// A line of which the piece holds only the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutLine {
    /// The position in the whole file, in characters, where the line continues.
    pub next_character: u64,
}

/// Reads a range.
///
/// `records_begin` is the offset of the first record, after the header; it is used for
/// [`ReadUnit::Records`] only.
pub fn read(
    source: &dyn PositionedRead,
    records_begin: u64,
    request: &ReadRequest,
) -> Result<Piece, SpoolError> {
    match request.unit {
        ReadUnit::Characters => {
            let start = match request.start {
                Offset::FromStart(start) => start,
                from_end @ Offset::FromEnd(_) => from_end.resolve(position_of(source, u64::MAX)?),
            };
            read_characters(source, &request.range_from(start))
        }
        ReadUnit::Lines => read_lines_from(source, 0, request),
        ReadUnit::Records => read_lines_from(source, records_begin, request),
    }
}

fn read_lines_from(
    source: &dyn PositionedRead,
    begin: u64,
    request: &ReadRequest,
) -> Result<Piece, SpoolError> {
    match request.start {
        Offset::FromStart(start) => read_lines(source, begin, 0, &request.range_from(start)),
        Offset::FromEnd(count) => {
            let (offset, line) = tail(source, begin, count)?;
            read_lines(source, offset, line, &request.range_from(line))
        }
    }
}

/// The offset of the last `count` lines of those from `begin` on, and the number of lines before
/// them. The offset is found backwards, so that only the lines before it are counted.
fn tail(source: &dyn PositionedRead, begin: u64, count: u64) -> Result<(u64, u64), SpoolError> {
    let end = source.len().max(begin);
    let mut buf = vec![0; BLOCK_LEN];
    let (mut left, mut at, mut start) = (count, end, end);
    while left > 0 && at > begin {
        let from = at.saturating_sub(BLOCK_LEN as u64).max(begin);
        let length = index(at - from);
        let read = crate::lines::fill(source, from, &mut buf[..length])?;
        (start, at) = (from, from);
        for line_break in memrchr_iter(b'\n', &buf[..read]) {
            let next = from + line_break as u64 + 1;
            // The last line break ends the last line.
            if next == end {
                continue;
            }
            left -= 1;
            if left == 0 {
                start = next;
                break;
            }
        }
    }
    let mut lines = 0;
    let rest = stream(source, begin, start, |bytes| {
        lines += memchr_iter(b'\n', bytes).count() as u64;
        0
    })?;
    debug_assert!(rest.is_empty(), "every block is counted");
    // Without a line to read, a last line without line break is before the start.
    let unfinished = start == end && end > begin && !ends_with_line_break(source, end)?;
    Ok((start, lines + u64::from(unfinished)))
}

fn ends_with_line_break(source: &dyn PositionedRead, end: u64) -> Result<bool, SpoolError> {
    let mut last = [0];
    let read = crate::lines::fill(source, end - 1, &mut last)?;
    Ok(read == 1 && last[0] == b'\n')
}

impl Piece {
    fn new(text: String, range: Range<u64>, total: u64, not_text: u64) -> Self {
        let next = (range.end < total && range.start < total).then_some(range.end);
        Self { text, given: range, total, next, cut: None, not_text }
    }
}

/// The number of bytes read at a time.
const BLOCK_LEN: usize = 256 * 1024;

/// Passes the bytes of `source` from `begin` to `end` to `each` in blocks. `each` returns the number
/// of bytes at the end of the block to pass again with the next one. Returns the bytes that are left
/// at the end.
fn stream(
    source: &dyn PositionedRead,
    begin: u64,
    end: u64,
    mut each: impl FnMut(&[u8]) -> usize,
) -> Result<Vec<u8>, SpoolError> {
    let mut buf = vec![0; BLOCK_LEN];
    let (mut carried, mut at) = (0, begin);
    loop {
        let free =
            usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(BLOCK_LEN - carried);
        let read = crate::lines::fill(source, at, &mut buf[carried..carried + free])?;
        if read == 0 {
            buf.truncate(carried);
            return Ok(buf);
        }
        at += read as u64;
        let filled = carried + read;
        carried = each(&buf[..filled]).min(filled);
        buf.copy_within(filled - carried..filled, 0);
    }
}

/// Reads a range of characters.
fn read_characters(source: &dyn PositionedRead, request: &ReadRange) -> Result<Piece, SpoolError> {
    let mut reader =
        CharacterReader { request, text: String::new(), position: 0, end: None, not_text: 0 };
    let rest = stream(source, 0, u64::MAX, |bytes| {
        let unfinished = characters::unfinished(bytes);
        reader.process(&bytes[..bytes.len() - unfinished]);
        unfinished
    })?;
    // An incomplete character at the end.
    reader.process(&rest);
    let CharacterReader { text, position: total, end, not_text, .. } = reader;
    let start = request.start.min(total);
    let asked_end = request.end.unwrap_or(total).min(total);
    let end = end.unwrap_or(asked_end).max(start);
    Ok(Piece::new(text, start..end, total, not_text))
}

/// The number of characters of the whole source before an offset.
fn position_of(source: &dyn PositionedRead, offset: u64) -> Result<u64, SpoolError> {
    let mut position = 0;
    let rest = stream(source, 0, offset, |bytes| {
        let unfinished = characters::unfinished(bytes);
        position += characters::count(&bytes[..bytes.len() - unfinished]);
        unfinished
    })?;
    Ok(position + characters::count(&rest))
}

struct CharacterReader<'a> {
    request: &'a ReadRange,
    text: String,
    /// The number of characters read.
    position: u64,
    /// The first character after the piece.
    end: Option<u64>,
    not_text: u64,
}

impl CharacterReader<'_> {
    fn process(&mut self, bytes: &[u8]) {
        for part in characters::parts(bytes) {
            let length = part.characters();
            let from = self.position;
            self.position += length;
            let outside = self.position <= self.request.start
                || self.end.is_some()
                || self.request.end.is_some_and(|end| end <= from);
            if !outside {
                self.take(part, from);
            }
        }
    }

    fn take(&mut self, part: Part<'_>, from: u64) {
        let skip = index(self.request.start.saturating_sub(from));
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

    /// Adds a character, unless the piece ends before it.
    fn push(&mut self, c: char, position: u64) -> bool {
        // A piece has at least one character: an empty one would have no `next`.
        let fits = self.text.is_empty() || self.text.len() + c.len_utf8() <= self.request.max_bytes;
        let added = fits && self.request.wants(position);
        if added {
            self.text.push(c);
        } else {
            self.end = Some(position);
        }
        added
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The number of bytes read beyond a piece: a whole character, plus one byte to see that there is
/// more.
const SURPLUS_LEN: usize = 5;

/// Reads a range of the lines from offset `begin`, where line number `line` begins.
fn read_lines(
    source: &dyn PositionedRead,
    begin: u64,
    line: u64,
    request: &ReadRange,
) -> Result<Piece, SpoolError> {
    let mut reader =
        LineReader { request, bytes: Vec::new(), place: begin, line, inside: false, piece: None };
    stream(source, begin, u64::MAX, |bytes| {
        reader.process(bytes);
        0
    })?;
    let total = reader.line + u64::from(reader.inside);
    let start = request.start.min(total);
    let whole = request.end.unwrap_or(total).clamp(start, total);
    let (mut bytes, from) = (reader.bytes, reader.piece.unwrap_or(begin));
    if bytes.len() <= request.max_bytes {
        return Ok(piece(&bytes, start..whole, total));
    }
    // Cut after the last line that fits, or within the first line.
    let max_bytes = request.max_bytes.max(1);
    if let Some(line_break) = memchr::memrchr(b'\n', &bytes[..max_bytes]) {
        bytes.truncate(line_break + 1);
        let lines = memchr_iter(b'\n', &bytes).count() as u64;
        return Ok(piece(&bytes, start..start + lines, total));
    }
    // A piece has at least one character: an empty one would have no `next`.
    let cut = characters::floor(&bytes, max_bytes).max(characters::after(&bytes, 0));
    if cut == bytes.len() {
        // A single character, larger than the limit: nothing of the line is left.
        return Ok(piece(&bytes, start..whole, total));
    }
    bytes.truncate(cut);
    let next_character = position_of(source, from + bytes.len() as u64)?;
    let cut = Some(CutLine { next_character });
    Ok(Piece { cut, ..piece(&bytes, start..start + 1, total) })
}

fn piece(bytes: &[u8], range: Range<u64>, total: u64) -> Piece {
    let bad = characters::parts(bytes).map(|part| match part {
        Part::Bad(bytes) => bytes as u64,
        Part::Text(_) => 0,
    });
    let not_text = bad.sum();
    Piece::new(characters::lossy(bytes).into_owned(), range, total, not_text)
}

struct LineReader<'a> {
    request: &'a ReadRange,
    /// The requested lines, up to the limit and a little more.
    bytes: Vec<u8>,
    /// The offset of the next byte.
    place: u64,
    /// The number of line breaks read.
    line: u64,
    /// Whether the last line has no line break yet.
    inside: bool,
    /// The offset of the piece.
    piece: Option<u64>,
}

impl LineReader<'_> {
    fn process(&mut self, block: &[u8]) {
        let mut rest = block;
        while !rest.is_empty() {
            if self.piece.is_none() && self.line < self.request.start {
                rest = self.skip(rest);
                continue;
            }
            let free = self.request.max_bytes.saturating_add(SURPLUS_LEN) - self.bytes.len();
            if free == 0 || !self.request.wants(self.line) {
                return self.advance(rest);
            }
            self.piece.get_or_insert(self.place);
            let length = memchr(b'\n', rest).map_or(rest.len(), |i| i + 1);
            self.bytes.extend_from_slice(&rest[..length.min(free)]);
            self.advance(&rest[..length]);
            rest = &rest[length..];
        }
    }

    /// Skips lines before the start of the piece, and returns the rest.
    fn skip<'b>(&mut self, rest: &'b [u8]) -> &'b [u8] {
        let wanted = usize::try_from(self.request.start - self.line).unwrap_or(usize::MAX);
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
