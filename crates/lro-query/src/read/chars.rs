//! Reads a range of characters.

use lro_spool::{PositionedRead, SpoolError};

use super::{Asked, Piece, stream};
use crate::characters::{self, Part};

/// Reads a range of characters.
pub(super) fn read(source: &dyn PositionedRead, asked: &Asked) -> Result<Piece, SpoolError> {
    let mut reader = Reader { asked, text: String::new(), position: 0, end: None, not_text: 0 };
    let rest = stream(source, 0, u64::MAX, |bytes| {
        let unfinished = characters::unfinished(bytes);
        reader.look(&bytes[..bytes.len() - unfinished]);
        unfinished
    })?;
    // What never became a character.
    reader.look(&rest);
    let Reader { text, position: total, end, not_text, .. } = reader;
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

struct Reader<'a> {
    asked: &'a Asked,
    text: String,
    /// How many characters went by.
    position: u64,
    /// The first character behind the piece.
    end: Option<u64>,
    not_text: u64,
}

impl Reader<'_> {
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
