//! The session of one client with a server over HTTP.
//!
//! Every request is an exchange of its own and gets exactly one response: the server's or an error.
//! Unsolicited messages of the server arrive on a separate stream.

mod handshake;
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

use self::handshake::NegotiatedSession;
use self::stream::Backoff;
use crate::relay::Relay;
use crate::relay::pending::Serial;
use crate::upstream::http::client::{HttpRequest, Remote, UpstreamError};
use crate::upstream::http::request::OutboundRequest;
use crate::upstream::http::response::{BodyFormat, InboundMessage, MessageBuffer, ResponseReader};

/// How long the next message waits for one that it may depend on.
const ORDERING_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of messages that may be queued.
const MAX_QUEUED_MESSAGES: usize = 1024;
/// How long a stream is read after the response arrived.
const TRAILING_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest error response, in bytes, that is parsed.
const MAX_ERROR_LEN: usize = 64 << 10;
/// The notification after which the server may send unsolicited messages.
const INITIALIZED: &str = "notifications/initialized";

/// The session of one client with a server.
pub(crate) struct HttpSession {
    remote: Remote,
    relay: Arc<Relay>,
    deliver: Box<dyn Fn(InboundMessage) + Send + Sync>,
    runtime: Handle,
    negotiated: NegotiatedSession,
    /// Open exchanges by request id.
    open: Mutex<HashMap<IdKey, OpenExchange>>,
    queue: mpsc::Sender<OutboundRequest>,
}

/// An exchange, from the moment the client sent its request.
struct OpenExchange {
    serial: Serial,
    protocol: ProtocolGeneration,
    /// Aborts the exchange; `None` before it begins and for a batch.
    abort: Option<AbortHandle>,
}

impl HttpSession {
    /// Starts a session with `remote`; `deliver` receives the messages of the server.
    pub(crate) fn new(
        remote: Remote,
        relay: Arc<Relay>,
        runtime: &Handle,
        deliver: impl Fn(InboundMessage) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (queue, mut queued) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let session = Arc::new(Self {
            remote,
            relay,
            deliver: Box::new(deliver),
            runtime: runtime.clone(),
            negotiated: NegotiatedSession::default(),
            open: Mutex::default(),
            queue,
        });
        let sender = Arc::clone(&session);
        runtime.spawn(async move {
            while let Some(request) = queued.recv().await {
                sender.begin(request).await;
            }
        });
        session
    }

    /// Queues a message of the client; order is kept. Must not be called on a thread of the runtime.
    pub(crate) fn send(&self, body: Vec<u8>) {
        let request = OutboundRequest::new(body, &self.relay);
        if let Some(id) = &request.cancelled
            && let Some(open) = self.open().remove(&id.key())
        {
            if let Some(abort) = open.abort {
                abort.abort();
            }
            // From 2026-07-28 on closing the exchange cancels the request.
            if open.protocol == ProtocolGeneration::Stateless {
                return;
            }
        }
        {
            let mut open = self.open();
            for (id, serial) in &request.requests {
                let exchange =
                    OpenExchange { serial: *serial, protocol: request.protocol, abort: None };
                open.insert(id.key(), exchange);
            }
        }
        // The queue is closed only when the runtime has ended.
        let _ = self.queue.blocking_send(request);
    }

    /// Waits until every request is answered or the deadline has passed.
    pub(crate) fn finish(&self, deadline: Instant) {
        while !self.open().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Aborts all exchanges and deletes the session on the server.
    pub(crate) fn end(&self, time_limit: Duration) {
        for (_, open) in self.open().drain() {
            if let Some(abort) = open.abort {
                abort.abort();
            }
        }
        let state = self.negotiated.end();
        if state.has_session() {
            let request = without_body(Method::DELETE, state.headers());
            let _ = self
                .runtime
                .block_on(async { timeout(time_limit, self.remote.send(&request)).await });
        }
    }

    /// Begins an exchange. Waits for notifications and `initialize`, because later messages may depend on
    /// them and concurrent exchanges could overtake them.
    async fn begin(self: &Arc<Self>, request: OutboundRequest) {
        let session = Arc::clone(self);
        let is_barrier = request.requests.is_empty() || request.is("initialize");
        let keys: Vec<_> =
            request.requests.iter().map(|(id, serial)| (id.key(), *serial)).collect();
        let exchange = {
            // Locked until the exchange is in the table, because it may complete before.
            let mut open = self.open();
            let is_open = |(key, serial): &(IdKey, Serial)| {
                open.get(key).is_some_and(|open| open.serial == *serial)
            };
            if !keys.is_empty() && !keys.iter().any(is_open) {
                // Cancelled before it was sent.
                return;
            }
            let exchange = self.runtime.spawn(async move { session.exchange(&request).await });
            if let [(key, _)] = &*keys
                && let Some(open) = open.get_mut(key)
            {
                open.abort = Some(exchange.abort_handle());
            }
            exchange
        };
        if is_barrier {
            let _ = timeout(ORDERING_TIMEOUT, exchange).await;
        }
    }

    async fn exchange(self: Arc<Self>, request: &OutboundRequest) {
        let outcome = self.send_and_read(request).await;
        // A stream that failed too often is opened again when the server responds again.
        if outcome.is_ok() && (request.is(INITIALIZED) || self.negotiated.take_listener_gave_up()) {
            self.listen();
        }
        let error =
            outcome.err().unwrap_or(UpstreamError::Interrupted { server: self.remote.name() });
        for (id, serial) in &request.requests {
            if self.is_pending(id, *serial) {
                self.deliver(line(error.to_json_rpc().response(id)));
            }
        }
        let mut open = self.open();
        for (id, serial) in &request.requests {
            if open.get(&id.key()).is_some_and(|open| open.serial == *serial) {
                open.remove(&id.key());
            }
        }
    }

    /// Whether this request is not answered yet.
    fn is_pending(&self, id: &Id, serial: Serial) -> bool {
        self.relay.serial(id) == Some(serial)
    }

    /// Sends a message and reads the response.
    async fn send_and_read(
        self: &Arc<Self>,
        outbound: &OutboundRequest,
    ) -> Result<(), UpstreamError> {
        let (mut renewed, mut discovered) = (false, false);
        loop {
            let state = self.negotiated.state();
            let request = outbound.to_http(state.headers(), &self.relay);
            let response = self.remote.send(&request).await?;
            let status = response.status();
            if outbound.is("initialize") && status.is_success() {
                self.negotiated.begin(&outbound.body, response.headers().get(SESSION));
            } else if status == StatusCode::NOT_FOUND
                && outbound.protocol == ProtocolGeneration::Sessions
                && state.has_session()
                && !renewed
            {
                self.renew(state.generation).await?;
                renewed = true;
                continue;
            }
            if status.is_success() {
                return self.read(response, outbound).await;
            }
            let error = self.error_response(response, outbound).await?;
            if error.code == Some(HEADER_MISMATCH)
                && !discovered
                && outbound.tool.as_ref().is_some_and(|tool| !self.relay.has_tool(tool))
            {
                self.discover_tools(outbound).await;
                discovered = true;
                continue;
            }
            self.deliver(line(error.response));
            return Ok(());
        }
    }

    async fn read(
        &self,
        response: Response,
        request: &OutboundRequest,
    ) -> Result<(), UpstreamError> {
        let Some(format) = BodyFormat::from_response(&response) else {
            let (server, status) = (self.remote.name(), response.status());
            return if request.requests.is_empty() {
                Ok(())
            } else if response.content_length() == Some(0) {
                Err(UpstreamError::Status { server, status })
            } else {
                Err(UpstreamError::MediaType { server })
            };
        };
        let idle_timeout =
            self.remote.idle_timeout().filter(|_| !request.is("subscriptions/listen"));
        let mut reader = self.reader(response, format, idle_timeout);
        let (mut last, mut backoff) = (None, Backoff::default());
        let mut last_message = Instant::now();
        loop {
            let answered =
                !request.requests.iter().any(|(id, serial)| self.is_pending(id, *serial));
            let next = if answered {
                // Read to the end, so that the connection can be reused.
                let next = timeout(TRAILING_TIMEOUT, reader.next()).await;
                let Ok(Ok(Some(item))) = next else { return Ok(()) };
                Ok(Some(item))
            } else {
                reader.next().await
            };
            let error = match next {
                Ok(Some(item)) => {
                    backoff.set_retry(item.event.retry);
                    if item.event.id.is_some() && item.event.id != last {
                        backoff.reset();
                    }
                    last = item.event.id.or(last);
                    if let Some(message) = item.message {
                        backoff.reset();
                        last_message = Instant::now();
                        if let (InboundMessage::Whole(line), true) =
                            (&message, request.is("initialize"))
                        {
                            self.negotiated.set_version_from(line);
                        }
                        self.deliver(message);
                    }
                    continue;
                }
                Ok(None) => UpstreamError::Interrupted { server: self.remote.name() },
                Err(error) => error,
            };
            // A response that exceeds the limits would exceed them again.
            let resumable = request.protocol == ProtocolGeneration::Sessions
                && !matches!(error, UpstreamError::TooLong { .. });
            let Some(last) = last.clone().filter(|_| resumable) else { return Err(error) };
            if let Some(timeout) = idle_timeout
                && last_message.elapsed() > timeout
            {
                return Err(UpstreamError::TimedOut { server: self.remote.name(), timeout });
            }
            reader = self.resume(&last, &mut backoff).await.ok_or(error)?;
        }
    }

    /// The error that the server answered a request with.
    async fn error_response(
        &self,
        response: Response,
        request: &OutboundRequest,
    ) -> Result<ErrorResponse, UpstreamError> {
        let status = response.status();
        let status_error = || UpstreamError::Status { server: self.remote.name(), status };
        let [(id, _)] = &*request.requests else { return Err(status_error()) };
        if !BodyFormat::is_json_error(&response)
            || response.content_length().is_some_and(|length| length > MAX_ERROR_LEN as u64)
        {
            return Err(status_error());
        }
        let mut reader = self.reader(response, BodyFormat::Json, self.remote.idle_timeout());
        let Ok(Some(item)) = reader.next().await else { return Err(status_error()) };
        let Some(InboundMessage::Whole(line)) = item.message else { return Err(status_error()) };
        let text = String::from_utf8(line).map_err(|_| status_error())?;
        let Some(error) = Message::read(&text).and_then(|message| message.error) else {
            let problem = UpstreamError::from_problem(&self.remote.name(), status, &text);
            return Err(problem.unwrap_or_else(status_error));
        };
        let code =
            Object::read(error.get()).and_then(|error| error.get("code")?.get().parse().ok());
        // It answers this request, whatever id it has.
        let response = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, error.get());
        Ok(ErrorResponse { code, response })
    }

    fn reader(
        &self,
        response: Response,
        format: BodyFormat,
        idle_timeout: Option<Duration>,
    ) -> ResponseReader {
        let buffer = MessageBuffer::new(self.relay.spool());
        ResponseReader::new(response, format, buffer, idle_timeout, self.remote.name())
    }

    fn deliver(&self, message: InboundMessage) {
        if message.is_small() {
            (self.deliver)(message);
        } else {
            tokio::task::block_in_place(|| (self.deliver)(message));
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IdKey, OpenExchange>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A JSON-RPC error of the server, as the response to the client.
struct ErrorResponse {
    code: Option<i32>,
    response: String,
}

fn without_body(method: Method, headers: HeaderMap) -> HttpRequest {
    let unlimited = method == Method::GET;
    HttpRequest { method, headers, body: Bytes::new(), unlimited }
}

fn line(text: String) -> InboundMessage {
    let mut line = text.into_bytes();
    line.push(b'\n');
    InboundMessage::Whole(line)
}
