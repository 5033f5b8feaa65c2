//! The baseline: statements through `rusqlite` alone, reading rows up to their JSON text.
//!
//! Those of a listing and of one memory are the store's, and every result is compared with the
//! store's. Those of a recall and a search are the ones of version 0.1.0, which scored and counted
//! every match.

use std::collections::HashMap;
use std::path::Path;

use atlatl_memory::{ListPosition, MAX_HITS, Need, Terms};
use chrono::{DateTime, Utc};
use mif::MemoryId;
use rusqlite::{Connection, OpenFlags, params};

/// The store's connection settings.
const SETTINGS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA secure_delete = ON;
    PRAGMA cache_size = -65536;
    PRAGMA mmap_size = 1073741824;
    PRAGMA temp_store = MEMORY;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA trusted_schema = OFF;
";
const ADMITTED: &str = "(memory.expires IS NULL OR memory.expires > ?2) AND memory.status = ?3";
const BY_ID: &str = "SELECT json FROM memory JOIN document USING (key) WHERE id = ?1";
/// The weights of titles, contents and tags in version 0.1.0.
const OLD_WEIGHTS: &str = "bm25(4.0, 1.0, 2.0)";
/// The store's weights, with which its first hits are compared.
const WEIGHTS: &str = "bm25(2.0, 1.0, 2.0)";
/// The number of hits that are compared.
const COMPARED_HITS: usize = 10;
const MATCHING: &str =
    "FROM words CROSS JOIN memory ON memory.key = words.rowid WHERE words MATCH ?1";

pub(crate) fn connect(path: &Path, how: OpenFlags) -> Connection {
    let db = Connection::open_with_flags(path, how | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .expect("a store that is there");
    db.execute_batch(SETTINGS).expect("settings");
    db.set_prepared_statement_cache_capacity(64);
    db
}

/// A reading connection, at a time.
pub(crate) struct Bare {
    pub(crate) db: Connection,
    pub(crate) now: DateTime<Utc>,
}

/// The result of a query: ids, the total, and the bytes of JSON read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) ids: Vec<u128>,
    pub(crate) total: u64,
    pub(crate) bytes: usize,
}

impl Bare {
    /// The best `candidates`, the total, and the JSON of the first `limit`.
    pub(crate) fn find(&self, question: &str, candidates: usize, limit: usize) -> Answer {
        let now = self.now.timestamp_micros();
        let transaction = self.db.unchecked_transaction().expect("a transaction");
        let best: Vec<[u8; 16]> = self
            .db
            .prepare_cached(&format!(
                "SELECT memory.id, words.rank, memory.fades {MATCHING} AND {ADMITTED} \
                 AND rank MATCH '{OLD_WEIGHTS}' ORDER BY rank LIMIT {candidates}"
            ))
            .and_then(|mut ask| {
                ask.query_map(params![question, now, "active"], |row| {
                    let (_, _): (f64, bool) = (row.get(1)?, row.get(2)?);
                    row.get(0)
                })?
                .collect()
            })
            .expect("an answer");
        let total = if best.len() < candidates {
            best.len() as u64
        } else {
            self.db
                .prepare_cached(&format!("SELECT count(*) {MATCHING} AND {ADMITTED}"))
                .and_then(|mut ask| {
                    ask.query_row(params![question, now, "active"], |row| row.get::<_, i64>(0))
                })
                .expect("a count")
                .unsigned_abs()
        };
        let ids = &best[..best.len().min(limit)];
        let mut ask = self.db.prepare_cached(BY_ID).expect("a statement");
        let json = |id| ask.query_row([id], |row| row.get::<_, String>(0));
        let jsons: Vec<String> = ids.iter().map(json).collect::<Result<_, _>>().expect("rows");
        let bytes = jsons.iter().map(String::len).sum();
        drop(ask);
        transaction.finish().expect("an end");
        Answer { ids: ids.iter().map(|id| u128::from_be_bytes(*id)).collect(), total, bytes }
    }

    /// The JSON of the best `limit` by one statement without a total: the minimum.
    pub(crate) fn least(&self, question: &str, limit: usize) -> usize {
        let now = self.now.timestamp_micros();
        self.db
            .prepare_cached(&format!(
                "SELECT (SELECT json FROM document WHERE document.key = memory.key) {MATCHING} \
                 AND {ADMITTED} AND rank MATCH '{OLD_WEIGHTS}' ORDER BY rank LIMIT {limit}"
            ))
            .and_then(|mut ask| {
                let rows = ask.query_map(params![question, now, "active"], |row| {
                    row.get::<_, String>(0).map(|json| json.len())
                })?;
                rows.sum()
            })
            .expect("an answer")
    }

    /// Returns which share of the first `ids` belongs there if every match is scored with the
    /// store's weights. Memories with equal scores may replace each other.
    #[expect(clippy::cast_precision_loss, reason = "ten hits")]
    pub(crate) fn agreement(&self, question: &str, ids: &[u128]) -> f64 {
        let now = self.now.timestamp_micros();
        let ranks: HashMap<u128, f64> = self
            .db
            .prepare_cached(&format!(
                "SELECT memory.id, words.rank {MATCHING} AND {ADMITTED} \
                 AND rank MATCH '{WEIGHTS}' ORDER BY rank LIMIT {MAX_HITS}"
            ))
            .and_then(|mut ask| {
                ask.query_map(params![question, now, "active"], |row| {
                    Ok((u128::from_be_bytes(row.get(0)?), row.get(1)?))
                })?
                .collect()
            })
            .expect("an answer");
        let mut sorted: Vec<f64> = ranks.values().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let compared = sorted.len().min(COMPARED_HITS);
        let Some(last) = compared.checked_sub(1).map(|at| sorted[at]) else { return 1.0 };
        // The engine's ranks are negative: smaller is better.
        let belongs = |id: &&u128| ranks.get(*id).is_some_and(|rank| *rank <= last + 1e-9);
        ids.iter().take(compared).filter(belongs).count() as f64 / compared as f64
    }

    /// A page of a listing.
    pub(crate) fn list(&self, after: &ListPosition, limit: u32) -> Answer {
        let now = self.now.timestamp_micros();
        let jsons: Vec<String> = self
            .db
            .prepare_cached(
                "SELECT json FROM memory JOIN document USING (key) \
                 WHERE (memory.expires IS NULL OR memory.expires > ?) AND memory.status = ? \
                 AND (memory.created, memory.id) < (?, ?) \
                 ORDER BY memory.created DESC, memory.id DESC LIMIT ? OFFSET ?",
            )
            .and_then(|mut ask| {
                let (at, id) = (after.at, blob(&after.id));
                ask.query_map(params![now, "active", at, id, limit + 1, 0], |row| row.get(0))?
                    .collect()
            })
            .expect("a page");
        let bytes = jsons.iter().take(limit as usize).map(String::len).sum();
        Answer { ids: Vec::new(), total: jsons.len() as u64, bytes }
    }

    pub(crate) fn get(&self, id: &MemoryId) -> String {
        self.db
            .prepare_cached(BY_ID)
            .and_then(|mut ask| ask.query_row([blob(id)], |row| row.get(0)))
            .expect("a row")
    }
}

pub(crate) fn blob(id: &MemoryId) -> [u8; 16] {
    id.as_u128().to_be_bytes()
}

/// The words of a query in the syntax of the index.
pub(crate) fn expression(question: &str, need: Need) -> String {
    let with = if need == Need::All { " AND " } else { " OR " };
    let phrases = Terms::parse(question, need).phrases.into_iter().map(|phrase| {
        let quoted = format!("\"{}\"", phrase.words);
        if phrase.prefix { format!("{quoted} *") } else { quoted }
    });
    phrases.collect::<Vec<_>>().join(with)
}
