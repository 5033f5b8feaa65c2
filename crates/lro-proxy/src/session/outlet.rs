//! Outlet: the client's end, written to by several threads, a message at a time.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use lro::Held;
use lro_core::payload::Payload;
use lro_mcp::LongChanges;

/// The stream to the client.
#[derive(Debug)]
pub(super) struct Outlet<W>(Mutex<W>);

impl<W: Write> Outlet<W> {
    pub(super) fn new(stream: W) -> Self {
        Self(Mutex::new(stream))
    }

    /// Writes a message that has its line break.
    pub(super) fn bytes(&self, line: &[u8]) -> io::Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(line)?;
        stream.flush()
    }

    /// Writes a message and its line break, in one piece where it is small.
    pub(super) fn line(&self, text: &str) -> io::Result<()> {
        let mut line = String::with_capacity(text.len() + 1);
        line.push_str(text);
        line.push('\n');
        self.bytes(line.as_bytes())
    }

    /// Writes a message that was set aside, with its changes.
    pub(super) fn held(&self, message: &Held, changes: &LongChanges) -> io::Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut at, mut space) = (0, Vec::new());
        for (range, new) in changes {
            copy(message, at..range.start, &mut space, &mut *stream)?;
            stream.write_all(new.as_bytes())?;
            at = range.end;
        }
        copy(message, at..message.bytes(), &mut space, &mut *stream)?;
        stream.flush()
    }
}

fn copy(
    message: &Held,
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
