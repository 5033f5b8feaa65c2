//! Reads many scattered records through one buffer.

use std::ops::ControlFlow;
use std::thread;

use super::super::error::RecipeError;
use super::{Fetch, Place, Take, neighbours};
use crate::lines::fill;

/// What is held at most. Beyond it every run of neighbours is read by itself.
pub(super) const MAX_BUFFERED_LEN: u64 = 256 << 20;
/// A read of a few hundred bytes takes as long as copying so many into fresh memory.
const BYTES_PER_READ: u64 = 1024;
/// Whoever stops within the first so many parts of it has nothing held for him.
const LEAD: u64 = 16;
/// What is read at a time, and how many records are given before the clock is looked at.
const PIECE: usize = 1 << 20;
const RECORDS: usize = 4096;

pub(super) struct SpillBuffer {
    begin: u64,
    bytes: Vec<u8>,
}

/// How many bytes of the records are better read by themselves first; `None` where all are.
pub(super) fn lead<P: Place>(places: &[P]) -> Option<usize> {
    let (begin, end) = span(places)?;
    let (mut runs, mut rest) = (0, places);
    while !rest.is_empty() {
        rest = &rest[neighbours(rest).0..];
        runs += 1;
    }
    let worth_it = end - begin <= MAX_BUFFERED_LEN.min(BYTES_PER_READ.saturating_mul(runs));
    worth_it.then(|| usize::try_from((end - begin) / LEAD).unwrap_or(usize::MAX))
}

fn span<P: Place>(places: &[P]) -> Option<(u64, u64)> {
    let begin = places.iter().map(Place::at).min()?;
    let end = places.iter().map(|place| place.at() + place.length() as u64).max()?;
    Some((begin, end))
}

impl SpillBuffer {
    /// Reads all there is between the records; `None` where the source has less than they say.
    pub(super) fn read<P: Place>(
        fetch: Fetch<'_>,
        places: &[P],
    ) -> Result<Option<Self>, RecipeError> {
        let Some((begin, end)) = span(places) else { return Ok(None) };
        let mut bytes = vec![0; usize::try_from(end - begin).unwrap_or(usize::MAX)];
        let share = bytes.len().div_ceil(fetch.threads.get()).max(PIECE);
        // Fresh memory is made where it is filled, so this is shared out as well.
        let whole = thread::scope(|scope| {
            let shares = bytes.chunks_mut(share).enumerate().map(|(number, bytes)| {
                let at = begin + (number * share) as u64;
                scope.spawn(move || fill_share(fetch, at, bytes))
            });
            let shares: Vec<_> = shares.collect();
            let mut whole = true;
            for share in shares {
                match share.join() {
                    Ok(filled) => whole &= filled?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok::<_, RecipeError>(whole)
        })?;
        Ok(whole.then_some(Self { begin, bytes }))
    }

    pub(super) fn give<P: Place>(
        &self,
        fetch: Fetch<'_>,
        places: &[P],
        take: &mut Take<'_>,
    ) -> Result<(), RecipeError> {
        for places in places.chunks(RECORDS) {
            fetch.in_time()?;
            let flow = places.iter().try_for_each(|place| {
                let from = usize::try_from(place.at() - self.begin).unwrap_or(usize::MAX);
                take(self.bytes[from..][..place.length()].trim_ascii())
            });
            if let ControlFlow::Break(()) = flow {
                break;
            }
        }
        Ok(())
    }
}

/// Fills one thread's share, and says whether the source had that much.
fn fill_share(fetch: Fetch<'_>, at: u64, bytes: &mut [u8]) -> Result<bool, RecipeError> {
    let mut at = at;
    for piece in bytes.chunks_mut(PIECE) {
        fetch.in_time()?;
        if fill(fetch.source, at, piece)? < piece.len() {
            return Ok(false);
        }
        at += piece.len() as u64;
    }
    Ok(true)
}
