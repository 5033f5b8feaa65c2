//! Audit: who was let in to change something, and who was not let in, one line each.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    num::NonZeroU32,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use atlatl_server::auth::{Limit, TokenBucket};
use atlatl_server::event::{Event, EventKind, EventSink};
use serde_json::json;

use crate::{error::Error, output::Output};

/// Lines a minute about those of whom nobody knows who they are: they must not be able to fill a disk.
const OF_NOBODY: NonZeroU32 = NonZeroU32::new(600).unwrap();

/// Appends to a file. A line goes out in one write, so that several processes may share it.
pub(super) struct Audit {
    file: File,
    began: Instant,
    of_nobody: Mutex<OfNobody>,
}

struct OfNobody {
    bucket: TokenBucket,
    /// How many were passed over since the last line.
    untold: u64,
}

impl Audit {
    /// Opens the file `server.audit` names; `None` where it names none.
    pub(super) fn open(path: &str) -> Result<Option<Self>, Error> {
        if path.is_empty() {
            return Ok(None);
        }
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(Path::new(path));
        let file =
            opened.map_err(|error| Error::failure(format!("server.audit: {path}: {error}")))?;
        let bucket = TokenBucket::new(Limit::per_minute(OF_NOBODY, OF_NOBODY));
        let of_nobody = Mutex::new(OfNobody { bucket, untold: 0 });
        Ok(Some(Self { file, began: Instant::now(), of_nobody }))
    }

    /// How many were passed over before this one; none where this one is passed over too.
    fn may_tell(&self) -> Option<u64> {
        let mut of_nobody = self.of_nobody.lock().unwrap_or_else(PoisonError::into_inner);
        if of_nobody.bucket.take(self.began.elapsed()).is_err() {
            of_nobody.untold += 1;
            return None;
        }
        Some(std::mem::take(&mut of_nobody.untold))
    }
}

impl EventSink for Audit {
    fn publish(&self, event: &Event) {
        let mut line = match &event.kind {
            EventKind::AccessUsed { tenant, subject, action } => {
                json!({"tenant": tenant, "subject": subject, "action": action})
            }
            EventKind::AccessDenied { reason, tenant: None, .. } => {
                let Some(untold) = self.may_tell() else { return };
                json!({"reason": reason, "untold": untold})
            }
            EventKind::AccessDenied { reason, tenant, subject } => {
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
