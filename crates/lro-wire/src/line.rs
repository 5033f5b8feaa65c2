//! Lines: a stream cut at its line breaks, whatever their distance.

use std::io::{self, Read};

/// A line up to this size is given whole; a longer one is read in pieces. What reads a message in
/// one piece takes several times its size for a moment.
pub const LINE_IN_MEMORY: usize = 16 << 20;

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// Memory that one long line took is given back beyond this.
const KEPT: usize = 1 << 20;

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
    /// What was read: first what was given, then what follows it.
    buffer: Vec<u8>,
    /// Where what was given ends.
    given: usize,
    /// How much of the buffer holds something.
    filled: usize,
    in_memory: usize,
    /// A long line was begun and not read to its end.
    unfinished: bool,
}

/// A line, its line break included where it has one.
#[derive(Debug)]
pub enum Line<'a, R> {
    /// All of it.
    Whole(&'a [u8]),
    /// One that is too long to be held: read it with [`LongLine::piece`].
    Long(LongLine<'a, R>),
}

/// A long line, read in pieces. What is not read of it is skipped.
#[derive(Debug)]
pub struct LongLine<'a, R> {
    lines: &'a mut Lines<R>,
}

impl<R: Read> Lines<R> {
    /// Reads the lines of `stream`.
    pub fn new(stream: R) -> Self {
        Self::holding(stream, LINE_IN_MEMORY)
    }

    /// Reads the lines of `stream`, those beyond `in_memory` bytes in pieces.
    pub fn holding(stream: R, in_memory: usize) -> Self {
        let buffer = Vec::new();
        Self { stream, buffer, given: 0, filled: 0, in_memory, unfinished: false }
    }

    /// The next line; `None` at the end of the stream.
    #[expect(clippy::should_implement_trait, reason = "an iterator's items cannot borrow from it")]
    pub fn next(&mut self) -> io::Result<Option<Line<'_, R>>> {
        while self.unfinished {
            LongLine { lines: self }.piece()?;
        }
        let mut searched = 0;
        loop {
            let begin = self.given;
            let unread = &self.buffer[begin + searched..self.filled];
            if let Some(at) = memchr::memchr(b'\n', unread) {
                self.given = begin + searched + at + 1;
                return Ok(Some(Line::Whole(&self.buffer[begin..self.given])));
            }
            searched = self.filled - begin;
            if searched > self.in_memory {
                self.unfinished = true;
                return Ok(Some(Line::Long(LongLine { lines: self })));
            }
            if self.fill()? == 0 {
                self.given = self.filled;
                let line = &self.buffer[..self.given];
                return Ok((!line.is_empty()).then_some(Line::Whole(line)));
            }
        }
    }

    /// Forgets what was given. Before more is read, and not with each line: what follows is moved.
    fn forget(&mut self) {
        if self.given == 0 {
            return;
        }
        self.buffer.copy_within(self.given..self.filled, 0);
        self.filled -= self.given;
        self.given = 0;
        if self.buffer.len() > KEPT && self.filled < CHUNK {
            self.buffer.truncate(CHUNK);
            self.buffer.shrink_to_fit();
        }
    }

    /// Reads on; 0 at the end of the stream.
    fn fill(&mut self) -> io::Result<usize> {
        self.forget();
        if self.buffer.len() < self.filled + CHUNK {
            // Twice as much each time, so that what is moved does not grow with the square.
            let most = self.in_memory.saturating_add(CHUNK);
            let room = (self.filled + CHUNK).max((self.buffer.len() * 2).min(most));
            self.buffer.resize(room, 0);
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
    /// The next piece, the line break in the last one; `None` behind the last.
    pub fn piece(&mut self) -> io::Result<Option<&[u8]>> {
        let lines = &mut *self.lines;
        if !lines.unfinished {
            return Ok(None);
        }
        if lines.given == lines.filled && lines.fill()? == 0 {
            lines.unfinished = false;
            return Ok(None);
        }
        let begin = lines.given;
        lines.given = match memchr::memchr(b'\n', &lines.buffer[begin..lines.filled]) {
            Some(at) => {
                lines.unfinished = false;
                begin + at + 1
            }
            None => lines.filled,
        };
        Ok(Some(&lines.buffer[begin..lines.given]))
    }
}
