//! Search: regular expressions over the lines of a result of any size (Spec V2).
//!
//! Lines are searched one by one, as `rg` does: `^` and `$` are a line's ends and no match goes over
//! a line break. The time is linear in the text and bounded for any pattern. The memory is a few
//! pieces of the text, however long its lines are: a line that is longer than one of them goes by in
//! windows, and a match in it may be of any length.

mod excerpt;
mod hits;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub use excerpt::{Excerpt, LineEnd};
use lro_spool::{PositionedRead, SpoolError};

use self::hits::{Hit, Hits, LongLine};
use super::lines::{Spans, available_threads};
use super::page::{Rest, Total};
use super::pattern;
use super::pattern::{Engine, PatternError};

/// What one thread looks at at a time, and between two looks at the clock.
const SPAN: usize = 512 * 1024;
/// A longer line is searched in windows.
const LONGEST_HELD: usize = 2 << 20;
/// What is held of such a line.
const WINDOW: usize = 256 * 1024;
/// Matching lines given when nobody says how many.
const MOST_RESULTS: usize = 50;
/// Characters of a line given when nobody says how many.
const LINE_CHARACTERS: usize = 400;

/// Whether upper and lower case are different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "they are or they are not")]
pub enum Case {
    /// They are.
    Sensitive,
    /// They are not.
    Ignored,
}

/// A search, ready for any number of results.
pub struct Search {
    engine: Engine,
    most: usize,
    before: usize,
    after: usize,
    characters: usize,
    rest: Rest,
    threads: NonZeroUsize,
    deadline: Option<Instant>,
    span: usize,
    longest_held: usize,
    window: usize,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The first matching lines.
    pub matches: Vec<Match>,
    /// How many lines match in all.
    pub total: Total,
    /// How many lines were looked at.
    pub lines: u64,
}

/// A line with a match.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Match {
    /// The line's number from 0, counted from where the search began: in records, the record's.
    pub line: u64,
    /// Where its first match begins in the file, in bytes.
    pub byte: u64,
    /// How many characters of the line come before it.
    pub column: u64,
    /// The line, or what is around the match.
    pub text: Excerpt,
    /// The lines before it, where they were asked for.
    pub before: Vec<Excerpt>,
    /// The lines behind it.
    pub after: Vec<Excerpt>,
}

impl Search {
    /// Prepares a pattern.
    pub fn new(pattern: &str, case: Case) -> Result<Self, PatternError> {
        let case = match case {
            Case::Sensitive => pattern::Case::Sensitive,
            Case::Ignored => pattern::Case::Ignored,
        };
        Ok(Self {
            engine: pattern::for_lines(pattern, case)?,
            most: MOST_RESULTS,
            before: 0,
            after: 0,
            characters: LINE_CHARACTERS,
            rest: Rest::Count,
            threads: available_threads(),
            deadline: None,
            span: SPAN,
            longest_held: LONGEST_HELD,
            window: WINDOW,
        })
    }

    /// Gives this many matching lines at most, and does so with the rest.
    pub fn most_results(mut self, most: usize, rest: Rest) -> Self {
        self.most = most;
        self.rest = rest;
        self
    }

    /// Gives lines before and behind each match, from the 64 KiB on either side of it.
    pub fn context(mut self, before: usize, after: usize) -> Self {
        self.before = before;
        self.after = after;
        self
    }

    /// Gives this many characters of a line at most.
    pub fn line_characters(mut self, characters: usize) -> Self {
        self.characters = characters.max(1);
        self
    }

    /// Says how many threads may work on it; by default as many as there are processors.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Says when to give up, with [`SearchError::Time`].
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Searches the lines of `source` from the byte `begin` on, which begins a line: behind the
    /// header of records, at 0 otherwise.
    pub fn run(&self, source: &dyn PositionedRead, begin: u64) -> Result<Found, SearchError> {
        let mut found = Found { matches: Vec::new(), total: Total::Exactly(0), lines: 0 };
        let mut seen = 0;
        let mut stopped = false;
        // Set once there are enough; lines of later chunks are never among the first.
        let only_count = AtomicBool::new(self.most == 0);
        Spans::new(source, begin, self.span).holding(self.longest_held).in_order(
            self.threads,
            || self.engine.scratch(),
            |scratch, chunk| {
                self.in_time()?;
                let most = if only_count.load(Ordering::Relaxed) { 0 } else { self.most };
                let long = chunk.long.clone();
                let mut hits = Hits::find(&self.engine, scratch, &chunk, most, self.characters)?;
                if let Some(line) = long {
                    let line = LongLine { source, line, search: self };
                    line.look(scratch, most, &mut hits)?;
                }
                Ok::<_, SearchError>(hits)
            },
            |hits| {
                let first = found.lines;
                found.lines += hits.lines;
                seen += hits.matching;
                for hit in hits.first {
                    if found.matches.len() < self.most {
                        found.matches.push(self.with_context(source, begin, first, hit)?);
                    }
                }
                if found.matches.len() < self.most {
                    return Ok(ControlFlow::Continue(()));
                }
                only_count.store(true, Ordering::Relaxed);
                stopped = self.rest == Rest::Leave;
                Ok(if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        )?;
        found.total = if stopped { Total::AtLeast(seen) } else { Total::Exactly(seen) };
        Ok(found)
    }

    fn in_time(&self) -> Result<(), SearchError> {
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
    ) -> Result<Match, SearchError> {
        let Hit { line, start, end, byte, column, text } = hit;
        Ok(Match {
            line: first + line,
            byte,
            column,
            text,
            before: excerpt::lines_before(source, begin, start, self.before, self.characters)?,
            after: excerpt::lines_after(source, end, self.after, self.characters)?,
        })
    }
}

// --- Why a search gives no answer.

/// Why a search gives no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The pattern cannot be used on this text.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The time is up.
    #[error("the time for this search is up")]
    Time,
    /// The result could not be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl SearchError {
    /// What to do about it, where something can be done.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Pattern(error) => Some(error.hint()),
            Self::Time => Some("use a plainer pattern, or allow more time"),
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
            (most, characters, around) in (0_usize..4, 1_usize..12, 0_usize..2),
        ) {
            let case = if ignored { Case::Ignored } else { Case::Sensitive };
            let search = |span, held, window| {
                let mut search = Search::new(pattern, case)
                    .unwrap()
                    .most_results(most, Rest::Count)
                    .line_characters(characters)
                    .context(around, around)
                    .threads(NonZeroUsize::MIN);
                (search.span, search.longest_held, search.window) = (span, held, window);
                search.run(&Bytes(&text), 0).map_err(|error| error.to_string())
            };
            prop_assert_eq!(search(span, held, window), search(SPAN, usize::MAX, WINDOW));
        }
    }
}
