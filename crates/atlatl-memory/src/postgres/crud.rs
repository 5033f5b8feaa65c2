//! Statements that insert, read, update and delete memories.

use std::collections::HashMap;
use std::iter;
use std::panic::resume_unwind;
use std::thread;

use mif::{Memory, MemoryId};
use tokio_postgres::types::Type;

use super::lexemes::{Indexed, index};
use super::rows::{Rows, insert, insert_documents, update_memories};
use super::session::Session;
use super::value::{Uuid, rows};
use crate::store::{Change, Clash, Put, StoreError};

/// Memories that go to the database at once. While it puts them, the next are made ready.
const BATCH: usize = 125;
/// The first of them: until they are on their way nothing else is.
const FIRST: usize = 32;

/// Who asks, and what their words begin with.
#[derive(Debug, Clone)]
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) mark: String,
}

pub(super) fn put(
    db: &Session,
    tenant: &Tenant,
    memories: &[Memory],
    clash: Clash,
) -> Result<Vec<Put>, StoreError> {
    // In the order of their ids: two who put the same memories cannot wait for each other. What is
    // there twice stays in its order, and never meets itself in one batch.
    let mut order: Vec<usize> = (0..memories.len()).collect();
    order.sort_by_key(|&n| memories[n].id.as_u128());
    let mut became = vec![Put::Kept; memories.len()];
    let runs = order.chunk_by(|&a, &b| memories[a].id != memories[b].id);
    let mut batches = runs.flat_map(|run| {
        let (first, others) = run.split_at(run.len().min(FIRST));
        iter::once(first).chain(others.chunks(BATCH))
    });
    let made = |batch: &[usize]| Ready::new(tenant, memories, batch);
    let mut ready = batches.next().map(made);
    while let Some(batch) = ready {
        let next = batches.next();
        ready = thread::scope(|scope| {
            let next = next.map(|next| scope.spawn(|| made(next)));
            put_batch(db, tenant, &batch, clash, &mut became)?;
            Ok(next.map(|next| next.join().unwrap_or_else(|panic| resume_unwind(panic))))
        })?;
    }
    Ok(became)
}

/// Memories as they go to the database.
struct Ready<'a> {
    memories: Vec<(usize, &'a Memory)>,
    json: Vec<String>,
    indexed: Vec<Indexed>,
}

impl<'a> Ready<'a> {
    fn new(tenant: &Tenant, memories: &'a [Memory], batch: &[usize]) -> Self {
        let memories: Vec<(usize, &Memory)> = batch.iter().map(|&n| (n, &memories[n])).collect();
        let json = memories.iter().map(|(_, memory)| memory.to_json()).collect();
        let indexed = memories.iter().map(|(_, memory)| index(&tenant.mark, memory)).collect();
        Self { memories, json, indexed }
    }

    /// Those in these places.
    fn rows(&self, places: impl Iterator<Item = usize>) -> Rows<'_> {
        Rows::from_memories(
            places.map(|n| (self.memories[n].1, self.json[n].as_str(), &self.indexed[n])),
        )
    }
}

fn put_batch(
    db: &Session,
    tenant: &Tenant,
    batch: &Ready<'_>,
    clash: Clash,
    became: &mut [Put],
) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = batch.memories.iter().map(|(_, memory)| (&memory.id).into()).collect();
    let stored = insert(db, &batch.rows(0..ids.len()))?;
    let taken: Vec<Uuid> = ids.iter().filter(|id| !stored.contains(id)).copied().collect();
    let there = texts(db, tenant, &taken)?;
    let (mut changed, mut old) = (Vec::new(), Vec::new());
    for (place, (n, _)) in batch.memories.iter().enumerate() {
        became[*n] = match there.get(&ids[place]) {
            None => Put::Stored,
            Some((_, stored)) if *stored == batch.json[place] => Put::Unchanged,
            Some((key, _)) if clash == Clash::Replace => {
                changed.push(place);
                old.push(*key);
                Put::Replaced
            }
            Some(_) => Put::Kept,
        };
    }
    if changed.is_empty() {
        return Ok(());
    }
    replace(db, tenant, &old, &batch.rows(changed.into_iter()))
}

/// The keys and texts of the memories called `ids`.
fn texts(
    db: &Session,
    tenant: &Tenant,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, (i64, String)>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let read = "SELECT m.id, m.key, d.json FROM atlatl.memory m \
                JOIN atlatl.document d ON d.tenant = m.tenant AND d.key = m.key \
                WHERE m.tenant = $1 AND m.id = ANY ($2)";
    let rows = db.query(read, &[(&tenant.name, Type::TEXT), (&ids, Type::UUID_ARRAY)])?;
    Ok(rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect())
}

/// Puts new versions in the place of those with these keys.
fn replace(db: &Session, tenant: &Tenant, old: &[i64], new: &Rows<'_>) -> Result<(), StoreError> {
    remove_beside(db, tenant, old)?;
    let keys = update_memories(db, new)?;
    insert_documents(db, new, &keys)
}

/// Removes what lies beside memories: their texts, words and vectors.
fn remove_beside(db: &Session, tenant: &Tenant, keys: &[i64]) -> Result<(), StoreError> {
    for table in ["document", "vector"] {
        let sql = format!("DELETE FROM atlatl.{table} WHERE tenant = $1 AND key = ANY ($2)");
        db.execute(&sql, &[(&tenant.name, Type::TEXT), (&keys, Type::INT8_ARRAY)])?;
    }
    Ok(())
}

/// Those that are there, in order.
pub(super) fn get_all(
    db: &Session,
    tenant: &Tenant,
    ids: &[MemoryId],
) -> Result<Vec<Memory>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let wanted: Vec<Uuid> = ids.iter().map(Uuid::from).collect();
    let sql = "SELECT m.id, d.json FROM atlatl.memory m \
               JOIN atlatl.document d ON d.tenant = m.tenant AND d.key = m.key \
               WHERE m.tenant = $1 AND m.id = ANY ($2)";
    let found = db.query(sql, &[(&tenant.name, Type::TEXT), (&wanted, Type::UUID_ARRAY)])?;
    let found: HashMap<Uuid, &str> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
    wanted.iter().filter_map(|id| found.get(id)).map(|json| read(json)).collect()
}

pub(super) fn ids(
    db: &Session,
    tenant: &Tenant,
    first: &MemoryId,
    last: &MemoryId,
    limit: usize,
) -> Result<Vec<MemoryId>, StoreError> {
    let sql = "SELECT id FROM atlatl.memory WHERE tenant = $1 AND id BETWEEN $2 AND $3 \
               ORDER BY id LIMIT $4";
    let (first, last) = (Uuid::from(first), Uuid::from(last));
    let found = db.query(
        sql,
        &[
            (&tenant.name, Type::TEXT),
            (&first, Type::UUID),
            (&last, Type::UUID),
            (&rows(limit), Type::INT8),
        ],
    )?;
    Ok(found.iter().map(|row| row.get::<_, Uuid>(0).into()).collect())
}

pub(super) fn update(
    db: &Session,
    tenant: &Tenant,
    id: &MemoryId,
    change: Change<'_>,
) -> Result<Option<Memory>, StoreError> {
    let id = Uuid::from(id);
    // Two statements: one that waits for a lock sees the row that was locked as it is then, and all
    // else as it was before.
    let lock = "SELECT 1 FROM atlatl.memory WHERE tenant = $1 AND id = $2 FOR UPDATE";
    if db.query(lock, &[(&tenant.name, Type::TEXT), (&id, Type::UUID)])?.is_empty() {
        return Ok(None);
    }
    let there = texts(db, tenant, &[id])?;
    let Some((key, stored)) = there.into_values().next() else { return Ok(None) };
    let before = read(&stored)?;
    let same = before.id.clone();
    let mut memory = change(before).map_err(StoreError::Invalid)?;
    // A change is of one memory, whatever it says.
    memory.id = same;
    memory.validate().map_err(StoreError::Invalid)?;
    let json = memory.to_json();
    if json != stored {
        let indexed = index(&tenant.mark, &memory);
        let rows = Rows::from_memories([(&memory, json.as_str(), &indexed)].into_iter());
        replace(db, tenant, &[key], &rows)?;
    }
    Ok(Some(memory))
}

/// Removes the memories called `ids`; which of them were there.
pub(super) fn delete(db: &Session, tenant: &Tenant, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let sql = "DELETE FROM atlatl.memory WHERE tenant = $1 AND id = ANY ($2) RETURNING id, key";
    let gone = db.query(sql, &[(&tenant.name, Type::TEXT), (&ids, Type::UUID_ARRAY)])?;
    let keys: Vec<i64> = gone.iter().map(|row| row.get(1)).collect();
    if !keys.is_empty() {
        remove_beside(db, tenant, &keys)?;
    }
    Ok(gone.iter().map(|row| row.get(0)).collect())
}

/// A stored memory.
pub(super) fn read(json: &str) -> Result<Memory, StoreError> {
    Memory::from_json(json).map_err(StoreError::Damaged)
}
