//! Excerpts of matching lines and of the context lines around them.

use std::ops::Range;

use lro_spool::{PositionedRead, SpoolError};

use crate::characters;
use crate::lines::fill;

/// A line, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excerpt {
    /// The text without the line break, with each invalid UTF-8 byte replaced by U+FFFD.
    pub text: String,
    /// The number of characters of the line before the excerpt.
    pub skipped: u64,
    /// Whether the excerpt reaches the end of the line.
    pub end: LineEnd,
}

/// The position of the end of an excerpt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an excerpt reaches the end of the line or it does not"
)]
pub enum LineEnd {
    /// At the end of the line.
    Reached,
    /// Before the end of the line.
    Cut,
}

impl Excerpt {
    /// An excerpt of up to `max_characters` that contains the start of `matched`: the match first,
    /// then as many characters before it as after it. `column` is the number of characters before
    /// the match in the whole line.
    pub(super) fn around(
        line: &[u8],
        matched: Range<usize>,
        column: u64,
        max_characters: usize,
    ) -> Self {
        let mut start = characters::floor(line, matched.start);
        let mut end = start;
        let (mut length, mut before) = (0, 0);
        while length < max_characters && end < matched.end.min(line.len()) {
            end = characters::after(line, end);
            length += 1;
        }
        while length < max_characters && (start > 0 || end < line.len()) {
            if start > 0 {
                start = characters::before(line, start);
                length += 1;
                before += 1;
            }
            if end < line.len() && length < max_characters {
                end = characters::after(line, end);
                length += 1;
            }
        }
        Self {
            text: characters::lossy(&line[start..end]).into_owned(),
            skipped: column.saturating_sub(before),
            end: if end == line.len() { LineEnd::Reached } else { LineEnd::Cut },
        }
    }

    /// The beginning of a line; `end` says whether `line` is all of it.
    pub(super) fn beginning(line: &[u8], max_characters: usize, end: LineEnd) -> Self {
        let excerpt = Self::around(line, 0..0, 0, max_characters);
        Self { end: if excerpt.end == LineEnd::Cut { LineEnd::Cut } else { end }, ..excerpt }
    }
}

/// The number of bytes on either side of a match that may contain context lines.
const CONTEXT_LEN: usize = 64 * 1024;

/// Reads up to `count` lines before the one that begins at `start`.
pub(super) fn lines_before(
    source: &dyn PositionedRead,
    begin: u64,
    start: u64,
    count: usize,
    characters: usize,
) -> Result<Vec<Excerpt>, SpoolError> {
    if count == 0 || start <= begin {
        return Ok(Vec::new());
    }
    let from = start.saturating_sub(CONTEXT_LEN as u64).max(begin);
    let bytes = read_range(source, from, start)?;
    // The last line break produces an empty piece, which is skipped. The first piece is a whole line
    // only if the range begins with it.
    let mut lines: Vec<&[u8]> =
        bytes.split(|b| *b == b'\n').rev().skip(1).take(count + 1).collect();
    if lines.len() > count || from > begin {
        lines.pop();
    }
    let excerpts =
        lines.iter().rev().map(|line| Excerpt::beginning(line, characters, LineEnd::Reached));
    Ok(excerpts.collect())
}

/// Reads up to `count` lines after the one whose line break is at `end`.
pub(super) fn lines_after(
    source: &dyn PositionedRead,
    end: u64,
    count: usize,
    characters: usize,
) -> Result<Vec<Excerpt>, SpoolError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let from = end + 1;
    let bytes = read_range(source, from, from + CONTEXT_LEN as u64)?;
    let at_end = from + bytes.len() as u64 >= source.len();
    let lines = bytes.split_inclusive(|b| *b == b'\n').take(count);
    Ok(lines
        .map(|line| match line.strip_suffix(b"\n") {
            Some(line) => Excerpt::beginning(line, characters, LineEnd::Reached),
            None if at_end => Excerpt::beginning(line, characters, LineEnd::Reached),
            None => Excerpt::beginning(line, characters, LineEnd::Cut),
        })
        .collect())
}

fn read_range(source: &dyn PositionedRead, from: u64, to: u64) -> Result<Vec<u8>, SpoolError> {
    let length = to.min(source.len()).saturating_sub(from);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(CONTEXT_LEN)];
    let read = fill(source, from, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_a_long_line_is_cut_around_its_match_at_characters() {
        let line = "\u{65e5}".repeat(100) + "needle" + &"\u{e9}".repeat(100);
        let at = 300..306;
        let excerpt = Excerpt::around(line.as_bytes(), at.clone(), 100, 10);
        assert_eq!(excerpt.text, "\u{65e5}\u{65e5}needle\u{e9}\u{e9}");
        assert_eq!((excerpt.skipped, excerpt.end), (98, LineEnd::Cut));
        let excerpt = Excerpt::around(line.as_bytes(), at.clone(), 100, 3);
        assert_eq!((excerpt.text.as_str(), excerpt.skipped), ("nee", 100));
        let whole = Excerpt::around(line.as_bytes(), at, 100, 1000);
        assert_eq!((whole.text, whole.skipped, whole.end), (line, 0, LineEnd::Reached));
    }

    #[test]
    fn v2_a_match_inside_a_character_shows_the_character() {
        let excerpt = Excerpt::around("a\u{65e5}b".as_bytes(), 2..3, 1, 1);
        assert_eq!((excerpt.text.as_str(), excerpt.skipped), ("\u{65e5}", 1));
        let excerpt = Excerpt::around(b"a\xffb", 1..2, 1, 2);
        assert_eq!((excerpt.text.as_str(), excerpt.skipped), ("a\u{fffd}", 0));
    }
}
