//! Responses: splitting them into messages of any size while they arrive.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use http::header;
use lro::SpillBuffer;
use lro_spool::Spool;
use lro_wire::MAX_IN_MEMORY_LINE_LEN;
use lro_wire::sse::{SseEvent, SseEvents, SsePart};
use reqwest::Response;
use tokio::time::timeout;

use crate::relay::oversize::{LineSpill, LineTooLong};
use crate::upstream::http::client::UpstreamError;

/// Messages up to this size, in bytes, are usually not stored.
const MAX_SMALL_LEN: usize = 8 << 10;

/// The format of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    /// One message or a batch.
    Json,
    /// An event stream with one message per event.
    Events,
}

impl BodyFormat {
    /// The format by the media type of a response.
    pub(crate) fn from_response(response: &Response) -> Option<Self> {
        let essence = essence(response)?;
        if essence.eq_ignore_ascii_case("application/json") {
            Some(Self::Json)
        } else if essence.eq_ignore_ascii_case("text/event-stream") {
            Some(Self::Events)
        } else {
            None
        }
    }

    /// Whether an error response is JSON: a message or a problem.
    pub(crate) fn is_json_error(response: &Response) -> bool {
        let is_problem = |essence: &str| essence.eq_ignore_ascii_case("application/problem+json");
        Self::from_response(response) == Some(Self::Json)
            || essence(response).is_some_and(is_problem)
    }
}

/// The media type of a response, without its parameters.
fn essence(response: &Response) -> Option<&str> {
    let value = response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim())
}

/// A part of a response.
pub(crate) struct ResponseItem {
    /// The message; an event without one only carries its id or retry time.
    pub(crate) message: Option<InboundMessage>,
    pub(crate) event: SseEvent,
}

/// Reads the messages of a response.
pub(crate) struct ResponseReader {
    response: Response,
    format: BodyFormat,
    buffer: MessageBuffer,
    events: SseEvents,
    ready: VecDeque<ResponseItem>,
    idle_timeout: Option<Duration>,
    server: String,
    ended: bool,
}

impl ResponseReader {
    /// Reads `response`; fails if nothing arrives for `idle_timeout`.
    pub(crate) fn new(
        response: Response,
        format: BodyFormat,
        mut buffer: MessageBuffer,
        idle_timeout: Option<Duration>,
        server: String,
    ) -> Self {
        if let (BodyFormat::Json, Some(bytes)) = (format, response.content_length()) {
            buffer.reserve(bytes);
        }
        Self {
            response,
            format,
            buffer,
            events: SseEvents::default(),
            ready: VecDeque::new(),
            idle_timeout,
            server,
            ended: false,
        }
    }

    /// The server's name.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The next part; `None` at the end of the response.
    pub(crate) async fn next(&mut self) -> Result<Option<ResponseItem>, UpstreamError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.ended {
                return Ok(None);
            }
            let chunk = self.response.chunk();
            let chunk = match self.idle_timeout {
                None => chunk.await,
                Some(idle) => timeout(idle, chunk).await.map_err(|_| UpstreamError::TimedOut {
                    server: self.server.clone(),
                    timeout: idle,
                })?,
            };
            match chunk {
                Ok(Some(bytes)) => self.parse(&bytes)?,
                Ok(None) => {
                    self.ended = true;
                    // An incomplete event is discarded; a JSON body ends with the response.
                    let message = self.buffer.take().filter(|_| self.format == BodyFormat::Json);
                    let item = message.map(|message| ResponseItem {
                        message: Some(message),
                        event: SseEvent::default(),
                    });
                    self.ready.extend(item);
                }
                Err(_) => return Err(UpstreamError::Interrupted { server: self.server.clone() }),
            }
        }
    }

    fn parse(&mut self, bytes: &[u8]) -> Result<(), UpstreamError> {
        let too_long = |_| UpstreamError::TooLong { server: self.server.clone() };
        if self.format == BodyFormat::Json {
            return self.buffer.append(bytes).map_err(too_long);
        }
        let (buffer, ready) = (&mut self.buffer, &mut self.ready);
        let mut appended = Ok(());
        self.events.feed(bytes, |part| match part {
            SsePart::Data(piece) if appended.is_ok() => appended = buffer.append(piece),
            SsePart::Data(_) => {}
            SsePart::End(event) => {
                let message = buffer.take();
                // Only events of the default type contain messages.
                let plain = event.name.as_deref().is_none_or(|name| name == "message");
                ready.push_back(ResponseItem { message: message.filter(|_| plain), event });
            }
        });
        appended.map_err(too_long)
    }
}

/// An inbound message of any size: a line with its line break.
pub(crate) enum InboundMessage {
    /// The complete message.
    Whole(Vec<u8>),
    /// A message too large for memory.
    Oversize(SpillBuffer),
}

impl InboundMessage {
    /// Whether the message is handled without blocking. A large one may be stored on disk.
    pub(crate) fn is_small(&self) -> bool {
        matches!(self, Self::Whole(line) if line.len() <= MAX_SMALL_LEN)
    }
}

/// Collects the chunks of a message; spills a large one.
pub(crate) struct MessageBuffer {
    whole: Vec<u8>,
    spill: Option<LineSpill>,
    spool: Arc<dyn Spool>,
}

impl MessageBuffer {
    pub(crate) fn new(spool: Arc<dyn Spool>) -> Self {
        Self { whole: Vec::new(), spill: None, spool }
    }

    /// Reserves memory for a message of this announced length.
    pub(crate) fn reserve(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // One byte more for the line break.
        self.whole.reserve_exact(bytes.min(MAX_IN_MEMORY_LINE_LEN) + 1);
    }

    /// Appends the next chunk. Replaces line breaks, which are white space in JSON, because a message is a
    /// line.
    pub(crate) fn append(&mut self, chunk: &[u8]) -> Result<(), LineTooLong> {
        let from = self.whole.len();
        self.whole.extend_from_slice(chunk);
        if memchr::memchr2(b'\n', b'\r', chunk).is_some() {
            for byte in &mut self.whole[from..] {
                if matches!(byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
        }
        if self.spill.is_none() && self.whole.len() <= MAX_IN_MEMORY_LINE_LEN {
            return Ok(());
        }
        let spill = self.spill.get_or_insert_with(|| LineSpill::new(Arc::clone(&self.spool)));
        let appended = spill.append(&self.whole);
        self.whole.clear();
        appended
    }

    /// Takes the message; `None` if it is only white space.
    pub(crate) fn take(&mut self) -> Option<InboundMessage> {
        let mut whole = std::mem::take(&mut self.whole);
        match self.spill.take() {
            Some(mut spill) => {
                // The line break may exceed the limit by one byte.
                let _ = spill.append(b"\n");
                Some(InboundMessage::Oversize(spill.into_buffer()))
            }
            None if whole.trim_ascii().is_empty() => None,
            None => {
                whole.push(b'\n');
                Some(InboundMessage::Whole(whole))
            }
        }
    }
}
