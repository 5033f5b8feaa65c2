//! Response streams: writing messages to a response body, and routing messages of a server process to
//! the stream that they belong to.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{self, Write};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use lro::SpillBuffer;
use lro::mcp::RangeEdits;
use lro_wire::IdKey;
use lro_wire::sse::SseEvent;
use tokio::sync::mpsc::{self, Sender};

use crate::downstream::http::request_id::{ClientRequestId, MessageTarget};
use crate::downstream::stdio::SharedLineWriter;

/// The number of chunks that may be queued for a slow client.
const MAX_QUEUED_CHUNKS: usize = 16;
/// The size of the chunks of an oversize message, in bytes.
const CHUNK_LEN: usize = 64 << 10;
/// The number of unsolicited messages that are kept until a client listens.
const MAX_BACKLOG: usize = 256;
/// The number of messages that may be queued for a client that does not read.
pub(super) const MAX_QUEUED_MESSAGES: usize = 1024;

/// The sender of a response body.
#[derive(Clone)]
pub(super) struct BodyWriter(Sender<Bytes>);

/// The client has closed the connection.
#[derive(Debug)]
pub(super) struct BodyClosed;

/// A message for a client.
pub(super) enum Outbound {
    /// The complete message.
    Text(Bytes),
    /// An oversize message with its changes.
    Oversize(SpillBuffer, RangeEdits),
}

impl BodyWriter {
    /// Creates a writer and the body that it writes to.
    pub(super) fn new() -> (Self, Body) {
        let (sender, receiver) = mpsc::channel::<Bytes>(MAX_QUEUED_CHUNKS);
        let stream = futures_util::stream::unfold(receiver, async |mut receiver| {
            let bytes = receiver.recv().await?;
            Some((Ok::<_, Infallible>(bytes), receiver))
        });
        (Self(sender), Body::from_stream(stream))
    }

    /// Waits until the client closes the connection.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }

    pub(super) async fn bytes(&self, bytes: impl Into<Bytes>) -> Result<(), BodyClosed> {
        self.0.send(bytes.into()).await.map_err(|_| BodyClosed)
    }

    /// Writes an event, with a message if it has one.
    pub(super) async fn event(
        &self,
        event: &SseEvent,
        message: Option<Outbound>,
    ) -> Result<(), BodyClosed> {
        let mut head = String::new();
        // Writing to a string cannot fail.
        if let Some(name) = &event.name {
            let _ = writeln!(head, "event: {name}");
        }
        if let Some(id) = &event.id {
            let _ = writeln!(head, "id: {id}");
        }
        if let Some(retry) = event.retry {
            let _ = writeln!(head, "retry: {}", retry.as_millis());
        }
        match message {
            Some(Outbound::Text(text)) => {
                let text = text.trim_ascii_end();
                let mut frame = Vec::with_capacity(head.len() + text.len() + 8);
                frame.extend_from_slice(head.as_bytes());
                frame.extend_from_slice(b"data: ");
                frame.extend_from_slice(text);
                frame.extend_from_slice(b"\n\n");
                self.bytes(frame).await
            }
            Some(Outbound::Oversize(message, changes)) => {
                head.push_str("data: ");
                self.bytes(head).await?;
                self.oversize(&message, &changes)?;
                self.bytes("\n\n").await
            }
            None if event.has_data => self.bytes(format!("{head}data:\n\n")).await,
            None => self.bytes(format!("{head}\n")).await,
        }
    }

    /// Writes an oversize message.
    fn oversize(&self, message: &SpillBuffer, changes: &RangeEdits) -> Result<(), BodyClosed> {
        let chunks = ChunkWriter { sender: self.0.clone(), chunk: Vec::new() };
        let writer = SharedLineWriter::new(chunks);
        tokio::task::block_in_place(|| writer.oversize(message, changes)).map_err(|_| BodyClosed)
    }
}

impl Outbound {
    /// The message as a whole response body.
    pub(super) fn body(self) -> Body {
        match self {
            Self::Text(text) => Body::from(text),
            Self::Oversize(message, changes) => {
                let (body_writer, body) = BodyWriter::new();
                tokio::spawn(async move { body_writer.oversize(&message, &changes) });
                body
            }
        }
    }
}

/// A response with an event stream.
pub(super) fn event_stream(body: Body) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (StatusCode::OK, headers, body).into_response()
}

/// Writes to a body from a thread that may block. Replaces line breaks, which would end an event.
struct ChunkWriter {
    sender: Sender<Bytes>,
    chunk: Vec<u8>,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend(bytes.iter().map(|byte| match byte {
            b'\n' | b'\r' => b' ',
            other => *other,
        }));
        if self.chunk.len() >= CHUNK_LEN {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        self.sender.blocking_send(chunk.into()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// A message for a stream, and whether it is the last one.
pub(super) struct StreamMessage {
    pub(super) message: Outbound,
    pub(super) last: bool,
}

/// The stream of a pending request.
pub(super) struct OpenStream {
    pub(super) to: Sender<StreamMessage>,
    pub(super) request_id: ClientRequestId,
    /// Streams are numbered in the order in which they were opened.
    order: u64,
}

impl OpenStream {
    /// Sends a message. A client that does not read loses notifications, but never the response.
    pub(super) fn send(&self, message: Outbound, last: bool) {
        if last || self.to.capacity() > MAX_QUEUED_MESSAGES / 2 {
            let _ = self.to.try_send(StreamMessage { message, last });
        }
    }
}

/// The open streams of one process.
#[derive(Default)]
pub(super) struct Routes {
    open: HashMap<IdKey, OpenStream>,
    /// Progress tokens and the requests that they belong to.
    tokens: HashMap<IdKey, IdKey>,
    /// The stream for unsolicited messages.
    listener: Option<Sender<StreamMessage>>,
    /// Unsolicited messages until a client listens.
    backlog: VecDeque<Outbound>,
    opened: u64,
}

impl Routes {
    /// Opens a stream for the request with this `id` and progress `token` on the server's side.
    pub(super) fn open(
        &mut self,
        id: IdKey,
        token: Option<IdKey>,
        request_id: ClientRequestId,
        to: Sender<StreamMessage>,
    ) {
        self.opened += 1;
        if let Some(token) = token {
            self.tokens.insert(token, id.clone());
        }
        self.open.insert(id, OpenStream { to, request_id, order: self.opened });
    }

    /// Opens the stream for unsolicited messages and sends it the backlog.
    pub(super) fn listen(&mut self, to: Sender<StreamMessage>) {
        for message in self.backlog.drain(..) {
            let _ = to.try_send(StreamMessage { message, last: false });
        }
        self.listener = Some(to);
    }

    pub(super) fn is_open(&self, id: &IdKey) -> bool {
        self.open.contains_key(id)
    }

    /// Closes and returns the stream of a request.
    pub(super) fn close(&mut self, id: &IdKey) -> Option<OpenStream> {
        self.tokens.retain(|_, request| request != id);
        self.open.remove(id)
    }

    /// Finds the stream of the request that a message belongs to.
    pub(super) fn find(&self, target: &MessageTarget) -> Option<(IdKey, &OpenStream)> {
        let id = match target {
            MessageTarget::Request(id) => id,
            MessageTarget::Progress(token) => self.tokens.get(token)?,
        };
        self.open.get(id).map(|open| (id.clone(), open))
    }

    /// Sends a message that belongs to no request: to the only open stream, since servers send requests to
    /// the client there; otherwise to the listener, to the oldest open stream, or to the backlog.
    pub(super) fn send_unsolicited(&mut self, message: Outbound) {
        self.listener = self.listener.take().filter(|to| !to.is_closed());
        let first = self.open.values().min_by_key(|open| open.order);
        let listener = match (&self.listener, first) {
            (_, Some(only)) if self.open.len() == 1 => return only.send(message, false),
            (Some(listener), _) => listener,
            (None, Some(first)) => return first.send(message, false),
            (None, None) => {
                if self.backlog.len() == MAX_BACKLOG {
                    self.backlog.pop_front();
                }
                self.backlog.push_back(message);
                return;
            }
        };
        // A client that does not read loses unsolicited messages.
        let _ = listener.try_send(StreamMessage { message, last: false });
    }

    /// Whether there is neither a pending request nor a listener.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.listener.as_ref().is_none_or(Sender::is_closed)
    }
}
