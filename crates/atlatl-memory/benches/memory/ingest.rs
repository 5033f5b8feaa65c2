//! Writes: memories stored durably, one by one and in batches, into two identical files.

use std::path::Path;
use std::sync::Arc;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{CaptureService, MemoryIdSeed, MemoryStore, OnConflict, SqliteStore};
use mif::{DetailLevel, Map, Memory};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::bare::connect;
use crate::bare_put::{self, Row};
use crate::pair::Pair;
use crate::place::Place;
use crate::supply::Supply;

const SINGLES: usize = 300;
const BATCHES: usize = 24;
const BATCH_LEN: usize = 500;

/// Measures on the existing store, which grows.
pub(crate) fn rows(place: &Place, supply: &mut Supply) -> Vec<Value> {
    // The first connection creates the tables; the last to close truncates the log.
    let _ = SqliteStore::open(&place.ours()).expect("a store");
    place.copy();
    let store: Arc<dyn MemoryStore> = Arc::new(SqliteStore::open(&place.ours()).expect("a store"));
    let mut bare = connect(&place.bare(), OpenFlags::SQLITE_OPEN_READ_WRITE);
    let rows = vec![singles(&store, &mut bare, supply), batches(&*store, &mut bare, supply)];
    assert_eq!(stored(&place.ours()), stored(&place.bare()), "the same was written");
    drop(bare);
    place.remove_bare();
    rows
}

fn singles(store: &Arc<dyn MemoryStore>, bare: &mut Connection, supply: &mut Supply) -> Value {
    let service = CaptureService::new(store.clone());
    let mut pair = Pair::default();
    for mut memory in supply.take(SINGLES) {
        // What a capture infers; the rest is given.
        memory.wiki_links =
            Some(mif::wiki_links_in(&memory.content)).filter(|links| !links.is_empty());
        let (fields, at) = (fields(&memory), moment(&memory));
        let row = Row::of(&memory);
        let (captured, ()) = pair.time(
            || service.capture(fields, at).wait().expect("captured"),
            || bare_put::put(bare, std::slice::from_ref(&row)),
        );
        assert_eq!(captured, memory, "both store the same");
    }
    pair.row("capture one")
}

fn batches(store: &dyn MemoryStore, bare: &mut Connection, supply: &mut Supply) -> Value {
    let mut pair = Pair::default();
    for _ in 0..BATCHES {
        let memories = supply.take(BATCH_LEN);
        let rows: Vec<Row> = memories.iter().map(Row::of).collect();
        pair.time(
            || store.put(&memories, OnConflict::Keep).wait().expect("put"),
            || bare_put::put(bare, &rows),
        );
    }
    pair.row("put 500 at once")
}

/// The fields that a client sends.
fn fields(memory: &Memory) -> Map {
    let mut fields = memory.at(DetailLevel::Full);
    fields.shift_remove("id");
    fields.shift_remove("created");
    fields
}

/// The seed that gives a captured memory its original id.
fn moment(memory: &Memory) -> MemoryIdSeed {
    MemoryIdSeed { now: memory.created.instant().to_utc(), random: memory.id.as_u128() }
}

/// Returns the number of memories in a store.
fn stored(path: &Path) -> i64 {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    db.query_row("SELECT count(*) FROM memory", [], |row| row.get(0)).expect("a count")
}
