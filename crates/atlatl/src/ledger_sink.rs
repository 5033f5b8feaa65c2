//! Sends the events of a command to the ledger and to standard error.

use std::{
    fs::DirBuilder,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use chrono::{DateTime, TimeDelta, Utc};
use lro::{Event, EventKind, EventSink, Ledger};

use crate::{output::Output, settings::Settings};

/// Characters shown of a name from outside.
const SHOWN_CHARS: usize = 80;

/// Writes every event to the ledger, and keeps what went wrong.
pub(crate) struct LedgerSink {
    path: Option<PathBuf>,
    retention: TimeDelta,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ledger: Option<Ledger>,
    /// Whether it was tried to open the ledger.
    tried: bool,
    failures: Vec<String>,
}

impl LedgerSink {
    /// With the ledger that `settings` name, which is opened when something happens.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            path: ledger_path(settings),
            retention: TimeDelta::days(settings.config.ledger.retention_days.into()),
            state: Mutex::default(),
        }
    }

    /// What went wrong since the last time.
    pub(crate) fn failures(&self) -> Vec<String> {
        std::mem::take(&mut self.state().failures)
    }

    /// Takes note, and tells the person at once if a result could not be stored, or if something
    /// happened that only a person can decide about.
    pub(crate) fn publish_aloud(&self, event: Event) {
        let failed = matches!(event.kind, EventKind::OffloadWriteFailed { .. });
        match &event.kind {
            EventKind::ReferenceRefused { tool, .. } => Output::remark(format_args!(
                "refused to pass another server's result to the tool {:?}; to allow it, set \
                 proxy.references = \"any\" in your configuration",
                lro_core::excerpt(tool, SHOWN_CHARS)
            )),
            EventKind::ToolRenamed { tool, listed_as, .. } => Output::remark(format_args!(
                "the server has its own tool {tool}, the name of an Atlatl tool; it is listed as \
                 {listed_as}"
            )),
            _ => {}
        }
        self.publish(event);
        if failed {
            for failure in self.failures() {
                Output::remark(format_args!("a large result could not be stored: {failure}"));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in it is ever half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A ledger that cannot be opened is said, and no reason to stop: it holds figures, and nothing
    /// else depends on it.
    fn ledger(&mut self, path: &Path, keep_since: DateTime<Utc>) -> Option<&Ledger> {
        if !std::mem::replace(&mut self.tried, true) {
            match open(path) {
                Ok(ledger) => {
                    // Old lines that cannot be taken out now are tried at the next start.
                    let _ = ledger.forget_before(keep_since);
                    self.ledger = Some(ledger);
                }
                Err(error) => {
                    let path = path.display();
                    self.failures.push(format!("{path}: the ledger cannot be opened: {error}"));
                }
            }
        }
        self.ledger.as_ref()
    }
}

impl EventSink for LedgerSink {
    fn publish(&self, event: Event) {
        let mut state = self.state();
        if let EventKind::OffloadWriteFailed { error, .. } = &event.kind {
            state.failures.push(error.clone());
        }
        let keep_since = event.time.checked_sub_signed(self.retention);
        let keep_since = keep_since.unwrap_or(DateTime::<Utc>::MIN_UTC);
        if let Some(ledger) = self.path.as_deref().and_then(|path| state.ledger(path, keep_since)) {
            ledger.publish(event);
        }
    }
}

/// `ledger.path`, the empty default filled in; nothing where there is no home.
pub(crate) fn ledger_path(settings: &Settings) -> Option<PathBuf> {
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
