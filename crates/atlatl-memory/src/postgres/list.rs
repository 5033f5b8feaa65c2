//! List: memories by their order, and the conditions of a filter as SQL.

use std::fmt::Write;

use chrono::{DateTime, Utc};
use mif::Memory;
use tokio_postgres::types::{ToSql, Type};

use super::crud::{Tenant, read};
use super::session::{Session, Value};
use super::value::{Uuid, rows, storable};
use crate::filter::Filter;
use crate::order::{Listed, Order, Position, microseconds};
use crate::store::StoreError;

/// A condition over `m`, which stands for `memory`, and the values in it. `$1` is the tenant.
pub(super) struct Condition {
    pub(super) sql: String,
    values: Vec<(Box<dyn ToSql + Sync>, Type)>,
}

impl Condition {
    /// What `filter` admits at `now`. That the tenant is named, although the policies name it too,
    /// lets the database leave out the other partitions when it makes its plan.
    pub(super) fn from_filter(tenant: &Tenant, filter: &Filter, now: DateTime<Utc>) -> Self {
        let mut condition = Self { sql: String::new(), values: Vec::new() };
        let name = condition.value(tenant.name.clone(), Type::TEXT);
        condition.sql = format!("m.tenant = {name}");
        let now = condition.value(microseconds(now), Type::INT8);
        condition.and(format_args!("(m.expires IS NULL OR m.expires > {now})"));
        if let Some(namespace) = &filter.namespace {
            let name = namespace.as_str();
            let exact = condition.value(name.to_owned(), Type::TEXT);
            // What lies below begins with the name and a slash; `0` is the sign after the slash.
            let from = condition.value(format!("{name}/"), Type::TEXT);
            let to = condition.value(format!("{name}0"), Type::TEXT);
            condition.and(format_args!(
                "(m.namespace = {exact} OR (m.namespace >= {from} AND m.namespace < {to}))"
            ));
        }
        if let Some(kind) = filter.memory_type {
            let kind = condition.value(kind.as_str(), Type::TEXT);
            condition.and(format_args!("m.memory_type = {kind}"));
        }
        if let Some(status) = filter.status {
            let status = condition.value(status.as_str(), Type::TEXT);
            condition.and(format_args!("m.status = {status}"));
        }
        if !filter.tags.is_empty() {
            let tags: Vec<String> = filter.tags.iter().map(|tag| storable(tag)).collect();
            let tags = condition.value(tags, Type::TEXT_ARRAY);
            condition.and(format_args!("m.tags @> {tags}"));
        }
        if let Some(since) = filter.since {
            let since = condition.value(microseconds(since), Type::INT8);
            condition.and(format_args!("m.created >= {since}"));
        }
        if let Some(until) = filter.until {
            let until = condition.value(microseconds(until), Type::INT8);
            condition.and(format_args!("m.created < {until}"));
        }
        if let Some(least) = filter.min_confidence {
            let least = condition.value(least, Type::FLOAT8);
            condition.and(format_args!("m.confidence >= {least}"));
        }
        condition
    }

    /// Whose memories are meant.
    pub(super) fn tenant(&self) -> Value<'_> {
        let (name, kind) = &self.values[0];
        (&**name, kind.clone())
    }

    /// Takes a value; what stands for it.
    pub(super) fn value(&mut self, value: impl ToSql + Sync + 'static, kind: Type) -> String {
        self.values.push((Box::new(value), kind));
        format!("${}", self.values.len())
    }

    pub(super) fn and(&mut self, sql: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = write!(self.sql, " AND {sql}");
    }

    pub(super) fn values(&self) -> Vec<Value<'_>> {
        self.values.iter().map(|(value, kind)| (&**value, kind.clone())).collect()
    }
}

pub(super) fn after(
    db: &Session,
    mut condition: Condition,
    order: Order,
    after: Option<&Position>,
    limit: usize,
) -> Result<Listed, StoreError> {
    let (column, direction) = column(order);
    if let Some(Position { at, id }) = after {
        let sign = if direction == "ASC" { ">" } else { "<" };
        let at = condition.value(*at, Type::INT8);
        let id = condition.value(Uuid::from(id), Type::UUID);
        condition.and(format_args!("(m.{column}, m.id) {sign} ({at}, {id})"));
    }
    // One more than asked for tells whether there are more.
    let mut memories = from(db, condition, order, 0, limit.saturating_add(1))?;
    let more = memories.len() > limit;
    memories.truncate(limit);
    Ok(Listed { memories, more })
}

pub(super) fn from(
    db: &Session,
    mut condition: Condition,
    order: Order,
    offset: u64,
    limit: usize,
) -> Result<Vec<Memory>, StoreError> {
    let (column, direction) = column(order);
    let limit = condition.value(rows(limit), Type::INT8);
    let offset = condition.value(i64::try_from(offset).unwrap_or(i64::MAX), Type::INT8);
    // The texts of those are read that are shown, and of no others.
    let sql = format!(
        "SELECT d.json FROM (SELECT m.key, m.id, m.{column} FROM atlatl.memory m WHERE {} \
         ORDER BY m.{column} {direction}, m.id {direction} LIMIT {limit} OFFSET {offset}) m \
         JOIN atlatl.document d ON d.tenant = $1 AND d.key = m.key \
         ORDER BY m.{column} {direction}, m.id {direction}",
        condition.sql
    );
    let found = db.query(&sql, &condition.values())?;
    found.iter().map(|row| read(row.get(0))).collect()
}

pub(super) fn count(db: &Session, condition: &Condition) -> Result<u64, StoreError> {
    let sql = format!("SELECT count(*) FROM atlatl.memory m WHERE {}", condition.sql);
    let counted = db.query(&sql, &condition.values())?;
    Ok(counted.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}

fn column(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Newest => ("created", "DESC"),
        Order::Oldest => ("created", "ASC"),
        Order::Changed => ("changed", "DESC"),
    }
}
