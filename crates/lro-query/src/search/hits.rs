//! Hits: the matching lines of one chunk.

use memchr::{memchr, memchr_iter, memrchr};

use super::excerpt::Excerpt;
use crate::characters;
use crate::lines::Chunk;
use crate::pattern::{Engine, PatternError, Place, Scratch};

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
