//! Writes a response body while messages arrive.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{self, Write};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use lro::SpillBuffer;
use lro::mcp::LongChanges;
use lro_wire::sse::SseEvent;
use tokio::sync::mpsc;

use crate::line_writer::SharedLineWriter;

/// How much may wait for a client that reads slowly.
const AHEAD: usize = 16;
/// In which pieces what is long goes out.
const PIECE: usize = 64 << 10;

/// The writing end.
#[derive(Clone)]
pub(super) struct Feed(mpsc::Sender<Bytes>);

/// Nobody reads any more.
#[derive(Debug)]
pub(super) struct Unread;

/// A message for a client.
pub(super) enum Outbound {
    /// All of it.
    Text(Bytes),
    /// One that was set aside, with its changes.
    Long(SpillBuffer, LongChanges),
}

impl Feed {
    /// A feed, and the body it feeds.
    pub(super) fn new() -> (Self, Body) {
        let (sender, receiver) = mpsc::channel::<Bytes>(AHEAD);
        let stream = futures_util::stream::unfold(receiver, async |mut receiver| {
            let bytes = receiver.recv().await?;
            Some((Ok::<_, Infallible>(bytes), receiver))
        });
        (Self(sender), Body::from_stream(stream))
    }

    /// Waits until nobody reads any more.
    pub(super) async fn unread(&self) {
        self.0.closed().await;
    }

    pub(super) async fn bytes(&self, bytes: impl Into<Bytes>) -> Result<(), Unread> {
        self.0.send(bytes.into()).await.map_err(|_| Unread)
    }

    /// An event with a message, or with where the stream is.
    pub(super) async fn event(&self, event: &SseEvent, told: Option<Outbound>) -> Result<(), Unread> {
        let mut head = String::new();
        // Writing into a text does not fail.
        if let Some(name) = &event.name {
            let _ = writeln!(head, "event: {name}");
        }
        if let Some(id) = &event.id {
            let _ = writeln!(head, "id: {id}");
        }
        if let Some(retry) = event.retry {
            let _ = writeln!(head, "retry: {}", retry.as_millis());
        }
        match told {
            Some(Outbound::Text(text)) => {
                let text = text.trim_ascii_end();
                let mut frame = Vec::with_capacity(head.len() + text.len() + 8);
                frame.extend_from_slice(head.as_bytes());
                frame.extend_from_slice(b"data: ");
                frame.extend_from_slice(text);
                frame.extend_from_slice(b"\n\n");
                self.bytes(frame).await
            }
            Some(Outbound::Long(held, changes)) => {
                head.push_str("data: ");
                self.bytes(head).await?;
                self.long(&held, &changes)?;
                self.bytes("\n\n").await
            }
            None if event.has_data => self.bytes(format!("{head}data:\n\n")).await,
            None => self.bytes(format!("{head}\n")).await,
        }
    }

    /// A message as it is.
    pub(super) fn long(&self, held: &SpillBuffer, changes: &LongChanges) -> Result<(), Unread> {
        let pieces = Pieces { feed: self.0.clone(), piece: Vec::new() };
        let outlet = SharedLineWriter::new(pieces);
        tokio::task::block_in_place(|| outlet.held(held, changes)).map_err(|_| Unread)
    }
}

impl Outbound {
    /// As the whole body of an answer.
    pub(super) fn body(self) -> Body {
        match self {
            Self::Text(text) => Body::from(text),
            Self::Long(held, changes) => {
                let (feed, body) = Feed::new();
                tokio::spawn(async move { feed.long(&held, &changes) });
                body
            }
        }
    }
}

/// The head of a stream of events.
pub(super) fn events(body: Body) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (StatusCode::OK, headers, body).into_response()
}

/// Writes into a feed from a thread that may wait. A line break would end an event.
struct Pieces {
    feed: mpsc::Sender<Bytes>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend(bytes.iter().map(|byte| match byte {
            b'\n' | b'\r' => b' ',
            other => *other,
        }));
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.piece);
        self.feed.blocking_send(piece.into()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
