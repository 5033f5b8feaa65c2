//! Regular expression search over the lines of a result of any size (Spec V2).
//!
//! Lines are searched one by one, as by `rg`: `^` and `$` match at the ends of a line and no match
//! crosses a line break. The time is linear in the text and bounded for any pattern. Memory use is a
//! few chunks of the text, however long its lines are: a line longer than a chunk is searched in
//! windows, and a match in it may have any length.

mod excerpt;
mod groups;
mod hits;
mod unescape;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub use excerpt::{Excerpt, LineEnd};
pub use groups::{GroupCount, GroupCounts};
use lro_spool::{PositionedRead, SpoolError};

use self::hits::{Hit, Hits, LineScan, LongLine, ThreadState};
use super::lines::{Spans, available_threads};
use super::page::{Page, Rest, Total};
pub use super::pattern::Case;
use super::pattern::{self, LinePattern, PatternError};

/// The number of bytes a thread searches at a time, and between two checks of the deadline.
const SPAN_LEN: usize = 512 * 1024;
/// Longer lines are searched in windows.
const MAX_BUFFERED_LINE_LEN: usize = 2 << 20;
/// The length of such a window in bytes.
const WINDOW_LEN: usize = 256 * 1024;
/// The default maximum number of matching lines.
const DEFAULT_MAX_RESULTS: usize = 50;
/// The default maximum number of characters of a line.
const DEFAULT_LINE_CHARACTERS: usize = 400;

/// A compiled search, for any number of results.
pub struct Search {
    pattern: LinePattern,
    max_results: usize,
    before: usize,
    after: usize,
    characters: usize,
    rest: Rest,
    threads: NonZeroUsize,
    deadline: Option<Instant>,
    span: usize,
    max_buffered_line_len: usize,
    window: usize,
}

/// The format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "escapes are decoded or they are not")]
pub enum LineFormat {
    /// Text: a line matches as it is written.
    Text,
    /// JSON: a line also matches with its escapes decoded, as a person would type it.
    Json,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchOutcome {
    /// The first matching lines.
    pub matches: Vec<SearchMatch>,
    /// The number of all matching lines.
    pub total: Total,
    /// The number of lines searched.
    pub lines: u64,
}

/// A line with a match.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchMatch {
    /// The number of the line, from 0 where the search began; for records, the record number.
    pub line: u64,
    /// The byte offset of its first match in the file, or of the line if that is `unescaped`.
    pub byte: u64,
    /// The number of characters before the match in the line.
    pub column: u64,
    /// The line, or an excerpt around the match.
    pub text: Excerpt,
    /// The context lines before it.
    pub before: Vec<Excerpt>,
    /// The context lines after it.
    pub after: Vec<Excerpt>,
    /// Whether the line matches only with its JSON escapes decoded. Then `column` and `text` are about
    /// the decoded line.
    pub unescaped: bool,
}

impl Search {
    /// Compiles a pattern.
    pub fn new(pattern: &str, case: Case) -> Result<Self, PatternError> {
        Ok(Self {
            pattern: pattern::for_lines(pattern, case)?,
            max_results: DEFAULT_MAX_RESULTS,
            before: 0,
            after: 0,
            characters: DEFAULT_LINE_CHARACTERS,
            rest: Rest::Count,
            threads: available_threads(),
            deadline: None,
            span: SPAN_LEN,
            max_buffered_line_len: MAX_BUFFERED_LINE_LEN,
            window: WINDOW_LEN,
        })
    }

    /// Sets the maximum number of matching lines to return, and whether to count the others.
    pub fn most_results(mut self, max_results: usize, rest: Rest) -> Self {
        self.max_results = max_results;
        self.rest = rest;
        self
    }

    /// Sets the number of context lines, which come from the 64 KiB on either side of a match.
    pub fn context(mut self, before: usize, after: usize) -> Self {
        self.before = before;
        self.after = after;
        self
    }

    /// Sets the maximum number of characters of a line.
    pub fn line_characters(mut self, characters: usize) -> Self {
        self.characters = characters.max(1);
        self
    }

    /// Sets the number of threads; the default is the number of processors.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the deadline, after which the search fails with [`SearchError::Time`].
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Searches the lines of `source` from offset `begin`, the start of a line: after the header for
    /// records, 0 otherwise.
    pub fn run(
        &self,
        source: &dyn PositionedRead,
        begin: u64,
    ) -> Result<SearchOutcome, SearchError> {
        let page = Page { offset: 0, limit: self.max_results as u64 };
        self.run_page(source, begin, LineFormat::Text, page)
    }

    /// The same as [`run`](Self::run), for one page of the matching lines.
    pub fn run_page(
        &self,
        source: &dyn PositionedRead,
        begin: u64,
        format: LineFormat,
        page: Page,
    ) -> Result<SearchOutcome, SearchError> {
        let mut at = Position { offset: begin, lines: 0, matching: 0 };
        if page.offset > 0 {
            at = self.skip(source, begin, format, page.offset)?;
        }
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut outcome =
            SearchOutcome { matches: Vec::new(), total: Total::Exactly(0), lines: at.lines };
        let mut matching = at.matching;
        let mut stopped = false;
        // Set once there are enough matches: lines of later chunks are never among the first.
        let only_count = AtomicBool::new(page.limit == 0);
        let scan = LineScan::new(&self.pattern, format);
        let spans = Spans::new(source, at.offset, self.span);
        spans.with_max_line_len(self.max_buffered_line_len).map_chunks(
            self.threads,
            || ThreadState::new(&self.pattern.engine),
            |state, chunk| {
                self.check_deadline()?;
                // Only the first chunk has matches before the page.
                let skip = if chunk.at == at.offset { page.offset - at.matching } else { 0 };
                let limit = if only_count.load(Ordering::Relaxed) { 0 } else { page.limit };
                let keep = skip..skip.saturating_add(limit);
                let long = chunk.long.clone();
                let mut hits = Hits::find(&scan, state, &chunk, keep, self.characters)?;
                if let Some(line) = long {
                    let line = LongLine { source, line, search: self, format };
                    line.search(&mut state.scratch, &mut hits)?;
                }
                Ok::<_, SearchError>(hits)
            },
            |hits| {
                let first = outcome.lines;
                outcome.lines += hits.lines;
                matching += hits.matching;
                for hit in hits.first {
                    if outcome.matches.len() < limit {
                        outcome.matches.push(self.with_context(source, begin, first, hit)?);
                    }
                }
                if outcome.matches.len() < limit {
                    return Ok(ControlFlow::Continue(()));
                }
                only_count.store(true, Ordering::Relaxed);
                stopped = self.rest == Rest::Leave;
                Ok(if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        )?;
        outcome.total = if stopped { Total::AtLeast(matching) } else { Total::Exactly(matching) };
        Ok(outcome)
    }

    /// The position of the chunk with matching line number `skip`, or of the last chunk. Lines before
    /// it are only counted.
    fn skip(
        &self,
        source: &dyn PositionedRead,
        begin: u64,
        format: LineFormat,
        skip: u64,
    ) -> Result<Position, SearchError> {
        let mut position = Position { offset: begin, lines: 0, matching: 0 };
        let mut next = position;
        let scan = LineScan::new(&self.pattern, format);
        let spans = Spans::new(source, begin, self.span);
        spans.with_max_line_len(self.max_buffered_line_len).map_chunks(
            self.threads,
            || ThreadState::new(&self.pattern.engine),
            |state, chunk| {
                self.check_deadline()?;
                let (offset, long) = (chunk.at, chunk.long.clone());
                let mut hits = Hits::find(&scan, state, &chunk, 0..0, self.characters)?;
                if let Some(line) = long {
                    let line = LongLine { source, line, search: self, format };
                    line.search(&mut state.scratch, &mut hits)?;
                }
                Ok::<_, SearchError>((offset, hits))
            },
            |(offset, hits)| {
                position = Position { offset, ..next };
                next.lines += hits.lines;
                next.matching += hits.matching;
                Ok(if next.matching > skip {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            },
        )?;
        Ok(position)
    }

    fn check_deadline(&self) -> Result<(), SearchError> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(SearchError::Time),
            _ => Ok(()),
        }
    }

    fn with_context(
        &self,
        source: &dyn PositionedRead,
        begin: u64,
        first: u64,
        hit: Hit,
    ) -> Result<SearchMatch, SearchError> {
        let Hit { line, start, end, byte, column, text, unescaped } = hit;
        Ok(SearchMatch {
            line: first + line,
            byte,
            column,
            text,
            before: excerpt::lines_before(source, begin, start, self.before, self.characters)?,
            after: excerpt::lines_after(source, end, self.after, self.characters)?,
            unescaped,
        })
    }
}

/// The position of a chunk.
#[derive(Debug, Clone, Copy)]
struct Position {
    /// Its offset in the source.
    offset: u64,
    /// The number of lines before it.
    lines: u64,
    /// The number of matching lines before it.
    matching: u64,
}

/// The error of a search.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The pattern cannot be used on this text.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The deadline passed.
    #[error("the search timed out")]
    Time,
    /// The matches have too many distinct texts to be counted.
    #[error("more than {limit} different texts to count")]
    TooManyGroups {
        /// The maximum number.
        limit: usize,
    },
    /// The result could not be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl SearchError {
    /// What the caller can do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Pattern(error) => Some(error.hint()),
            Self::Time => Some("use a simpler pattern, or allow more time"),
            Self::TooManyGroups { .. } => {
                Some("capture a shorter part of the line, such as a level, a component or a date")
            }
            Self::Spool(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lines::Bytes;
    use super::*;

    const PATTERNS: [&str; 24] = [
        "a",
        "ab",
        "aab",
        "a.*b",
        ".*b",
        "b.*",
        "^a",
        "b$",
        "^$",
        "",
        "a*",
        "a+b?",
        "[ab]{3,7}c",
        "ab|ba|c{2}",
        r"\bab\b",
        r"\Bb",
        r"(?-u:\b)a",
        "\u{e9}",
        "\u{e9}+b",
        r"\w{4}",
        r"[^a]",
        "(?-u:\\xff)",
        "abc|abcabcabc",
        "c.{5}a",
    ];

    fn texts() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            20 => "[abc ]".prop_map(String::into_bytes),
            3 => "[\u{e9}\u{65e5}]".prop_map(String::into_bytes),
            2 => Just(b"\n".to_vec()),
            1 => proptest::sample::select(vec![0xFF_u8, 0x80, 0xC3]).prop_map(|byte| vec![byte]),
        ];
        proptest::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn g35_windows_say_what_the_whole_line_says(
            text in texts(),
            pattern in proptest::sample::select(PATTERNS.to_vec()),
            ignored in any::<bool>(),
            (span, held, window) in (1_usize..40, 0_usize..40, 1_usize..9),
            (max_results, characters, around) in (0_usize..4, 1_usize..12, 0_usize..2),
        ) {
            let case = if ignored { Case::Ignored } else { Case::Sensitive };
            let search = |span, held, window| {
                let mut search = Search::new(pattern, case)
                    .unwrap()
                    .most_results(max_results, Rest::Count)
                    .line_characters(characters)
                    .context(around, around)
                    .threads(NonZeroUsize::MIN);
                (search.span, search.max_buffered_line_len, search.window) = (span, held, window);
                search.run(&Bytes(&text), 0).map_err(|error| error.to_string())
            };
            prop_assert_eq!(search(span, held, window), search(SPAN_LEN, usize::MAX, WINDOW_LEN));
        }
    }
}
