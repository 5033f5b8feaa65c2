//! Maintain: what is done to a store when nobody asks it anything.

use chrono::{DateTime, Utc};
use mif::MemoryId;
use rusqlite::{Connection, params};

use super::keep::{id_of, index, read, remove};
use super::pool::failed;
use crate::order::microseconds;
use crate::store::{Repaired, StoreError};

pub(super) fn expire(
    db: &Connection,
    now: DateTime<Utc>,
    limit: usize,
) -> Result<Vec<MemoryId>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let gone = db
        .prepare_cached("SELECT key, id FROM memory WHERE expires <= ?1 ORDER BY expires LIMIT ?2")
        .and_then(|mut ask| {
            ask.query_map(params![microseconds(now), limit], |row| {
                Ok((row.get::<_, i64>(0)?, id_of(row.get(1)?)))
            })?
            .collect::<Result<Vec<_>, _>>()
        })
        .map_err(failed)?;
    gone.into_iter().map(|(key, id)| remove(db, key).map(|()| id)).collect()
}

pub(super) fn repair(db: &rusqlite::Transaction<'_>) -> Result<Repaired, StoreError> {
    let keys = |sql: &str| {
        db.prepare(sql)
            .and_then(|mut ask| ask.query_map([], |row| row.get(0))?.collect())
            .map_err(failed)
    };
    let missing: Vec<i64> =
        keys("SELECT key FROM memory WHERE key NOT IN (SELECT id FROM words_docsize)")?;
    for key in &missing {
        let json: String = db
            .query_row("SELECT json FROM document WHERE key = ?1", [key], |row| row.get(0))
            .map_err(failed)?;
        index(db, *key, &read(&json)?)?;
    }
    let orphaned: Vec<i64> =
        keys("SELECT id FROM words_docsize WHERE id NOT IN (SELECT key FROM memory)")?;
    for key in &orphaned {
        remove(db, *key)?;
    }
    let loose = db
        .execute("DELETE FROM vector WHERE key NOT IN (SELECT key FROM memory)", [])
        .map_err(failed)?;
    // The next vectors begin before the first memory that has none.
    db.execute(
        "UPDATE embedded SET upto = min(upto, coalesce((SELECT min(memory.key) - 1 FROM memory \
         WHERE NOT EXISTS (SELECT 1 FROM vector \
         WHERE vector.key = memory.key AND vector.model = embedded.model)), upto))",
        [],
    )
    .map_err(failed)?;
    Ok(Repaired::new(missing.len() as u64, (orphaned.len() + loose) as u64))
}

pub(super) fn lease(
    db: &Connection,
    task: &str,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let taken = db
        .execute(
            "INSERT INTO lease (task, until) VALUES (?1, ?3) \
             ON CONFLICT (task) DO UPDATE SET until = ?3 WHERE until <= ?2",
            params![task, microseconds(now), microseconds(until)],
        )
        .map_err(failed)?;
    Ok(taken == 1)
}

pub(super) fn secret(db: &Connection) -> Result<[u8; 32], StoreError> {
    db.query_row("SELECT secret FROM secret", [], |row| row.get(0)).map_err(failed)
}
