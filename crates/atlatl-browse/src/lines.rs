//! The lines of a source: an index built in steps, reading, and pattern matching.

use std::io;
use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};

use crate::text::unescape;

/// The most bytes of a line that are loaded: of a longer line, the beginning is shown, searched and
/// sorted by.
pub(crate) const MAX_LINE_LEN: usize = 4 << 20;
/// The number of bytes indexed per step.
const INDEX_STEP_BYTES: usize = 4 << 20;
/// The most lines shown: the index of more would take too much memory.
pub(crate) const MAX_LINES: usize = 32 << 20;
/// The size limit of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The content of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "they are records or they are not")]
pub enum RowContent {
    /// One JSON value per line.
    Records,
    /// Text.
    Text,
}

/// An index of lines, with eight bytes per line.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The start of each line. While the pass runs, the last line may be incomplete.
    starts: Vec<u64>,
    begin: u64,
    end: u64,
    scanned: u64,
    /// Whether the last line ends with a line break.
    closed: bool,
    /// The most lines.
    pub(crate) limit: usize,
    /// Whether there are more lines than are shown.
    pub(crate) cut: bool,
    /// Whether the source could not be read to its end.
    pub(crate) is_partial: bool,
    buf: Vec<u8>,
}

/// A line, or its beginning.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) bytes: Vec<u8>,
    /// Whether the line is truncated.
    pub(crate) cut: bool,
}

impl Lines {
    /// Creates an empty index of the lines from byte `begin`.
    pub(crate) fn new(source: &dyn RowSource, begin: u64) -> Self {
        let end = source.len().max(begin);
        let starts = if end > begin { vec![begin] } else { Vec::new() };
        Self {
            starts,
            begin,
            end,
            scanned: begin,
            closed: false,
            limit: MAX_LINES,
            cut: false,
            is_partial: false,
            buf: Vec::new(),
        }
    }

    /// Indexes another step.
    pub(crate) fn more(&mut self, source: &dyn RowSource) -> io::Result<()> {
        let left = usize::try_from(self.end - self.scanned).unwrap_or(usize::MAX);
        self.buf.resize(left.min(INDEX_STEP_BYTES), 0);
        let read = fill(source, self.scanned, &mut self.buf)?;
        for i in memchr::memchr_iter(b'\n', &self.buf[..read]) {
            self.starts.push(self.scanned + i as u64 + 1);
        }
        self.scanned += read as u64;
        if read < self.buf.len() {
            // The source is shorter than its length said.
            self.end = self.scanned;
            self.is_partial = true;
        }
        // A start at the end is that of no line.
        if let Some(&end) = self.starts.get(self.limit).filter(|start| **start < self.end) {
            self.starts.truncate(self.limit);
            self.end = end;
            self.scanned = end;
            self.closed = true;
            self.cut = true;
        }
        if self.is_finished() {
            self.buf = Vec::new();
            if self.starts.last() == Some(&self.end) {
                self.starts.pop();
                self.closed = true;
            }
            self.starts.shrink_to_fit();
        }
        Ok(())
    }

    /// Stops indexing: the lines found so far are all there is.
    pub(crate) fn stop(&mut self) {
        self.is_partial |= self.scanned < self.end;
        self.end = self.scanned;
        if self.starts.last() == Some(&self.end) {
            self.starts.pop();
            self.closed = true;
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.scanned >= self.end
    }

    /// The progress in percent.
    pub(crate) fn percent(&self) -> u64 {
        let all = self.end - self.begin;
        ((self.scanned - self.begin) * 100).checked_div(all).unwrap_or(100)
    }

    /// The number of complete lines.
    pub(crate) fn count(&self) -> usize {
        if self.is_finished() { self.starts.len() } else { self.starts.len().saturating_sub(1) }
    }

    /// The byte range of a line, without its line break.
    pub(crate) fn span(&self, number: usize) -> Range<u64> {
        let Some(&start) = self.starts.get(number) else { return 0..0 };
        let end = match self.starts.get(number + 1) {
            Some(next) => next - 1,
            None => self.end - u64::from(self.closed),
        };
        start..end.max(start)
    }

    /// Reads a line, at most `most` bytes.
    pub(crate) fn line(
        &self,
        source: &dyn RowSource,
        number: usize,
        most: usize,
    ) -> io::Result<Line> {
        let span = self.span(number);
        let length = usize::try_from(span.end - span.start).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(most)];
        let read = fill(source, span.start, &mut bytes)?;
        bytes.truncate(read);
        if length <= most && bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        Ok(Line { bytes, cut: length > most })
    }
}

/// Bytes that can be read at any offset.
///
/// # Contract
///
/// [`len`](Self::len) does not grow while the source is browsed. Reading beyond the end returns
/// nothing; a source that became shorter is shown as far as it goes.
pub trait RowSource: Send {
    /// The number of bytes.
    fn len(&self) -> u64;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads from `at` and returns the number of bytes; 0 only at the end or for an empty buffer.
    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize>;
}

/// A source in memory.
impl RowSource for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.as_slice().len());
        let read = buf.len().min(self.as_slice().len() - from);
        buf[..read].copy_from_slice(&self[from..from + read]);
        Ok(read)
    }
}

/// Reads until `buf` is full or the source ends, and returns the number of bytes.
pub(crate) fn fill(source: &dyn RowSource, at: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match source.read_at(at + filled as u64, &mut buf[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// A case-insensitive search pattern: a regular expression, or plain text if it is not a valid one.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern; `None` if it is too large even as plain text.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let build = |pattern: &str| {
            RegexBuilder::new(pattern)
                .case_insensitive(true)
                .size_limit(MAX_PATTERN_BYTES)
                .dfa_size_limit(MAX_PATTERN_BYTES)
                .build()
                .ok()
        };
        let regex = build(text).or_else(|| build(&regex::escape(text)))?;
        Some(Self { text: text.to_owned(), regex })
    }

    /// Whether a line matches, as written or with its escapes decoded.
    pub(crate) fn matches_line(&self, line: &[u8], content: RowContent) -> bool {
        self.regex.is_match(line)
            || (content == RowContent::Records
                && memchr::memchr(b'\\', line).is_some()
                && self.regex.is_match(unescape(line, MAX_LINE_LEN).as_bytes()))
    }

    /// The matches in a displayed text.
    pub(crate) fn find_in<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let whole = |place: &Range<usize>| {
            !place.is_empty()
                && text.is_char_boundary(place.start)
                && text.is_char_boundary(place.end)
        };
        self.regex.find_iter(text.as_bytes()).map(|found| found.range()).filter(whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &[u8], begin: u64) -> Vec<Vec<u8>> {
        let source = text.to_vec();
        let mut lines = Lines::new(&source, begin);
        while !lines.is_finished() {
            lines.more(&source).unwrap();
        }
        (0..lines.count()).map(|n| lines.line(&source, n, 100).unwrap().bytes).collect()
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_text(text in "[ab\n]{0,40}") {
            let expected: Vec<Vec<u8>> =
                text.lines().map(|line| line.as_bytes().to_vec()).collect();
            prop_assert_eq!(all(text.as_bytes(), 0), expected);
        }
    }

    #[test]
    fn a_pass_begins_behind_the_header_and_goes_over_pieces() {
        let mut text = b"header\n".to_vec();
        text.extend(std::iter::repeat_n(b"0123456789\n", INDEX_STEP_BYTES / 5).flatten());
        let lines = all(&text, 7);
        assert_eq!(lines.len(), INDEX_STEP_BYTES / 5);
        assert!(lines.iter().all(|line| line == b"0123456789"));
        assert_eq!(all(b"header\n", 7), Vec::<Vec<u8>>::new());
        assert_eq!(all(b"", 7), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn lines_beyond_the_limit_are_cut() {
        for (text, count, is_cut) in
            [("a\nb\n", 2, false), ("a\nb", 2, false), ("a\nb\nc", 2, true), ("\n\n\n", 2, true)]
        {
            let source = text.as_bytes().to_vec();
            let mut lines = Lines::new(&source, 0);
            lines.limit = 2;
            while !lines.is_finished() {
                lines.more(&source).unwrap();
            }
            assert_eq!((lines.count(), lines.cut), (count, is_cut), "{text:?}");
        }
    }

    #[test]
    fn a_source_that_became_shorter_ends_where_it_ends() {
        struct Shorter;
        impl RowSource for Shorter {
            fn len(&self) -> u64 {
                100
            }
            fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
                b"a\nb\n".to_vec().read_at(at, buf)
            }
        }
        let mut lines = Lines::new(&Shorter, 0);
        while !lines.is_finished() {
            lines.more(&Shorter).unwrap();
        }
        assert_eq!((lines.count(), lines.is_partial), (2, true));
        assert_eq!(lines.line(&Shorter, 1, 10).unwrap().bytes, b"b");
        assert_eq!(lines.line(&Shorter, 9, 10).unwrap().bytes, b"");
    }

    #[test]
    fn a_pattern_is_a_regular_expression_or_plain_text_without_case() {
        let found = |text: &str, line: &str| {
            Pattern::new(text).unwrap().matches_line(line.as_bytes(), RowContent::Records)
        };
        assert!(found("t.o", r#"{"a":"TWO"}"#) && !found("t.o", "to"));
        assert!(found("a(b", "xA(By") && found("[", "["));
        assert!(found("é", r#"{"a":"\u00c9"}"#) && found("say \"hi\"", r#"{"a":"say \"hi\""}"#));
        assert!(Pattern::new("(a{1000}){1000}").is_some_and(|p| p.text.len() == 15));
    }
}
