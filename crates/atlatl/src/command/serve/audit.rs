//! Audit: who was let in to change something, and who was not let in, one line each.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use atlatl_server::event::{Event, EventKind, EventSink};
use serde_json::json;

use crate::{error::Error, output::Output};

/// Appends to a file. A line goes out in one write, so that several processes may share it.
pub(super) struct Audit(File);

impl Audit {
    pub(super) fn open(path: &str) -> Result<Self, Error> {
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(Path::new(path));
        opened.map(Self).map_err(|error| Error::failure(format!("server.audit: {path}: {error}")))
    }
}

impl EventSink for Audit {
    fn publish(&self, event: &Event) {
        let mut line = match &event.kind {
            EventKind::AccessUsed { tenant, subject, action } => {
                json!({"tenant": tenant, "subject": subject, "action": action})
            }
            EventKind::AccessDenied { reason, tenant, subject } => {
                json!({"reason": reason, "tenant": tenant, "subject": subject})
            }
            _ => return,
        };
        line["id"] = json!(event.id);
        line["time"] = json!(event.time.to_rfc3339());
        line["event"] = json!(event.kind.name());
        if let Err(error) = (&self.0).write_all(format!("{line}\n").as_bytes()) {
            Output::remark(format_args!("server.audit: {error}"));
        }
    }
}
