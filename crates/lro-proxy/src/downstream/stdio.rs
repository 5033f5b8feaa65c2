//! Writes messages to the stream of a client.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use lro::SpillBuffer;
use lro::mcp::RangeEdits;
use lro_core::payload::Payload;

/// A writer to the client that several threads share, one message at a time.
#[derive(Debug)]
pub(crate) struct SharedLineWriter<W>(Mutex<LineWriter<W>>);

/// A stream, and whether the last write ended with a line break. A server may die within a line, and
/// the next message must not become the rest of it.
#[derive(Debug)]
struct LineWriter<W> {
    stream: W,
    at_line_start: bool,
}

impl<W: Write> LineWriter<W> {
    /// Ends a line that was left open.
    fn begin(&mut self) -> io::Result<&mut W> {
        if !std::mem::replace(&mut self.at_line_start, true) {
            self.stream.write_all(b"\n")?;
        }
        Ok(&mut self.stream)
    }
}

impl<W: Write> SharedLineWriter<W> {
    pub(crate) fn new(stream: W) -> Self {
        Self(Mutex::new(LineWriter { stream, at_line_start: true }))
    }

    /// Writes the original bytes of a message, usually including the line break.
    pub(crate) fn bytes(&self, line: &[u8]) -> io::Result<()> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = writer.begin()?;
        stream.write_all(line)?;
        stream.flush()?;
        writer.at_line_start = line.ends_with(b"\n");
        Ok(())
    }

    /// Writes a message and a line break with a single write.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        let mut line = String::with_capacity(text.len() + 1);
        line.push_str(text);
        line.push('\n');
        self.bytes(line.as_bytes())
    }

    /// Writes an oversize message with its changes.
    pub(crate) fn oversize(&self, message: &SpillBuffer, changes: &RangeEdits) -> io::Result<()> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = writer.begin()?;
        let (mut at, mut space) = (0, Vec::new());
        for (range, new) in changes {
            copy(message, at..range.start, &mut space, &mut *stream)?;
            stream.write_all(new.as_bytes())?;
            at = range.end;
        }
        copy(message, at..message.bytes(), &mut space, &mut *stream)?;
        stream.flush()?;
        let last = message.bytes().saturating_sub(1);
        writer.at_line_start = message.chunk_at(last, &mut space).is_ok_and(|bytes| bytes == b"\n");
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
