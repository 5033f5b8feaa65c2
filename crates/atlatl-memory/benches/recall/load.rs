//! Filling the database through the store.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{MemoryStore, OnConflict, PostgresStore};
use mif::Memory;
use serde_json::{Value, json};

use crate::database::Database;
use crate::memories::{Corpus, SEARCHED};
use crate::progress;

/// The number of threads that put memories.
const CLIENTS: usize = 4;
/// The number of memories per put. So many let the store count words, if it changed much.
const BATCH_LEN: usize = 500;
/// The number of memories per put that does not count.
const UNCOUNTED_BATCH_LEN: usize = 400;
/// The number of memories from which on the index may be built after them.
const MIN_BULK_LEN: usize = 200_000;
/// The number of memories that are put after the index is built.
const AFTER_BULK_LEN: usize = 10_000;
/// The speed in memories per second below which the index is built after the memories.
const MIN_SPEED: f64 = 3_000.0;
/// The maximum number of steps of maintenance after a range.
const MAX_ADVANCES: usize = 10;

/// Fills the searched tenant.
pub(crate) struct Loader<'a> {
    pub(crate) corpus: &'a Corpus,
    pub(crate) database: &'a Database,
    pub(crate) store: &'a PostgresStore,
    /// The speed of the last range with the index in place.
    pub(crate) speed: Option<f64>,
}

impl Loader<'_> {
    /// Puts the memories of a range. If that was slow before and the range is long, the index of
    /// cells is dropped for most of it and built afterwards.
    #[expect(clippy::cast_precision_loss, reason = "a few million")]
    pub(crate) fn fill(&mut self, range: Range<usize>) -> Value {
        let is_slow = self.speed.is_none_or(|speed| speed < MIN_SPEED);
        let begun = Instant::now();
        let is_bulk = range.len() >= MIN_BULK_LEN && is_slow;
        let index_seconds = is_bulk.then(|| {
            let border = range.end - AFTER_BULK_LEN;
            let seconds = self.fill_without_index(range.start..border);
            put(self.corpus, self.store, SEARCHED, border..range.end, BATCH_LEN);
            seconds
        });
        if !is_bulk {
            put(self.corpus, self.store, SEARCHED, range.clone(), BATCH_LEN);
            self.speed = Some(range.len() as f64 / begun.elapsed().as_secs_f64());
        }
        for _ in 0..MAX_ADVANCES {
            if self.store.advance_search_index().wait().expect("counted") == 0 {
                break;
            }
        }
        json!({
            "memories": range.len(),
            "seconds": begun.elapsed().as_secs_f64(),
            "index_seconds": index_seconds,
            "clients": CLIENTS,
        })
    }

    /// Returns how long the index took to build.
    fn fill_without_index(&self, range: Range<usize>) -> f64 {
        let database = self.database;
        let definition =
            database.sql("SELECT pg_get_indexdef('atlatl.search_document_cells'::regclass)");
        database.sql("DROP INDEX atlatl.search_document_cells");
        put(self.corpus, self.store, SEARCHED, range, UNCOUNTED_BATCH_LEN);
        progress("building the index of cells");
        let begun = Instant::now();
        // The definition excludes the partitions.
        let definition = definition.trim().replacen(" ON ONLY ", " ON ", 1);
        database.sql(&format!("SET maintenance_work_mem = '1GB'; {definition}"));
        begun.elapsed().as_secs_f64()
    }
}

/// Puts the memories of a range into a store.
pub(crate) fn put(
    corpus: &Corpus,
    store: &PostgresStore,
    seed: u64,
    range: Range<usize>,
    batch_len: usize,
) {
    let (next, done) = (AtomicUsize::new(range.start), AtomicUsize::new(0));
    let step = (range.len() / 10).max(10_000);
    let begun = Instant::now();
    let client = || {
        loop {
            let begin = next.fetch_add(batch_len, Ordering::Relaxed);
            if begin >= range.end {
                return;
            }
            let batch = begin..(begin + batch_len).min(range.end);
            let batch: Vec<Memory> = batch.map(|n| corpus.memory(seed, n)).collect();
            store.put(&batch, OnConflict::Keep).wait().expect("put");
            let before = done.fetch_add(batch.len(), Ordering::Relaxed);
            let now = before + batch.len();
            if now / step > before / step {
                let seconds = begun.elapsed().as_secs();
                progress(&format!("put {now} of {} memories in {seconds} s", range.len()));
            }
        }
    };
    thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(client))));
}
