//! A gateway between HTTP clients and a server at a URL.
//!
//! Each exchange with a client is one exchange with the server. Headers, statuses, sessions and event
//! ids are the server's and pass through; only messages go through the relay. The gateway keeps no state
//! that a client could not do without.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use lro_http::Problem;
use lro_http::header::{LAST_EVENT, SESSION, single};
use lro_wire::protocol::{self, ProtocolGeneration};
use lro_wire::{Id, Message};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::downstream::http::streams::{BodyClosed, BodyWriter, Outbound};
use crate::downstream::http::{
    ClientRequest, Frontend, KEEPALIVE_INTERVAL, ResponseFuture, error_response, invalid_request,
};
use crate::relay::pending::Serial;
use crate::relay::{Forward, Relay};
use crate::upstream::http::{
    BodyFormat, HttpRequest, InboundMessage, MessageBuffer, Remote, ResponseReader, UpstreamError,
    param_headers,
};

/// The number of sessions whose relay is kept. A session without one continues with a new relay, which
/// does not know what the client declared in `initialize`.
const MAX_SESSIONS: usize = 1024;

/// Request headers that pass through, besides those of the protocol.
const REQUEST_HEADERS: [HeaderName; 2] = [header::ACCEPT, LAST_EVENT];
/// Response headers that pass through, besides those of the protocol.
const RESPONSE_HEADERS: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CACHE_CONTROL, header::ALLOW, header::RETRY_AFTER];

/// The frontend of a server at a URL.
pub(super) struct Gateway {
    /// The template of all relays, with the catalog that they share.
    relay: Relay,
    remote: Remote,
    sessions: Mutex<Sessions>,
    /// Whether the gateway shuts down.
    shutdown: watch::Sender<bool>,
}

#[derive(Default)]
struct Sessions {
    relays: HashMap<String, Arc<Relay>>,
    order: VecDeque<String>,
}

impl Gateway {
    pub(super) fn new(relay: Relay, remote: Remote) -> Self {
        Self { relay, remote, sessions: Mutex::default(), shutdown: watch::Sender::new(false) }
    }

    /// The relay of the session of a request, or a new one.
    fn relay_for(&self, headers: &HeaderMap) -> Arc<Relay> {
        let session = single(headers, &SESSION);
        let relay = session.and_then(|session| self.sessions().relays.get(session).cloned());
        relay.unwrap_or_else(|| Arc::new(self.relay.for_conversation(true)))
    }

    async fn exchange(self: Arc<Self>, client: ClientRequest) -> Response {
        let relay = self.relay_for(&client.headers);
        let mut request = HttpRequest {
            unlimited: client.method == Method::GET,
            method: client.method,
            headers: filter_headers(&client.headers, &REQUEST_HEADERS),
            body: Bytes::new(),
        };
        if request.method != Method::POST {
            return self.forward(relay, request, String::new()).await;
        }
        // Only the revision 2025-03-26 allows batches.
        if !client.body.trim_start().starts_with('{') {
            return invalid_request();
        }
        // Resolving a reference may read from disk.
        let outcome = tokio::task::block_in_place(|| relay.from_client(client.body.as_bytes()));
        let text = match outcome.forward {
            Forward::Unchanged => client.body,
            Forward::Changed(text) => {
                update_param_headers(&client.body, &text, &relay, &mut request.headers);
                text
            }
            Forward::Dropped => {
                return super::answer_locally(relay, outcome.calls, outcome.replies, None).await;
            }
        };
        request.unlimited = Message::read(&text)
            .is_some_and(|message| message.method.as_deref() == Some("subscriptions/listen"));
        request.body = Bytes::copy_from_slice(text.as_bytes());
        self.forward(relay, request, text).await
    }

    /// Sends a request to the server and relays the response.
    async fn forward(
        self: Arc<Self>,
        relay: Arc<Relay>,
        request: HttpRequest,
        text: String,
    ) -> Response {
        let response = match self.remote.send(&request).await {
            Ok(response) => response,
            Err(error) => return upstream_error(&error, &text, &relay),
        };
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            // The server asks for a login of the user, not for the client's token.
            let message = format!("{} wants a login", self.remote.name());
            return upstream_error(&UpstreamError::Authentication(message), &text, &relay);
        }
        let headers = filter_headers(response.headers(), &RESPONSE_HEADERS);
        self.update_sessions(&request, &headers, &relay, status);
        let Some(format) = BodyFormat::from_response(&response) else {
            return self.without_message(&response, headers, &text, &relay);
        };
        let idle_timeout = self.remote.idle_timeout().filter(|_| !request.unlimited);
        let buffer = MessageBuffer::new(relay.spool());
        let mut reader =
            ResponseReader::new(response, format, buffer, idle_timeout, self.remote.name());
        if format == BodyFormat::Json {
            let answer = match reader.next().await {
                Ok(Some(item)) => item.message,
                Ok(None) => None,
                Err(error) => return upstream_error(&error, &text, &relay),
            };
            let message = answer.and_then(|answer| relay_message(&relay, answer));
            let body = message.map_or_else(Body::empty, Outbound::body);
            return (status, headers, body).into_response();
        }
        let (body_writer, body) = BodyWriter::new();
        let request = StreamedRequest::parse(&text, &relay);
        let mut shutdown = self.shutdown.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = copy_events(&relay, reader, &body_writer, request) => {}
                _ = shutdown.wait_for(|shutdown| *shutdown) => {}
            }
        });
        (status, headers, body).into_response()
    }

    /// Handles a response without a message.
    fn without_message(
        &self,
        response: &reqwest::Response,
        headers: HeaderMap,
        text: &str,
        relay: &Relay,
    ) -> Response {
        let status = response.status();
        let is_request = Message::read(text).is_some_and(|message| message.is_request());
        if is_request {
            let error = UpstreamError::Status { server: self.remote.name(), status };
            // A success status without a message does not answer a request.
            let status = if status.is_success() { StatusCode::BAD_GATEWAY } else { status };
            remove_pending(text, relay);
            return error_response(status, &error.to_json_rpc(), text);
        }
        let mut answer = (status, headers).into_response();
        // The body is not passed on, so its media type is not either.
        answer.headers_mut().remove(header::CONTENT_TYPE);
        answer
    }

    /// Records a session that began with this response, or removes one that ended. Without a session,
    /// the next request has another relay.
    fn update_sessions(
        &self,
        request: &HttpRequest,
        response: &HeaderMap,
        relay: &Arc<Relay>,
        status: StatusCode,
    ) {
        let mut sessions = self.sessions();
        if request.method == Method::DELETE || status == StatusCode::NOT_FOUND {
            if let Some(session) = single(&request.headers, &SESSION) {
                sessions.relays.remove(session);
            }
        } else if !request.headers.contains_key(SESSION) {
            let Some(session) = single(response, &SESSION) else { return relay.forget_client() };
            sessions.relays.insert(session.to_owned(), Arc::clone(relay));
            sessions.order.push_back(session.to_owned());
            if sessions.order.len() > MAX_SESSIONS
                && let Some(oldest) = sessions.order.pop_front()
            {
                sessions.relays.remove(&oldest);
            }
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Frontend for Gateway {
    fn handle(self: Arc<Self>, request: ClientRequest) -> ResponseFuture {
        Box::pin(self.exchange(request))
    }

    fn shutdown(&self) {
        self.shutdown.send_replace(true);
    }
}

/// A request whose response is an event stream.
struct StreamedRequest {
    id: Id,
    serial: Serial,
    /// Whether the client can resume an interrupted stream.
    can_resume: bool,
}

impl StreamedRequest {
    fn parse(text: &str, relay: &Relay) -> Option<Self> {
        let message = Message::read(text).filter(Message::is_request)?;
        let id = message.id()?;
        let can_resume =
            ProtocolGeneration::from_request(&message) != Some(ProtocolGeneration::Stateless);
        Some(Self { serial: relay.serial(&id)?, id, can_resume })
    }
}

/// Copies events to the client until one side ends. If the stream is interrupted and cannot be resumed,
/// the request gets an error response.
async fn copy_events(
    relay: &Relay,
    mut reader: ResponseReader,
    body_writer: &BodyWriter,
    request: Option<StreamedRequest>,
) {
    let mut has_event_id = false;
    loop {
        let next = tokio::select! {
            next = timeout(KEEPALIVE_INTERVAL, reader.next()) => next,
            // The server's stream is closed too, which cancels the request.
            () = body_writer.closed() => return,
        };
        let error = match next {
            // Shows a waiting client that the stream is alive.
            Err(_) => match body_writer.bytes(": still there\n\n").await {
                Ok(()) => continue,
                Err(BodyClosed) => return,
            },
            Ok(Ok(Some(item))) => {
                has_event_id |= item.event.id.is_some();
                let message = match item.message {
                    None => None,
                    Some(inbound) => match relay_message(relay, inbound) {
                        Some(message) => Some(message),
                        None => continue,
                    },
                };
                if body_writer.event(&item.event, message).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(Ok(None)) => UpstreamError::Interrupted { server: reader.server().to_owned() },
            Ok(Err(error)) => error,
        };
        let is_pending = |request: &StreamedRequest| {
            !(has_event_id && request.can_resume)
                && relay.serial(&request.id) == Some(request.serial)
        };
        if let Some(request) = request.filter(is_pending) {
            let answer = Bytes::from(error.to_json_rpc().response(&request.id));
            if let Some(message) = relay_message(relay, InboundMessage::Whole(answer.into())) {
                let mut event = lro_wire::sse::SseEvent::default();
                event.has_data = true;
                let _ = body_writer.event(&event, Some(message)).await;
            }
        }
        return;
    }
}

/// Relays a message from the server. Returns `None` if it is dropped.
fn relay_message(relay: &Relay, inbound: InboundMessage) -> Option<Outbound> {
    let decide = |inbound| match inbound {
        InboundMessage::Whole(line) => match relay.from_server(&line) {
            Forward::Unchanged => Some(Outbound::Text(line.into())),
            Forward::Changed(text) => Some(Outbound::Text(text.into())),
            Forward::Dropped => None,
        },
        InboundMessage::Oversize(message) => {
            let changes = relay.oversize_from_server(&message);
            changes.map(|changes| Outbound::Oversize(message, changes))
        }
    };
    if inbound.is_small() {
        decide(inbound)
    } else {
        tokio::task::block_in_place(|| decide(inbound))
    }
}

/// The protocol's headers and the `listed` ones.
fn filter_headers(headers: &HeaderMap, listed: &[HeaderName]) -> HeaderMap {
    let is_protocol_header = |name: &HeaderName| name.as_str().starts_with("mcp-");
    headers
        .iter()
        .filter(|(name, _)| is_protocol_header(name) || listed.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Updates parameter headers after references in the arguments were resolved. Adds no missing header: the
/// server decides about those.
fn update_param_headers(original: &str, changed: &str, relay: &Relay, headers: &mut HeaderMap) {
    let (Some(original), Some(changed)) = (Message::read(original), Message::read(changed)) else {
        return;
    };
    let same = arguments(&original).map(RawValue::get) == arguments(&changed).map(RawValue::get);
    if ProtocolGeneration::from_request(&changed) != Some(ProtocolGeneration::Stateless) || same {
        return;
    }
    let Some(schema) = protocol::tool(&changed).and_then(|tool| relay.input_schema(&tool)) else {
        return;
    };
    for (name, value) in param_headers(&schema, arguments(&changed)) {
        if let Some(name) = name
            && let Some(existing) = headers.get_mut(&name)
        {
            *existing = value;
        }
    }
}

fn arguments<'a>(message: &Message<'a>) -> Option<&'a RawValue> {
    message.params()?.get("arguments")
}

/// Removes the request in `text` from the pending ones.
fn remove_pending(text: &str, relay: &Relay) {
    if let Some(id) = Message::read(text).and_then(|message| message.id()) {
        relay.remove_pending(&id);
    }
}

fn upstream_error(error: &UpstreamError, text: &str, relay: &Relay) -> Response {
    remove_pending(text, relay);
    if text.is_empty() {
        return Problem::new(StatusCode::BAD_GATEWAY, error.to_string()).into_response();
    }
    error_response(StatusCode::BAD_GATEWAY, &error.to_json_rpc(), text)
}
