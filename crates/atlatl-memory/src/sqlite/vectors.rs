//! Vector search, and the memories that have no vector yet.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use mif::MemoryId;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::crud::{Condition, blob, id_from_blob, read};
use super::error::to_store_error;
use super::vector_cache::{Neighbor, VectorCache, decode, dot};
use crate::listing::Filter;
use crate::store::{MemoryMatch, StoreError, Unembedded};

/// The number of candidates beyond the requested ones, at least, if the similarities in memory are
/// approximate.
const MIN_SPARE_CANDIDATES: usize = 100;

/// Returns the memories nearest to `vector`. Their scores are exact cosines.
pub(super) fn nearest(
    db: &Connection,
    vector_cache: &Mutex<VectorCache>,
    (model, vector): (&str, &[f32]),
    filter: &Filter,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Vec<MemoryMatch>, StoreError> {
    let mut neighbors = {
        let mut vector_cache = vector_cache.lock().unwrap_or_else(PoisonError::into_inner);
        vector_cache.refresh(db)?;
        vector_cache.neighbors(vector, limit)
    };
    let is_exact = neighbors.is_exact();
    // At 8 bits and 384 dimensions the error is about 0.0004. Among 100,000 random vectors, the
    // 200th and the 400th nearest differ by 0.01.
    let spare = if is_exact { 0 } else { limit.max(MIN_SPARE_CANDIDATES) };
    let candidates = limit.saturating_add(spare);
    let condition = Condition::from_filter(filter, now);
    let sql = format!(
        "SELECT memory.id, memory.fades FROM memory WHERE {} AND memory.key = ?",
        condition.sql
    );
    let mut statement = db.prepare_cached(&sql).map_err(to_store_error)?;
    let mut found: Vec<(Neighbor, MemoryMatch)> = Vec::new();
    while found.len() < candidates
        && let Some(mut neighbor) = neighbors.next()
    {
        let values = condition.values.iter().cloned().chain([neighbor.key.into()]);
        // Memories that were deleted, filtered out or updated meanwhile are skipped.
        let admitted = statement
            .query_row(params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(to_store_error)?;
        let Some((id, decays)) = admitted else { continue };
        if !is_exact {
            let Some(stored) = stored_vector(db, model, neighbor.key, vector.len())? else {
                continue;
            };
            neighbor.cosine = dot(&stored, vector);
        }
        let score = f64::from(neighbor.cosine);
        found.push((neighbor, MemoryMatch::new(id_from_blob(id), score, decays)));
    }
    if !is_exact {
        found.sort_unstable_by(|a, b| a.0.compare(&b.0));
        found.truncate(limit);
    }
    Ok(found.into_iter().map(|(_, memory)| memory).collect())
}

/// Returns the cosine similarity of `vector` to the stored vectors of these memories.
pub(super) fn cosines(
    db: &Connection,
    model: &str,
    vector: &[f32],
    ids: &[MemoryId],
) -> Result<Vec<Option<f64>>, StoreError> {
    let mut statement = db
        .prepare_cached(
            "SELECT vector.vector FROM memory JOIN vector ON vector.key = memory.key \
             WHERE memory.id = ?1 AND vector.model = ?2",
        )
        .map_err(to_store_error)?;
    let cosine = |id: &MemoryId| {
        let cosine = statement.query_row(params![blob(id), model], |row| {
            // An empty vector marks a text that the model refused.
            let bytes = row.get_ref(0)?.as_blob()?;
            let stored = decode(bytes, vector.len()).filter(|stored| !stored.is_empty());
            Ok(stored.map(|stored| f64::from(dot(&stored, vector))))
        });
        cosine.optional().map(Option::flatten).map_err(to_store_error)
    };
    ids.iter().map(cosine).collect()
}

/// Reads a vector from the table, unless it was removed or has another number of dimensions.
fn stored_vector(
    db: &Connection,
    model: &str,
    key: i64,
    dimensions: usize,
) -> Result<Option<Vec<f32>>, StoreError> {
    db.prepare_cached("SELECT vector FROM vector WHERE key = ?1 AND model = ?2")
        .and_then(|mut statement| {
            statement
                .query_row(params![key, model], |row| {
                    Ok(decode(row.get_ref(0)?.as_blob()?, dimensions))
                })
                .optional()
        })
        .map(Option::flatten)
        .map_err(to_store_error)
}

pub(super) fn unembedded(
    db: &Connection,
    model: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<Unembedded>, StoreError> {
    let mut statement = db
        .prepare_cached(
            "SELECT key, json FROM document \
             WHERE key > max(?3, coalesce((SELECT upto FROM embedded WHERE model = ?1), 0)) \
             AND NOT EXISTS (SELECT 1 FROM vector WHERE vector.key = document.key AND model = ?1) \
             ORDER BY key LIMIT ?2",
        )
        .map_err(to_store_error)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![model, limit, after]).map_err(to_store_error)?;
    let mut waiting = Vec::new();
    while let Some(row) = rows.next().map_err(to_store_error)? {
        let key: i64 = row.get(0).map_err(to_store_error)?;
        let memory = read(&row.get::<_, String>(1).map_err(to_store_error)?)?;
        waiting.push(Unembedded::from_memory(key.unsigned_abs(), memory));
    }
    Ok(waiting)
}

pub(super) fn count_unembedded(db: &Connection, model: &str) -> Result<u64, StoreError> {
    let count: i64 = db
        .prepare_cached(
            "SELECT count(*) FROM document \
             WHERE key > coalesce((SELECT upto FROM embedded WHERE model = ?1), 0) \
             AND NOT EXISTS (SELECT 1 FROM vector WHERE vector.key = document.key AND model = ?1)",
        )
        .and_then(|mut count| count.query_row(params![model], |row| row.get(0)))
        .map_err(to_store_error)?;
    Ok(count.unsigned_abs())
}

pub(super) fn put(
    db: &Connection,
    model: &str,
    vectors: &[(u64, Vec<f32>)],
) -> Result<(), StoreError> {
    for (version, vector) in vectors {
        let key = i64::try_from(*version).unwrap_or(i64::MAX);
        let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        db.prepare_cached(
            "INSERT OR REPLACE INTO vector (key, model, vector) \
             SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM memory WHERE key = ?1)",
        )
        .and_then(|mut insert| insert.execute(params![key, model, bytes]))
        .map_err(to_store_error)?;
    }
    // Advances to the first memory without a vector, so that memories that were left out stay
    // pending.
    db.prepare_cached(
        "INSERT INTO embedded (model, upto) VALUES (?1, 0) \
         ON CONFLICT (model) DO NOTHING",
    )
    .and_then(|mut insert| insert.execute(params![model]))
    .map_err(to_store_error)?;
    db.prepare_cached(
        "UPDATE embedded SET upto = coalesce( \
             (SELECT key - 1 FROM document WHERE key > embedded.upto AND NOT EXISTS \
                 (SELECT 1 FROM vector WHERE vector.key = document.key AND model = ?1) \
              ORDER BY key LIMIT 1), \
             (SELECT max(key) FROM document), upto) \
         WHERE model = ?1",
    )
    .and_then(|mut update| update.execute(params![model]))
    .map(drop)
    .map_err(to_store_error)
}
