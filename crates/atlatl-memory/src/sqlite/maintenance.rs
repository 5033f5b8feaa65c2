//! Maintenance: expiry, index repair, leases and the store's secret.

use chrono::{DateTime, Utc};
use mif::MemoryId;
use rusqlite::{Connection, OptionalExtension, params};

use super::crud::{id_from_blob, index, read, remove};
use super::error::to_store_error;
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
        .and_then(|mut statement| {
            statement
                .query_map(params![microseconds(now), limit], |row| {
                    Ok((row.get::<_, i64>(0)?, id_from_blob(row.get(1)?), row.get::<_, String>(2)?))
                })?
                .collect::<Result<Vec<_>, _>>()
        })
        .map_err(to_store_error)?;
    gone.into_iter().map(|(key, id, json)| remove(db, key, &json).map(|()| id)).collect()
}

/// Inconsistencies between the tables, by key.
pub(super) struct Inconsistencies {
    unindexed: Vec<i64>,
    orphaned: Vec<i64>,
    orphaned_vectors: Vec<i64>,
    /// Models with a gap in their vectors, and the key where it begins.
    gaps: Vec<(String, i64)>,
}

impl Inconsistencies {
    /// Returns the number of memories missing from the full-text index, and of its entries without
    /// a memory.
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

/// Finds inconsistencies between the tables.
pub(super) fn find_inconsistencies(db: &Connection) -> Result<Inconsistencies, StoreError> {
    let keys = |sql: &str| {
        db.prepare(sql)
            .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
            .map_err(to_store_error)
    };
    let gaps = db
        .prepare(
            "SELECT model, (SELECT min(key) FROM memory WHERE key <= upto AND NOT EXISTS \
             (SELECT 1 FROM vector WHERE vector.key = memory.key AND vector.model = embedded.model)) \
             AS first FROM embedded WHERE first IS NOT NULL",
        )
        .and_then(|mut statement| {
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .map_err(to_store_error)?;
    Ok(Inconsistencies {
        unindexed: keys("SELECT key FROM memory WHERE key NOT IN (SELECT id FROM words_docsize)")?,
        orphaned: keys("SELECT id FROM words_docsize WHERE id NOT IN (SELECT key FROM memory)")?,
        orphaned_vectors: keys("SELECT key FROM vector WHERE key NOT IN (SELECT key FROM memory)")?,
        gaps,
    })
}

/// Repairs inconsistencies. Memories that were deleted meanwhile are skipped.
pub(super) fn repair(
    db: &Connection,
    inconsistencies: &Inconsistencies,
) -> Result<RepairReport, StoreError> {
    let unindexed = if inconsistencies.orphaned.is_empty() {
        reindex(db, inconsistencies.unindexed.iter().copied())?
    } else {
        // An entry cannot be deleted without its text, so the whole index is rebuilt.
        db.execute("INSERT INTO words (words) VALUES ('delete-all')", [])
            .map_err(to_store_error)?;
        let keys = db
            .prepare("SELECT key FROM memory ORDER BY key")
            .and_then(|mut statement| {
                statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()
            })
            .map_err(to_store_error)?;
        reindex(db, keys.into_iter())?;
        inconsistencies.unindexed.len() as u64
    };
    for key in &inconsistencies.orphaned_vectors {
        db.execute("DELETE FROM vector WHERE key = ?1", [key]).map_err(to_store_error)?;
    }
    for (model, first) in &inconsistencies.gaps {
        db.execute(
            "UPDATE embedded SET upto = min(upto, ?2) WHERE model = ?1",
            params![model, first - 1],
        )
        .map_err(to_store_error)?;
    }
    Ok(RepairReport::new(
        unindexed,
        (inconsistencies.orphaned.len() + inconsistencies.orphaned_vectors.len()) as u64,
    ))
}

/// Adds these versions to the full-text index. Returns how many were added.
fn reindex(db: &Connection, keys: impl Iterator<Item = i64>) -> Result<u64, StoreError> {
    let mut reindexed = 0;
    for key in keys {
        let json: Option<String> = db
            .prepare_cached("SELECT json FROM document WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .map_err(to_store_error)?;
        if let Some(json) = json {
            index(db, key, &read(&json)?)?;
            reindexed += 1;
        }
    }
    Ok(reindexed)
}

pub(super) fn lease(
    db: &Connection,
    task: &str,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<bool, StoreError> {
    // A lease that ends later than this one would was taken by a process with a wrong clock.
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
