//! Reads records again, in a given order.
//!
//! They may lie anywhere, so each run of neighbours costs a read of its own. Threads share that
//! work, batch by batch; memory is a few batches, except for a record that is larger than one. Where
//! reading everything between the first and the last of them is cheaper than so many reads, and fits
//! into [`MAX_BUFFERED_LEN`], they are gathered from memory; never for somebody who takes only the first.

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::thread;
use std::time::Instant;

use lro_spool::PositionedRead;

use super::error::RecipeError;
use crate::lines::{fill, map_ordered};

/// As much as a reply to a model holds: what stops there pays for no more, and for no thread.
const FIRST_BATCH: usize = 64 * 1024;
/// What one thread fetches at a time.
const BATCH: usize = 512 * 1024;

/// Where a record lies.
pub(super) trait Place: Sync {
    fn at(&self) -> u64;
    fn length(&self) -> usize;
}

/// What is fetched from, and by whom.
#[derive(Clone, Copy)]
pub(super) struct Fetch<'s> {
    pub(super) source: &'s dyn PositionedRead,
    pub(super) threads: NonZeroUsize,
    pub(super) deadline: Option<Instant>,
}

/// What receives the records, until it breaks.
type Take<'t> = dyn FnMut(&[u8]) -> ControlFlow<()> + 't;

/// Some records, and where they lie in their bytes.
struct Batch {
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
}

impl Batch {
    fn give(self, take: &mut Take<'_>) -> ControlFlow<()> {
        self.records.into_iter().try_for_each(|record| take(self.bytes[record].trim_ascii()))
    }
}

impl Fetch<'_> {
    /// Hands the records to `take` in the order of `places`, until it breaks.
    pub(super) fn each<P: Place>(
        self,
        places: &[P],
        take: &mut Take<'_>,
    ) -> Result<(), RecipeError> {
        let (first, rest) = places.split_at(fitting(places, FIRST_BATCH));
        if self.read(first)?.give(take).is_break() {
            return Ok(());
        }
        let lead = lead(rest).map_or(rest.len(), |bytes| fitting(rest, bytes));
        let (lead, rest) = rest.split_at(lead);
        if self.in_batches(lead, take)?.is_break() || rest.is_empty() {
            return Ok(());
        }
        match RecordBuffer::read(self, rest)? {
            Some(held) => held.give(self, rest, take),
            None => self.in_batches(rest, take).map(|_| ()),
        }
    }

    fn in_batches<P: Place>(
        self,
        places: &[P],
        take: &mut Take<'_>,
    ) -> Result<ControlFlow<()>, RecipeError> {
        let mut batches: Vec<&[P]> = Vec::new();
        let mut left = places;
        while !left.is_empty() {
            let (batch, behind) = left.split_at(fitting(left, BATCH));
            batches.push(batch);
            left = behind;
        }
        let mut flow = ControlFlow::Continue(());
        map_ordered(
            batches.len() as u64,
            self.threads,
            || (),
            |(), number| {
                let number = usize::try_from(number).unwrap_or(usize::MAX);
                self.read(batches.get(number).copied().unwrap_or_default())
            },
            |batch| {
                flow = batch.give(take);
                Ok::<_, RecipeError>(flow)
            },
        )?;
        Ok(flow)
    }

    fn in_time(&self) -> Result<(), RecipeError> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(RecipeError::Time),
            _ => Ok(()),
        }
    }

    fn read<P: Place>(&self, places: &[P]) -> Result<Batch, RecipeError> {
        self.in_time()?;
        let most = places.iter().map(|place| place.length() + 1).sum();
        let mut batch = Batch { bytes: vec![0; most], records: Vec::with_capacity(places.len()) };
        let (mut rest, mut filled) = (places, 0);
        while let Some(first) = rest.first() {
            let (count, length) = neighbours(rest);
            let end = filled + fill(self.source, first.at(), &mut batch.bytes[filled..][..length])?;
            for place in &rest[..count] {
                let from = usize::try_from(place.at() - first.at()).unwrap_or(usize::MAX);
                let from = filled.saturating_add(from).min(end);
                batch.records.push(from..from.saturating_add(place.length()).min(end));
            }
            filled += length;
            rest = &rest[count..];
        }
        Ok(batch)
    }
}

/// How many of the next records make a batch of so many bytes; at least one.
fn fitting<P: Place>(places: &[P], most: usize) -> usize {
    let mut bytes = 0_usize;
    let fit = places.iter().take_while(|place| {
        bytes = bytes.saturating_add(place.length() + 1);
        bytes <= most
    });
    fit.count().max(1).min(places.len())
}

/// How many of the next records lie directly behind each other, and the bytes they take.
fn neighbours<P: Place>(places: &[P]) -> (usize, usize) {
    let Some(first) = places.first() else { return (0, 0) };
    let (mut count, mut length) = (1, first.length());
    for next in &places[1..] {
        // One byte for the line break.
        if next.at() != first.at() + length as u64 + 1 {
            break;
        }
        length += 1 + next.length();
        count += 1;
    }
    (count, length)
}

// --- Reads many scattered records through one buffer.

/// What is held at most. Beyond it every run of neighbours is read by itself.
pub(super) const MAX_BUFFERED_LEN: u64 = 256 << 20;
/// A read of a few hundred bytes takes as long as copying so many into fresh memory.
const BYTES_PER_READ: u64 = 1024;
/// Whoever stops within the first so many parts of it has nothing held for him.
const LEAD: u64 = 16;
/// What is read at a time, and how many records are given before the clock is looked at.
const PIECE: usize = 1 << 20;
const RECORDS: usize = 4096;

pub(super) struct RecordBuffer {
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

impl RecordBuffer {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Bytes;

    struct At(u64, usize);

    impl Place for At {
        fn at(&self) -> u64 {
            self.0
        }

        fn length(&self) -> usize {
            self.1
        }
    }

    /// Lines of many lengths up to `longest`, with their places.
    fn lines(count: usize, longest: usize) -> (Vec<u8>, Vec<At>) {
        let (mut text, mut places) = (Vec::new(), Vec::new());
        for n in 0..count {
            let line = format!("{n}{}", "x".repeat(n * 7919 % longest));
            places.push(At(text.len() as u64, line.len()));
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        (text, places)
    }

    fn fetched(text: &[u8], places: &[At], threads: usize, most: usize) -> Vec<Vec<u8>> {
        let threads = NonZeroUsize::new(threads).unwrap();
        let mut all = Vec::new();
        let fetch = Fetch { source: &Bytes(text), threads, deadline: None };
        let result = fetch.each(places, &mut |record| {
            all.push(record.to_vec());
            if all.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        result.unwrap();
        all
    }

    #[test]
    fn n6_records_come_in_the_order_of_their_places_however_many_threads_fetch_them() {
        // Short ones are gathered from memory, long ones by a read each.
        for (count, longest, held) in [(20_000, 300, true), (3000, 3000, false)] {
            let (text, mut places) = lines(count, longest);
            let mut random = testkit::SplitMix64::new(5);
            places.sort_by_cached_key(|_| random.next_u64());
            assert_eq!(lead(&places).is_some(), held);
            check(&text, places);
        }
    }

    fn check(text: &[u8], mut places: Vec<At>) {
        for turn in 0..2 {
            let whole = |place: &At| {
                let from = usize::try_from(place.0).unwrap();
                text[from..from + place.1].to_vec()
            };
            let expected: Vec<Vec<u8>> = places.iter().map(whole).collect();
            for threads in [1, 2, 3, 8] {
                assert_eq!(fetched(text, &places, threads, usize::MAX), expected, "{turn}");
            }
            assert_eq!(fetched(text, &places, 2, 1700), expected[..1700]);
            places.sort_by_key(|place| place.0);
        }
        assert!(fetched(text, &[], 2, 9).is_empty());
    }

    #[test]
    fn a_record_larger_than_a_batch_comes_whole_and_a_deadline_holds() {
        let long = [vec![b'a'; 2 * BATCH], b"\nb\n".to_vec()].concat();
        let places = [At(2 * BATCH as u64 + 1, 1), At(0, 2 * BATCH)];
        let found = fetched(&long, &places, 2, usize::MAX);
        assert_eq!((&*found[0], found[1].len()), (&b"b"[..], 2 * BATCH));
        let fetch = Fetch {
            source: &Bytes(&long),
            threads: NonZeroUsize::MIN,
            deadline: Some(Instant::now()),
        };
        let late = fetch.each(&places, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(late, Err(RecipeError::Time)), "{late:?}");
    }
}
