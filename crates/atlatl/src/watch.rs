//! Watch: what happens while a command runs, for the ledger and for the person.

use std::{
    fs::DirBuilder,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use lro::{Event, EventKind, EventSink, Ledger};

use crate::settings::Settings;

/// Writes every event to the ledger, and keeps what went wrong.
pub(crate) struct Watch {
    ledger: Option<Ledger>,
    failures: Mutex<Vec<String>>,
}

impl Watch {
    /// With the ledger that `settings` name. One that cannot be opened is said, and no reason to
    /// stop: it holds figures, and nothing else depends on it.
    pub(crate) fn new(settings: &Settings) -> Self {
        let (ledger, failures) = match ledger_path(settings).map(|path| (open(&path), path)) {
            None => (None, Vec::new()),
            Some((Ok(ledger), _)) => (Some(ledger), Vec::new()),
            Some((Err(error), path)) => {
                (None, vec![format!("{}: the ledger cannot be opened: {error}", path.display())])
            }
        };
        Self { ledger, failures: Mutex::new(failures) }
    }

    /// What went wrong since the last time.
    pub(crate) fn failures(&self) -> Vec<String> {
        std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EventSink for Watch {
    fn publish(&self, event: Event) {
        if let EventKind::OffloadWriteFailed { error, .. } = &event.kind {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.push(error.clone());
        }
        if let Some(ledger) = &self.ledger {
            ledger.publish(event);
        }
    }
}

/// `ledger.path`, the empty default filled in; nothing where there is no home.
fn ledger_path(settings: &Settings) -> Option<PathBuf> {
    match &*settings.config.ledger.path {
        "" => Some(settings.surroundings().state_dir.as_ref()?.join("atlatl/ledger.jsonl")),
        named => Some(PathBuf::from(named)),
    }
}

fn open(path: &Path) -> std::io::Result<Ledger> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir)?;
    }
    Ledger::open(path)
}
