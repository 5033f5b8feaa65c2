//! One client's session with a server over HTTP.
//!
//! Every request is an exchange of its own and gets exactly one answer: the server's, or why there is
//! none. What the server says unasked comes on a stream beside them.

mod learning;
mod renewal;
mod stream;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use lro_http::header::SESSION;
use lro_wire::protocol::ProtocolGeneration;
use lro_wire::{HEADER_MISMATCH, Id, IdKey, Message, Object};
use reqwest::Response;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::backoff::Backoff;
use super::client::{Ask, Remote};
use super::error::UpstreamError;
use super::inbound::{Gathering, InboundMessage};
use super::request::OutboundRequest;
use super::response_reader::{Form, ResponseReader};
use super::session_state::NegotiatedSession;
use crate::pending::Serial;
use crate::relay::Relay;

/// How long the client's next message may wait for one that it may rely on.
const ORDER: Duration = Duration::from_secs(5);
/// How many messages may wait for that.
const QUEUE: usize = 1024;
/// How long a stream may go on behind the answer.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// An answer that is an error and says that it is longer is not read.
const REFUSAL_CAP: usize = 64 << 10;
/// What says that the client is ready; behind it the server may speak unasked.
const INITIALIZED: &str = "notifications/initialized";

/// A conversation.
pub(crate) struct HttpSession {
    remote: Remote,
    relay: Arc<Relay>,
    hear: Box<dyn Fn(InboundMessage) + Send + Sync>,
    runtime: Handle,
    greeted: NegotiatedSession,
    /// Exchanges under way.
    open: Mutex<HashMap<IdKey, Open>>,
    queue: mpsc::Sender<OutboundRequest>,
}

/// An exchange, from the moment the client said its request.
struct Open {
    serial: Serial,
    era: ProtocolGeneration,
    /// What ends it; nothing before it has begun, nor where others ride along.
    exchange: Option<AbortHandle>,
}

impl HttpSession {
    /// A conversation with `remote`; `hear` takes what it says, through the relay or not.
    pub(crate) fn new(
        remote: Remote,
        relay: Arc<Relay>,
        runtime: &Handle,
        hear: impl Fn(InboundMessage) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (queue, mut queued) = mpsc::channel(QUEUE);
        let link = Arc::new(Self {
            remote,
            relay,
            hear: Box::new(hear),
            runtime: runtime.clone(),
            greeted: NegotiatedSession::default(),
            open: Mutex::default(),
            queue,
        });
        let carrier = Arc::clone(&link);
        runtime.spawn(async move {
            while let Some(outgoing) = queued.recv().await {
                carrier.begin(outgoing).await;
            }
        });
        link
    }

    /// Sends what the client says, in its order. Not to be called by a thread of the runtime.
    pub(crate) fn send(&self, body: Vec<u8>) {
        let outgoing = OutboundRequest::new(body, &self.relay);
        if let Some(id) = &outgoing.cancelled
            && let Some(open) = self.open().remove(&id.key())
        {
            if let Some(exchange) = open.exchange {
                exchange.abort();
            }
            // From 2026-07-28 on the end of the exchange says it.
            if open.era == ProtocolGeneration::Stateless {
                return;
            }
        }
        {
            let mut open = self.open();
            for (id, serial) in &outgoing.requests {
                let waits = Open { serial: *serial, era: outgoing.era, exchange: None };
                open.insert(id.key(), waits);
            }
        }
        // Where nobody takes it any more, everything has ended.
        let _ = self.queue.blocking_send(outgoing);
    }

    /// Waits until every request is answered, or until then.
    pub(crate) fn finish(&self, until: Instant) {
        while !self.open().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the conversation, and tells the server where it keeps anything for it.
    pub(crate) fn end(&self, most: Duration) {
        for (_, open) in self.open().drain() {
            if let Some(exchange) = open.exchange {
                exchange.abort();
            }
        }
        let agreed = self.greeted.end();
        if agreed.has_session() {
            let ask = bare(Method::DELETE, agreed.headers());
            let _ = self.runtime.block_on(async { timeout(most, self.remote.ask(&ask)).await });
        }
    }

    /// Begins an exchange; waits for it where what comes next may rely on it, which exchanges could
    /// otherwise overtake: what nobody answers, and the first greeting.
    async fn begin(self: &Arc<Self>, outgoing: OutboundRequest) {
        let link = Arc::clone(self);
        let relied_on = outgoing.requests.is_empty() || outgoing.is("initialize");
        let keys: Vec<_> =
            outgoing.requests.iter().map(|(id, serial)| (id.key(), *serial)).collect();
        let exchange = {
            // Held until the exchange stands in the table: it may be over before.
            let mut open = self.open();
            let is_open = |(key, serial): &(IdKey, Serial)| {
                open.get(key).is_some_and(|open| open.serial == *serial)
            };
            if !keys.is_empty() && !keys.iter().any(is_open) {
                // Cancelled before it was sent.
                return;
            }
            let exchange = self.runtime.spawn(async move { link.exchange(&outgoing).await });
            if let [(key, _)] = &*keys
                && let Some(open) = open.get_mut(key)
            {
                open.exchange = Some(exchange.abort_handle());
            }
            exchange
        };
        if relied_on {
            let _ = timeout(ORDER, exchange).await;
        }
    }

    async fn exchange(self: Arc<Self>, outgoing: &OutboundRequest) {
        let outcome = self.carry(outgoing).await;
        // A stream that was given up is asked for again when the server is there again.
        if outcome.is_ok() && (outgoing.is(INITIALIZED) || self.greeted.misses_its_stream()) {
            self.listen();
        }
        let fault = outcome.err().unwrap_or(UpstreamError::Dropped { server: self.remote.name() });
        for (id, serial) in &outgoing.requests {
            if self.waits(id, *serial) {
                self.hear(line(fault.failure().response(id)));
            }
        }
        let mut open = self.open();
        for (id, serial) in &outgoing.requests {
            if open.get(&id.key()).is_some_and(|open| open.serial == *serial) {
                open.remove(&id.key());
            }
        }
    }

    /// Whether this very request is not answered yet.
    fn waits(&self, id: &Id, serial: Serial) -> bool {
        self.relay.serial(id) == Some(serial)
    }

    /// Sends a message and reads what answers it.
    async fn carry(self: &Arc<Self>, outgoing: &OutboundRequest) -> Result<(), UpstreamError> {
        let (mut renewed, mut learned) = (false, false);
        loop {
            let agreed = self.greeted.now();
            let ask = outgoing.ask(agreed.headers(), &self.relay);
            let response = self.remote.ask(&ask).await?;
            let status = response.status();
            if outgoing.is("initialize") && status.is_success() {
                self.greeted.begin(&outgoing.body, response.headers().get(SESSION));
            } else if status == StatusCode::NOT_FOUND
                && outgoing.era == ProtocolGeneration::Sessions
                && agreed.has_session()
                && !renewed
            {
                self.renew(agreed.generation).await?;
                renewed = true;
                continue;
            }
            if status.is_success() {
                return self.read(response, outgoing).await;
            }
            let refusal = self.refusal(response, outgoing).await?;
            if refusal.code == Some(HEADER_MISMATCH)
                && !learned
                && outgoing.tool.as_ref().is_some_and(|tool| !self.relay.knows(tool))
            {
                self.learn(outgoing).await;
                learned = true;
                continue;
            }
            self.hear(line(refusal.answer));
            return Ok(());
        }
    }

    async fn read(
        &self,
        response: Response,
        outgoing: &OutboundRequest,
    ) -> Result<(), UpstreamError> {
        let Some(form) = Form::from_response(&response) else {
            let (server, status) = (self.remote.name(), response.status());
            return if outgoing.requests.is_empty() {
                Ok(())
            } else if response.content_length() == Some(0) {
                Err(UpstreamError::Status { server, status })
            } else {
                Err(UpstreamError::Form { server })
            };
        };
        let silence = self.remote.silence().filter(|_| !outgoing.is("subscriptions/listen"));
        let mut reading = self.reading(response, form, silence);
        let (mut last, mut waiting) = (None, Backoff::default());
        let mut heard = Instant::now();
        loop {
            let answered = !outgoing.requests.iter().any(|(id, serial)| self.waits(id, *serial));
            let next = if answered {
                // To its end, so that the connection can be used again.
                let next = timeout(AFTERWARDS, reading.next()).await;
                let Ok(Ok(Some(item))) = next else { return Ok(()) };
                Ok(Some(item))
            } else {
                reading.next().await
            };
            let fault = match next {
                Ok(Some(item)) => {
                    waiting.asked(item.event.retry);
                    if item.event.id.is_some() && item.event.id != last {
                        waiting.heard();
                    }
                    last = item.event.id.or(last);
                    if let Some(message) = item.message {
                        waiting.heard();
                        heard = Instant::now();
                        if let (InboundMessage::Whole(line), true) =
                            (&message, outgoing.is("initialize"))
                        {
                            self.greeted.answered(line);
                        }
                        self.hear(message);
                    }
                    continue;
                }
                Ok(None) => UpstreamError::Dropped { server: self.remote.name() },
                Err(fault) => fault,
            };
            // What finds no room would find none the next time.
            let may =
                outgoing.era == ProtocolGeneration::Sessions && !matches!(fault, UpstreamError::TooLong { .. });
            let Some(last) = last.clone().filter(|_| may) else { return Err(fault) };
            if let Some(silence) = silence
                && heard.elapsed() > silence
            {
                return Err(UpstreamError::Silent { server: self.remote.name(), silence });
            }
            reading = self.resumed(&last, &mut waiting).await.ok_or(fault)?;
        }
    }

    /// What to tell the client where the server refused a request.
    async fn refusal(
        &self,
        response: Response,
        outgoing: &OutboundRequest,
    ) -> Result<Refusal, UpstreamError> {
        let status = response.status();
        let fault = || UpstreamError::Status { server: self.remote.name(), status };
        let [(id, _)] = &*outgoing.requests else { return Err(fault()) };
        if !Form::is_json_refusal(&response)
            || response.content_length().is_some_and(|length| length > REFUSAL_CAP as u64)
        {
            return Err(fault());
        }
        let mut reading = self.reading(response, Form::Json, self.remote.silence());
        let Ok(Some(item)) = reading.next().await else { return Err(fault()) };
        let Some(InboundMessage::Whole(line)) = item.message else { return Err(fault()) };
        let text = String::from_utf8(line).map_err(|_| fault())?;
        let Some(error) = Message::read(&text).and_then(|message| message.error) else {
            let problem = UpstreamError::of_problem(&self.remote.name(), status, &text);
            return Err(problem.unwrap_or_else(fault));
        };
        let code =
            Object::read(error.get()).and_then(|error| error.get("code")?.get().parse().ok());
        // Whatever id it says, it is this request that it answers.
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, error.get());
        Ok(Refusal { code, answer })
    }

    fn reading(&self, response: Response, form: Form, silence: Option<Duration>) -> ResponseReader {
        let gathering = Gathering::new(self.relay.spool());
        ResponseReader::new(response, form, gathering, silence, self.remote.name())
    }

    fn hear(&self, message: InboundMessage) {
        if message.is_small() {
            (self.hear)(message);
        } else {
            tokio::task::block_in_place(|| (self.hear)(message));
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IdKey, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a request is refused, as the server says it.
struct Refusal {
    code: Option<i32>,
    answer: String,
}

fn bare(method: Method, headers: HeaderMap) -> Ask {
    let patient = method == Method::GET;
    Ask { method, headers, body: Bytes::new(), patient }
}

fn line(text: String) -> InboundMessage {
    let mut line = text.into_bytes();
    line.push(b'\n');
    InboundMessage::Whole(line)
}
