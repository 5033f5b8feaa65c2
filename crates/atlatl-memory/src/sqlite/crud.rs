//! Statements that insert, read, update, delete and list memories.

use std::fmt::Write;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::error::to_store_error;
use crate::listing::{
    Filter, ListPosition, MemoryPage, Order, changed, confidence, expires, microseconds, status,
};
use crate::search::query::segment_for_index;
use crate::store::{OnConflict, PutOutcome, StoreError, UpdateFn};

pub(super) fn put(
    db: &Connection,
    memories: &[Memory],
    on_conflict: OnConflict,
) -> Result<Vec<PutOutcome>, StoreError> {
    memories.iter().map(|memory| put_one(db, memory, on_conflict)).collect()
}

fn put_one(
    db: &Connection,
    memory: &Memory,
    on_conflict: OnConflict,
) -> Result<PutOutcome, StoreError> {
    let json = memory.to_json();
    let Some((key, stored)) = row(db, &memory.id)? else {
        insert(db, memory, &json)?;
        return Ok(PutOutcome::Stored);
    };
    if stored == json {
        return Ok(PutOutcome::Unchanged);
    }
    if on_conflict == OnConflict::Keep {
        return Ok(PutOutcome::Kept);
    }
    remove(db, key, &stored)?;
    insert(db, memory, &json)?;
    Ok(PutOutcome::Replaced)
}

pub(super) fn get(db: &Connection, id: &MemoryId) -> Result<Option<Memory>, StoreError> {
    let mut found = get_all(db, std::slice::from_ref(id))?;
    Ok(found.pop())
}

/// Returns the memories that exist, in order. Each is parsed from the engine's buffer without a
/// copy.
pub(super) fn get_all(db: &Connection, ids: &[MemoryId]) -> Result<Vec<Memory>, StoreError> {
    let mut statement = db
        .prepare_cached("SELECT json FROM memory JOIN document USING (key) WHERE id = ?1")
        .map_err(to_store_error)?;
    let mut memories = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = statement.query([blob(id)]).map_err(to_store_error)?;
        if let Some(row) = rows.next().map_err(to_store_error)? {
            memories.push(read_in(row, 0)?);
        }
    }
    Ok(memories)
}

pub(super) fn ids(
    db: &Connection,
    first: &MemoryId,
    last: &MemoryId,
    limit: usize,
) -> Result<Vec<MemoryId>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    db.prepare_cached("SELECT id FROM memory WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3")
        .and_then(|mut statement| {
            statement
                .query_map(params![blob(first), blob(last), limit], |row| {
                    row.get(0).map(id_from_blob)
                })?
                .collect()
        })
        .map_err(to_store_error)
}

pub(super) fn update(
    db: &Connection,
    id: &MemoryId,
    change: &mut UpdateFn,
) -> Result<Option<Memory>, StoreError> {
    let Some((key, stored)) = row(db, id)? else { return Ok(None) };
    let before = read(&stored)?;
    let same = before.id.clone();
    let mut memory = change(before).map_err(StoreError::Invalid)?;
    // An update cannot change the id.
    memory.id = same;
    memory.validate().map_err(StoreError::Invalid)?;
    let json = memory.to_json();
    if json != stored {
        remove(db, key, &stored)?;
        insert(db, &memory, &json)?;
    }
    Ok(Some(memory))
}

pub(super) fn delete(db: &Connection, id: &MemoryId) -> Result<bool, StoreError> {
    match row(db, id)? {
        Some((key, json)) => remove(db, key, &json).map(|()| true),
        None => Ok(false),
    }
}

/// Parses a stored memory.
pub(super) fn read(json: &str) -> Result<Memory, StoreError> {
    Memory::from_json(json).map_err(StoreError::Damaged)
}

/// Parses the memory in a column.
pub(super) fn read_in(row: &Row<'_>, column: usize) -> Result<Memory, StoreError> {
    let json = row.get_ref(column).map_err(to_store_error)?;
    read(json.as_str().map_err(|error| to_store_error(error.into()))?)
}

/// Returns the id as it is stored.
pub(super) fn blob(id: &MemoryId) -> [u8; 16] {
    id.as_u128().to_be_bytes()
}

pub(super) fn id_from_blob(blob: [u8; 16]) -> MemoryId {
    MemoryId::from_u128(u128::from_be_bytes(blob))
}

fn row(db: &Connection, id: &MemoryId) -> Result<Option<(i64, String)>, StoreError> {
    db.prepare_cached("SELECT key, json FROM memory JOIN document USING (key) WHERE id = ?1")
        .and_then(|mut statement| {
            statement.query_row([blob(id)], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .map_err(to_store_error)
}

fn insert(db: &Connection, memory: &Memory, json: &str) -> Result<(), StoreError> {
    let decays = memory.temporal.as_ref().is_some_and(|temporal| temporal.decay.is_some());
    let key: i64 = db
        .prepare_cached(
            "INSERT INTO memory (id, memory_type, namespace, status, created, changed, expires, \
             confidence, fades) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING key",
        )
        .and_then(|mut insert| {
            insert.query_row(
                params![
                    blob(&memory.id),
                    memory.memory_type.as_str(),
                    memory.namespace.as_ref().map(mif::Namespace::as_str),
                    status(memory).as_str(),
                    microseconds(memory.created.instant().to_utc()),
                    changed(memory),
                    expires(memory).map(microseconds),
                    confidence(memory),
                    decays,
                ],
                |row| row.get(0),
            )
        })
        .map_err(to_store_error)?;
    db.prepare_cached("INSERT INTO document (key, json) VALUES (?1, ?2)")
        .and_then(|mut insert| insert.execute(params![key, json]))
        .map_err(to_store_error)?;
    for tag in memory.tags() {
        db.prepare_cached("INSERT OR IGNORE INTO tag (tag, key) VALUES (?1, ?2)")
            .and_then(|mut insert| insert.execute(params![tag, key]))
            .map_err(to_store_error)?;
    }
    index(db, key, memory)
}

/// Adds a memory to the full-text index.
pub(super) fn index(db: &Connection, key: i64, memory: &Memory) -> Result<(), StoreError> {
    let statement = "INSERT INTO words (rowid, title, content, tags) VALUES (?1, ?2, ?3, ?4)";
    words(db, statement, key, memory)
}

fn words(db: &Connection, statement: &str, key: i64, memory: &Memory) -> Result<(), StoreError> {
    let values = params![
        key,
        memory.title.as_deref().map(segment_for_index),
        segment_for_index(&memory.content),
        segment_for_index(&memory.tags().join(" ")),
    ];
    db.prepare_cached(statement)
        .and_then(|mut change| change.execute(values))
        .map(drop)
        .map_err(to_store_error)
}

/// Deletes a version of a memory from every table.
pub(super) fn remove(db: &Connection, key: i64, json: &str) -> Result<(), StoreError> {
    let statement = "INSERT INTO words (words, rowid, title, content, tags) \
                     VALUES ('delete', ?1, ?2, ?3, ?4)";
    words(db, statement, key, &read(json)?)?;
    for statement in [
        "DELETE FROM memory WHERE key = ?1",
        "DELETE FROM document WHERE key = ?1",
        "DELETE FROM tag WHERE key = ?1",
        "DELETE FROM vector WHERE key = ?1",
    ] {
        db.prepare_cached(statement)
            .and_then(|mut delete| delete.execute([key]))
            .map_err(to_store_error)?;
    }
    Ok(())
}

/// A condition over the table `memory`, and its parameters in order.
pub(super) struct Condition {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Condition {
    /// Builds the condition for what `filter` admits at `now`.
    pub(super) fn from_filter(filter: &Filter, now: DateTime<Utc>) -> Self {
        let mut condition = Self {
            sql: "(memory.expires IS NULL OR memory.expires > ?)".to_owned(),
            values: vec![microseconds(now).into()],
        };
        if let Some(namespace) = &filter.namespace {
            let name = namespace.as_str();
            // The namespaces below begin with the name and a slash; `0` is the character after the
            // slash.
            condition.and(
                "(memory.namespace = ? OR (memory.namespace >= ? AND memory.namespace < ?))",
                [name.to_owned(), format!("{name}/"), format!("{name}0")],
            );
        }
        if let Some(kind) = filter.memory_type {
            condition.and("memory.memory_type = ?", [kind.as_str().to_owned()]);
        }
        if let Some(status) = filter.status {
            condition.and("memory.status = ?", [status.as_str().to_owned()]);
        }
        for tag in &filter.tags {
            condition.and(
                "EXISTS (SELECT 1 FROM tag WHERE tag.tag = ? AND tag.key = memory.key)",
                [tag.clone()],
            );
        }
        if let Some(since) = filter.since {
            condition.and("memory.created >= ?", [microseconds(since)]);
        }
        if let Some(until) = filter.until {
            condition.and("memory.created < ?", [microseconds(until)]);
        }
        if let Some(least) = filter.min_confidence {
            condition.and("memory.confidence >= ?", [least]);
        }
        condition
    }

    fn and<V: Into<Value>, const N: usize>(&mut self, sql: &str, values: [V; N]) {
        // Writing to a string cannot fail.
        let _ = write!(self.sql, " AND {sql}");
        self.values.extend(values.map(Into::into));
    }
}

pub(super) fn list_after(
    db: &Connection,
    filter: &Filter,
    order: Order,
    after: Option<&ListPosition>,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<MemoryPage, StoreError> {
    let mut condition = Condition::from_filter(filter, now);
    let (column, direction) = column(order);
    if let Some(ListPosition { at, id }) = after {
        let sign = if direction == "ASC" { ">" } else { "<" };
        let sql = format!("(memory.{column}, memory.id) {sign} (?, ?)");
        condition.and(&sql, [Value::from(*at), Value::from(blob(id).to_vec())]);
    }
    // One row more than requested shows whether there are more.
    let mut memories = rows(db, &condition, order, 0, limit.saturating_add(1))?;
    let more = memories.len() > limit;
    memories.truncate(limit);
    Ok(MemoryPage { memories, more })
}

pub(super) fn list_from(
    db: &Connection,
    filter: &Filter,
    order: Order,
    offset: u64,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Vec<Memory>, StoreError> {
    rows(db, &Condition::from_filter(filter, now), order, offset, limit)
}

pub(super) fn count(
    db: &Connection,
    filter: &Filter,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let condition = Condition::from_filter(filter, now);
    db.prepare_cached(&format!("SELECT count(*) FROM memory WHERE {}", condition.sql))
        .and_then(|mut statement| {
            statement.query_row(params_from_iter(&condition.values), |row| row.get::<_, i64>(0))
        })
        .map(i64::unsigned_abs)
        .map_err(to_store_error)
}

fn column(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Newest => ("created", "DESC"),
        Order::Oldest => ("created", "ASC"),
        Order::Changed => ("changed", "DESC"),
    }
}

fn rows(
    db: &Connection,
    condition: &Condition,
    order: Order,
    offset: u64,
    limit: usize,
) -> Result<Vec<Memory>, StoreError> {
    let (column, direction) = column(order);
    let sql = format!(
        "SELECT json FROM memory JOIN document USING (key) WHERE {} \
         ORDER BY memory.{column} {direction}, memory.id {direction} LIMIT ? OFFSET ?",
        condition.sql
    );
    let mut values = condition.values.clone();
    values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
    values.push(i64::try_from(offset).unwrap_or(i64::MAX).into());
    let mut statement = db.prepare_cached(&sql).map_err(to_store_error)?;
    let mut rows = statement.query(params_from_iter(values)).map_err(to_store_error)?;
    let mut memories = Vec::new();
    while let Some(row) = rows.next().map_err(to_store_error)? {
        memories.push(read_in(row, 0)?);
    }
    Ok(memories)
}
