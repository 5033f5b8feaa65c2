//! Excerpt: a line as it is shown, and what of it is not.

use std::ops::Range;

use crate::characters;

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
