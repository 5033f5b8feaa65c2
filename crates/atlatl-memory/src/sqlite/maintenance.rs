//! Maintain: what is done to a store when nobody asks it anything.

use chrono::{DateTime, Utc};
use mif::MemoryId;
use rusqlite::{Connection, OptionalExtension, params};

use super::crud::{id_from_blob, index, read, remove};
use super::pool::to_store_error;
use crate::listing::microseconds;
use crate::store::{RepairReport, StoreError};

pub(super) fn expire(
    db: &Connection,
    now: DateTime<Utc>,
    limit: usize,
) -> Result<Vec<MemoryId>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let gone = db
        .prepare_cached(
            "SELECT key, id, json FROM memory JOIN document USING (key) \
             WHERE expires <= ?1 ORDER BY expires LIMIT ?2",
        )
        .and_then(|mut ask| {
            ask.query_map(params![microseconds(now), limit], |row| {
                Ok((row.get::<_, i64>(0)?, id_from_blob(row.get(1)?), row.get::<_, String>(2)?))
            })?
            .collect::<Result<Vec<_>, _>>()
        })
        .map_err(to_store_error)?;
    gone.into_iter().map(|(key, id, json)| remove(db, key, &json).map(|()| id)).collect()
}

/// What is not in step, by key.
pub(super) struct Inconsistencies {
    unindexed: Vec<i64>,
    orphaned: Vec<i64>,
    orphaned_vectors: Vec<i64>,
    /// Models whose vectors have a gap, and where it begins.
    gaps: Vec<(String, i64)>,
}

impl Inconsistencies {
    /// How many memories cannot be found by their words, and how many words are of none.
    pub(super) fn words(&self) -> (u64, u64) {
        (self.unindexed.len() as u64, self.orphaned.len() as u64)
    }

    pub(super) fn is_empty(&self) -> bool {
        let Self { unindexed, orphaned, orphaned_vectors, gaps } = self;
        unindexed.is_empty()
            && orphaned.is_empty()
            && orphaned_vectors.is_empty()
            && gaps.is_empty()
    }
}

/// Looks for what is not in step.
pub(super) fn find_inconsistencies(db: &Connection) -> Result<Inconsistencies, StoreError> {
    let keys = |sql: &str| {
        db.prepare(sql)
            .and_then(|mut ask| ask.query_map([], |row| row.get(0))?.collect())
            .map_err(to_store_error)
    };
    let gaps = db
        .prepare(
            "SELECT model, (SELECT min(key) FROM memory WHERE key <= upto AND NOT EXISTS \
             (SELECT 1 FROM vector WHERE vector.key = memory.key AND vector.model = embedded.model)) \
             AS first FROM embedded WHERE first IS NOT NULL",
        )
        .and_then(|mut ask| {
            ask.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .map_err(to_store_error)?;
    Ok(Inconsistencies {
        unindexed: keys("SELECT key FROM memory WHERE key NOT IN (SELECT id FROM words_docsize)")?,
        orphaned: keys("SELECT id FROM words_docsize WHERE id NOT IN (SELECT key FROM memory)")?,
        orphaned_vectors: keys("SELECT key FROM vector WHERE key NOT IN (SELECT key FROM memory)")?,
        gaps,
    })
}

/// Mends it. A memory that went meanwhile is passed over.
pub(super) fn repair(
    db: &Connection,
    find_inconsistencies: &Inconsistencies,
) -> Result<RepairReport, StoreError> {
    let unindexed = if find_inconsistencies.orphaned.is_empty() {
        reindex(db, find_inconsistencies.unindexed.iter().copied())?
    } else {
        // Nobody knows the words of what is gone: the index is made anew.
        db.execute("INSERT INTO words (words) VALUES ('delete-all')", [])
            .map_err(to_store_error)?;
        let keys = db
            .prepare("SELECT key FROM memory ORDER BY key")
            .and_then(|mut ask| ask.query_map([], |row| row.get(0))?.collect::<Result<Vec<_>, _>>())
            .map_err(to_store_error)?;
        reindex(db, keys.into_iter())?;
        find_inconsistencies.unindexed.len() as u64
    };
    for key in &find_inconsistencies.orphaned_vectors {
        db.execute("DELETE FROM vector WHERE key = ?1", [key]).map_err(to_store_error)?;
    }
    for (model, first) in &find_inconsistencies.gaps {
        db.execute(
            "UPDATE embedded SET upto = min(upto, ?2) WHERE model = ?1",
            params![model, first - 1],
        )
        .map_err(to_store_error)?;
    }
    Ok(RepairReport::new(
        unindexed,
        (find_inconsistencies.orphaned.len() + find_inconsistencies.orphaned_vectors.len()) as u64,
    ))
}

/// Puts the words of these versions into the index; of how many.
fn reindex(db: &Connection, keys: impl Iterator<Item = i64>) -> Result<u64, StoreError> {
    let mut segment_for_index = 0;
    for key in keys {
        let json: Option<String> = db
            .prepare_cached("SELECT json FROM document WHERE key = ?1")
            .and_then(|mut ask| ask.query_row([key], |row| row.get(0)).optional())
            .map_err(to_store_error)?;
        if let Some(json) = json {
            index(db, key, &read(&json)?)?;
            segment_for_index += 1;
        }
    }
    Ok(segment_for_index)
}

pub(super) fn lease(
    db: &Connection,
    task: &str,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<bool, StoreError> {
    // A lease that ends later than ours would was taken by a clock that was wrong.
    let taken = db
        .execute(
            "INSERT INTO lease (task, until) VALUES (?1, ?3) \
             ON CONFLICT (task) DO UPDATE SET until = ?3 WHERE until <= ?2 OR until > ?3",
            params![task, microseconds(now), microseconds(until)],
        )
        .map_err(to_store_error)?;
    Ok(taken == 1)
}

pub(super) fn secret(db: &Connection) -> Result<[u8; 32], StoreError> {
    db.query_row("SELECT secret FROM secret", [], |row| row.get(0)).map_err(to_store_error)
}
