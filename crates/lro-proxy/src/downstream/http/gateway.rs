//! Gateway: HTTP on both sides. Exchange for exchange, the server's answer is the client's.
//!
//! Headers, statuses, sessions and the ids of events are the server's: they pass as they are, and
//! nothing is kept here that a client could not do without. Only messages go through the relay.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use lro_http::Problem;
use lro_http::header::{LAST_EVENT, SESSION, one};
use lro_wire::protocol::{self, ProtocolGeneration};
use lro_wire::{Id, Message};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::timeout;

use super::body_writer::{Feed, Outbound, Unread};
use super::{Answering, Asked, Front, STILL_THERE, failed, local, no_request};
use crate::pending::Serial;
use crate::relay::{Forward, Relay};
use crate::upstream::http::{
    Ask, Form, Gathering, InboundMessage, Remote, ResponseReader, UpstreamError, param_headers,
};

/// Of so many sessions is remembered what was asked. One that is forgotten goes on all the same.
const SESSIONS: usize = 1024;

/// What the server is told of a request, besides the protocol's own headers.
const ASKED: [HeaderName; 2] = [header::ACCEPT, LAST_EVENT];
/// What the client is told of an answer, besides the protocol's own headers.
const ANSWERED: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CACHE_CONTROL, header::ALLOW, header::RETRY_AFTER];

/// In front of a server at a URL.
pub(super) struct Gateway {
    /// Requests that stand for themselves share what was learned of the server.
    relay: Relay,
    remote: Remote,
    sessions: Mutex<Sessions>,
    /// Whether everything ends.
    ending: watch::Sender<bool>,
}

#[derive(Default)]
struct Sessions {
    relays: HashMap<String, Arc<Relay>>,
    order: VecDeque<String>,
}

impl Gateway {
    pub(super) fn new(relay: Relay, remote: Remote) -> Self {
        Self { relay, remote, sessions: Mutex::default(), ending: watch::Sender::new(false) }
    }

    /// The relay of a request: that of its session, or one of its own.
    fn relay_of(&self, headers: &HeaderMap) -> Arc<Relay> {
        let session = one(headers, &SESSION);
        let known = session.and_then(|session| self.sessions().relays.get(session).cloned());
        known.unwrap_or_else(|| Arc::new(self.relay.another(true)))
    }

    async fn exchange(self: Arc<Self>, asked: Asked) -> Response {
        let relay = self.relay_of(&asked.headers);
        let mut ask = Ask {
            patient: asked.method == Method::GET,
            method: asked.method,
            headers: passed(&asked.headers, &ASKED),
            body: Bytes::new(),
        };
        if ask.method != Method::POST {
            return self.forwarded(relay, ask, String::new()).await;
        }
        // Several messages in one body were allowed in one old revision alone.
        if !asked.body.trim_start().starts_with('{') {
            return no_request();
        }
        // A reference in it may be resolved, which takes a disk's time.
        let became = tokio::task::block_in_place(|| relay.from_client(asked.body.as_bytes()));
        let text = match became.forward {
            Forward::AsItCame => asked.body,
            Forward::Changed(text) => {
                renew_params(&asked.body, &text, &relay, &mut ask.headers);
                text
            }
            Forward::Nothing => {
                return local::answered(relay, became.calls, became.replies, None).await;
            }
        };
        ask.patient = Message::read(&text)
            .is_some_and(|message| message.method.as_deref() == Some("subscriptions/listen"));
        ask.body = Bytes::copy_from_slice(text.as_bytes());
        self.forwarded(relay, ask, text).await
    }

    async fn forwarded(self: Arc<Self>, relay: Arc<Relay>, ask: Ask, text: String) -> Response {
        let response = match self.remote.ask(&ask).await {
            Ok(response) => response,
            Err(fault) => return refused(&fault, &text, &relay),
        };
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            // The client's own login is not what is asked for.
            let told = format!("{} wants a login", self.remote.name());
            return refused(&UpstreamError::Login(told), &text, &relay);
        }
        let headers = passed(response.headers(), &ANSWERED);
        self.remember(&ask, &headers, &relay, status);
        let Some(form) = Form::from_response(&response) else {
            return self.bare(&response, headers, &text, &relay);
        };
        let silence = self.remote.silence().filter(|_| !ask.patient);
        let gathering = Gathering::new(relay.spool());
        let mut reading =
            ResponseReader::new(response, form, gathering, silence, self.remote.name());
        if form == Form::Json {
            let answer = match reading.next().await {
                Ok(Some(item)) => item.message,
                Ok(None) => None,
                Err(fault) => return refused(&fault, &text, &relay),
            };
            let told = answer.and_then(|answer| through(&relay, answer));
            let body = told.map_or_else(Body::empty, Outbound::body);
            return (status, headers, body).into_response();
        }
        let (feed, body) = Feed::new();
        let request = Requested::parse(&text, &relay);
        let mut ending = self.ending.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = stream(&relay, reading, &feed, request) => {}
                _ = ending.wait_for(|ending| *ending) => {}
            }
        });
        (status, headers, body).into_response()
    }

    /// What has no message in it.
    fn bare(
        &self,
        response: &reqwest::Response,
        headers: HeaderMap,
        text: &str,
        relay: &Relay,
    ) -> Response {
        let status = response.status();
        let request = Message::read(text).is_some_and(|message| message.is_request());
        if request {
            let fault = UpstreamError::Status { server: self.remote.name(), status };
            // A request that is merely accepted is not answered.
            let status = if status.is_success() { StatusCode::BAD_GATEWAY } else { status };
            forget(text, relay);
            return failed(status, &fault.failure(), text);
        }
        let mut answer = (status, headers).into_response();
        // A page of somebody's is no answer of ours.
        answer.headers_mut().remove(header::CONTENT_TYPE);
        answer
    }

    /// A session begins with an answer to `initialize` and ends when the client ends it.
    fn remember(&self, ask: &Ask, answered: &HeaderMap, relay: &Arc<Relay>, status: StatusCode) {
        let mut sessions = self.sessions();
        if ask.method == Method::DELETE || status == StatusCode::NOT_FOUND {
            if let Some(session) = one(&ask.headers, &SESSION) {
                sessions.relays.remove(session);
            }
        } else if !ask.headers.contains_key(SESSION)
            && let Some(session) = one(answered, &SESSION)
        {
            sessions.relays.insert(session.to_owned(), Arc::clone(relay));
            sessions.order.push_back(session.to_owned());
            if sessions.order.len() > SESSIONS
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

impl Front for Gateway {
    fn answer(self: Arc<Self>, asked: Asked) -> Answering {
        Box::pin(self.exchange(asked))
    }

    fn end(&self) {
        self.ending.send_replace(true);
    }
}

/// A request whose answer comes as a stream.
struct Requested {
    id: Id,
    serial: Serial,
    /// Whether the client can ask for the rest of a stream that breaks off.
    resumes: bool,
}

impl Requested {
    fn parse(text: &str, relay: &Relay) -> Option<Self> {
        let message = Message::read(text).filter(Message::is_request)?;
        let id = message.id()?;
        let resumes = ProtocolGeneration::from_request(&message) != Some(ProtocolGeneration::Stateless);
        Some(Self { serial: relay.serial(&id)?, id, resumes })
    }
}

/// Carries events until one side ends. A stream that can be asked for again just ends when it breaks
/// off; any other is answered.
async fn stream(
    relay: &Relay,
    mut reading: ResponseReader,
    feed: &Feed,
    request: Option<Requested>,
) {
    let mut again = false;
    loop {
        let next = tokio::select! {
            next = timeout(STILL_THERE, reading.next()) => next,
            // Closing the stream cancels: what we read from is closed with us.
            () = feed.unread() => return,
        };
        let fault = match next {
            // Who waits for a silent stream wants to know that it is there.
            Err(_) => match feed.bytes(": still there\n\n").await {
                Ok(()) => continue,
                Err(Unread) => return,
            },
            Ok(Ok(Some(item))) => {
                again |= item.event.id.is_some();
                let told = match item.message {
                    None => None,
                    Some(arrived) => match through(relay, arrived) {
                        Some(told) => Some(told),
                        None => continue,
                    },
                };
                if feed.event(&item.event, told).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(Ok(None)) => UpstreamError::Dropped { server: reading.server().to_owned() },
            Ok(Err(fault)) => fault,
        };
        let waits = |request: &Requested| {
            !(again && request.resumes) && relay.serial(&request.id) == Some(request.serial)
        };
        if let Some(request) = request.filter(waits) {
            let answer = Bytes::from(fault.failure().response(&request.id));
            if let Some(told) = through(relay, InboundMessage::Whole(answer.into())) {
                let mut event = lro_wire::sse::SseEvent::default();
                event.has_data = true;
                let _ = feed.event(&event, Some(told)).await;
            }
        }
        return;
    }
}

/// What becomes of a message from the server; `None` for nothing.
fn through(relay: &Relay, arrived: InboundMessage) -> Option<Outbound> {
    let becomes = |arrived| match arrived {
        InboundMessage::Whole(line) => match relay.from_server(&line) {
            Forward::AsItCame => Some(Outbound::Text(line.into())),
            Forward::Changed(text) => Some(Outbound::Text(text.into())),
            Forward::Nothing => None,
        },
        InboundMessage::Long(held) => {
            relay.long_from_server(&held).map(|changes| Outbound::Long(held, changes))
        }
    };
    if arrived.is_small() {
        becomes(arrived)
    } else {
        tokio::task::block_in_place(|| becomes(arrived))
    }
}

/// The protocol's own headers, and those that are `named`.
fn passed(headers: &HeaderMap, named: &[HeaderName]) -> HeaderMap {
    let of_the_protocol = |name: &HeaderName| name.as_str().starts_with("mcp-");
    headers
        .iter()
        .filter(|(name, _)| of_the_protocol(name) || named.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A reference that was resolved is not what a header says any more. What was missing stays missing:
/// that is between client and server.
fn renew_params(came: &str, goes: &str, relay: &Relay, headers: &mut HeaderMap) {
    let (Some(came), Some(goes)) = (Message::read(came), Message::read(goes)) else { return };
    let same = arguments(&came).map(RawValue::get) == arguments(&goes).map(RawValue::get);
    if ProtocolGeneration::from_request(&goes) != Some(ProtocolGeneration::Stateless) || same {
        return;
    }
    let Some(schema) = protocol::tool(&goes).and_then(|tool| relay.schema_of(&tool)) else { return };
    for (name, value) in param_headers(&schema, arguments(&goes)) {
        if let Some(name) = name
            && let Some(there) = headers.get_mut(&name)
        {
            *there = value;
        }
    }
}

fn arguments<'a>(message: &Message<'a>) -> Option<&'a RawValue> {
    message.params()?.get("arguments")
}

/// Nobody waits for the request in `text` any more.
fn forget(text: &str, relay: &Relay) {
    if let Some(id) = Message::read(text).and_then(|message| message.id()) {
        relay.forget(&id);
    }
}

fn refused(fault: &UpstreamError, text: &str, relay: &Relay) -> Response {
    forget(text, relay);
    if text.is_empty() {
        return Problem::new(StatusCode::BAD_GATEWAY, fault.to_string()).into_response();
    }
    failed(StatusCode::BAD_GATEWAY, &fault.failure(), text)
}
