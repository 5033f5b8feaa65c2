//! One server process and the streams of its clients.

use std::io::Write;
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lro::SpillBuffer;
use lro_wire::{Id, JsonRpcError, Line, Lines, Message, INVALID_REQUEST};
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;

use super::refused::Refused;
use crate::downstream::http::body_writer::Outbound;
use crate::downstream::http::id_map::{BelongsTo, Called, named, numbered};
use crate::downstream::http::route::{Routed, Routes};
use crate::local_tools::LocalToolCall;
use crate::oversize_message::LongId;
use crate::oversize_spill::set_aside;
use crate::relay::{Forward, Relay};
use crate::upstream::stdio::Process;

/// How long a process may go on after its input ended.
const AFTER_EOF: Duration = Duration::from_millis(500);

/// A process.
pub(super) struct Child {
    relay: Arc<Relay>,
    process: Mutex<Option<Process>>,
    input: Mutex<Option<ChildStdin>>,
    routes: Mutex<Routes>,
    numbers: AtomicU64,
    /// Clients share it: what belongs to no request of one of them is nobody's.
    shared: bool,
    gone: AtomicBool,
}

/// What became of a request.
pub(super) enum Asked {
    /// It went to the process; it is wanted as long as this is kept.
    Forwarded(Wanted),
    /// It is answered here.
    Here(Local),
}

/// What is answered without the process.
pub(super) struct Local {
    pub(super) calls: Vec<LocalToolCall>,
    pub(super) replies: Vec<String>,
    /// What the client calls it, where it went by a number.
    pub(super) called: Option<Called>,
}

/// Tells the process when an answer is not wanted any more.
pub(super) struct Wanted {
    child: Arc<Child>,
    id: Id,
    /// Closing the stream cancels, as it does from 2026-07-28 on.
    cancels: bool,
}

impl Child {
    pub(super) fn new(
        relay: Relay,
        shared: bool,
        (process, input, output): (Process, ChildStdin, ChildStdout),
    ) -> Arc<Self> {
        let child = Arc::new(Self {
            relay: Arc::new(relay),
            process: Mutex::new(Some(process)),
            input: Mutex::new(Some(input)),
            routes: Mutex::default(),
            numbers: AtomicU64::new(1),
            shared,
            gone: AtomicBool::new(false),
        });
        let reader = Arc::clone(&child);
        crate::session::spawn("server", move || {
            reader.read(output);
            reader.end();
        });
        child
    }

    pub(super) fn relay(&self) -> Arc<Relay> {
        Arc::clone(&self.relay)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.routes().is_idle()
    }

    /// Sends what has no answer.
    pub(super) fn say(&self, text: &str) -> Result<(), Refused> {
        // A server does not answer what was cancelled: nothing more comes on that stream.
        if let Some(message) = Message::read(text)
            && message.method.as_deref() == Some("notifications/cancelled")
            && let Some(id) = message.params().and_then(|params| params.get("requestId"))
        {
            self.routes().close(&Id::from_raw(id).key());
        }
        match self.relay.from_client(text.as_bytes()).forward {
            Forward::AsItCame => self.write(text),
            Forward::Changed(text) => self.write(&text),
            Forward::Nothing => Ok(()),
        }
    }

    /// Sends a request; `to` gets what belongs to it. Where clients share the process it goes by a
    /// number.
    pub(super) fn ask(
        self: &Arc<Self>,
        called: Called,
        text: &str,
        to: Sender<Routed>,
    ) -> Result<Asked, Refused> {
        let shared = self.shared;
        let numbered = shared.then(|| {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            (number, numbered(text, number).unwrap_or_else(|| text.to_owned()))
        });
        let (id, token) = match &numbered {
            Some((number, _)) => (id(&number.to_string()), Some(id(&number.to_string()))),
            None => (called.id.clone(), called.token.as_deref().map(id)),
        };
        if self.routes().is_open(&id.key()) {
            let failure = JsonRpcError::new(INVALID_REQUEST, "a request of this id is not answered yet");
            let replies = vec![failure.response(&id)];
            return Ok(Asked::Here(Local { calls: Vec::new(), replies, called: None }));
        }
        let text = numbered.as_ref().map_or(text, |(_, text)| text.as_str());
        let became = self.relay.from_client(text.as_bytes());
        let forward = match became.forward {
            Forward::AsItCame => text.to_owned(),
            Forward::Changed(text) => text,
            Forward::Nothing => {
                let called = shared.then_some(called);
                let (calls, replies) = (became.calls, became.replies);
                return Ok(Asked::Here(Local { calls, replies, called }));
            }
        };
        self.routes().open(id.key(), token.map(|token| token.key()), called, to);
        // Registered first: the answer may be faster than we are.
        let wanted = Wanted { child: Arc::clone(self), id, cancels: shared };
        self.write(&forward)?;
        Ok(Asked::Forwarded(wanted))
    }

    /// What the process says unasked goes to `to`.
    pub(super) fn listen(&self, to: Sender<Routed>) {
        self.routes().listen(to);
    }

    /// Ends the process and answers all who wait.
    pub(super) fn end(&self) {
        if self.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        let status = process.and_then(|mut process| {
            let by_itself = process.wait(AFTER_EOF);
            by_itself.or(process.stop())
        });
        let why = match status {
            Some(status) => format!("the server ended: {status}"),
            None => "the server ended".to_owned(),
        };
        for answer in self.relay.server_gone(&why) {
            self.route(answer);
        }
        // Every stream that is still open ends with its sender.
        *self.routes() = Routes::default();
    }

    fn write(&self, text: &str) -> Result<(), Refused> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = input.as_mut().ok_or(Refused::Gone)?;
        // A line break in JSON is white space, and a message is a line.
        let mut line = text.replace(['\n', '\r'], " ");
        line.push('\n');
        input.write_all(line.as_bytes()).map_err(|_| Refused::Gone)
    }

    fn read(&self, output: ChildStdout) {
        let mut lines = Lines::new(output);
        loop {
            match lines.next() {
                Ok(Some(Line::Whole(line))) => match self.relay.from_server(line) {
                    Forward::AsItCame => self.route(String::from_utf8_lossy(line).into_owned()),
                    Forward::Changed(text) => self.route(text),
                    Forward::Nothing => {}
                },
                Ok(Some(Line::Long(line))) => match set_aside(line, &self.relay) {
                    Some(held) => self.route_long(held),
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
        let Some((id, open)) = BelongsTo::from_message(&message).and_then(|of| routes.of(&of))
        else {
            if !last && !self.shared {
                routes.unasked(Outbound::Text(text.into()));
            }
            return;
        };
        let named = self.shared.then(|| named(&text, &open.called)).flatten();
        open.tell(Outbound::Text(named.unwrap_or(text).into()), last);
        if last {
            routes.close(&id);
        }
    }

    fn route_long(&self, held: SpillBuffer) {
        let answers = LongId::parse(&held).filter(|id| !id.asks);
        let Some(mut changes) = self.relay.long_from_server(&held) else { return };
        let Some(LongId { id, at, .. }) = answers else {
            if !self.shared {
                self.routes().unasked(Outbound::Long(held, changes));
            }
            return;
        };
        let Some(open) = self.routes().close(&id.key()) else { return };
        changes.push((at, open.called.id.as_json().to_owned()));
        changes.sort_by_key(|(range, _)| range.start);
        open.tell(Outbound::Long(held, changes), true);
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let open = self.child.routes().close(&self.id.key());
        if open.is_none() || !self.cancels {
            return;
        }
        let id = &self.id;
        let cancelled = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        );
        let child = Arc::clone(&self.child);
        // A process that does not read must not hold up the others.
        crate::session::spawn("cancel", move || drop(child.say(&cancelled)));
    }
}

/// An id that is spelled so.
fn id(json: &str) -> Id {
    let raw: Box<RawValue> =
        serde_json::from_str(json).unwrap_or_else(|_| RawValue::NULL.to_owned());
    Id::from_raw(&raw)
}
