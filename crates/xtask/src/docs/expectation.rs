//! Whether printed lines are those a document says, with its two wildcards.

use std::fmt::Write;

/// Stands for any text within a line.
const ANY_TEXT: &str = "[..]";
/// Alone on a line, stands for any number of lines.
const ANY_LINES: &str = "...";

/// Whether `actual` is what `expected` describes.
pub(super) fn matches(expected: &[String], actual: &[&str]) -> bool {
    let Some((pattern, rest)) = expected.split_first() else { return actual.is_empty() };
    if pattern == ANY_LINES {
        return (0..=actual.len()).any(|skipped| matches(rest, &actual[skipped..]));
    }
    actual
        .split_first()
        .is_some_and(|(line, more)| line_matches(pattern, line) && matches(rest, more))
}

fn line_matches(pattern: &str, line: &str) -> bool {
    let mut pieces = pattern.split(ANY_TEXT);
    // `split` yields at least one piece; everything after the first follows a wildcard.
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    true
}

/// Both texts side by side, for a reader who has to mend one of them.
///
/// Common lines at the beginning and the end are shown once, so the difference stands out.
pub(super) fn difference(expected: &[String], actual: &[&str]) -> String {
    let same = |pair: &(&String, &&str)| line_matches(pair.0, pair.1);
    let head = expected.iter().zip(actual).take_while(same).count();
    let tail = expected[head..].iter().rev().zip(actual[head..].iter().rev());
    let tail = tail.take_while(same).count();
    let mut text = String::new();
    let mut show = |mark: char, line: &str| {
        let _ = write!(text, "\n    {mark} {line}");
    };
    expected[..head].iter().for_each(|line| show(' ', line));
    expected[head..expected.len() - tail].iter().for_each(|line| show('-', line));
    actual[head..actual.len() - tail].iter().for_each(|line| show('+', line));
    expected[expected.len() - tail..].iter().for_each(|line| show(' ', line));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    fn ok(expected: &[&str], actual: &[&str]) -> bool {
        matches(&owned(expected), actual)
    }

    #[test]
    fn lines_are_compared_exactly() {
        assert!(ok(&["a", "", "b"], &["a", "", "b"]));
        assert!(ok(&[], &[]));
        assert!(!ok(&["a"], &["a "]));
        assert!(!ok(&["a"], &["a", "b"]));
        assert!(!ok(&["a", "b"], &["a"]));
    }

    #[test]
    fn text_within_a_line_may_be_left_open() {
        assert!(ok(&["took [..] ms"], &["took 12 ms"]));
        assert!(ok(&["[..]"], &[""]));
        assert!(ok(&["a[..]b[..]c"], &["a1b2b3c"]));
        assert!(!ok(&["took [..] ms"], &["took 12 s"]));
        assert!(!ok(&["a[..]a"], &["a"]));
    }

    #[test]
    fn lines_may_be_left_open() {
        assert!(ok(&["a", "...", "z"], &["a", "b", "c", "z"]));
        assert!(ok(&["...", "z"], &["z"]));
        assert!(ok(&["...", "x", "..."], &["a", "x", "b"]));
        assert!(!ok(&["...", "y"], &["a", "x"]));
        assert!(!ok(&["a ..."], &["a", "b"]), "only alone on a line");
    }

    #[test]
    fn the_difference_shows_only_what_differs() {
        let text = difference(&owned(&["a", "b", "z"]), &["a", "c", "d", "z"]);
        assert_eq!(text, "\n      a\n    - b\n    + c\n    + d\n      z");
    }
}
