//! Serves HTTP clients from server processes.
//!
//! Each session has a process of its own. Stateless requests (2026-07-28) share one process.

use std::collections::HashMap;
use std::io;
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use lro_http::Problem;
use lro_http::header::{SESSION, VERSION, check, mismatch, single, text};
use lro_wire::protocol::PROTOCOL_VERSION;
use lro_wire::sse::SseEvent;
use lro_wire::{
    INTERNAL_ERROR, INVALID_REQUEST, JsonRpcError, METHOD_NOT_FOUND, MISSING_CAPABILITY, Message,
    UNSUPPORTED_VERSION, protocol,
};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, timeout};

use crate::downstream::http::process::{Dispatch, ProcessEnded, ServerProcess, is_stateless};
use crate::downstream::http::request_id::ClientRequestId;
use crate::downstream::http::streams::{
    BodyClosed, BodyWriter, MAX_QUEUED_MESSAGES, Outbound, StreamMessage, event_stream,
};
use crate::downstream::http::{
    ClientRequest, Frontend, KEEPALIVE_INTERVAL, ResponseFuture, error_response, invalid_request,
    json,
};
use crate::relay::Relay;
use crate::upstream::process::Process;

/// Starts the server's process.
pub type StartProcess =
    Box<dyn Fn() -> io::Result<(Process, ChildStdin, ChildStdout)> + Send + Sync + 'static>;

/// The number of concurrent sessions.
const MAX_SESSIONS: usize = 64;
/// A session that was not used for this long ends.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_mins(30);
/// How often idle sessions are removed.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// How long a response may take to become a single body; later it becomes an event stream.
const SINGLE_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The frontend of server processes.
pub(super) struct ProcessHost {
    relay: Relay,
    start: StartProcess,
    sessions: Mutex<HashMap<String, (Arc<ServerProcess>, Instant)>>,
    /// The process of all stateless requests.
    shared: Mutex<Option<Arc<ServerProcess>>>,
}

impl ProcessHost {
    pub(super) fn new(relay: Relay, start: StartProcess) -> Arc<Self> {
        let (sessions, shared) = (Mutex::default(), Mutex::default());
        let host = Arc::new(Self { relay, start, sessions, shared });
        let weak = Arc::downgrade(&host);
        crate::session::spawn("sweep", move || {
            while let Some(host) = weak.upgrade() {
                host.sweep();
                drop(host);
                std::thread::sleep(SWEEP_INTERVAL);
            }
        });
        host
    }

    async fn exchange(self: Arc<Self>, request: ClientRequest) -> Response {
        match request.method {
            Method::GET => return self.listen(&request.headers),
            Method::DELETE => return self.end_session(&request.headers),
            _ => {}
        }
        let Some(message) = Message::read(&request.body) else { return invalid_request() };
        let stateless = is_stateless(&message, &request.headers);
        if stateless && let Err(error) = check_headers(&message, &request.headers) {
            return error_response(StatusCode::BAD_REQUEST, &error, &request.body);
        }
        let begins_session =
            message.method.as_deref() == Some("initialize") && message.is_request() && !stateless;
        let process = tokio::task::block_in_place(|| {
            if stateless {
                self.shared_process()
            } else if begins_session {
                self.begin_session().map(|(session, process)| (Some(session), process))
            } else {
                self.session(&request.headers).map(|process| (None, process))
            }
        });
        let (session, process) = match process {
            Ok(process) => process,
            Err(error) => return error.into_response(),
        };
        let Some(request_id) = ClientRequestId::from_message(&message) else {
            // A stateless client cancels by closing its stream; the id could be another client's.
            if stateless && message.method.as_deref() == Some("notifications/cancelled") {
                return StatusCode::ACCEPTED.into_response();
            }
            let sent = tokio::task::block_in_place(|| process.notify(&request.body));
            return match sent {
                Ok(()) => StatusCode::ACCEPTED.into_response(),
                Err(ProcessEnded) => {
                    Problem::new(StatusCode::BAD_GATEWAY, "the server exited").into_response()
                }
            };
        };
        let mut response = self.request(process, request_id, &request.body, stateless).await;
        if let Some(session) = session.and_then(|session| HeaderValue::from_str(&session).ok()) {
            response.headers_mut().insert(SESSION, session);
        }
        response
    }

    /// Sends a request to the process and responds with the messages that belong to it.
    async fn request(
        &self,
        process: Arc<ServerProcess>,
        request_id: ClientRequestId,
        text: &str,
        stateless: bool,
    ) -> Response {
        let (to, mut messages) = channel(MAX_QUEUED_MESSAGES);
        let dispatch = tokio::task::block_in_place(|| process.request(request_id, text, to));
        let guard = match dispatch {
            Ok(Dispatch::Forwarded(guard)) => guard,
            Ok(Dispatch::Local(local)) => {
                return super::answer_locally(
                    process.relay(),
                    local.calls,
                    local.replies,
                    local.request_id,
                )
                .await;
            }
            Err(ProcessEnded) => {
                return error_response(
                    StatusCode::OK,
                    &JsonRpcError::new(INTERNAL_ERROR, "the server exited"),
                    text,
                );
            }
        };
        let first = timeout(SINGLE_BODY_TIMEOUT, messages.recv()).await;
        if let Ok(Some(StreamMessage { message, last: true })) = first {
            drop(guard);
            let status = if stateless { status(&message) } else { StatusCode::OK };
            let json = [(header::CONTENT_TYPE, "application/json")];
            return (status, json, message.body()).into_response();
        }
        let (body_writer, body) = BodyWriter::new();
        tokio::spawn(async move {
            let _guard = guard;
            if let Ok(Some(first)) = first
                && (send_event(&body_writer, first.message).await.is_err() || first.last)
            {
                return;
            }
            copy_messages(&body_writer, &mut messages).await;
        });
        event_stream(body)
    }

    /// Responds with the stream of unsolicited messages.
    fn listen(&self, headers: &HeaderMap) -> Response {
        let process = match self.session(headers) {
            Ok(process) => process,
            Err(error) => return error.into_response(),
        };
        let (to, mut messages) = channel(MAX_QUEUED_MESSAGES);
        process.listen(to);
        let (body_writer, body) = BodyWriter::new();
        tokio::spawn(async move { copy_messages(&body_writer, &mut messages).await });
        event_stream(body)
    }

    fn end_session(&self, headers: &HeaderMap) -> Response {
        let ended = single(headers, &SESSION).and_then(|session| self.sessions().remove(session));
        match ended {
            Some((process, _)) => {
                end_in_background(process);
                StatusCode::NO_CONTENT.into_response()
            }
            None => HostError::UnknownSession.into_response(),
        }
    }

    /// Begins a session.
    fn begin_session(&self) -> Result<(String, Arc<ServerProcess>), HostError> {
        self.sweep();
        if self.sessions().len() >= MAX_SESSIONS && !self.evict() {
            return Err(HostError::TooManySessions);
        }
        let process = self.start_process(self.relay.for_conversation(false), false)?;
        let session = format!("{:032x}", self.relay.now().random);
        self.sessions().insert(session.clone(), (Arc::clone(&process), Instant::now()));
        Ok((session, process))
    }

    /// Ends idle sessions and those whose process has exited.
    fn sweep(&self) {
        let expired: Vec<_> = self
            .sessions()
            .extract_if(|_, (process, used)| {
                process.has_ended() || used.elapsed() > SESSION_IDLE_TIMEOUT && process.is_idle()
            })
            .collect();
        for (_, (process, _)) in expired {
            end_in_background(process);
        }
    }

    /// Ends the least recently used session that is idle. Returns whether there was one.
    fn evict(&self) -> bool {
        let mut sessions = self.sessions();
        let idle = sessions.iter().filter(|(_, (process, _))| process.is_idle());
        let oldest = idle.min_by_key(|(_, (_, used))| *used).map(|(session, _)| session.clone());
        let evicted = oldest.and_then(|session| sessions.remove(&session));
        evicted.map(|(process, _)| end_in_background(process)).is_some()
    }

    /// The process of a session.
    fn session(&self, headers: &HeaderMap) -> Result<Arc<ServerProcess>, HostError> {
        let session = single(headers, &SESSION).ok_or(HostError::SessionRequired)?;
        let mut sessions = self.sessions();
        match sessions.get_mut(session) {
            Some((process, used)) if !process.has_ended() => {
                *used = Instant::now();
                Ok(Arc::clone(process))
            }
            _ => {
                sessions.remove(session);
                Err(HostError::UnknownSession)
            }
        }
    }

    /// The process of all stateless requests; starts it if necessary.
    fn shared_process(&self) -> Result<(Option<String>, Arc<ServerProcess>), HostError> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = shared.as_ref().filter(|process| !process.has_ended()) {
            return Ok((None, Arc::clone(process)));
        }
        let process = self.start_process(self.relay.for_conversation(true), true)?;
        *shared = Some(Arc::clone(&process));
        Ok((None, process))
    }

    fn start_process(&self, relay: Relay, shared: bool) -> Result<Arc<ServerProcess>, HostError> {
        let streams = (self.start)().map_err(HostError::StartProcess)?;
        Ok(ServerProcess::new(relay, shared, streams))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, (Arc<ServerProcess>, Instant)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Frontend for ProcessHost {
    fn handle(self: Arc<Self>, request: ClientRequest) -> ResponseFuture {
        Box::pin(self.exchange(request))
    }

    fn shutdown(&self) {
        let mut processes: Vec<Arc<ServerProcess>> =
            self.sessions().drain().map(|(_, (process, _))| process).collect();
        processes.extend(self.shared.lock().unwrap_or_else(PoisonError::into_inner).take());
        // In parallel, because each may take a moment.
        std::thread::scope(|scope| {
            for process in processes {
                scope.spawn(move || process.end());
            }
        });
    }
}

/// Ends a process on a thread of its own, because that may take a moment.
fn end_in_background(process: Arc<ServerProcess>) {
    crate::session::spawn("end", move || process.end());
}

/// Copies messages to the client until the last one or until the client closes the stream.
async fn copy_messages(body_writer: &BodyWriter, messages: &mut Receiver<StreamMessage>) {
    loop {
        let next = tokio::select! {
            next = timeout(KEEPALIVE_INTERVAL, messages.recv()) => next,
            () = body_writer.closed() => return,
        };
        let sent = match next {
            Ok(Some(StreamMessage { message, last })) => {
                let sent = send_event(body_writer, message).await;
                if last {
                    return;
                }
                sent
            }
            Ok(None) => return,
            Err(_) => body_writer.bytes(": still there\n\n").await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn send_event(body_writer: &BodyWriter, message: Outbound) -> Result<(), BodyClosed> {
    let mut event = SseEvent::default();
    event.has_data = true;
    body_writer.event(&event, Some(message)).await
}

/// Checks that the headers and the body of a stateless request agree.
fn check_headers(message: &Message<'_>, headers: &HeaderMap) -> Result<(), JsonRpcError> {
    let in_body = protocol::meta(message).and_then(|meta| meta.text(PROTOCOL_VERSION));
    if in_body.is_some() && text(headers, &VERSION) != in_body.as_deref() {
        return Err(mismatch(&VERSION));
    }
    check(message, headers)
}

/// The status of the response to a stateless request.
fn status(message: &Outbound) -> StatusCode {
    let Outbound::Text(text) = message else { return StatusCode::OK };
    let code = std::str::from_utf8(text).ok().and_then(Message::read).and_then(|message| {
        lro_wire::Object::read(message.error?.get())?.get("code")?.get().parse().ok()
    });
    match code {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(MISSING_CAPABILITY | UNSUPPORTED_VERSION) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Reasons to reject a request before it reaches a process.
#[derive(Debug)]
enum HostError {
    /// The request needs a session, which begins with `initialize`.
    SessionRequired,
    /// The session has ended or never existed.
    UnknownSession,
    /// The number of sessions is at its limit.
    TooManySessions,
    /// The process cannot be started.
    StartProcess(io::Error),
}

impl IntoResponse for HostError {
    fn into_response(self) -> Response {
        let problem = match self {
            Self::SessionRequired => {
                let detail = "missing session: send initialize first";
                return json(
                    StatusCode::BAD_REQUEST,
                    JsonRpcError::new(INVALID_REQUEST, detail).without_id(),
                );
            }
            Self::UnknownSession => Problem::new(StatusCode::NOT_FOUND, "session not found"),
            Self::TooManySessions => {
                let detail = "too many sessions";
                let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
                let mut response = problem.into_response();
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
                return response;
            }
            Self::StartProcess(error) => {
                let detail = format!("the server cannot be started: {error}");
                Problem::new(StatusCode::BAD_GATEWAY, detail)
            }
        };
        problem.into_response()
    }
}
