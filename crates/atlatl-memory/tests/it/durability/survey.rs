//! The survey: the store reopened after a kill and compared with the ledger.

use std::collections::BTreeMap;
use std::path::Path;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Filter, MemoryStore, Need, RepairReport, SqliteStore, Terms};

use super::ledger::Ledger;
use super::writers::{everything, memory, numbers, word};

/// The outcomes of unacknowledged operations.
#[derive(Debug, Default)]
pub(super) struct Torn {
    pub(super) whole: u64,
    pub(super) absent: u64,
}

impl Torn {
    pub(super) fn add(&mut self, other: &Self) {
        self.whole += other.whole;
        self.absent += other.absent;
    }
}

/// Opens the store, resolves unacknowledged operations, and asserts that everything else is as
/// acknowledged. Also returns the number of memories.
pub(super) fn check(path: &Path, ledger: &mut Ledger) -> (Torn, u64) {
    let store = SqliteStore::open(path).unwrap();
    assert_eq!(
        store.repair().wait().unwrap(),
        RepairReport::default(),
        "something was half written"
    );
    sound(path);
    // Each memory parses, and equals one that was written.
    let mut there = BTreeMap::new();
    for stored in everything(&store) {
        let (id, version) = numbers(&stored);
        assert_eq!(stored, memory(id, version));
        assert_eq!(there.insert(id, version), None, "{id} twice");
    }
    let torn = settle(ledger, &there);
    let mut wanted = ledger.state.clone();
    wanted.retain(|_, version| *version != 0);
    assert_eq!(there, wanted, "left: what is there; right: what was acknowledged");
    for (id, version) in &ledger.state {
        // Current words are found; words of earlier versions and of deleted memories are not.
        if *version > 0 {
            assert_eq!(found_by(&store, &word(*id, *version)), [*id]);
        }
        if *version != 1 {
            let before = word(*id, version.saturating_sub(1).max(1));
            assert_eq!(found_by(&store, &before), [] as [u64; 0], "{before} is of the past");
        }
    }
    ledger.done.clear();
    (torn, wanted.len() as u64)
}

/// An unacknowledged operation is stored whole or not at all.
fn settle(ledger: &mut Ledger, there: &BTreeMap<u64, u64>) -> Torn {
    let mut torn = Torn::default();
    for (writer, operation) in std::mem::take(&mut ledger.under_way) {
        let version = |id: &u64| there.get(id).copied().unwrap_or(0);
        let before = |id: &u64| ledger.state.get(id).copied().unwrap_or(0);
        if operation.iter().all(|(id, new)| version(id) == *new) {
            torn.whole += 1;
            ledger.state.extend(operation);
        } else {
            let absent = operation.iter().all(|(id, _)| version(id) == before(id));
            assert!(absent, "writer {writer}: half of {operation:?}");
            torn.absent += 1;
        }
    }
    torn
}

fn found_by(store: &SqliteStore, word: &str) -> Vec<u64> {
    let now = "2026-06-01T00:00:00Z".parse().unwrap();
    let terms = Terms::parse(word, Need::All);
    let found = store.lexical(&terms, &Filter::default(), 9, now).wait().unwrap();
    found.best.iter().map(|one| u64::try_from(one.id.as_u128()).unwrap()).collect()
}

/// The engine's own checks of the file and of the full-text index.
fn sound(path: &Path) {
    let db = rusqlite::Connection::open(path).unwrap();
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    db.execute("INSERT INTO words (words) VALUES ('integrity-check')", []).unwrap();
}
