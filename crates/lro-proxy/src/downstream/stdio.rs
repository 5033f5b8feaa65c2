//! A client on two streams: the writer of its input, and the loop that reads its output.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use lro::SpillBuffer;
use lro::mcp::RangeEdits;
use lro_core::payload::Payload;
use lro_wire::{Line, Lines};

use crate::relay::local_tools::LocalCallPool;
use crate::relay::oversize::spill_line;
use crate::relay::{Forward, Relay};
use crate::session::{DRAIN_TIMEOUT, EndReason, spawn};

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

/// A message on its way to the server.
pub(crate) enum ToServer<'a> {
    /// The original line with its line break.
    Line(&'a [u8]),
    /// A changed message without a line break.
    Text(String),
    /// An oversize message, unchanged.
    Oversize(&'a SpillBuffer),
}

impl ToServer<'_> {
    pub(crate) fn write_to(self, server: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Line(line) => server.write_all(line),
            Self::Text(mut text) => {
                text.push('\n');
                server.write_all(text.as_bytes())
            }
            Self::Oversize(message) => message.write_to(server),
        }
    }
}

/// Reads lines from the client and relays them until its stream ends or `send` fails.
pub(crate) fn relay_client_lines<W: Write + Send + 'static>(
    relay: &Relay,
    stream: impl Read,
    client: &SharedLineWriter<W>,
    pool: &LocalCallPool<W>,
    send: impl Fn(ToServer<'_>) -> Result<(), EndReason>,
) -> EndReason {
    let mut lines = Lines::new(stream);
    loop {
        let sent = match lines.next() {
            Ok(Some(Line::Whole(line))) => {
                let outcome = relay.from_client(line);
                for reply in &outcome.replies {
                    if client.line(reply).is_err() {
                        return EndReason::ClientClosed;
                    }
                }
                for call in outcome.calls {
                    pool.answer(call);
                }
                match outcome.forward {
                    Forward::Unchanged => send(ToServer::Line(line)),
                    Forward::Changed(text) => send(ToServer::Text(text)),
                    Forward::Dropped => Ok(()),
                }
            }
            Ok(Some(Line::Long(line))) => {
                let Some(message) = spill_line(line, relay) else { return EndReason::ClientClosed };
                relay.oversize_from_client(&message);
                send(ToServer::Oversize(&message))
            }
            Ok(None) | Err(_) => return EndReason::ClientClosed,
        };
        if let Err(end) = sent {
            return end;
        }
    }
}

/// Writes the last replies to the client. Stops waiting after a timeout, because a client that does not
/// read must not delay the shutdown.
pub(crate) fn write_final_replies<W: Write + Send + 'static>(
    replies: Vec<String>,
    client: &Arc<SharedLineWriter<W>>,
) {
    if replies.is_empty() {
        return;
    }
    let (written, done) = std::sync::mpsc::channel();
    let client = Arc::clone(client);
    spawn("last", move || {
        let _ = replies.iter().try_for_each(|reply| client.line(reply));
        let _ = written.send(());
    });
    let _ = done.recv_timeout(DRAIN_TIMEOUT);
}
