//! Hits: the matching lines of one chunk.

use std::ops::Range;

use lro_spool::PositionedRead;
use memchr::{memchr, memchr_iter, memrchr};

use super::excerpt::Excerpt;
use super::{Search, SearchError};
use crate::characters;
use crate::lines::{Chunk, fill};
use crate::pattern::{Backward, Engine, Forward, PatternError, Place, Scratch, Stop};

/// What a chunk holds.
#[derive(Debug, Default)]
pub(super) struct Hits {
    /// How many lines it has.
    pub(super) lines: u64,
    /// How many of them match.
    pub(super) matching: u64,
    /// The first of those.
    pub(super) first: Vec<Hit>,
}

/// A matching line.
#[derive(Debug)]
pub(super) struct Hit {
    /// Its number in the chunk.
    pub(super) line: u64,
    /// Where it begins in the source.
    pub(super) start: u64,
    /// Where it ends, before its line break.
    pub(super) end: u64,
    /// Where the match begins.
    pub(super) byte: u64,
    /// In which character of the line.
    pub(super) column: u64,
    pub(super) text: Excerpt,
}

impl Hits {
    /// Looks through a chunk and keeps the first `most` matching lines.
    pub(super) fn find(
        engine: &Engine,
        scratch: &mut Scratch,
        chunk: &Chunk<'_>,
        most: usize,
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
            let (place, certain) = match engine.first_place(scratch, text, at)? {
                None => break,
                Some(Place::Certain(place)) => (place, true),
                Some(Place::Perhaps(place)) => (place, false),
            };
            // Behind the last line break there is no line.
            if place == text.len() && text.ends_with(b"\n") {
                break;
            }
            let start = memrchr(b'\n', &text[at..place]).map_or(at, |i| at + i + 1);
            let end = memchr(b'\n', &text[place..]).map_or(text.len(), |i| place + i);
            let line = &text[start..end];
            at = end + 1;
            if !certain && !engine.is_match(scratch, line)? {
                continue;
            }
            hits.matching += 1;
            if hits.first.len() < most {
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

// --- Long line: a line that is not held, searched in windows.

/// The most bytes that a character has.
const CHARACTER: usize = 4;

/// A line that is too long to be held.
pub(super) struct LongLine<'a> {
    pub(super) source: &'a dyn PositionedRead,
    /// Where it is in the source, its line break left out.
    pub(super) line: Range<u64>,
    pub(super) search: &'a Search,
}

/// A match in the line: where it begins and ends, counted from the line's beginning.
enum LongMatch {
    /// It is known that there is one.
    Somewhere,
    At(Range<u64>),
}

impl LongLine<'_> {
    /// Adds the line to the hits of the lines before it, as one of the first `most`.
    pub(super) fn look(
        &self,
        scratch: &mut Scratch,
        most: usize,
        hits: &mut Hits,
    ) -> Result<(), SearchError> {
        let wanted = hits.first.len() < most;
        let found = match self.find(scratch, wanted) {
            Err(Stopped::Stop(Stop::Quit)) => self.simulate()?,
            Err(Stopped::Stop(Stop::TooCostly)) => return Err(PatternError::TooCostly.into()),
            Err(Stopped::Search(error)) => return Err(error),
            Ok(found) => found,
        };
        let line = hits.lines;
        hits.lines += 1;
        let Some(found) = found else { return Ok(()) };
        hits.matching += 1;
        if let LongMatch::At(matched) = found
            && wanted
        {
            hits.first.push(self.hit(line, &matched)?);
        }
        Ok(())
    }

    /// The leftmost match; without its place where that is not `wanted`.
    fn find(&self, scratch: &mut Scratch, wanted: bool) -> Result<Option<LongMatch>, Stopped> {
        let engine = &self.search.engine;
        let mut forward = Forward::new(engine, scratch, !wanted)?;
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
            return Ok(Some(LongMatch::Somewhere));
        }
        let next = if self.line.start + end < self.line.end {
            self.window(self.line.start + end, &mut buf)?.first().copied()
        } else {
            None
        };
        let mut backward = Backward::new(engine, scratch, end, next)?;
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
        // Backwards from the end of a match its start is always found.
        let start = backward.finish(scratch)?.unwrap_or(end);
        Ok(Some(LongMatch::At(start..end)))
    }

    /// The bytes from `at` on, as many as a window holds; fewer only at the end of the line.
    fn window<'b>(&self, at: u64, buf: &'b mut [u8]) -> Result<&'b [u8], SearchError> {
        self.search.in_time()?;
        let length = usize::try_from(self.line.end - at).unwrap_or(usize::MAX).min(buf.len());
        let read = fill(self.source, at, &mut buf[..length])?;
        Ok(&buf[..read])
    }

    /// Decides a pattern that the automata cannot, where the line is short enough for that.
    fn simulate(&self) -> Result<Option<LongMatch>, SearchError> {
        let engine = &self.search.engine;
        let bytes = self.line.end - self.line.start;
        if !engine.can_simulate(bytes) {
            return Err(PatternError::TooCostly.into());
        }
        let mut line = vec![0; usize::try_from(bytes).unwrap_or_default()];
        let read = fill(self.source, self.line.start, &mut line)?;
        let found = engine.simulate(&line[..read])?;
        Ok(found.map(|found| LongMatch::At(found.start as u64..found.end as u64)))
    }

    /// The line as it is shown, from the bytes around the match.
    fn hit(&self, number: u64, matched: &Range<u64>) -> Result<Hit, SearchError> {
        // Characters are whole where they can be shown, and a few more tell where one begins.
        let reach = self.search.characters.saturating_add(2).saturating_mul(CHARACTER) as u64;
        let length = self.line.end - self.line.start;
        let from = matched.start.saturating_sub(reach);
        let to = matched.start.saturating_add(reach).min(length);
        let mut around = vec![0; usize::try_from(to - from).unwrap_or_default()];
        let read = fill(self.source, self.line.start + from, &mut around)?;
        around.truncate(read);
        let place = |at: u64| usize::try_from(at.min(to) - from).unwrap_or_default().min(read);
        let first = characters::floor(&around, place(matched.start));
        let column = self.column(from + first as u64)?;
        let text = Excerpt::around(
            &around,
            place(matched.start)..place(matched.end),
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

    /// How many characters of the line come before `place`.
    fn column(&self, place: u64) -> Result<u64, SearchError> {
        // A character that is cut at the end of a window is read again with the next.
        let mut buf = vec![0; self.search.window.max(2 * CHARACTER)];
        let (mut at, mut column) = (0, 0);
        while at < place {
            let left = usize::try_from(place - at).unwrap_or(usize::MAX);
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

/// Why windows were looked at no further.
enum Stopped {
    Stop(Stop),
    Search(SearchError),
}

impl From<Stop> for Stopped {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<SearchError> for Stopped {
    fn from(error: SearchError) -> Self {
        Self::Search(error)
    }
}
