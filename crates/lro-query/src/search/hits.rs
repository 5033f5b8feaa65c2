//! The matching lines of one chunk, including a line that is too long to be buffered.

use std::ops::Range;

use lro_spool::PositionedRead;
use memchr::{memchr, memchr_iter, memrchr};

use super::excerpt::Excerpt;
use super::unescape::{WindowDecoder, decode_line};
use super::{LineFormat, Search, SearchError};
use crate::characters;
use crate::lines::{Chunk, fill};
use crate::pattern::{
    BackwardSearch, Candidate, Engine, EscapedCandidates, ForwardSearch, LinePattern, PatternError,
    Scratch, StreamError,
};

/// The regex caches and the buffer of one thread.
pub(super) struct ThreadState {
    pub(super) scratch: Scratch,
    /// A line without its escapes.
    decoded: Vec<u8>,
}

impl ThreadState {
    pub(super) fn new(engine: &Engine) -> Self {
        Self { scratch: engine.scratch(), decoded: Vec::new() }
    }
}

/// Finds the matching lines of a text in memory.
pub(super) struct LineScan<'a> {
    engine: &'a Engine,
    /// Set if lines may match without their escapes only.
    escaped: Option<&'a EscapedCandidates>,
}

/// A matching line.
pub(super) struct MatchingLine<'t> {
    /// Its range in the text, without the line break.
    range: Range<usize>,
    /// The text that matches: the line, or the line without its escapes.
    pub(super) text: &'t [u8],
    /// Whether the line matches without its escapes only.
    unescaped: bool,
}

/// Receives the matching lines.
type Visit<'v> = dyn FnMut(&mut Scratch, MatchingLine<'_>) -> Result<(), PatternError> + 'v;

impl<'a> LineScan<'a> {
    pub(super) fn new(pattern: &'a LinePattern, format: LineFormat) -> Self {
        let escaped = match format {
            LineFormat::Json => pattern.escaped.as_ref(),
            LineFormat::Text => None,
        };
        Self { engine: &pattern.engine, escaped }
    }

    /// Passes every matching line of `text`, whole lines, to `visit`.
    pub(super) fn for_each(
        &self,
        state: &mut ThreadState,
        text: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), PatternError> {
        let mut at = 0;
        while at < text.len() {
            let candidate = self.engine.first_candidate(&mut state.scratch, text, at)?;
            let (offset, certain) = match candidate {
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
            self.unescaped(state, text, at..start, visit)?;
            at = end + 1;
            if certain || self.engine.is_match(&mut state.scratch, line)? {
                let line = MatchingLine { range: start..end, text: line, unescaped: false };
                visit(&mut state.scratch, line)?;
            } else {
                self.unescaped(state, text, start..end, visit)?;
            }
        }
        self.unescaped(state, text, at.min(text.len())..text.len(), visit)
    }

    /// Passes the lines in `range`, none of which matches as it is written, that match without their
    /// escapes.
    fn unescaped(
        &self,
        state: &mut ThreadState,
        text: &[u8],
        range: Range<usize>,
        visit: &mut Visit<'_>,
    ) -> Result<(), PatternError> {
        let Some(escaped) = self.escaped else { return Ok(()) };
        let mut at = range.start;
        while at < range.end
            && let Some(found) = escaped.find(&text[at..range.end])
        {
            let offset = at + found;
            let start = memrchr(b'\n', &text[at..offset]).map_or(at, |i| at + i + 1);
            let end = memchr(b'\n', &text[offset..range.end]).map_or(range.end, |i| offset + i);
            at = end + 1;
            let ThreadState { scratch, decoded } = state;
            if decode_line(&text[start..end], decoded) && self.engine.is_match(scratch, decoded)? {
                visit(scratch, MatchingLine { range: start..end, text: decoded, unescaped: true })?;
            }
        }
        Ok(())
    }
}

/// The matching lines of a chunk.
#[derive(Debug)]
pub(super) struct Hits {
    /// The number of lines.
    pub(super) lines: u64,
    /// The number of matching lines.
    pub(super) matching: u64,
    /// The numbers of the matching lines to keep, counted in the chunk.
    keep: Range<u64>,
    /// These matching lines.
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
    /// The offset of the match, or of the line if it matches without its escapes only.
    pub(super) byte: u64,
    /// The number of characters before the match in the line.
    pub(super) column: u64,
    pub(super) text: Excerpt,
    pub(super) unescaped: bool,
}

impl Hits {
    /// Searches a chunk and keeps the matching lines with the numbers in `keep`.
    pub(super) fn find(
        scan: &LineScan<'_>,
        state: &mut ThreadState,
        chunk: &Chunk<'_>,
        keep: Range<u64>,
        characters: usize,
    ) -> Result<Self, PatternError> {
        let text = chunk.bytes;
        let mut hits = Self { lines: 0, matching: 0, keep, first: Vec::new() };
        if text.is_empty() {
            return Ok(hits);
        }
        // Lines before `counted` have been counted.
        let mut counted = 0;
        scan.for_each(state, text, &mut |scratch, line| {
            if !hits.take_next() {
                return Ok(());
            }
            let MatchingLine { range, text: matching, unescaped } = line;
            hits.lines += memchr_iter(b'\n', &text[counted..range.start]).count() as u64;
            counted = range.start;
            let matched = scan.engine.find(scratch, matching)?.unwrap_or(0..0);
            let first = characters::floor(matching, matched.start);
            let column = characters::count(&matching[..first]);
            let offset = if unescaped { 0 } else { matched.start };
            hits.first.push(Hit {
                line: hits.lines,
                start: chunk.at + range.start as u64,
                end: chunk.at + range.end as u64,
                byte: chunk.at + (range.start + offset) as u64,
                column,
                text: Excerpt::around(matching, matched, column, characters),
                unescaped,
            });
            Ok(())
        })?;
        hits.lines += memchr_iter(b'\n', &text[counted..]).count() as u64;
        hits.lines += u64::from(!text.ends_with(b"\n"));
        Ok(hits)
    }

    /// Counts a matching line. Returns whether it is to be kept.
    fn take_next(&mut self) -> bool {
        let kept = self.keep.contains(&self.matching);
        self.matching += 1;
        kept
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
    pub(super) format: LineFormat,
}

/// A match in the line.
enum LongMatch {
    /// A match at an unknown position.
    Exists,
    /// A match at this range, relative to the start of the line.
    At(Range<u64>),
    /// A match in the line without its escapes: the characters before its end, and an excerpt.
    Unescaped { column: u64, text: Excerpt },
}

impl LongLine<'_> {
    /// Searches the line and adds it to the hits of the lines before it.
    pub(super) fn search(&self, scratch: &mut Scratch, hits: &mut Hits) -> Result<(), SearchError> {
        let wanted = hits.keep.contains(&hits.matching);
        let mut matched = match self.find(scratch, wanted) {
            Err(LongLineError::Stream(StreamError::Quit)) => self.simulate()?,
            Err(error) => return Err(error.into()),
            Ok(matched) => matched,
        };
        let escaped = self.search.pattern.escaped.is_some() && self.format == LineFormat::Json;
        if matched.is_none() && escaped {
            matched = self.find_unescaped(scratch)?;
        }
        let line = hits.lines;
        hits.lines += 1;
        let Some(matched) = matched else { return Ok(()) };
        if !hits.take_next() {
            return Ok(());
        }
        match matched {
            LongMatch::Exists => {}
            LongMatch::At(range) => hits.first.push(self.hit(line, &range)?),
            LongMatch::Unescaped { column, text } => hits.first.push(Hit {
                line,
                start: self.line.start,
                end: self.line.end,
                byte: self.line.start,
                column,
                text,
                unescaped: true,
            }),
        }
        Ok(())
    }

    /// Finds the first end of a match in the line without its escapes.
    fn find_unescaped(&self, scratch: &mut Scratch) -> Result<Option<LongMatch>, SearchError> {
        let engine = &self.search.pattern.engine;
        let mut forward =
            ForwardSearch::new(engine, scratch, true).map_err(LongLineError::Stream)?;
        let mut decoder = WindowDecoder::default();
        let (mut buf, mut at) = (vec![0; self.search.window], self.line.start);
        // `text` is the last windows without their escapes, from character `column` and byte `before` on.
        let (mut text, mut fed) = (Vec::new(), 0);
        let (mut before, mut column) = (0, 0);
        loop {
            let window = if at < self.line.end { self.window(at, &mut buf)? } else { &[] };
            at += window.len() as u64;
            let is_last = window.is_empty() || at >= self.line.end;
            decoder.feed(window, &mut text);
            if is_last {
                decoder.finish(&mut text);
            }
            let stopped = forward.feed(scratch, &text[fed..]).map_err(LongLineError::Stream)?;
            if stopped.is_break() || is_last {
                break;
            }
            // Keep enough for an excerpt.
            let reach = self.search.characters.saturating_mul(MAX_CHARACTER_LEN);
            let cut = characters::floor(&text, text.len().saturating_sub(reach));
            column += characters::count(&text[..cut]);
            before += cut as u64;
            text.drain(..cut);
            fed = text.len();
        }
        let Some(end) = forward.finish(scratch).map_err(LongLineError::Stream)? else {
            return Ok(None);
        };
        let end = usize::try_from(end.saturating_sub(before)).unwrap_or(usize::MAX);
        let end = characters::floor(&text, end.min(text.len()));
        let column = column + characters::count(&text[..end]);
        let text = Excerpt::around(&text, end..end, column, self.search.characters);
        Ok(Some(LongMatch::Unescaped { column, text }))
    }

    /// Finds the leftmost match; its range only if `wanted`.
    fn find(
        &self,
        scratch: &mut Scratch,
        wanted: bool,
    ) -> Result<Option<LongMatch>, LongLineError> {
        let engine = &self.search.pattern.engine;
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
        let engine = &self.search.pattern.engine;
        let bytes = self.line.end - self.line.start;
        if !engine.can_simulate(bytes) {
            return Err(PatternError::TooCostly.into());
        }
        let mut line = vec![0; usize::try_from(bytes).unwrap_or_default()];
        let read = fill(self.source, self.line.start, &mut line)?;
        let range = engine.simulate(&line[..read], 0)?;
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
            unescaped: false,
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

impl From<LongLineError> for SearchError {
    fn from(error: LongLineError) -> Self {
        match error {
            LongLineError::Stream(_) => PatternError::TooCostly.into(),
            LongLineError::Search(error) => error,
        }
    }
}

impl From<SearchError> for LongLineError {
    fn from(error: SearchError) -> Self {
        Self::Search(error)
    }
}
