//! A server process and the streams of its clients.

use std::io::Write;
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use lro::SpillBuffer;
use lro_http::header::{VERSION, text};
use lro_wire::protocol::{PROTOCOL_VERSION, ProtocolGeneration, is_supported};
use lro_wire::{INVALID_REQUEST, Id, JsonRpcError, Line, Lines, Message, protocol};
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;

use crate::downstream::http::request_id::{ClientRequestId, MessageTarget, replace_id, restore_id};
use crate::downstream::http::streams::{Outbound, Routes, StreamMessage};
use crate::relay::local_tools::LocalToolCall;
use crate::relay::oversize::{OversizeId, spill_line};
use crate::relay::{Forward, Relay};
use crate::upstream::process::Process;

/// How long a process may take to exit after its input was closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// A server process.
pub(super) struct ServerProcess {
    relay: Arc<Relay>,
    process: Mutex<Option<Process>>,
    input: Mutex<Option<ChildStdin>>,
    routes: Mutex<Routes>,
    next_id: AtomicU64,
    /// Whether clients share the process. Then unsolicited messages have no recipient.
    shared: bool,
    ended: AtomicBool,
}

/// The process has ended.
#[derive(Debug)]
pub(super) struct ProcessEnded;

/// Where a request was sent.
pub(super) enum Dispatch {
    /// To the process; dropping the guard cancels the request.
    Forwarded(PendingGuard),
    /// The proxy answers it.
    Local(LocalRequest),
}

/// A request that the proxy answers without the process.
pub(super) struct LocalRequest {
    pub(super) calls: Vec<LocalToolCall>,
    pub(super) replies: Vec<String>,
    /// The client's id of the request, if it was replaced.
    pub(super) request_id: Option<ClientRequestId>,
}

/// Closes the stream of a pending request when it is dropped, and cancels the request if it is shared.
pub(super) struct PendingGuard {
    process: Arc<ServerProcess>,
    id: Id,
    /// Whether closing the stream cancels the request, as it does from 2026-07-28 on.
    cancels: bool,
}

impl ServerProcess {
    pub(super) fn new(
        relay: Relay,
        shared: bool,
        (process, input, output): (Process, ChildStdin, ChildStdout),
    ) -> Arc<Self> {
        let server = Arc::new(Self {
            relay: Arc::new(relay),
            process: Mutex::new(Some(process)),
            input: Mutex::new(Some(input)),
            routes: Mutex::default(),
            next_id: AtomicU64::new(1),
            shared,
            ended: AtomicBool::new(false),
        });
        let reader = Arc::clone(&server);
        crate::session::spawn("server", move || {
            reader.read(output);
            reader.end();
        });
        server
    }

    pub(super) fn relay(&self) -> Arc<Relay> {
        Arc::clone(&self.relay)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.routes().is_idle()
    }

    /// Sends a notification or a response.
    pub(super) fn notify(&self, text: &str) -> Result<(), ProcessEnded> {
        // A server does not answer a cancelled request, so its stream ends.
        if let Some(message) = Message::read(text)
            && message.method.as_deref() == Some("notifications/cancelled")
            && let Some(id) = message.params().and_then(|params| params.get("requestId"))
        {
            self.routes().close(&Id::from_raw(id).key());
        }
        match self.relay.from_client(text.as_bytes()).forward {
            Forward::Unchanged => self.write(text),
            Forward::Changed(text) => self.write(&text),
            Forward::Dropped => Ok(()),
        }
    }

    /// Sends a request; `to` receives the messages that belong to it. If clients share the process, the
    /// request gets another id.
    pub(super) fn request(
        self: &Arc<Self>,
        request_id: ClientRequestId,
        text: &str,
        to: Sender<StreamMessage>,
    ) -> Result<Dispatch, ProcessEnded> {
        let shared = self.shared;
        let renumbered = shared.then(|| {
            let number = self.next_id.fetch_add(1, Ordering::Relaxed);
            (number, replace_id(text, number).unwrap_or_else(|| text.to_owned()))
        });
        let (id, token) = match &renumbered {
            Some((number, _)) => (id(&number.to_string()), Some(id(&number.to_string()))),
            None => (request_id.id.clone(), request_id.token.as_deref().map(id)),
        };
        if self.routes().is_open(&id.key()) {
            let error =
                JsonRpcError::new(INVALID_REQUEST, "a request with this id is still pending");
            let replies = vec![error.response(&id)];
            return Ok(Dispatch::Local(LocalRequest {
                calls: Vec::new(),
                replies,
                request_id: None,
            }));
        }
        let text = renumbered.as_ref().map_or(text, |(_, text)| text.as_str());
        let outcome = self.relay.from_client(text.as_bytes());
        let forward = match outcome.forward {
            Forward::Unchanged => text.to_owned(),
            Forward::Changed(text) => text,
            Forward::Dropped => {
                let request_id = shared.then_some(request_id);
                let (calls, replies) = (outcome.calls, outcome.replies);
                return Ok(Dispatch::Local(LocalRequest { calls, replies, request_id }));
            }
        };
        self.routes().open(id.key(), token.map(|token| token.key()), request_id, to);
        // The stream is open before the request is sent, because the response may be fast.
        let guard = PendingGuard { process: Arc::clone(self), id, cancels: shared };
        self.write(&forward)?;
        Ok(Dispatch::Forwarded(guard))
    }

    /// Sends unsolicited messages of the process to `to`.
    pub(super) fn listen(&self, to: Sender<StreamMessage>) {
        self.routes().listen(to);
    }

    /// Ends the process and answers all pending requests with an error.
    pub(super) fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        let status = process.and_then(|mut process| {
            let exited = process.wait(EXIT_TIMEOUT);
            exited.or(process.stop())
        });
        let why = match status {
            Some(status) => format!("the server exited: {status}"),
            None => "the server exited".to_owned(),
        };
        for answer in self.relay.close(&why) {
            self.route(answer);
        }
        // Dropping the senders ends all open streams.
        *self.routes() = Routes::default();
    }

    fn write(&self, text: &str) -> Result<(), ProcessEnded> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = input.as_mut().ok_or(ProcessEnded)?;
        // A message is a line, and line breaks in JSON are white space.
        let mut line = text.replace(['\n', '\r'], " ");
        line.push('\n');
        input.write_all(line.as_bytes()).map_err(|_| ProcessEnded)
    }

    fn read(&self, output: ChildStdout) {
        let mut lines = Lines::new(output);
        loop {
            match lines.next() {
                Ok(Some(Line::Whole(line))) => match self.relay.from_server(line) {
                    Forward::Unchanged => self.route(String::from_utf8_lossy(line).into_owned()),
                    Forward::Changed(text) => self.route(text),
                    Forward::Dropped => {}
                },
                Ok(Some(Line::Long(line))) => match spill_line(line, &self.relay) {
                    Some(message) => self.route_oversize(message),
                    None => return,
                },
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn route(&self, text: String) {
        let Some(message) = Message::read(&text) else { return };
        let last = message.method.is_none();
        let mut routes = self.routes();
        let Some((id, open)) =
            MessageTarget::from_message(&message).and_then(|target| routes.find(&target))
        else {
            if !last && !self.shared {
                routes.send_unsolicited(Outbound::Text(text.into()));
            }
            return;
        };
        let restored = self.shared.then(|| restore_id(&text, &open.request_id)).flatten();
        open.send(Outbound::Text(restored.unwrap_or(text).into()), last);
        if last {
            routes.close(&id);
        }
    }

    fn route_oversize(&self, message: SpillBuffer) {
        let answers = OversizeId::parse(&message).filter(|id| !id.is_request);
        let Some(mut changes) = self.relay.oversize_from_server(&message) else { return };
        let Some(OversizeId { id, range, .. }) = answers else {
            if !self.shared {
                self.routes().send_unsolicited(Outbound::Oversize(message, changes));
            }
            return;
        };
        let Some(open) = self.routes().close(&id.key()) else { return };
        changes.push((range, open.request_id.id.as_json().to_owned()));
        changes.sort_by_key(|(range, _)| range.start);
        open.send(Outbound::Oversize(message, changes), true);
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        let open = self.process.routes().close(&self.id.key());
        if open.is_none() || !self.cancels {
            return;
        }
        let id = &self.id;
        let cancelled = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        );
        let process = Arc::clone(&self.process);
        // On a thread of its own, because a process that does not read would block.
        crate::session::spawn("cancel", move || {
            let _ = process.notify(&cancelled);
        });
    }
}

/// The id with this JSON text.
fn id(json: &str) -> Id {
    let raw: Box<RawValue> =
        serde_json::from_str(json).unwrap_or_else(|_| RawValue::NULL.to_owned());
    Id::from_raw(&raw)
}

/// Whether a request is stateless, by its body or its headers, so that one process can serve all of its
/// kind.
pub(super) fn is_stateless(message: &Message<'_>, headers: &HeaderMap) -> bool {
    let has_version =
        protocol::meta(message).is_some_and(|meta| meta.get(PROTOCOL_VERSION).is_some());
    let version = text(headers, &VERSION);
    has_version
        || message.method.as_deref() == Some("server/discover")
        || version.is_some_and(|version| is_supported(version, ProtocolGeneration::Stateless))
}
