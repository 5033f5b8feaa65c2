//! Reads records by position, in any order.
//!
//! Each run of adjacent records takes one read. Threads read batches in parallel; memory use is a few
//! batches, except for a record that is larger than a batch. If reading the whole range of the records
//! is cheaper than the individual reads, and fits into [`MAX_BUFFERED_LEN`], they are copied from a
//! buffer instead, but only once the caller has taken more than the first ones.

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::thread;
use std::time::Instant;

use lro_spool::PositionedRead;

use super::error::RecipeError;
use crate::lines::{fill, map_ordered};

/// The size of the first batch in bytes, read without threads: as much as a reply to a model holds.
const FIRST_BATCH_LEN: usize = 64 * 1024;
/// The size of all other batches in bytes.
const BATCH_LEN: usize = 512 * 1024;

/// The position of a record.
pub(super) trait RecordSpan: Sync {
    fn offset(&self) -> u64;
    fn length(&self) -> usize;
}

/// Reads records of a source with several threads.
#[derive(Clone, Copy)]
pub(super) struct RecordReader<'s> {
    pub(super) source: &'s dyn PositionedRead,
    pub(super) threads: NonZeroUsize,
    pub(super) deadline: Option<Instant>,
}

/// The receiver of the records, until it breaks.
type RecordSink<'t> = dyn FnMut(&[u8]) -> ControlFlow<()> + 't;

/// The bytes of some records.
struct Batch {
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
}

impl Batch {
    fn pass_to(self, sink: &mut RecordSink<'_>) -> ControlFlow<()> {
        self.records.into_iter().try_for_each(|record| sink(self.bytes[record].trim_ascii()))
    }
}

impl RecordReader<'_> {
    /// Passes the records to `sink` in the order of `spans`, until it breaks.
    pub(super) fn for_each<P: RecordSpan>(
        self,
        spans: &[P],
        sink: &mut RecordSink<'_>,
    ) -> Result<(), RecipeError> {
        let (first, rest) = spans.split_at(fitting(spans, FIRST_BATCH_LEN));
        if self.read(first)?.pass_to(sink).is_break() {
            return Ok(());
        }
        let lead = lead(rest).map_or(rest.len(), |bytes| fitting(rest, bytes));
        let (lead, rest) = rest.split_at(lead);
        if self.in_batches(lead, sink)?.is_break() || rest.is_empty() {
            return Ok(());
        }
        match RecordBuffer::read(self, rest)? {
            Some(buffer) => buffer.pass_to(self, rest, sink),
            None => self.in_batches(rest, sink).map(|_| ()),
        }
    }

    fn in_batches<P: RecordSpan>(
        self,
        spans: &[P],
        sink: &mut RecordSink<'_>,
    ) -> Result<ControlFlow<()>, RecipeError> {
        let mut batches: Vec<&[P]> = Vec::new();
        let mut left = spans;
        while !left.is_empty() {
            let (batch, after) = left.split_at(fitting(left, BATCH_LEN));
            batches.push(batch);
            left = after;
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
                flow = batch.pass_to(sink);
                Ok::<_, RecipeError>(flow)
            },
        )?;
        Ok(flow)
    }

    fn check_deadline(&self) -> Result<(), RecipeError> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(RecipeError::Time),
            _ => Ok(()),
        }
    }

    fn read<P: RecordSpan>(&self, spans: &[P]) -> Result<Batch, RecipeError> {
        self.check_deadline()?;
        let length = spans.iter().map(|span| span.length() + 1).sum();
        let mut batch = Batch { bytes: vec![0; length], records: Vec::with_capacity(spans.len()) };
        let (mut rest, mut filled) = (spans, 0);
        while let Some(first) = rest.first() {
            let (count, length) = adjacent(rest);
            let end =
                filled + fill(self.source, first.offset(), &mut batch.bytes[filled..][..length])?;
            for span in &rest[..count] {
                let from = usize::try_from(span.offset() - first.offset()).unwrap_or(usize::MAX);
                let from = filled.saturating_add(from).min(end);
                batch.records.push(from..from.saturating_add(span.length()).min(end));
            }
            filled += length;
            rest = &rest[count..];
        }
        Ok(batch)
    }
}

/// The number of records that fit into this many bytes; at least one.
fn fitting<P: RecordSpan>(spans: &[P], max_bytes: usize) -> usize {
    let mut bytes = 0_usize;
    let fit = spans.iter().take_while(|span| {
        bytes = bytes.saturating_add(span.length() + 1);
        bytes <= max_bytes
    });
    fit.count().max(1).min(spans.len())
}

/// The number of adjacent records at the beginning of `spans`, and their length in bytes.
fn adjacent<P: RecordSpan>(spans: &[P]) -> (usize, usize) {
    let Some(first) = spans.first() else { return (0, 0) };
    let (mut count, mut length) = (1, first.length());
    for next in &spans[1..] {
        // One byte for the line break.
        if next.offset() != first.offset() + length as u64 + 1 {
            break;
        }
        length += 1 + next.length();
        count += 1;
    }
    (count, length)
}

/// The maximum size of the buffer in bytes.
const MAX_BUFFERED_LEN: u64 = 256 << 20;
/// A read of a few hundred bytes takes as long as copying this many bytes into new memory.
const BYTES_PER_READ: u64 = 1024;
/// The buffer is filled only after this fraction of its bytes was read in batches.
const LEAD_DIVISOR: u64 = 16;
/// The number of bytes read between two checks of the deadline.
const PIECE_LEN: usize = 1 << 20;
/// The number of records passed on between two checks of the deadline.
const RECORDS_PER_CHECK: usize = 4096;

/// The bytes of the whole range of some records.
struct RecordBuffer {
    begin: u64,
    bytes: Vec<u8>,
}

/// The number of bytes to read in batches before filling the buffer; `None` if the buffer does not
/// pay off.
fn lead<P: RecordSpan>(spans: &[P]) -> Option<usize> {
    let (begin, end) = total_range(spans)?;
    let (mut runs, mut rest) = (0, spans);
    while !rest.is_empty() {
        rest = &rest[adjacent(rest).0..];
        runs += 1;
    }
    let worth_it = end - begin <= MAX_BUFFERED_LEN.min(BYTES_PER_READ.saturating_mul(runs));
    worth_it.then(|| usize::try_from((end - begin) / LEAD_DIVISOR).unwrap_or(usize::MAX))
}

fn total_range<P: RecordSpan>(spans: &[P]) -> Option<(u64, u64)> {
    let begin = spans.iter().map(RecordSpan::offset).min()?;
    let end = spans.iter().map(|span| span.offset() + span.length() as u64).max()?;
    Some((begin, end))
}

impl RecordBuffer {
    /// Reads the whole range of the records; `None` if the source is shorter.
    fn read<P: RecordSpan>(
        reader: RecordReader<'_>,
        spans: &[P],
    ) -> Result<Option<Self>, RecipeError> {
        let Some((begin, end)) = total_range(spans) else { return Ok(None) };
        let mut bytes = vec![0; usize::try_from(end - begin).unwrap_or(usize::MAX)];
        let share = bytes.len().div_ceil(reader.threads.get()).max(PIECE_LEN);
        // The first write to a new page of memory is slow, so the threads share this, too.
        let whole = thread::scope(|scope| {
            let shares = bytes.chunks_mut(share).enumerate().map(|(number, bytes)| {
                let at = begin + (number * share) as u64;
                scope.spawn(move || fill_share(reader, at, bytes))
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

    fn pass_to<P: RecordSpan>(
        &self,
        reader: RecordReader<'_>,
        spans: &[P],
        sink: &mut RecordSink<'_>,
    ) -> Result<(), RecipeError> {
        for spans in spans.chunks(RECORDS_PER_CHECK) {
            reader.check_deadline()?;
            let flow = spans.iter().try_for_each(|span| {
                let from = usize::try_from(span.offset() - self.begin).unwrap_or(usize::MAX);
                sink(self.bytes[from..][..span.length()].trim_ascii())
            });
            if let ControlFlow::Break(()) = flow {
                break;
            }
        }
        Ok(())
    }
}

/// Fills the share of one thread. Returns false if the source is shorter.
fn fill_share(reader: RecordReader<'_>, at: u64, bytes: &mut [u8]) -> Result<bool, RecipeError> {
    let mut at = at;
    for piece in bytes.chunks_mut(PIECE_LEN) {
        reader.check_deadline()?;
        if fill(reader.source, at, piece)? < piece.len() {
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

    impl RecordSpan for At {
        fn offset(&self) -> u64 {
            self.0
        }

        fn length(&self) -> usize {
            self.1
        }
    }

    /// Lines of different lengths up to `longest`, with their positions.
    fn lines(count: usize, longest: usize) -> (Vec<u8>, Vec<At>) {
        let (mut text, mut spans) = (Vec::new(), Vec::new());
        for n in 0..count {
            let line = format!("{n}{}", "x".repeat(n * 7919 % longest));
            spans.push(At(text.len() as u64, line.len()));
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        (text, spans)
    }

    fn read_records(text: &[u8], spans: &[At], threads: usize, most: usize) -> Vec<Vec<u8>> {
        let threads = NonZeroUsize::new(threads).unwrap();
        let mut all = Vec::new();
        let reader = RecordReader { source: &Bytes(text), threads, deadline: None };
        let result = reader.for_each(spans, &mut |record| {
            all.push(record.to_vec());
            if all.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        result.unwrap();
        all
    }

    #[test]
    fn n6_records_come_in_the_order_of_their_places_however_many_threads_fetch_them() {
        // Short records are copied from the buffer, long ones sink a read each.
        for (count, longest, buffered) in [(20_000, 300, true), (3000, 3000, false)] {
            let (text, mut spans) = lines(count, longest);
            let mut random = testkit::SplitMix64::new(5);
            spans.sort_by_cached_key(|_| random.next_u64());
            assert_eq!(lead(&spans).is_some(), buffered);
            check(&text, spans);
        }
    }

    fn check(text: &[u8], mut spans: Vec<At>) {
        for turn in 0..2 {
            let whole = |span: &At| {
                let from = usize::try_from(span.0).unwrap();
                text[from..from + span.1].to_vec()
            };
            let expected: Vec<Vec<u8>> = spans.iter().map(whole).collect();
            for threads in [1, 2, 3, 8] {
                assert_eq!(read_records(text, &spans, threads, usize::MAX), expected, "{turn}");
            }
            assert_eq!(read_records(text, &spans, 2, 1700), expected[..1700]);
            spans.sort_by_key(|span| span.0);
        }
        assert!(read_records(text, &[], 2, 9).is_empty());
    }

    #[test]
    fn a_record_larger_than_a_batch_comes_whole_and_a_deadline_holds() {
        let long = [vec![b'a'; 2 * BATCH_LEN], b"\nb\n".to_vec()].concat();
        let spans = [At(2 * BATCH_LEN as u64 + 1, 1), At(0, 2 * BATCH_LEN)];
        let records = read_records(&long, &spans, 2, usize::MAX);
        assert_eq!((&*records[0], records[1].len()), (&b"b"[..], 2 * BATCH_LEN));
        let reader = RecordReader {
            source: &Bytes(&long),
            threads: NonZeroUsize::MIN,
            deadline: Some(Instant::now()),
        };
        let late = reader.for_each(&spans, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(late, Err(RecipeError::Time)), "{late:?}");
    }
}
