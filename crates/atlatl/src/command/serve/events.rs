//! Sinks for server events: the audit log, and the ledger with standard error.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use atlatl_server::auth::{RateLimit, TokenBucket};
use atlatl_server::event::{ServerEvent, ServerEventKind, ServerEventSink};
use lro::{Event, EventKind};
use serde_json::json;

use crate::error::Error;
use crate::output::Output;

/// The maximum rate of lines about denied requests, so that they cannot fill the disk: for
/// unauthenticated ones, and for the others together.
const MAX_DENIED_LINES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(600).unwrap();

/// The audit log: a line for each use of write access, for each denied request and for each erasure that
/// this server completed. Each line is one write, so that several processes can share the file.
pub(crate) struct AuditLog {
    file: File,
    began: Instant,
    anonymous: Mutex<DeniedLines>,
    denied: Mutex<DeniedLines>,
}

/// The rate limit for lines about denied requests.
struct DeniedLines {
    bucket: TokenBucket,
    /// The number of lines that were dropped since the last one.
    suppressed: u64,
}

impl AuditLog {
    /// Opens the file of `server.audit`; `None` if it is not set.
    pub(crate) fn open(path: &str) -> Result<Option<Self>, Error> {
        if path.is_empty() {
            return Ok(None);
        }
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(Path::new(path));
        let file =
            opened.map_err(|error| Error::failure(format!("server.audit: {path}: {error}")))?;
        let (anonymous, denied) = (Mutex::default(), Mutex::default());
        Ok(Some(Self { file, began: Instant::now(), anonymous, denied }))
    }

    /// The number of lines that were dropped before this one; `None` if this one is dropped too.
    fn take_line(&self, lines: &Mutex<DeniedLines>) -> Option<u64> {
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.bucket.take(self.began.elapsed()).is_err() {
            lines.suppressed += 1;
            return None;
        }
        Some(std::mem::take(&mut lines.suppressed))
    }
}

impl Default for DeniedLines {
    fn default() -> Self {
        let limit = RateLimit::per_minute(MAX_DENIED_LINES_PER_MINUTE, MAX_DENIED_LINES_PER_MINUTE);
        Self { bucket: TokenBucket::new(limit), suppressed: 0 }
    }
}

impl ServerEventSink for AuditLog {
    fn publish(&self, event: &ServerEvent) {
        let mut line = match &event.kind {
            ServerEventKind::AccessUsed { tenant, subject, action } => {
                json!({"tenant": tenant, "subject": subject, "action": action})
            }
            ServerEventKind::AccessDenied { reason, issuer, tenant: None, subject } => {
                let Some(suppressed) = self.take_line(&self.anonymous) else { return };
                let mut line = json!({"reason": reason, "untold": suppressed});
                // What is known of a refused token.
                for (name, value) in [("issuer", issuer), ("subject", subject)] {
                    if let Some(value) = value {
                        line[name] = json!(value);
                    }
                }
                line
            }
            ServerEventKind::AccessDenied { reason, tenant, subject, .. } => {
                let Some(suppressed) = self.take_line(&self.denied) else { return };
                json!({"reason": reason, "tenant": tenant, "subject": subject, "untold": suppressed})
            }
            ServerEventKind::ErasureCompleted {
                tenant,
                scope,
                requested_by,
                memories,
                results,
            } => json!({
                "tenant": tenant,
                "scope": scope,
                "requested_by": requested_by,
                "memories": memories,
                "results": results,
            }),
            _ => return,
        };
        line["id"] = json!(event.id);
        line["time"] = json!(event.time.to_rfc3339());
        line["event"] = json!(event.kind.name());
        if let Err(error) = (&self.file).write_all(format!("{line}\n").as_bytes()) {
            Output::remark(format_args!("server.audit: {error}"));
        }
    }
}

/// Forwards events to the ledger and reports failures on standard error.
pub(super) struct EventFanOut {
    ledger: Arc<dyn lro::EventSink>,
    /// Whether the ledger has a line for each use of memories.
    memories: bool,
    /// Whether the server has a log, in which failures of tasks are.
    is_logged: bool,
}

impl EventFanOut {
    pub(super) fn new(ledger: Arc<dyn lro::EventSink>) -> Self {
        Self { ledger, memories: true, is_logged: false }
    }

    /// Reports no failures, since the log of the server has them.
    pub(super) fn logged(mut self) -> Self {
        self.is_logged = true;
        self
    }

    /// Leaves out the use of memories: the requests of many tenants would fill the ledger.
    pub(super) fn without_memories(mut self) -> Self {
        self.memories = false;
        self
    }
}

impl ServerEventSink for EventFanOut {
    fn publish(&self, event: &ServerEvent) {
        if let ServerEventKind::CustodialTaskFinished { task, acted_on: None } = &event.kind
            && !self.is_logged
        {
            Output::remark(format_args!("{task} failed; retrying"));
        }
        let uses_memories = matches!(
            event.kind,
            ServerEventKind::MemoryCaptured { .. }
                | ServerEventKind::MemoryRecalled { .. }
                | ServerEventKind::MemoryDeleted { .. }
        );
        if (self.memories || !uses_memories)
            && let Some(entry) = ledger_entry(event)
        {
            self.ledger.publish(entry);
        }
    }
}

/// The entry of an event in the ledger; `None` for access, which is in the audit log, and for a task
/// without effect.
fn ledger_entry(event: &ServerEvent) -> Option<Event> {
    let kind = match &event.kind {
        ServerEventKind::Offload(entry) => return Some(identified(Event::clone(entry), event)),
        ServerEventKind::MemoryCaptured { id } => {
            EventKind::MemoryCaptured { memory: id.to_string() }
        }
        ServerEventKind::MemoryRecalled { tool, count, total_matches } => {
            EventKind::MemoryRecalled {
                tool: (*tool).to_owned(),
                count: *count,
                total_matches: *total_matches,
            }
        }
        ServerEventKind::MemoryDeleted { id } => {
            EventKind::MemoryDeleted { memory: id.to_string() }
        }
        ServerEventKind::CustodialTaskFinished { acted_on: Some(0), .. } => return None,
        ServerEventKind::CustodialTaskFinished { task, acted_on } => {
            EventKind::CustodialTaskFinished { task: (*task).to_owned(), acted_on: *acted_on }
        }
        _ => return None,
    };
    Some(identified(Event::without_result(event.time, kind), event))
}

/// `entry` with the id, the source and the correlation of the server's event.
fn identified(mut entry: Event, event: &ServerEvent) -> Event {
    event.id.clone_into(&mut entry.id);
    event.source.clone_into(&mut entry.source);
    entry.correlation.clone_from(&event.correlation);
    entry
}
