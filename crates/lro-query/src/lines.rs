//! Parallel, ordered processing of a byte source in chunks of whole lines.
//!
//! A source is divided into spans of equal length. A line belongs to the span that holds its first
//! byte, so each span can be read independently of all others. Memory use is a few spans, except for
//! a line that is longer than a span: it is buffered whole or, above a configurable length, only
//! reported with its range.
//!
//! [`map_ordered`] is the parallel map below it. The worker process has a second one,
//! `ThreadPool::map_chunks`, that cannot share this code: its threads must exist before the sandbox
//! forbids `clone`, so its jobs are `'static` and boxed. This one borrows its source and keeps a
//! state per thread (regex caches and buffers of megabytes), which needs scoped threads.

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::sync::mpsc;
use std::thread;

use lro_spool::{PositionedRead, SpoolError};
use memchr::{memchr, memchr_iter, memrchr};

/// The length of the first read beyond a span, for a line that crosses its end.
const EXTENSION_LEN: usize = 64 * 1024;

/// A byte source divided into spans.
#[derive(Clone, Copy)]
pub(crate) struct Spans<'s> {
    source: &'s dyn PositionedRead,
    begin: u64,
    end: u64,
    span: u64,
    /// Longer lines are not buffered.
    max_line_len: usize,
}

/// A run of whole lines.
#[derive(Debug, Clone)]
pub(crate) struct Chunk<'b> {
    /// The offset of the first byte in the source.
    pub(crate) at: u64,
    /// The lines with their line breaks; the last line of a source may lack one.
    pub(crate) bytes: &'b [u8],
    /// The range of the line after them, without its line break, if it is too long to be buffered.
    pub(crate) long: Option<Range<u64>>,
}

impl<'b> Chunk<'b> {
    /// The lines without line breaks, each with its offset in the source.
    pub(crate) fn lines(self) -> impl Iterator<Item = (u64, &'b [u8])> {
        let mut from = 0;
        let end = self.bytes.len();
        let unfinished = (!self.bytes.ends_with(b"\n") && end > 0).then_some(end);
        memchr_iter(b'\n', self.bytes).chain(unfinished).map(move |to| {
            let start = std::mem::replace(&mut from, to + 1);
            (self.at + start as u64, &self.bytes[start..to])
        })
    }
}

impl<'s> Spans<'s> {
    /// Divides `source` from offset `begin`, which must be the start of a line.
    pub(crate) fn new(source: &'s dyn PositionedRead, begin: u64, span: usize) -> Self {
        Self {
            source,
            begin,
            end: source.len().max(begin),
            span: span.max(1) as u64,
            max_line_len: usize::MAX,
        }
    }

    /// Sets the maximum length of a buffered line in bytes.
    pub(crate) fn with_max_line_len(mut self, max_line_len: usize) -> Self {
        self.max_line_len = max_line_len;
        self
    }

    fn count(&self) -> u64 {
        (self.end - self.begin).div_ceil(self.span)
    }

    /// Reads the lines that begin in a span; `None` if there are none.
    fn read<'b>(&self, number: u64, buf: &'b mut Vec<u8>) -> Result<Option<Chunk<'b>>, SpoolError> {
        let start = self.begin + number * self.span;
        let stop = start.saturating_add(self.span).min(self.end);
        // The byte before the span shows whether the span begins with a new line.
        let from = if number == 0 { start } else { start - 1 };
        let mut filled = self.append(from, distance(from, stop), 0, buf)?;
        let skip = match number {
            0 => 0,
            _ => memchr(b'\n', &buf[..filled]).map_or(filled, |i| i + 1),
        };
        if skip == filled {
            return Ok(None);
        }
        let mut extension = EXTENSION_LEN;
        let last = memrchr(b'\n', &buf[skip..filled]).map_or(skip, |i| skip + i + 1);
        while buf[filled - 1] != b'\n' {
            if filled - last > self.max_line_len {
                let end = self.line_end(from + filled as u64, filled, buf)?;
                let long = Some(from + last as u64..end);
                return Ok(Some(Chunk { at: from + skip as u64, bytes: &buf[skip..last], long }));
            }
            let more = self.append(from + filled as u64, extension, filled, buf)?;
            if more == 0 {
                break;
            }
            let line_break = memchr(b'\n', &buf[filled..filled + more]);
            filled += line_break.map_or(more, |i| i + 1);
            // A line this long is likely to be even longer.
            extension = extension.max(filled / 2).min(self.max_line_len.max(EXTENSION_LEN));
        }
        Ok(Some(Chunk { at: from + skip as u64, bytes: &buf[skip..filled], long: None }))
    }

    /// The end of the line that continues at `at`. Preserves the first `filled` bytes of `buf`.
    fn line_end(&self, mut at: u64, filled: usize, buf: &mut Vec<u8>) -> Result<u64, SpoolError> {
        loop {
            let more = self.append(at, EXTENSION_LEN, filled, buf)?;
            if more == 0 {
                return Ok(at);
            }
            if let Some(line_break) = memchr(b'\n', &buf[filled..filled + more]) {
                return Ok(at + line_break as u64);
            }
            at += more as u64;
        }
    }

    /// Reads up to `length` bytes into `buf` after the first `filled` ones and returns their number.
    fn append(
        &self,
        at: u64,
        length: usize,
        filled: usize,
        buf: &mut Vec<u8>,
    ) -> Result<usize, SpoolError> {
        let length = length.min(distance(at, self.end));
        if buf.len() < filled + length {
            buf.resize(filled + length, 0);
        }
        fill(self.source, at, &mut buf[filled..filled + length])
    }

    /// Maps every chunk with `work`, on several threads if there are several spans, and passes the
    /// results to `take` in the order of the lines until it breaks.
    ///
    /// Each thread has its own state, created by `state`.
    pub(crate) fn map_chunks<S, T, E>(
        self,
        threads: NonZeroUsize,
        state: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, Chunk<'_>) -> Result<T, E> + Sync,
        mut take: impl FnMut(T) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E>
    where
        T: Send,
        E: From<SpoolError> + Send,
    {
        map_ordered(
            self.count(),
            threads,
            || (state(), Vec::new()),
            |(state, buf), number| match self.read(number, buf)? {
                Some(chunk) => work(state, chunk).map(Some),
                None => Ok(None),
            },
            |result| result.map_or(Ok(ControlFlow::Continue(())), &mut take),
        )
    }
}

/// Reads until `buf` is full or the source ends, and returns the number of bytes read.
pub(crate) fn fill(
    source: &dyn PositionedRead,
    at: u64,
    buf: &mut [u8],
) -> Result<usize, SpoolError> {
    let mut filled = 0;
    while filled < buf.len() {
        match source.read_at(at + filled as u64, &mut buf[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// The default number of threads of a query.
pub(crate) fn available_threads() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn distance(from: u64, to: u64) -> usize {
    usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX)
}

/// The number of results a thread may be ahead of the consumer.
const MAX_READ_AHEAD: usize = 2;
/// More threads than this exceed the memory bandwidth.
const MAX_THREADS: usize = 8;

/// Maps the numbers from 0 to `count` with `work`, on several threads if `count` is above 1, and
/// passes the results to `take` in order until it breaks.
///
/// Each thread has its own state, created by `state`.
pub(crate) fn map_ordered<S, T, E>(
    count: u64,
    threads: NonZeroUsize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, u64) -> Result<T, E> + Sync,
    mut take: impl FnMut(T) -> Result<ControlFlow<()>, E>,
) -> Result<(), E>
where
    T: Send,
    E: Send,
{
    let threads = threads.get().min(MAX_THREADS).min(usize::try_from(count).unwrap_or(1));
    if threads < 2 {
        let mut state = state();
        for number in 0..count {
            if take(work(&mut state, number)?)?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    // Each thread maps every n-th number and has its own channel. Receiving from the channels in
    // turn restores the order, and a full channel blocks a thread that is ahead.
    let (state, work) = (&state, &work);
    thread::scope(|scope| {
        let mut receivers = Vec::with_capacity(threads);
        for first in 0..threads {
            let (sender, receiver) = mpsc::sync_channel(MAX_READ_AHEAD);
            receivers.push(receiver);
            scope.spawn(move || {
                let mut state = state();
                for number in (first as u64..count).step_by(threads) {
                    // The consumer stopped.
                    if sender.send(work(&mut state, number)).is_err() {
                        return;
                    }
                }
            });
        }
        for number in 0..count {
            let turn = usize::try_from(number % threads as u64).unwrap_or_default();
            // A thread ends early only if it panics; then the scope panics, too.
            let Ok(result) = receivers[turn].recv() else { break };
            if take(result?)?.is_break() {
                break;
            }
        }
        Ok(())
    })
}

/// A byte slice as a byte source.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl PositionedRead for Bytes<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let length = buf.len().min(self.0.len() - from);
        buf[..length].copy_from_slice(&self.0[from..from + length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Bytes, *};

    fn cut(text: &[u8], begin: u64, span: usize, threads: usize) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        let result: Result<(), SpoolError> = Spans::new(&Bytes(text), begin, span).map_chunks(
            NonZeroUsize::new(threads).unwrap(),
            || (),
            |(), chunk| Ok(chunk.lines().map(|(at, line)| (at, line.to_vec())).collect::<Vec<_>>()),
            |lines| {
                all.extend(lines);
                Ok(ControlFlow::Continue(()))
            },
        );
        result.unwrap();
        all
    }

    fn naive(text: &[u8], begin: usize) -> Vec<(u64, Vec<u8>)> {
        let mut at = begin as u64;
        text[begin..]
            .split_inclusive(|b| *b == b'\n')
            .map(|line| {
                let start = at;
                at += line.len() as u64;
                (start, line.strip_suffix(b"\n").unwrap_or(line).to_vec())
            })
            .collect()
    }

    proptest! {
        #[test]
        fn every_line_comes_once_in_order_wherever_the_spans_are_cut(
            text in "[ab\n]{0,60}",
            span in 1_usize..12,
            threads in 1_usize..4,
            begin in 0_usize..4,
        ) {
            let head = text.split_inclusive('\n').take(begin).map(str::len).sum::<usize>();
            let expected = naive(text.as_bytes(), head);
            prop_assert_eq!(cut(text.as_bytes(), head as u64, span, threads), expected);
        }
    }

    #[test]
    fn a_line_longer_than_many_spans_comes_whole() {
        let long = vec![b'x'; 3 * EXTENSION_LEN];
        let text = [b"a\n", &long[..], b"\nb"].concat();
        assert_eq!(cut(&text, 0, 1000, 2), naive(&text, 0));
    }

    #[test]
    fn taking_can_stop_at_any_chunk() {
        let text = b"1\n2\n3\n4\n5\n6\n7\n8\n".repeat(10);
        let mut taken = 0;
        let result: Result<(), SpoolError> = Spans::new(&Bytes(&text), 0, 4).map_chunks(
            NonZeroUsize::new(2).unwrap(),
            || (),
            |(), _| Ok(()),
            |()| {
                taken += 1;
                Ok(if taken == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        );
        result.unwrap();
        assert_eq!(taken, 3);
    }
}
