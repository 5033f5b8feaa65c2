//! Excerpt: a line as it is shown, and what of it is not.

use std::ops::Range;

use lro_spool::{PositionedRead, SpoolError};

use crate::characters;
use crate::lines::fill;

/// A line, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excerpt {
    /// The text, without the line break; bytes that are no UTF-8 read as U+FFFD.
    pub text: String,
    /// How many characters of the line come before it.
    pub skipped: u64,
    /// Whether the line ends with it.
    pub end: LineEnd,
}

/// Whether an excerpt goes to the end of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it does or it does not")]
pub enum LineEnd {
    /// It does.
    Reached,
    /// The line goes on.
    Cut,
}

impl Excerpt {
    /// What of `line` can be shown with `most` characters so that the beginning of `matched` is
    /// seen, after which `skipped` tells how much was left out: the match itself if it fits, and
    /// as much on one side of it as on the other.
    pub(super) fn around(line: &[u8], matched: Range<usize>, column: u64, most: usize) -> Self {
        let mut start = characters::floor(line, matched.start);
        let mut end = start;
        let (mut shown, mut led) = (0, 0);
        // The match first, then characters in turn before and behind it.
        while shown < most && end < matched.end.min(line.len()) {
            end = characters::after(line, end);
            shown += 1;
        }
        while shown < most && (start > 0 || end < line.len()) {
            if start > 0 {
                start = characters::before(line, start);
                shown += 1;
                led += 1;
            }
            if end < line.len() && shown < most {
                end = characters::after(line, end);
                shown += 1;
            }
        }
        Self {
            text: characters::lossy(&line[start..end]).into_owned(),
            skipped: column.saturating_sub(led),
            end: if end == line.len() { LineEnd::Reached } else { LineEnd::Cut },
        }
    }

    /// The beginning of a line of which `line` is all, or all that was read.
    pub(super) fn beginning(line: &[u8], most: usize, end: LineEnd) -> Self {
        let shown = Self::around(line, 0..0, 0, most);
        Self { end: if shown.end == LineEnd::Cut { LineEnd::Cut } else { end }, ..shown }
    }
}

// --- Context: the lines around a match, from a bounded stretch of the source.

/// How far to either side is looked: far enough for lines that can be read, and no further for
/// those that cannot.
const STRETCH: usize = 64 * 1024;

/// Up to `count` lines before the one that begins at `start`.
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
    let from = start.saturating_sub(STRETCH as u64).max(begin);
    let bytes = stretch(source, from, start)?;
    // The line break that ends the last of them makes an empty piece behind it; the first is whole
    // only where the stretch begins with it.
    let mut lines: Vec<&[u8]> =
        bytes.split(|b| *b == b'\n').rev().skip(1).take(count + 1).collect();
    if lines.len() > count || from > begin {
        lines.pop();
    }
    let shown =
        lines.iter().rev().map(|line| Excerpt::beginning(line, characters, LineEnd::Reached));
    Ok(shown.collect())
}

/// Up to `count` lines behind the one that ends at `end`, where its line break is.
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
    let bytes = stretch(source, from, from + STRETCH as u64)?;
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

fn stretch(source: &dyn PositionedRead, from: u64, to: u64) -> Result<Vec<u8>, SpoolError> {
    let length = to.min(source.len()).saturating_sub(from);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(STRETCH)];
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
