//! List: memories by their order, and the conditions of a filter as SQL.

use std::fmt::Write;

use chrono::{DateTime, Utc};
use mif::Memory;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::crud::{blob, read_in};
use super::pool::failed;
use crate::filter::Filter;
use crate::order::{Listed, Order, Position, microseconds};
use crate::store::StoreError;

/// A condition over `memory`, and the values in it, in their order.
pub(super) struct Condition {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Condition {
    /// What `filter` admits at `now`.
    pub(super) fn from_filter(filter: &Filter, now: DateTime<Utc>) -> Self {
        let mut condition = Self {
            sql: "(memory.expires IS NULL OR memory.expires > ?)".to_owned(),
            values: vec![microseconds(now).into()],
        };
        if let Some(namespace) = &filter.namespace {
            let name = namespace.as_str();
            // What lies below begins with the name and a slash; `0` is the sign after the slash.
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

pub(super) fn after(
    db: &Connection,
    filter: &Filter,
    order: Order,
    after: Option<&Position>,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Listed, StoreError> {
    let mut condition = Condition::from_filter(filter, now);
    let (column, direction) = column(order);
    if let Some(Position { at, id }) = after {
        let sign = if direction == "ASC" { ">" } else { "<" };
        let sql = format!("(memory.{column}, memory.id) {sign} (?, ?)");
        condition.and(&sql, [Value::from(*at), Value::from(blob(id).to_vec())]);
    }
    // One more than asked for tells whether there are more.
    let mut memories = rows(db, &condition, order, 0, limit.saturating_add(1))?;
    let more = memories.len() > limit;
    memories.truncate(limit);
    Ok(Listed { memories, more })
}

pub(super) fn from(
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
        .and_then(|mut ask| {
            ask.query_row(params_from_iter(&condition.values), |row| row.get::<_, i64>(0))
        })
        .map(i64::unsigned_abs)
        .map_err(failed)
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
    let mut ask = db.prepare_cached(&sql).map_err(failed)?;
    let mut rows = ask.query(params_from_iter(values)).map_err(failed)?;
    let mut memories = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        memories.push(read_in(row, 0)?);
    }
    Ok(memories)
}
