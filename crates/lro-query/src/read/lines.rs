//! Reads a range of lines.

use lro_spool::{PositionedRead, SpoolError};
use memchr::{memchr, memchr_iter};

use super::chars::position_of;
use super::{Asked, CutLine, Piece, stream};
use crate::characters;

/// What is kept beyond a piece: a whole character, and enough to see that there is more.
const SURPLUS: usize = 5;

/// Reads a range of the lines that begin at `begin` or behind it.
pub(super) fn read(
    source: &dyn PositionedRead,
    begin: u64,
    asked: &Asked,
) -> Result<Piece, SpoolError> {
    let mut reader =
        Reader { asked, bytes: Vec::new(), place: begin, line: 0, inside: false, piece: None };
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

fn piece(bytes: &[u8], given: std::ops::Range<u64>, total: u64) -> Piece {
    let bad = characters::parts(bytes).map(|part| match part {
        characters::Part::Bad(bytes) => bytes as u64,
        characters::Part::Text(_) => 0,
    });
    let not_text = bad.sum();
    Piece::new(characters::lossy(bytes).into_owned(), given, total, not_text)
}

struct Reader<'a> {
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

impl Reader<'_> {
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
