//! Lines: a source cut into chunks of whole lines, worked on by several threads, taken in order.
//!
//! The source is divided into spans of equal length, and a line belongs to the span that its first
//! byte lies in. So every span can be read without knowing any other, and a thread needs no other
//! thread's bytes. Memory is a few spans, except for a line that is longer than one: that is held
//! whole, or, where there is a limit to what is held, only said to be there.

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::sync::mpsc;
use std::thread;

use lro_spool::{PositionedRead, SpoolError};
use memchr::{memchr, memchr_iter, memrchr};

/// What is read at first of a line that goes on behind its span.
const EXTENSION: usize = 64 * 1024;

/// Where the lines are, and in what pieces they are looked at.
#[derive(Clone, Copy)]
pub(crate) struct Spans<'s> {
    source: &'s dyn PositionedRead,
    begin: u64,
    end: u64,
    span: u64,
    /// A longer line is not held.
    longest: usize,
}

/// Some whole lines.
#[derive(Debug, Clone)]
pub(crate) struct Chunk<'b> {
    /// Where its first byte lies in the source.
    pub(crate) at: u64,
    /// The lines with their line breaks; the last line of a source may lack its own.
    pub(crate) bytes: &'b [u8],
    /// Where the line behind them is, its line break left out, if it is too long to be held.
    pub(crate) long: Option<Range<u64>>,
}

impl<'b> Chunk<'b> {
    /// The lines with the places where they begin, line breaks left out.
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
    /// The lines of `source` from the byte `begin` on, which begins a line.
    pub(crate) fn new(source: &'s dyn PositionedRead, begin: u64, span: usize) -> Self {
        Self {
            source,
            begin,
            end: source.len().max(begin),
            span: span.max(1) as u64,
            longest: usize::MAX,
        }
    }

    /// Holds no line that is longer than so many bytes.
    pub(crate) fn holding(mut self, longest: usize) -> Self {
        self.longest = longest;
        self
    }

    fn count(&self) -> u64 {
        (self.end - self.begin).div_ceil(self.span)
    }

    /// Reads the lines that begin in a span; `None` when none does.
    fn read<'b>(&self, number: u64, buf: &'b mut Vec<u8>) -> Result<Option<Chunk<'b>>, SpoolError> {
        let start = self.begin + number * self.span;
        let stop = start.saturating_add(self.span).min(self.end);
        // The byte before tells whether a line begins with the span.
        let from = if number == 0 { start } else { start - 1 };
        let mut filled = self.append(from, distance(from, stop), 0, buf)?;
        let skip = match number {
            0 => 0,
            _ => memchr(b'\n', &buf[..filled]).map_or(filled, |i| i + 1),
        };
        if skip == filled {
            return Ok(None);
        }
        let mut extension = EXTENSION;
        let last = memrchr(b'\n', &buf[skip..filled]).map_or(skip, |i| skip + i + 1);
        while buf[filled - 1] != b'\n' {
            if filled - last > self.longest {
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
            // A line that is this long is likely to be longer still.
            extension = extension.max(filled / 2).min(self.longest.max(EXTENSION));
        }
        Ok(Some(Chunk { at: from + skip as u64, bytes: &buf[skip..filled], long: None }))
    }

    /// Where the line ends that goes on at `at`; what is in `buf` up to `filled` stays.
    fn line_end(&self, mut at: u64, filled: usize, buf: &mut Vec<u8>) -> Result<u64, SpoolError> {
        loop {
            let more = self.append(at, EXTENSION, filled, buf)?;
            if more == 0 {
                return Ok(at);
            }
            if let Some(line_break) = memchr(b'\n', &buf[filled..filled + more]) {
                return Ok(at + line_break as u64);
            }
            at += more as u64;
        }
    }

    /// Reads up to `length` bytes into `buf` behind the `filled` ones, and says how many came.
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

    /// Does `work` on every chunk, on several threads when there is enough to do, and hands the
    /// results to `take` in the order of the lines until it breaks.
    ///
    /// Each thread has a state of its own, made by `state`.
    pub(crate) fn in_order<S, T, E>(
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

/// Reads until `buf` is full or the source ends, and says how much came.
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

/// How many threads a question takes when nobody says.
pub(crate) fn available_threads() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn distance(from: u64, to: u64) -> usize {
    usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX)
}

// --- A parallel map that keeps the order of its input.

/// How many results a thread may be ahead of the one that takes them.
const AHEAD: usize = 2;
/// More threads than this read faster than memory gives.
const MOST_THREADS: usize = 8;

/// Does `work` on the pieces from 0 to `count`, on several threads when there are several pieces,
/// and hands the results to `take` in order until it breaks.
///
/// Each thread has a state of its own, made by `state`.
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
    let threads = threads.get().min(MOST_THREADS).min(usize::try_from(count).unwrap_or(1));
    if threads < 2 {
        let mut state = state();
        for number in 0..count {
            if take(work(&mut state, number)?)?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    // Each thread takes every n-th piece, and is asked for its results in turn: order needs no
    // sorting, and a full channel holds back a thread that is ahead.
    let (state, work) = (&state, &work);
    thread::scope(|scope| {
        let mut receivers = Vec::with_capacity(threads);
        for first in 0..threads {
            let (sender, receiver) = mpsc::sync_channel(AHEAD);
            receivers.push(receiver);
            scope.spawn(move || {
                let mut state = state();
                for number in (first as u64..count).step_by(threads) {
                    // Nobody takes it: the rest is not wanted.
                    if sender.send(work(&mut state, number)).is_err() {
                        return;
                    }
                }
            });
        }
        for number in 0..count {
            let turn = usize::try_from(number % threads as u64).unwrap_or_default();
            // A thread ends early only when it panics, and then the scope panics too.
            let Ok(result) = receivers[turn].recv() else { break };
            if take(result?)?.is_break() {
                break;
            }
        }
        Ok(())
    })
}

// --- Bytes: a source that is already in memory.

/// A slice as a source of byte ranges.
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
        let result: Result<(), SpoolError> = Spans::new(&Bytes(text), begin, span).in_order(
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
        let long = vec![b'x'; 3 * EXTENSION];
        let text = [b"a\n", &long[..], b"\nb"].concat();
        assert_eq!(cut(&text, 0, 1000, 2), naive(&text, 0));
    }

    #[test]
    fn taking_can_stop_at_any_chunk() {
        let text = b"1\n2\n3\n4\n5\n6\n7\n8\n".repeat(10);
        let mut taken = 0;
        let result: Result<(), SpoolError> = Spans::new(&Bytes(&text), 0, 4).in_order(
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
