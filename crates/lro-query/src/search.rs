//! Search: regular expressions over the lines of a result of any size (Spec V2).
//!
//! Lines are searched one by one, as `rg` does: `^` and `$` are a line's ends and no match goes over
//! a line break. The time is linear in the text and bounded for any pattern, the memory is a few
//! pieces of the text and, if there is one, its longest line.

mod context;
mod error;
mod excerpt;
mod hits;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lro_spool::PositionedRead;

pub use error::SearchError;
pub use excerpt::{Excerpt, LineEnd};

use self::hits::{Hit, Hits};
use crate::lines::{Spans, available_threads};
use crate::page::{Rest, Total};
use crate::pattern::{self, Engine, PatternError};

/// What one thread looks at at a time, and between two looks at the clock.
const SPAN: usize = 512 * 1024;
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
        Spans::new(source, begin, SPAN).in_order(
            self.threads,
            || self.engine.scratch(),
            |scratch, chunk| {
                if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(SearchError::Time);
                }
                let most = if only_count.load(Ordering::Relaxed) { 0 } else { self.most };
                Ok(Hits::find(&self.engine, scratch, chunk, most, self.characters)?)
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
            before: context::before(source, begin, start, self.before, self.characters)?,
            after: context::after(source, end, self.after, self.characters)?,
        })
    }
}
