//! The matching lines of one chunk, including a line that is too long to be buffered.

use std::ops::Range;

use lro_spool::PositionedRead;
use memchr::{memchr, memchr_iter, memrchr};

use super::excerpt::Excerpt;
use super::{Search, SearchError};
use crate::characters;
use crate::lines::{Chunk, fill};
use crate::pattern::{
    BackwardSearch, Candidate, Engine, ForwardSearch, PatternError, Scratch, StreamError,
};

/// The matching lines of a chunk.
#[derive(Debug, Default)]
pub(super) struct Hits {
    /// The number of lines.
    pub(super) lines: u64,
    /// The number of matching lines.
    pub(super) matching: u64,
    /// The first matching lines.
    pub(super) first: Vec<Hit>,
}

/// A matching line.
#[derive(Debug)]
pub(super) struct Hit {
    /// The number of the line in the chunk.
    pub(super) line: u64,
    /// The offset of the line in the source.
    pub(super) start: u64,
    /// The offset of the end of the line, before its line break.
    pub(super) end: u64,
    /// The offset of the match.
    pub(super) byte: u64,
    /// The number of characters before the match in the line.
    pub(super) column: u64,
    pub(super) text: Excerpt,
}

impl Hits {
    /// Searches a chunk and keeps the first `max_hits` matching lines.
    pub(super) fn find(
        engine: &Engine,
        scratch: &mut Scratch,
        chunk: &Chunk<'_>,
        max_hits: usize,
        characters: usize,
    ) -> Result<Self, PatternError> {
        let text = chunk.bytes;
        let mut hits = Self::default();
        if text.is_empty() {
            return Ok(hits);
        }
        // Lines before `counted` have been counted.
        let mut counted = 0;
        let mut at = 0;
        while at < text.len() {
            let (offset, certain) = match engine.first_candidate(scratch, text, at)? {
                None => break,
                Some(Candidate::Certain(offset)) => (offset, true),
                Some(Candidate::Possible(offset)) => (offset, false),
            };
            // There is no line after the last line break.
            if offset == text.len() && text.ends_with(b"\n") {
                break;
            }
            let start = memrchr(b'\n', &text[at..offset]).map_or(at, |i| at + i + 1);
            let end = memchr(b'\n', &text[offset..]).map_or(text.len(), |i| offset + i);
            let line = &text[start..end];
            at = end + 1;
            if !certain && !engine.is_match(scratch, line)? {
                continue;
            }
            hits.matching += 1;
            if hits.first.len() < max_hits {
                hits.lines += memchr_iter(b'\n', &text[counted..start]).count() as u64;
                counted = start;
                let matched = engine.find(scratch, line)?.unwrap_or(0..0);
                let first = characters::floor(line, matched.start);
                let column = characters::count(&line[..first]);
                hits.first.push(Hit {
                    line: hits.lines,
                    start: chunk.at + start as u64,
                    end: chunk.at + end as u64,
                    byte: chunk.at + (start + matched.start) as u64,
                    column,
                    text: Excerpt::around(line, matched, column, characters),
                });
            }
        }
        hits.lines += memchr_iter(b'\n', &text[counted..]).count() as u64;
        hits.lines += u64::from(!text.ends_with(b"\n"));
        Ok(hits)
    }
}

/// The maximum length of a character in bytes.
const MAX_CHARACTER_LEN: usize = 4;

/// A line that is too long to be buffered, searched in windows.
pub(super) struct LongLine<'a> {
    pub(super) source: &'a dyn PositionedRead,
    /// Its range in the source, without the line break.
    pub(super) line: Range<u64>,
    pub(super) search: &'a Search,
}

/// A match in the line.
enum LongMatch {
    /// A match at an unknown position.
    Exists,
    /// A match at this range, relative to the start of the line.
    At(Range<u64>),
}

impl LongLine<'_> {
    /// Searches the line and adds it to the hits of the lines before it.
    pub(super) fn search(
        &self,
        scratch: &mut Scratch,
        max_hits: usize,
        hits: &mut Hits,
    ) -> Result<(), SearchError> {
        let wanted = hits.first.len() < max_hits;
        let matched = match self.find(scratch, wanted) {
            Err(LongLineError::Stream(StreamError::Quit)) => self.simulate()?,
            Err(LongLineError::Stream(StreamError::TooCostly)) => {
                return Err(PatternError::TooCostly.into());
            }
            Err(LongLineError::Search(error)) => return Err(error),
            Ok(matched) => matched,
        };
        let line = hits.lines;
        hits.lines += 1;
        let Some(matched) = matched else { return Ok(()) };
        hits.matching += 1;
        if let LongMatch::At(range) = matched
            && wanted
        {
            hits.first.push(self.hit(line, &range)?);
        }
        Ok(())
    }

    /// Finds the leftmost match; its range only if `wanted`.
    fn find(
        &self,
        scratch: &mut Scratch,
        wanted: bool,
    ) -> Result<Option<LongMatch>, LongLineError> {
        let engine = &self.search.engine;
        let mut forward = ForwardSearch::new(engine, scratch, !wanted)?;
        let (mut buf, mut at) = (vec![0; self.search.window], self.line.start);
        while at < self.line.end {
            let window = self.window(at, &mut buf)?;
            at += window.len() as u64;
            if window.is_empty() || forward.feed(scratch, window)?.is_break() {
                break;
            }
        }
        let Some(end) = forward.finish(scratch)? else { return Ok(None) };
        if !wanted {
            return Ok(Some(LongMatch::Exists));
        }
        let next = if self.line.start + end < self.line.end {
            self.window(self.line.start + end, &mut buf)?.first().copied()
        } else {
            None
        };
        let mut backward = BackwardSearch::new(engine, scratch, end, next)?;
        let mut at = end;
        while at > 0 {
            let from = at.saturating_sub(buf.len() as u64);
            let length = usize::try_from(at - from).unwrap_or(buf.len());
            let window = &self.window(self.line.start + from, &mut buf)?[..length];
            at = from;
            if backward.feed(scratch, window)?.is_break() {
                break;
            }
        }
        // A reverse search from the end of a match always finds its start.
        let start = backward.finish(scratch)?.unwrap_or(end);
        Ok(Some(LongMatch::At(start..end)))
    }

    /// Reads the window from `at`; it is shorter than `buf` only at the end of the line.
    fn window<'b>(&self, at: u64, buf: &'b mut [u8]) -> Result<&'b [u8], SearchError> {
        self.search.check_deadline()?;
        let length = usize::try_from(self.line.end - at).unwrap_or(usize::MAX).min(buf.len());
        let read = fill(self.source, at, &mut buf[..length])?;
        Ok(&buf[..read])
    }

    /// Searches by NFA simulation, if the line is short enough.
    fn simulate(&self) -> Result<Option<LongMatch>, SearchError> {
        let engine = &self.search.engine;
        let bytes = self.line.end - self.line.start;
        if !engine.can_simulate(bytes) {
            return Err(PatternError::TooCostly.into());
        }
        let mut line = vec![0; usize::try_from(bytes).unwrap_or_default()];
        let read = fill(self.source, self.line.start, &mut line)?;
        let range = engine.simulate(&line[..read])?;
        Ok(range.map(|range| LongMatch::At(range.start as u64..range.end as u64)))
    }

    /// Creates the hit from the bytes around the match.
    fn hit(&self, number: u64, matched: &Range<u64>) -> Result<Hit, SearchError> {
        // Enough bytes for the excerpt, plus some to find the start of the first character.
        let reach =
            self.search.characters.saturating_add(2).saturating_mul(MAX_CHARACTER_LEN) as u64;
        let length = self.line.end - self.line.start;
        let from = matched.start.saturating_sub(reach);
        let to = matched.start.saturating_add(reach).min(length);
        let mut around = vec![0; usize::try_from(to - from).unwrap_or_default()];
        let read = fill(self.source, self.line.start + from, &mut around)?;
        around.truncate(read);
        let index = |at: u64| usize::try_from(at.min(to) - from).unwrap_or_default().min(read);
        let first = characters::floor(&around, index(matched.start));
        let column = self.column(from + first as u64)?;
        let text = Excerpt::around(
            &around,
            index(matched.start)..index(matched.end),
            column,
            self.search.characters,
        );
        Ok(Hit {
            line: number,
            start: self.line.start,
            end: self.line.end,
            byte: self.line.start + matched.start,
            column,
            text,
        })
    }

    /// The number of characters before `offset` in the line.
    fn column(&self, offset: u64) -> Result<u64, SearchError> {
        // A character that is incomplete at the end of a window is read again with the next window.
        let mut buf = vec![0; self.search.window.max(2 * MAX_CHARACTER_LEN)];
        let (mut at, mut column) = (0, 0);
        while at < offset {
            let left = usize::try_from(offset - at).unwrap_or(usize::MAX);
            let window = self.window(self.line.start + at, &mut buf)?;
            let window = &window[..window.len().min(left)];
            if window.is_empty() {
                break;
            }
            let cut = if window.len() == left { 0 } else { characters::unfinished(window) };
            column += characters::count(&window[..window.len() - cut]);
            at += (window.len() - cut) as u64;
        }
        Ok(column)
    }
}

/// The error of a search in windows.
enum LongLineError {
    Stream(StreamError),
    Search(SearchError),
}

impl From<StreamError> for LongLineError {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<SearchError> for LongLineError {
    fn from(error: SearchError) -> Self {
        Self::Search(error)
    }
}
