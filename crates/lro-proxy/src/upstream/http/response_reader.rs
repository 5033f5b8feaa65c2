//! Splits a response into its messages while it arrives.

use std::collections::VecDeque;
use std::time::Duration;

use http::header;
use lro_wire::sse::{SseEvent, SseEvents, SsePart};
use reqwest::Response;
use tokio::time::timeout;

use super::error::UpstreamError;
use super::inbound::{Gathering, InboundMessage};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One message, or several in an array.
    Json,
    /// A message an event.
    Events,
}

impl Form {
    /// The form that an answer says it has.
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

    /// Whether a refusal is JSON: a message, or what says to programs why it was refused.
    pub(crate) fn is_json_refusal(response: &Response) -> bool {
        let problem = |essence: &str| essence.eq_ignore_ascii_case("application/problem+json");
        Self::from_response(response) == Some(Self::Json) || essence(response).is_some_and(problem)
    }
}

/// The media type of an answer, without its parameters.
fn essence(response: &Response) -> Option<&str> {
    let value = response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim())
}

/// What comes out of an answer.
pub(crate) struct Item {
    /// A message; events without one say only where the stream is.
    pub(crate) message: Option<InboundMessage>,
    pub(crate) event: SseEvent,
}

/// An answer that is being read.
pub(crate) struct ResponseReader {
    response: Response,
    form: Form,
    gathering: Gathering,
    events: SseEvents,
    ready: VecDeque<Item>,
    silence: Option<Duration>,
    server: String,
    ended: bool,
}

impl ResponseReader {
    /// Reads `response`, which nothing may come from for `silence` at most.
    pub(crate) fn new(
        response: Response,
        form: Form,
        mut gathering: Gathering,
        silence: Option<Duration>,
        server: String,
    ) -> Self {
        if let (Form::Json, Some(bytes)) = (form, response.content_length()) {
            gathering.expect(bytes);
        }
        Self {
            response,
            form,
            gathering,
            events: SseEvents::default(),
            ready: VecDeque::new(),
            silence,
            server,
            ended: false,
        }
    }

    /// Who says it.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// What comes next; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Item>, UpstreamError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.ended {
                return Ok(None);
            }
            let chunk = self.response.chunk();
            let chunk = match self.silence {
                None => chunk.await,
                Some(silence) => timeout(silence, chunk)
                    .await
                    .map_err(|_| UpstreamError::Silent { server: self.server.clone(), silence })?,
            };
            match chunk {
                Ok(Some(bytes)) => self.take(&bytes)?,
                Ok(None) => {
                    self.ended = true;
                    // An event that was not ended is none; a body ends with the answer.
                    let message = self.gathering.take().filter(|_| self.form == Form::Json);
                    let item = message
                        .map(|message| Item { message: Some(message), event: SseEvent::default() });
                    self.ready.extend(item);
                }
                Err(_) => return Err(UpstreamError::Dropped { server: self.server.clone() }),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), UpstreamError> {
        let too_long = |_| UpstreamError::TooLong { server: self.server.clone() };
        if self.form == Form::Json {
            return self.gathering.append(bytes).map_err(too_long);
        }
        let (gathering, ready) = (&mut self.gathering, &mut self.ready);
        let mut room = Ok(());
        self.events.feed(bytes, |part| match part {
            SsePart::Data(piece) if room.is_ok() => room = gathering.append(piece),
            SsePart::Data(_) => {}
            SsePart::End(event) => {
                let message = gathering.take();
                // Events of other names are no messages.
                let plain = event.name.as_deref().is_none_or(|name| name == "message");
                ready.push_back(Item { message: message.filter(|_| plain), event });
            }
        });
        room.map_err(too_long)
    }
}
