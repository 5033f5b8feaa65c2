//! The event sink of commands: writes events to the ledger and prints failures.

use std::{
    fs::DirBuilder,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use chrono::{DateTime, TimeDelta, Utc};
use lro::{Event, EventKind, EventSink, Ledger};

use crate::{output::Output, settings::Settings};

/// The characters of an untrusted name that are printed.
const MAX_NAME_CHARS: usize = 80;

/// Writes every event to the ledger, and collects failures.
pub(crate) struct LedgerSink {
    path: Option<PathBuf>,
    /// The command, as the source of its events.
    source: &'static str,
    retention: TimeDelta,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ledger: Option<Ledger>,
    /// Whether an attempt was made to open the ledger.
    open_attempted: bool,
    failures: Vec<String>,
}

impl LedgerSink {
    /// A sink for the ledger that `settings` name. It is opened at the first event. `source` is the
    /// command.
    pub(crate) fn new(settings: &Settings, source: &'static str) -> Self {
        Self {
            path: ledger_path(settings),
            source,
            retention: TimeDelta::days(settings.config.ledger.retention_days.into()),
            state: Mutex::default(),
        }
    }

    /// Takes the failures since the last call.
    pub(crate) fn failures(&self) -> Vec<String> {
        std::mem::take(&mut self.state().failures)
    }

    /// Publishes an event, and prints a note if a result could not be stored or if the user may want to
    /// change the configuration.
    pub(crate) fn publish_aloud(&self, event: Event) {
        let failed = matches!(event.kind, EventKind::OffloadWriteFailed { .. });
        match &event.kind {
            EventKind::ReferenceRefused { tool, .. } => Output::remark(format_args!(
                "refused to pass another server's result to the tool {:?}; to allow it, set \
                 proxy.references = \"any\" in your configuration",
                lro_core::excerpt(tool, MAX_NAME_CHARS)
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
        // A panic leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Opens the ledger at the first call. A failure is reported and is not fatal: the ledger contains only
    /// figures.
    fn ledger(&mut self, path: &Path, source: &str, keep_since: DateTime<Utc>) -> Option<&Ledger> {
        if !std::mem::replace(&mut self.open_attempted, true) {
            match open(path).map(|ledger| ledger.with_source(source)) {
                Ok(ledger) => {
                    // Old lines that cannot be removed now are removed at the next start.
                    let _ = ledger.forget_before(keep_since);
                    self.ledger = Some(ledger);
                }
                Err(error) => {
                    let path = path.display();
                    self.failures.push(format!("{path}: cannot open the ledger: {error}"));
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
        let Some(path) = self.path.as_deref() else { return };
        if let Some(ledger) = state.ledger(path, self.source, keep_since) {
            ledger.publish(event);
        }
    }
}

/// The path of the ledger: `ledger.path` or its default; `None` if there is no home directory.
pub(crate) fn ledger_path(settings: &Settings) -> Option<PathBuf> {
    match &*settings.config.ledger.path {
        "" => Some(settings.surroundings().state_dir.as_ref()?.join("atlatl/ledger.jsonl")),
        path => Some(PathBuf::from(path)),
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
