//! Splits a stream into lines of any length.

use std::io::{self, Read};

/// The longest line, in bytes, that is read into memory; a longer one is read in chunks. Parsing a
/// message temporarily takes several times its size.
pub const MAX_IN_MEMORY_LINE_LEN: usize = 16 << 20;

/// How many bytes are read at once.
const CHUNK_LEN: usize = 64 << 10;

/// A buffer that has grown beyond this size is shrunk when it is empty again.
const MAX_IDLE_BUFFER_LEN: usize = 1 << 20;

/// Reads the lines of a stream.
///
/// ```
/// use lro_wire::{Line, Lines};
///
/// let mut lines = Lines::new(&b"{\"id\":1}\n\n{\"id\":2}"[..]);
/// let Some(Line::Whole(first)) = lines.next()? else { panic!() };
/// assert_eq!(first, b"{\"id\":1}\n");
/// let Some(Line::Whole(second)) = lines.next()? else { panic!() };
/// assert_eq!(second, b"\n");
/// let Some(Line::Whole(third)) = lines.next()? else { panic!() };
/// assert_eq!(third, b"{\"id\":2}");
/// assert!(lines.next()?.is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Lines<R> {
    stream: R,
    /// Consumed bytes, then unread bytes, then free space.
    buffer: Vec<u8>,
    /// The end of the consumed bytes.
    consumed: usize,
    /// The end of the unread bytes.
    filled: usize,
    max_in_memory: usize,
    /// A long line was begun and not read to its end.
    unfinished: bool,
}

/// A line, including its line break if it has one.
#[derive(Debug)]
pub enum Line<'a, R> {
    /// The complete line.
    Whole(&'a [u8]),
    /// A line that is too long for memory; read it with [`LongLine::next_chunk`].
    Long(LongLine<'a, R>),
}

/// A long line, read in chunks. [`Lines::next`] skips the part that was not read.
#[derive(Debug)]
pub struct LongLine<'a, R> {
    lines: &'a mut Lines<R>,
}

impl<R: Read> Lines<R> {
    /// Reads the lines of `stream`.
    pub fn new(stream: R) -> Self {
        Self::with_max_in_memory(stream, MAX_IN_MEMORY_LINE_LEN)
    }

    /// Reads the lines of `stream`, and those longer than `max_in_memory` bytes in chunks.
    pub fn with_max_in_memory(stream: R, max_in_memory: usize) -> Self {
        let buffer = Vec::new();
        Self { stream, buffer, consumed: 0, filled: 0, max_in_memory, unfinished: false }
    }

    /// The next line; `None` at the end of the stream.
    #[expect(clippy::should_implement_trait, reason = "an iterator's items cannot borrow from it")]
    pub fn next(&mut self) -> io::Result<Option<Line<'_, R>>> {
        while self.unfinished {
            LongLine { lines: self }.next_chunk()?;
        }
        let mut searched = 0;
        loop {
            let begin = self.consumed;
            let unread = &self.buffer[begin + searched..self.filled];
            if let Some(at) = memchr::memchr(b'\n', unread) {
                self.consumed = begin + searched + at + 1;
                return Ok(Some(Line::Whole(&self.buffer[begin..self.consumed])));
            }
            searched = self.filled - begin;
            if searched > self.max_in_memory {
                self.unfinished = true;
                return Ok(Some(Line::Long(LongLine { lines: self })));
            }
            if self.fill()? == 0 {
                self.consumed = self.filled;
                let line = &self.buffer[..self.consumed];
                return Ok((!line.is_empty()).then_some(Line::Whole(line)));
            }
        }
    }

    /// Drops the consumed bytes. Called before more is read and not for each line, because it moves
    /// the unread bytes.
    fn compact(&mut self) {
        if self.consumed == 0 {
            return;
        }
        self.buffer.copy_within(self.consumed..self.filled, 0);
        self.filled -= self.consumed;
        self.consumed = 0;
        if self.buffer.len() > MAX_IDLE_BUFFER_LEN && self.filled < CHUNK_LEN {
            self.buffer.truncate(CHUNK_LEN);
            self.buffer.shrink_to_fit();
        }
    }

    /// Reads more bytes; returns 0 at the end of the stream.
    fn fill(&mut self) -> io::Result<usize> {
        self.compact();
        if self.buffer.len() < self.filled + CHUNK_LEN {
            // Doubling keeps the total cost of moving bytes linear.
            let max_len = self.max_in_memory.saturating_add(CHUNK_LEN);
            let new_len = (self.filled + CHUNK_LEN).max((self.buffer.len() * 2).min(max_len));
            self.buffer.resize(new_len, 0);
        }
        loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(read) => {
                    self.filled += read;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R: Read> LongLine<'_, R> {
    /// The next chunk; the last one includes the line break. Returns `None` after the last.
    pub fn next_chunk(&mut self) -> io::Result<Option<&[u8]>> {
        let lines = &mut *self.lines;
        if !lines.unfinished {
            return Ok(None);
        }
        if lines.consumed == lines.filled && lines.fill()? == 0 {
            lines.unfinished = false;
            return Ok(None);
        }
        let begin = lines.consumed;
        lines.consumed = match memchr::memchr(b'\n', &lines.buffer[begin..lines.filled]) {
            Some(at) => {
                lines.unfinished = false;
                begin + at + 1
            }
            None => lines.filled,
        };
        Ok(Some(&lines.buffer[begin..lines.consumed]))
    }
}
