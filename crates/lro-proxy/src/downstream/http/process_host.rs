//! Serves HTTP clients from server processes.
//!
//! A client of the older era has a session, and a process of its own. Requests of the newer era stand
//! for themselves: one process answers them all.

mod process;
mod refused;

use std::collections::HashMap;
use std::io;
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use lro_http::header::{SESSION, VERSION, agree, differs, one, text};
use lro_wire::protocol::{self, PROTOCOL_VERSION};
use lro_wire::sse::SseEvent;
use lro_wire::{
    INTERNAL_ERROR, JsonRpcError, METHOD_NOT_FOUND, MISSING_CAPABILITY, Message, UNSUPPORTED_VERSION,
};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, timeout};

use self::process::Child;
use self::refused::Refused;
use super::body_writer::{Feed, Outbound, events};
use super::id_map::{Called, stands_alone};
use super::route::{Routed, WAITING};
use super::{Answering, Asked, Front, STILL_THERE, failed, local, no_request};
use crate::relay::Relay;
use crate::upstream::stdio::Process;

/// Starts the server's process.
pub type Start =
    Box<dyn Fn() -> io::Result<(Process, ChildStdin, ChildStdout)> + Send + Sync + 'static>;

/// More clients are asked to come again.
const SESSIONS: usize = 64;
/// A session that nobody used for so long is over.
const IDLE: Duration = Duration::from_mins(30);
/// How often is looked for those.
const SWEEP: Duration = Duration::from_mins(1);
/// How long an answer may take to be one body; then it becomes a stream.
const SINGLE_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// In front of a process.
pub(super) struct Host {
    relay: Relay,
    start: Start,
    sessions: Mutex<HashMap<String, (Arc<Child>, Instant)>>,
    /// The process of all requests that stand for themselves.
    common: Mutex<Option<Arc<Child>>>,
}

impl Host {
    pub(super) fn new(relay: Relay, start: Start) -> Arc<Self> {
        let (sessions, common) = (Mutex::default(), Mutex::default());
        let host = Arc::new(Self { relay, start, sessions, common });
        let weak = Arc::downgrade(&host);
        crate::session::spawn("sweep", move || {
            while let Some(host) = weak.upgrade() {
                host.sweep();
                drop(host);
                std::thread::sleep(SWEEP);
            }
        });
        host
    }

    async fn exchange(self: Arc<Self>, asked: Asked) -> Response {
        match asked.method {
            Method::GET => return self.listen(&asked.headers),
            Method::DELETE => return self.leave(&asked.headers),
            _ => {}
        }
        let Some(message) = Message::read(&asked.body) else { return no_request() };
        let alone = stands_alone(&message, &asked.headers);
        if alone && let Err(failure) = headers_agree(&message, &asked.headers) {
            return failed(StatusCode::BAD_REQUEST, &failure, &asked.body);
        }
        let begins =
            message.method.as_deref() == Some("initialize") && message.is_request() && !alone;
        let child = tokio::task::block_in_place(|| {
            if alone {
                self.common()
            } else if begins {
                self.begin().map(|(session, child)| (Some(session), child))
            } else {
                self.session(&asked.headers).map(|child| (None, child))
            }
        });
        let (session, child) = match child {
            Ok(child) => child,
            Err(refused) => return refused.into_response(),
        };
        let Some(called) = Called::from_message(&message) else {
            // Nothing waits for it. Over HTTP closing the stream cancels; an id would be another's.
            if alone && message.method.as_deref() == Some("notifications/cancelled") {
                return StatusCode::ACCEPTED.into_response();
            }
            let sent = tokio::task::block_in_place(|| child.say(&asked.body));
            return sent.map_or_else(IntoResponse::into_response, |()| {
                StatusCode::ACCEPTED.into_response()
            });
        };
        let mut response = self.asked(child, called, &asked.body, alone).await;
        if let Some(session) = session.and_then(|session| HeaderValue::from_str(&session).ok()) {
            response.headers_mut().insert(SESSION, session);
        }
        response
    }

    /// Asks the process, and answers with what comes.
    async fn asked(&self, child: Arc<Child>, called: Called, text: &str, alone: bool) -> Response {
        let (to, mut heard) = channel(WAITING);
        let asked = tokio::task::block_in_place(|| child.ask(called, text, to));
        let wanted = match asked {
            Ok(process::Asked::Forwarded(wanted)) => wanted,
            Ok(process::Asked::Here(local)) => {
                return local::answered(child.relay(), local.calls, local.replies, local.called)
                    .await;
            }
            Err(_) => {
                return failed(
                    StatusCode::OK,
                    &JsonRpcError::new(INTERNAL_ERROR, "the server ended"),
                    text,
                );
            }
        };
        let first = timeout(SINGLE_BODY_TIMEOUT, heard.recv()).await;
        if let Ok(Some(Routed { told, last: true })) = first {
            drop(wanted);
            let status = if alone { status(&told) } else { StatusCode::OK };
            let json = [(header::CONTENT_TYPE, "application/json")];
            return (status, json, told.body()).into_response();
        }
        let (feed, body) = Feed::new();
        tokio::spawn(async move {
            let _wanted = wanted;
            if let Ok(Some(first)) = first
                && (tell(&feed, first.told).await.is_err() || first.last)
            {
                return;
            }
            carry(&feed, &mut heard).await;
        });
        events(body)
    }

    /// The stream for what the server says unasked.
    fn listen(&self, headers: &HeaderMap) -> Response {
        let child = match self.session(headers) {
            Ok(child) => child,
            Err(refused) => return refused.into_response(),
        };
        let (to, mut heard) = channel(WAITING);
        child.listen(to);
        let (feed, body) = Feed::new();
        tokio::spawn(async move { carry(&feed, &mut heard).await });
        events(body)
    }

    fn leave(&self, headers: &HeaderMap) -> Response {
        let ended = one(headers, &SESSION).and_then(|session| self.sessions().remove(session));
        match ended {
            Some((child, _)) => {
                end_aside(child);
                StatusCode::NO_CONTENT.into_response()
            }
            None => Refused::NoSession.into_response(),
        }
    }

    /// Begins a session.
    fn begin(&self) -> Result<(String, Arc<Child>), Refused> {
        self.sweep();
        if self.sessions().len() >= SESSIONS && !self.evict() {
            return Err(Refused::TooMany);
        }
        let child = self.started(self.relay.another(false), false)?;
        let session = format!("{:032x}", self.relay.now().random);
        self.sessions().insert(session.clone(), (Arc::clone(&child), Instant::now()));
        Ok((session, child))
    }

    /// Ends the sessions that nobody has used for long, and those whose process has ended.
    fn sweep(&self) {
        let over: Vec<_> = self
            .sessions()
            .extract_if(|_, (child, used)| {
                child.is_gone() || used.elapsed() > IDLE && child.is_idle()
            })
            .collect();
        for (_, (child, _)) in over {
            end_aside(child);
        }
    }

    /// Ends the session that was not used for the longest time, unless it is in use.
    fn evict(&self) -> bool {
        let mut sessions = self.sessions();
        let idle = sessions.iter().filter(|(_, (child, _))| child.is_idle());
        let oldest = idle.min_by_key(|(_, (_, used))| *used).map(|(session, _)| session.clone());
        let evicted = oldest.and_then(|session| sessions.remove(&session));
        evicted.map(|(child, _)| end_aside(child)).is_some()
    }

    /// The process of a session.
    fn session(&self, headers: &HeaderMap) -> Result<Arc<Child>, Refused> {
        let session = one(headers, &SESSION).ok_or(Refused::NeedsSession)?;
        let mut sessions = self.sessions();
        match sessions.get_mut(session) {
            Some((child, used)) if !child.is_gone() => {
                *used = Instant::now();
                Ok(Arc::clone(child))
            }
            _ => {
                sessions.remove(session);
                Err(Refused::NoSession)
            }
        }
    }

    fn common(&self) -> Result<(Option<String>, Arc<Child>), Refused> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = common.as_ref().filter(|child| !child.is_gone()) {
            return Ok((None, Arc::clone(child)));
        }
        let child = self.started(self.relay.another(true), true)?;
        *common = Some(Arc::clone(&child));
        Ok((None, child))
    }

    fn started(&self, relay: Relay, shared: bool) -> Result<Arc<Child>, Refused> {
        let streams = (self.start)().map_err(Refused::Start)?;
        Ok(Child::new(relay, shared, streams))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, (Arc<Child>, Instant)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Front for Host {
    fn answer(self: Arc<Self>, asked: Asked) -> Answering {
        Box::pin(self.exchange(asked))
    }

    fn end(&self) {
        let mut children: Vec<Arc<Child>> =
            self.sessions().drain().map(|(_, (child, _))| child).collect();
        children.extend(self.common.lock().unwrap_or_else(PoisonError::into_inner).take());
        // All at once: each may take a moment.
        std::thread::scope(|scope| {
            for child in children {
                scope.spawn(move || child.end());
            }
        });
    }
}

/// Ends a process, which may take a moment that nobody has to wait for.
fn end_aside(child: Arc<Child>) {
    crate::session::spawn("end", move || child.end());
}

/// Carries messages until the last one, or until nobody reads.
async fn carry(feed: &Feed, heard: &mut Receiver<Routed>) {
    loop {
        let next = tokio::select! {
            next = timeout(STILL_THERE, heard.recv()) => next,
            () = feed.unread() => return,
        };
        let sent = match next {
            Ok(Some(Routed { told, last })) => {
                let sent = tell(feed, told).await;
                if last {
                    return;
                }
                sent
            }
            Ok(None) => return,
            Err(_) => feed.bytes(": still there\n\n").await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn tell(feed: &Feed, told: Outbound) -> Result<(), super::body_writer::Unread> {
    let mut event = SseEvent::default();
    event.has_data = true;
    feed.event(&event, Some(told)).await
}

/// Whether headers and body of a request of the newer era say the same.
fn headers_agree(message: &Message<'_>, headers: &HeaderMap) -> Result<(), JsonRpcError> {
    let in_body = protocol::meta(message).and_then(|meta| meta.text(PROTOCOL_VERSION));
    if in_body.is_some() && text(headers, &VERSION) != in_body.as_deref() {
        return Err(differs(&VERSION));
    }
    agree(message, headers)
}

/// The status of an answer of the newer era.
fn status(told: &Outbound) -> StatusCode {
    let Outbound::Text(text) = told else { return StatusCode::OK };
    let code = std::str::from_utf8(text).ok().and_then(Message::read).and_then(|message| {
        lro_wire::Object::read(message.error?.get())?.get("code")?.get().parse().ok()
    });
    match code {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(MISSING_CAPABILITY | UNSUPPORTED_VERSION) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
