//! The client's output, shared by several threads, one message at a time.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use lro::SpillBuffer;
use lro::mcp::LongChanges;
use lro_core::payload::Payload;

/// The stream to the client.
#[derive(Debug)]
pub(crate) struct SharedLineWriter<W>(Mutex<Ending<W>>);

/// A stream, and whether what was written last ended with a line break. A server may die in the
/// middle of a line: what comes behind it must not be taken for the rest.
#[derive(Debug)]
struct Ending<W> {
    stream: W,
    ended: bool,
}

impl<W: Write> Ending<W> {
    /// Ends a line that was left open.
    fn begin(&mut self) -> io::Result<&mut W> {
        if !std::mem::replace(&mut self.ended, true) {
            self.stream.write_all(b"\n")?;
        }
        Ok(&mut self.stream)
    }
}

impl<W: Write> SharedLineWriter<W> {
    pub(crate) fn new(stream: W) -> Self {
        Self(Mutex::new(Ending { stream, ended: true }))
    }

    /// Writes a message as it came, mostly with its line break.
    pub(crate) fn bytes(&self, line: &[u8]) -> io::Result<()> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = out.begin()?;
        stream.write_all(line)?;
        stream.flush()?;
        out.ended = line.ends_with(b"\n");
        Ok(())
    }

    /// Writes a message and its line break, in one piece where it is small.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        let mut line = String::with_capacity(text.len() + 1);
        line.push_str(text);
        line.push('\n');
        self.bytes(line.as_bytes())
    }

    /// Writes a message that was set aside, with its changes.
    pub(crate) fn held(&self, message: &SpillBuffer, changes: &LongChanges) -> io::Result<()> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = out.begin()?;
        let (mut at, mut space) = (0, Vec::new());
        for (range, new) in changes {
            copy(message, at..range.start, &mut space, &mut *stream)?;
            stream.write_all(new.as_bytes())?;
            at = range.end;
        }
        copy(message, at..message.bytes(), &mut space, &mut *stream)?;
        stream.flush()?;
        let last = message.bytes().saturating_sub(1);
        out.ended = message.chunk_at(last, &mut space).is_ok_and(|bytes| bytes == b"\n");
        Ok(())
    }
}

fn copy(
    message: &SpillBuffer,
    range: Range<u64>,
    space: &mut Vec<u8>,
    stream: &mut impl Write,
) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let chunk = message.chunk_at(at, space).map_err(io::Error::other)?;
        let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(chunk.len());
        if wanted == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        stream.write_all(&chunk[..wanted])?;
        at += wanted as u64;
    }
    Ok(())
}
