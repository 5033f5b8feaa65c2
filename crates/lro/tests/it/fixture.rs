//! An offloader on a real directory, and a recorder of its events.

use std::sync::{Arc, Mutex};

use lro::{Event, EventSink, IdSeed, Offloader};
use lro_core::config::Config;
use lro_spool::{DirOptions, DirSpool};
use tempfile::TempDir;

#[derive(Default)]
pub(crate) struct Watcher(Mutex<Vec<Event>>);

impl EventSink for Watcher {
    fn publish(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Watcher {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().map(|event| event.kind.name()).collect()
    }
}

pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) offloader: Offloader,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(DirOptions::private())
    }

    pub(crate) fn with(options: DirOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let spool = DirSpool::open(&dir.path().join("spool"), options).unwrap();
        let watcher = Arc::new(Watcher::default());
        let events = Arc::clone(&watcher) as Arc<dyn EventSink>;
        let offloader = Offloader::new(Arc::new(spool), &Config::default()).with_events(events);
        Self { dir, watcher, offloader }
    }

    /// The names of all files in the spool, including hidden ones.
    pub(crate) fn files(&self) -> Vec<String> {
        files(&self.dir.path().join("spool"))
    }
}

/// The names in a directory, without the usage file.
pub(crate) fn files(path: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with(".atlatl-usage-")).collect()
}

pub(crate) fn moment() -> IdSeed {
    IdSeed { now: "2026-11-15T12:00:00Z".parse().unwrap(), random: 7 }
}

/// The result of `recall_memories` with `count` memories.
pub(crate) fn recalled(count: usize) -> String {
    let memories = testkit::corpus::memories(count, 42);
    let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full);
    let scores: Vec<String> = (0..count).map(|i| format!("0.{:03}", 999 - i)).collect();
    format!(
        r#"{{"count":{count},"total_matches":{},"memories":[{}],"scores":[{}],"next_cursor":null}}"#,
        count + 5,
        lines.join(","),
        scores.join(",")
    )
}
