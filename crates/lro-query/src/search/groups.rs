//! Counts the text of a capture group over all matches.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use lro_spool::PositionedRead;

use super::hits::{LineScan, ThreadState};
use super::{LineFormat, MAX_BUFFERED_LINE_LEN, Search, SearchError};
use crate::characters;
use crate::lines::{Spans, fill};
use crate::pattern::CaptureEngine;

/// The maximum number of distinct texts.
const MAX_GROUPS: usize = 100_000;
/// The maximum length of all distinct texts in bytes.
const MAX_GROUP_BYTES: usize = 16 << 20;
/// The bytes beyond a window of a long line that a match may reach.
const WINDOW_OVERLAP: usize = 64 * 1024;

/// Counts by text: `None` where the group is not a part of a match.
type Counts = HashMap<Option<Box<[u8]>>, u64>;

/// The number of matches by the text of a capture group, over one or several sources.
#[derive(Debug, Default)]
pub struct GroupCounts {
    counts: Counts,
    bytes: usize,
    /// The number of matches.
    pub matches: u64,
    /// The number of matching lines.
    pub matching_lines: u64,
    /// The number of lines searched.
    pub lines: u64,
}

/// The text of a capture group, and how often it was matched.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupCount {
    /// The text, with each invalid UTF-8 byte replaced by U+FFFD; `None` if the group was not a part
    /// of the match.
    pub value: Option<String>,
    /// The number of matches.
    pub count: u64,
}

impl GroupCounts {
    /// The counts, the highest first, and equal ones by their text.
    pub fn into_sorted(self) -> Vec<GroupCount> {
        let mut counts: Vec<_> = self.counts.into_iter().collect();
        counts.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
        counts
            .into_iter()
            .map(|(value, count)| GroupCount {
                value: value.map(|value| characters::lossy(&value).into_owned()),
                count,
            })
            .collect()
    }

    fn add(&mut self, counts: Counts) -> Result<(), SearchError> {
        for (value, count) in counts {
            self.matches += count;
            if let Some(known) = self.counts.get_mut(&value) {
                *known += count;
                continue;
            }
            self.bytes += value.as_ref().map_or(0, |value| value.len());
            if self.counts.len() == MAX_GROUPS || self.bytes > MAX_GROUP_BYTES {
                return Err(SearchError::TooManyGroups { limit: MAX_GROUPS });
            }
            self.counts.insert(value, count);
        }
        Ok(())
    }
}

/// The counts of one chunk.
#[derive(Default)]
struct ChunkCounts {
    counts: Counts,
    matching_lines: u64,
    lines: u64,
}

impl ChunkCounts {
    fn add(&mut self, value: Option<&[u8]>) {
        *self.counts.entry(value.map(Box::from)).or_default() += 1;
    }
}

impl Search {
    /// Counts the texts of capture group `number` in the lines of `source` from `begin` on, in
    /// addition to those in `counts`; number 0 is the whole match. Every match counts, also several
    /// in one line.
    ///
    /// A line longer than 2 MiB is searched in windows and as it is written; a match in it that
    /// crosses two of them and is longer than 64 KiB is not counted.
    pub fn count_groups(
        &self,
        source: &dyn PositionedRead,
        begin: u64,
        format: LineFormat,
        number: usize,
        counts: &mut GroupCounts,
    ) -> Result<(), SearchError> {
        let captures = self.pattern.captures(number)?;
        let scan = LineScan::new(&self.pattern, format);
        let spans = Spans::new(source, begin, self.span);
        spans.with_max_line_len(self.max_buffered_line_len).map_chunks(
            self.threads,
            || ThreadState::new(&self.pattern.engine),
            |state, chunk| {
                self.check_deadline()?;
                let mut found = ChunkCounts::default();
                let long = chunk.long.clone();
                found.lines = lines(chunk.bytes) + u64::from(long.is_some());
                scan.for_each(state, chunk.bytes, &mut |scratch, line| {
                    found.matching_lines += 1;
                    let engine = &self.pattern.engine;
                    captures.for_each(engine, scratch, line.text, |_, value| found.add(value))?;
                    Ok(())
                })?;
                if let Some(line) = long {
                    self.count_in_long_line(source, line, &captures, state, &mut found)?;
                }
                Ok::<_, SearchError>(found)
            },
            |found| {
                counts.lines += found.lines;
                counts.matching_lines += found.matching_lines;
                counts.add(found.counts)?;
                Ok(ControlFlow::Continue(()))
            },
        )
    }

    fn count_in_long_line(
        &self,
        source: &dyn PositionedRead,
        line: Range<u64>,
        captures: &CaptureEngine,
        state: &mut ThreadState,
        found: &mut ChunkCounts,
    ) -> Result<(), SearchError> {
        let mut buf = vec![0; MAX_BUFFERED_LINE_LEN + WINDOW_OVERLAP];
        let mut at = line.start;
        let mut matching = false;
        while at < line.end {
            self.check_deadline()?;
            let left = usize::try_from(line.end - at).unwrap_or(usize::MAX);
            let length = left.min(buf.len());
            let read = fill(source, at, &mut buf[..length])?;
            let window = &buf[..read];
            let is_last = read == left || read < length;
            let own = if is_last { read } else { MAX_BUFFERED_LINE_LEN };
            let mut next = own;
            let engine = &self.pattern.engine;
            captures.for_each(engine, &mut state.scratch, window, |matched, value| {
                // A match that begins beyond the window belongs to the next one.
                if matched.start < own {
                    matching = true;
                    found.add(value);
                    next = next.max(matched.end);
                }
            })?;
            if is_last {
                break;
            }
            at += next as u64;
        }
        found.matching_lines += u64::from(matching);
        Ok(())
    }
}

/// The number of lines in a chunk.
fn lines(text: &[u8]) -> u64 {
    let breaks = memchr::memchr_iter(b'\n', text).count() as u64;
    breaks + u64::from(!text.is_empty() && !text.ends_with(b"\n"))
}
