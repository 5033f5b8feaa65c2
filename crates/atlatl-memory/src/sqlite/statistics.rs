//! Corpus statistics of the full-text index: the number of memories, their mean length, and how
//! many contain a phrase.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};

use super::error::to_store_error;
use crate::store::StoreError;

/// Smaller counts are cheaper to repeat than to cache.
const MIN_CACHED: u64 = 2_000;
/// The maximum number of cached counts.
const MAX_CACHED_PHRASES: usize = 4_096;
/// A count is valid while the number of memories changes by less than this part of it.
const STALE_AFTER: u64 = 20;

/// Totals of the index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Totals {
    pub(super) memories: u64,
    /// The mean number of words of a memory, 0 if unknown.
    pub(super) mean_len: f64,
}

/// Reads the totals that FTS5 stores for `bm25` in row 1 of its data table: the number of rows,
/// then the number of words of each column, as varints. Counting the rows would read all of them.
#[expect(clippy::cast_precision_loss, reason = "fewer words than an `f64` counts exactly")]
pub(super) fn totals(db: &Connection) -> Result<Totals, StoreError> {
    let record: Option<Vec<u8>> = db
        .prepare_cached("SELECT block FROM words_data WHERE id = 1")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .map_err(to_store_error)?;
    if let [memories, title, content, tags] = varints(&record.unwrap_or_default())[..]
        && memories > 0
    {
        let words = title as f64 + content as f64 + tags as f64;
        return Ok(Totals { memories, mean_len: words / memories as f64 });
    }
    // The index is empty, or another version of the engine wrote it.
    let memories = db
        .prepare_cached("SELECT count(*) FROM memory")
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
        .map_err(to_store_error)?;
    Ok(Totals { memories: memories.unsigned_abs(), mean_len: 0.0 })
}

/// Decodes numbers of seven bits per byte, highest first. All bytes of a number but the last have
/// the high bit.
fn varints(bytes: &[u8]) -> Vec<u64> {
    let mut number = 0_u64;
    let mut numbers = Vec::new();
    for byte in bytes {
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    numbers
}

/// Counts the memories that match an expression of the full-text index, up to `cap`.
pub(super) fn count(db: &Connection, expression: &str, cap: u64) -> Result<u64, StoreError> {
    let cap = i64::try_from(cap).unwrap_or(i64::MAX);
    db.prepare_cached("SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)")
        .and_then(|mut statement| {
            statement.query_row(params![expression, cap], |row| row.get::<_, i64>(0))
        })
        .map(i64::unsigned_abs)
        .map_err(to_store_error)
}

/// How many memories match phrases of queries, cached while the store changes little: counting a
/// word of a million memories takes tens of milliseconds.
#[derive(Debug, Default)]
pub(super) struct FrequencyCache(Mutex<HashMap<String, Counted>>);

#[derive(Debug, Clone, Copy)]
struct Counted {
    frequency: u64,
    /// The number of memories at that time.
    memories: u64,
}

impl FrequencyCache {
    /// Counts the memories that match an expression, up to just above half of all `memories`:
    /// beyond, BM25 gives every phrase the same weight.
    pub(super) fn count(
        &self,
        db: &Connection,
        expression: &str,
        memories: u64,
    ) -> Result<u64, StoreError> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(expression).copied();
        if let Some(counted) = cached
            && counted.memories.abs_diff(memories).saturating_mul(STALE_AFTER) < counted.memories
        {
            return Ok(counted.frequency);
        }
        let frequency = count(db, expression, memories / 2 + 1)?;
        if frequency >= MIN_CACHED {
            let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if cache.len() >= MAX_CACHED_PHRASES {
                cache.clear();
            }
            cache.insert(expression.to_owned(), Counted { frequency, memories });
        }
        Ok(frequency)
    }
}

#[cfg(test)]
mod tests {
    use testkit::corpus;

    use super::*;
    use crate::search::tokenizer::words;
    use crate::store::{MemoryStore, OnConflict};

    #[test]
    fn varints_end_where_the_high_bit_is_clear() {
        let record = [0x86, 0x8d, 0x20, 0xa4, 0xcf, 0x40, 0x83, 0xab, 0x9f, 0x40, 0x07];
        assert_eq!(varints(&record), [100_000, 600_000, 7_000_000, 7]);
        assert_eq!(varints(&[]), [] as [u64; 0]);
    }

    /// The layout of the record belongs to the engine, so this also guards upgrades.
    #[tokio::test]
    #[expect(clippy::cast_precision_loss, reason = "few words")]
    async fn the_totals_are_those_of_the_index() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("memory.db");
        let store = crate::SqliteStore::open(&path).expect("a store");
        let db = Connection::open(&path).expect("a connection");
        assert_eq!(totals(&db).expect("totals"), Totals { memories: 0, mean_len: 0.0 });
        let mut memories = corpus::memories(300, 4);
        store.put(&memories, OnConflict::Keep).await.expect("put");
        for memory in memories.drain(..20) {
            assert!(store.delete(&memory.id).await.expect("delete"));
        }
        for memory in &mut memories[..5] {
            memory.content.push_str(" with seven more words at the end");
            let put = store.put(std::slice::from_ref(memory), OnConflict::Replace);
            put.await.expect("put");
        }
        let len = |memory: &mif::Memory| {
            let title = memory.title.as_deref().unwrap_or_default();
            [title, &memory.content, &memory.tags().join(" ")].map(|text| words(text).count())
        };
        let all: usize = memories.iter().flat_map(len).sum();
        let Totals { memories, mean_len } = totals(&db).expect("totals");
        assert_eq!(memories, 280);
        assert!((mean_len - all as f64 / 280.0).abs() < 1e-9, "{mean_len}");
    }

    #[test]
    fn large_counts_are_cached_until_the_store_has_grown() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("memory.db");
        drop(crate::SqliteStore::open(&path).expect("a store"));
        let db = Connection::open(&path).expect("a connection");
        let add = |rows: std::ops::Range<u32>| {
            for n in rows {
                let word = if n % 2 == 0 { "even" } else { "odd" };
                db.execute("INSERT INTO words (rowid, content) VALUES (?1, ?2)", params![n, word])
                    .expect("a row");
            }
        };
        db.execute_batch("BEGIN").expect("a transaction");
        add(0..6_000);
        let cache = FrequencyCache::default();
        let count = |memories| cache.count(&db, "\"even\"", memories).expect("a count");
        assert_eq!(count(6_000), 3_000);
        add(6_000..6_200);
        assert_eq!(count(6_200), 3_000, "cached");
        add(6_200..6_400);
        assert_eq!(count(6_400), 3_200, "counted again");
        assert_eq!(cache.count(&db, "\"none\"", 6_400).expect("a count"), 0);
        assert_eq!(cache.0.lock().expect("a cache").len(), 1);
    }
}
