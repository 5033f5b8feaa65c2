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
use serde_json::json;

use crate::error::Error;
use crate::output::Output;

/// The maximum rate of lines about unauthenticated requests, so that they cannot fill the disk.
const MAX_ANONYMOUS_LINES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(600).unwrap();

/// The audit log: a line for each use of write access and for each denied request. Each line is one
/// write, so that several processes can share the file.
pub(super) struct AuditLog {
    file: File,
    began: Instant,
    anonymous: Mutex<AnonymousLines>,
}

/// The rate limit for lines about unauthenticated requests.
struct AnonymousLines {
    bucket: TokenBucket,
    /// The number of lines that were dropped since the last one.
    suppressed: u64,
}

impl AuditLog {
    /// Opens the file of `server.audit`; `None` if it is not set.
    pub(super) fn open(path: &str) -> Result<Option<Self>, Error> {
        if path.is_empty() {
            return Ok(None);
        }
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(Path::new(path));
        let file =
            opened.map_err(|error| Error::failure(format!("server.audit: {path}: {error}")))?;
        let bucket = TokenBucket::new(RateLimit::per_minute(
            MAX_ANONYMOUS_LINES_PER_MINUTE,
            MAX_ANONYMOUS_LINES_PER_MINUTE,
        ));
        let anonymous = Mutex::new(AnonymousLines { bucket, suppressed: 0 });
        Ok(Some(Self { file, began: Instant::now(), anonymous }))
    }

    /// The number of lines that were dropped before this one; `None` if this one is dropped too.
    fn take_anonymous_line(&self) -> Option<u64> {
        let mut anonymous = self.anonymous.lock().unwrap_or_else(PoisonError::into_inner);
        if anonymous.bucket.take(self.began.elapsed()).is_err() {
            anonymous.suppressed += 1;
            return None;
        }
        Some(std::mem::take(&mut anonymous.suppressed))
    }
}

impl ServerEventSink for AuditLog {
    fn publish(&self, event: &ServerEvent) {
        let mut line = match &event.kind {
            ServerEventKind::AccessUsed { tenant, subject, action } => {
                json!({"tenant": tenant, "subject": subject, "action": action})
            }
            ServerEventKind::AccessDenied { reason, tenant: None, .. } => {
                let Some(suppressed) = self.take_anonymous_line() else { return };
                json!({"reason": reason, "untold": suppressed})
            }
            ServerEventKind::AccessDenied { reason, tenant, subject } => {
                json!({"reason": reason, "tenant": tenant, "subject": subject})
            }
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

/// Forwards events about stored results to the ledger and reports failures on standard error.
pub(super) struct EventFanOut(Arc<dyn lro::EventSink>);

impl EventFanOut {
    pub(super) fn new(ledger: Arc<dyn lro::EventSink>) -> Self {
        Self(ledger)
    }
}

impl ServerEventSink for EventFanOut {
    fn publish(&self, event: &ServerEvent) {
        match &event.kind {
            ServerEventKind::Offload(event) => self.0.publish(event.clone()),
            ServerEventKind::CustodialTaskFinished { task, acted_on: None } => {
                Output::remark(format_args!("{task} failed; retrying"));
            }
            _ => {}
        }
    }
}
