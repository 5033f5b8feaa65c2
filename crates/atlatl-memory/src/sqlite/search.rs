//! Full-text search, and exact vector search over an in-memory copy of the vectors.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use chrono::{DateTime, Utc};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::crud::{Condition, id_from_blob, read};
use super::error::to_store_error;
use crate::listing::Filter;
use crate::search::query::{Need, Terms};
use crate::store::{Matches, MemoryMatch, StoreError, Unembedded};

/// Matches in titles and tags weigh more than matches in the content.
const BM25_WEIGHTS: &str = "bm25(4.0, 1.0, 2.0)";

pub(super) fn lexical(
    db: &Connection,
    terms: &Terms,
    filter: &Filter,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Matches, StoreError> {
    if terms.is_empty() || limit == 0 {
        return Ok(Matches::default());
    }
    let condition = Condition::from_filter(filter, now);
    let mut values = vec![Value::from(match_expression(terms))];
    values.extend(condition.values);
    let tables = format!(
        "FROM words CROSS JOIN memory ON memory.key = words.rowid \
         WHERE words MATCH ?1 AND {}",
        condition.sql
    );
    let count = format!("SELECT count(*) {tables}");
    // The index returns rows by rank, so that only the requested rows are looked up.
    let best = format!(
        "SELECT memory.id, words.rank, memory.fades {tables} AND rank MATCH '{BM25_WEIGHTS}' \
         ORDER BY rank LIMIT {limit}"
    );
    let mut statement = db.prepare_cached(&best).map_err(to_store_error)?;
    let best = statement
        .query_map(params_from_iter(&values), |row| {
            // A smaller rank is better in the engine.
            Ok(MemoryMatch::new(id_from_blob(row.get(0)?), -row.get::<_, f64>(1)?, row.get(2)?))
        })
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(to_store_error)?;
    let total = if best.len() < limit {
        best.len() as u64
    } else {
        db.prepare_cached(&count)
            .and_then(|mut statement| {
                statement.query_row(params_from_iter(&values), |row| row.get::<_, i64>(0))
            })
            .map(i64::unsigned_abs)
            .map_err(to_store_error)?
    };
    Ok(Matches::new(best, total))
}

/// Builds the query for the full-text index from quoted strings and operators only.
fn match_expression(terms: &Terms) -> String {
    let phrases = terms.phrases.iter().map(|phrase| {
        let quoted = format!("\"{}\"", phrase.words.replace('"', "\"\"").replace('\0', " "));
        if phrase.prefix { format!("{quoted} *") } else { quoted }
    });
    let with = match terms.need {
        Need::Any => " OR ",
        Need::All => " AND ",
    };
    phrases.collect::<Vec<_>>().join(with)
}

/// The vectors of one model in memory. The copy is refreshed before each query, since another
/// process may have added vectors.
#[derive(Debug)]
pub(super) struct VectorCache {
    model: String,
    dimensions: usize,
    numbers: Vec<f32>,
    keys: Vec<i64>,
    slots: HashMap<i64, usize>,
    /// The sequence number of the last vector in it.
    upto: i64,
}

/// Returns the vectors of `model`. The cache holds one model at a time.
pub(super) fn cache_for_model(
    cached: &RwLock<Option<Arc<Mutex<VectorCache>>>>,
    model: &str,
    dimensions: usize,
) -> Arc<Mutex<VectorCache>> {
    let is_it = |vector_cache: &Arc<Mutex<VectorCache>>| {
        let vector_cache = vector_cache.lock().unwrap_or_else(PoisonError::into_inner);
        vector_cache.model == model && vector_cache.dimensions == dimensions
    };
    let found = cached.read().unwrap_or_else(PoisonError::into_inner).clone().filter(is_it);
    found.unwrap_or_else(|| {
        let vector_cache = Arc::new(Mutex::new(VectorCache {
            model: model.to_owned(),
            dimensions,
            numbers: Vec::new(),
            keys: Vec::new(),
            slots: HashMap::new(),
            upto: 0,
        }));
        *cached.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&vector_cache));
        vector_cache
    })
}

impl VectorCache {
    fn refresh(&mut self, db: &Connection) -> Result<(), StoreError> {
        let mut statement = db
            .prepare_cached(
                "SELECT seq, key, vector FROM vector WHERE seq > ?1 AND model = ?2 ORDER BY seq",
            )
            .map_err(to_store_error)?;
        let mut rows = statement.query(params![self.upto, self.model]).map_err(to_store_error)?;
        while let Some(row) = rows.next().map_err(to_store_error)? {
            let (seq, key) =
                (row.get(0).map_err(to_store_error)?, row.get(1).map_err(to_store_error)?);
            let bytes = row.get_ref(2).map_err(to_store_error)?.as_blob();
            let bytes = bytes.map_err(|error| to_store_error(error.into()))?;
            self.upto = seq;
            // An empty vector marks a text that the model refused, and vectors of other lengths
            // cannot be compared.
            if bytes.len() != self.dimensions * size_of::<f32>() {
                continue;
            }
            let vector = bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four));
            if let Some(slot) = self.slots.get(&key) {
                let place = slot * self.dimensions..(slot + 1) * self.dimensions;
                self.numbers.splice(place, vector);
            } else {
                self.slots.insert(key, self.keys.len());
                self.keys.push(key);
                self.numbers.extend(vector);
            }
        }
        Ok(())
    }

    /// Returns all keys with their cosine similarity, which is the dot product of vectors of length
    /// 1. A heap returns the nearest first without sorting the rest.
    fn ranked(&self, vector: &[f32]) -> BinaryHeap<Neighbor> {
        let dot = |row: &[f32]| row.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>();
        let rows = self.numbers.chunks_exact(self.dimensions.max(1)).map(dot);
        rows.zip(&self.keys).map(|(cosine, key)| Neighbor { cosine, key: *key }).collect()
    }
}

/// A key with its cosine similarity.
#[derive(Debug)]
struct Neighbor {
    cosine: f32,
    key: i64,
}

impl Ord for Neighbor {
    /// Greater is nearer. Among equals the older comes first.
    fn cmp(&self, other: &Self) -> Ordering {
        self.cosine.total_cmp(&other.cosine).then(other.key.cmp(&self.key))
    }
}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Neighbor {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Neighbor {}

pub(super) fn nearest(
    db: &Connection,
    vector_cache: &Mutex<VectorCache>,
    vector: &[f32],
    filter: &Filter,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Vec<MemoryMatch>, StoreError> {
    let mut ranked = {
        let mut vector_cache = vector_cache.lock().unwrap_or_else(PoisonError::into_inner);
        vector_cache.refresh(db)?;
        vector_cache.ranked(vector)
    };
    let condition = Condition::from_filter(filter, now);
    let sql = format!(
        "SELECT memory.id, memory.fades FROM memory WHERE {} AND memory.key = ?",
        condition.sql
    );
    let mut statement = db.prepare_cached(&sql).map_err(to_store_error)?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(Neighbor { cosine, key }) = ranked.pop()
    {
        let values = condition.values.iter().cloned().chain([key.into()]);
        // Memories that were deleted, filtered out or updated meanwhile are skipped.
        let admitted = statement
            .query_row(params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(to_store_error)?;
        if let Some((id, decays)) = admitted {
            found.push(MemoryMatch::new(id_from_blob(id), f64::from(cosine), decays));
        }
    }
    Ok(found)
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
