//! Context: the lines around a match, from a bounded stretch of the source.

use lro_spool::{PositionedRead, SpoolError};

use super::excerpt::{Excerpt, LineEnd};
use crate::lines::fill;

/// How far to either side is looked: far enough for lines that can be read, and no further for
/// those that cannot.
const STRETCH: usize = 64 * 1024;

/// Up to `count` lines before the one that begins at `start`.
pub(super) fn before(
    source: &dyn PositionedRead,
    begin: u64,
    start: u64,
    count: usize,
    characters: usize,
) -> Result<Vec<Excerpt>, SpoolError> {
    if count == 0 || start <= begin {
        return Ok(Vec::new());
    }
    let from = start.saturating_sub(STRETCH as u64).max(begin);
    let bytes = stretch(source, from, start)?;
    // The line break that ends the last of them makes an empty piece behind it; the first is whole
    // only where the stretch begins with it.
    let mut lines: Vec<&[u8]> =
        bytes.split(|b| *b == b'\n').rev().skip(1).take(count + 1).collect();
    if lines.len() > count || from > begin {
        lines.pop();
    }
    let shown =
        lines.iter().rev().map(|line| Excerpt::beginning(line, characters, LineEnd::Reached));
    Ok(shown.collect())
}

/// Up to `count` lines behind the one that ends at `end`, where its line break is.
pub(super) fn after(
    source: &dyn PositionedRead,
    end: u64,
    count: usize,
    characters: usize,
) -> Result<Vec<Excerpt>, SpoolError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let from = end + 1;
    let bytes = stretch(source, from, from + STRETCH as u64)?;
    let at_end = from + bytes.len() as u64 >= source.len();
    let lines = bytes.split_inclusive(|b| *b == b'\n').take(count);
    Ok(lines
        .map(|line| match line.strip_suffix(b"\n") {
            Some(line) => Excerpt::beginning(line, characters, LineEnd::Reached),
            None if at_end => Excerpt::beginning(line, characters, LineEnd::Reached),
            None => Excerpt::beginning(line, characters, LineEnd::Cut),
        })
        .collect())
}

fn stretch(source: &dyn PositionedRead, from: u64, to: u64) -> Result<Vec<u8>, SpoolError> {
    let length = to.min(source.len()).saturating_sub(from);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(STRETCH)];
    let read = fill(source, from, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}
