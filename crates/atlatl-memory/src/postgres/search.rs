//! Listing, and the conditions of filters.

use std::fmt::Write;

use chrono::{DateTime, Utc};
use mif::Memory;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::crud::{Tenant, Uuid, read, rows, storable};
use super::session::{Session, Value};
use crate::listing::{Filter, ListPosition, MemoryPage, Order, microseconds};
use crate::store::{MemoryMatch, StoreError};

/// A condition over `m`, an alias of `memory`, and its parameters. `$1` is the tenant.
pub(super) struct Condition {
    pub(super) sql: String,
    values: Vec<(Box<dyn ToSql + Send + Sync>, Type)>,
}

impl Condition {
    /// Builds the condition for what `filter` admits at `now`. It names the tenant although the
    /// row-level security policies do too, so that the planner can prune the other partitions.
    pub(super) fn from_filter(tenant: &Tenant, filter: &Filter, now: DateTime<Utc>) -> Self {
        let mut condition = Self { sql: String::new(), values: Vec::new() };
        let name = condition.value(tenant.name.clone(), Type::TEXT);
        condition.sql = format!("m.tenant = {name}");
        let now = condition.value(microseconds(now), Type::INT8);
        condition.and(format_args!("(m.expires IS NULL OR m.expires > {now})"));
        if let Some(namespace) = &filter.namespace {
            let name = namespace.as_str();
            let exact = condition.value(name.to_owned(), Type::TEXT);
            // The namespaces below begin with the name and a slash; `0` is the character after the
            // slash.
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

    /// Returns the tenant parameter.
    pub(super) fn tenant(&self) -> Value<'_> {
        let (name, kind) = &self.values[0];
        (&**name, kind.clone())
    }

    /// Adds a parameter, and returns its placeholder.
    pub(super) fn value(
        &mut self,
        value: impl ToSql + Send + Sync + 'static,
        kind: Type,
    ) -> String {
        self.values.push((Box::new(value), kind));
        format!("${}", self.values.len())
    }

    pub(super) fn and(&mut self, sql: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = write!(self.sql, " AND {sql}");
    }

    pub(super) fn values(&self) -> Vec<Value<'_>> {
        self.values.iter().map(|(value, kind)| (&**value as _, kind.clone())).collect()
    }
}

pub(super) async fn list_after(
    db: &Session,
    mut condition: Condition,
    order: Order,
    after: Option<&ListPosition>,
    limit: usize,
) -> Result<MemoryPage, StoreError> {
    let (column, direction) = column(order);
    if let Some(ListPosition { at, id }) = after {
        let sign = if direction == "ASC" { ">" } else { "<" };
        let at = condition.value(*at, Type::INT8);
        let id = condition.value(Uuid::from(id), Type::UUID);
        condition.and(format_args!("(m.{column}, m.id) {sign} ({at}, {id})"));
    }
    // One row more than requested shows whether there are more.
    let mut memories = list_from(db, condition, order, 0, limit.saturating_add(1)).await?;
    let more = memories.len() > limit;
    memories.truncate(limit);
    Ok(MemoryPage { memories, more })
}

pub(super) async fn list_from(
    db: &Session,
    mut condition: Condition,
    order: Order,
    offset: u64,
    limit: usize,
) -> Result<Vec<Memory>, StoreError> {
    let (column, direction) = column(order);
    let limit = condition.value(rows(limit), Type::INT8);
    let offset = condition.value(i64::try_from(offset).unwrap_or(i64::MAX), Type::INT8);
    // Documents are read only for the rows of the page, one by one: OFFSET keeps the subquery from
    // being merged into a join.
    let sql = format!(
        "SELECT d.json FROM (SELECT m.key, m.id, m.{column} FROM atlatl.memory m WHERE {} \
         ORDER BY m.{column} {direction}, m.id {direction} LIMIT {limit} OFFSET {offset}) m \
         CROSS JOIN LATERAL (SELECT d.json FROM atlatl.document d \
             WHERE d.tenant = $1 AND d.key = m.key OFFSET 0) d \
         ORDER BY m.{column} {direction}, m.id {direction}",
        condition.sql
    );
    let found = db.query(&sql, &condition.values()).await?;
    found.iter().map(|row| read(row.get(0))).collect()
}

pub(super) async fn count(db: &Session, condition: &Condition) -> Result<u64, StoreError> {
    let sql = format!("SELECT count(*) FROM atlatl.memory m WHERE {}", condition.sql);
    let counted = db.query(&sql, &condition.values()).await?;
    Ok(counted.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}

fn column(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Newest => ("created", "DESC"),
        Order::Oldest => ("created", "ASC"),
        Order::Changed => ("changed", "DESC"),
    }
}

/// Converts rows that begin with an id, a score and a decay flag.
pub(super) fn matches(rows: &[Row]) -> Vec<MemoryMatch> {
    let one = |row: &Row| MemoryMatch::new(row.get::<_, Uuid>(0).into(), row.get(1), row.get(2));
    rows.iter().map(one).collect()
}
