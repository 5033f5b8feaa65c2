//! Listing and exact vector search.
//!
//! Vectors are stored as plain `real[]` arrays, so that a database without pgvector can store them
//! and one that gets it later needs no migration. With the extension, pgvector compares them;
//! otherwise plain SQL does, about twenty times slower. All vectors of a tenant are compared,
//! unless it has so many that there is an [index](super::vector_index).

use std::collections::HashMap;
use std::fmt::Write;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::crud::{Tenant, Uuid, read, rows, storable};
use super::session::{Session, Value};
use crate::listing::{Filter, ListPosition, MemoryPage, Order, microseconds};
use crate::store::{MemoryMatch, StoreError, Unembedded};

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
    // Documents are read only for the rows of the page.
    let sql = format!(
        "SELECT d.json FROM (SELECT m.key, m.id, m.{column} FROM atlatl.memory m WHERE {} \
         ORDER BY m.{column} {direction}, m.id {direction} LIMIT {limit} OFFSET {offset}) m \
         JOIN atlatl.document d ON d.tenant = $1 AND d.key = m.key \
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

/// The model and vector of a search.
pub(super) struct QueryVector<'a> {
    pub(super) model: String,
    pub(super) vector: &'a [f32],
}

impl<'a> QueryVector<'a> {
    /// Returns `None` for a vector that cannot be compared.
    pub(super) fn new(model: &str, vector: &'a [f32]) -> Option<Self> {
        let usable = !vector.is_empty() && vector.iter().all(|number| number.is_finite());
        usable.then(|| Self { model: storable(model), vector })
    }

    /// Adds the parameters, and returns the placeholders of the model and the vector.
    pub(super) fn values(&self, condition: &mut Condition) -> (String, String) {
        let model = condition.value(self.model.clone(), Type::TEXT);
        (model, condition.value(self.vector.to_vec(), Type::FLOAT4_ARRAY))
    }
}

/// The SQL for the cosine similarity of `v`. All vectors have length 1, so it is the dot product.
pub(super) fn cosine(pgvector: Option<&str>, query_vector: &str) -> String {
    match pgvector {
        Some(schema) => format!(
            "-(v.vector::{schema}.vector OPERATOR({schema}.<#>) {query_vector}::real[]::{schema}.vector)"
        ),
        None => {
            format!("(SELECT sum(a * b)::float8 FROM unnest(v.vector, {query_vector}) AS n (a, b))")
        }
    }
}

/// Returns the memories with the nearest vectors by comparing all. `pgvector` is the schema of the
/// extension.
pub(super) async fn nearest(
    db: &Session,
    pgvector: Option<&str>,
    query_vector: &QueryVector<'_>,
    mut condition: Condition,
    limit: usize,
) -> Result<Vec<MemoryMatch>, StoreError> {
    let (model, query_vector) = query_vector.values(&mut condition);
    let limit = condition.value(rows(limit), Type::INT8);
    // An empty vector marks a text that the model refused, and vectors of other lengths cannot be
    // compared.
    let cosine = cosine(pgvector, &query_vector);
    let sql = format!(
        "SELECT m.id, {cosine}, m.fades FROM atlatl.memory m \
         JOIN atlatl.vector v ON v.tenant = m.tenant AND v.key = m.key AND v.model = {model} \
         WHERE {} AND cardinality(v.vector) = cardinality({query_vector}) \
         ORDER BY 2 DESC, m.key LIMIT {limit}",
        condition.sql
    );
    let found = db.query(&sql, &condition.values()).await?;
    Ok(matches(&found))
}

/// Returns the cosine similarity to the vectors of these memories.
pub(super) async fn cosines(
    db: &Session,
    tenant: &Tenant,
    pgvector: Option<&str>,
    query_vector: &QueryVector<'_>,
    ids: &[MemoryId],
) -> Result<Vec<Option<f64>>, StoreError> {
    let wanted: Vec<Uuid> = ids.iter().map(Uuid::from).collect();
    let sql = format!(
        "SELECT m.id, {} FROM atlatl.memory m \
         JOIN atlatl.vector v ON v.tenant = m.tenant AND v.key = m.key AND v.model = $2 \
         WHERE m.tenant = $1 AND m.id = ANY ($4) AND cardinality(v.vector) = cardinality($3)",
        cosine(pgvector, "$3")
    );
    let values = [
        (&tenant.name as _, Type::TEXT),
        (&query_vector.model as _, Type::TEXT),
        (&query_vector.vector as _, Type::FLOAT4_ARRAY),
        (&wanted as _, Type::UUID_ARRAY),
    ];
    let found = db.query(&sql, &values).await?;
    let cosines: HashMap<u128, f64> = found
        .iter()
        .map(|row| (MemoryId::from(row.get::<_, Uuid>(0)).as_u128(), row.get(1)))
        .collect();
    Ok(ids.iter().map(|id| cosines.get(&id.as_u128()).copied()).collect())
}

/// Converts rows that begin with an id, a score and a decay flag.
pub(super) fn matches(rows: &[Row]) -> Vec<MemoryMatch> {
    let one = |row: &Row| MemoryMatch::new(row.get::<_, Uuid>(0).into(), row.get(1), row.get(2));
    rows.iter().map(one).collect()
}

/// Returns the memories without a vector. A high-water mark would skip a memory that has an older
/// key and was committed later.
pub(super) async fn unembedded(
    db: &Session,
    tenant: &Tenant,
    model: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<Unembedded>, StoreError> {
    let sql = "SELECT m.key, d.json FROM (SELECT m.key FROM atlatl.memory m WHERE m.tenant = $1 \
               AND m.key > $4 AND NOT EXISTS (SELECT 1 FROM atlatl.vector v \
                   WHERE v.tenant = $1 AND v.model = $2 AND v.key = m.key) \
               ORDER BY m.key LIMIT $3) m \
               JOIN atlatl.document d ON d.tenant = $1 AND d.key = m.key ORDER BY m.key";
    let model = storable(model);
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let values = [
        (&tenant.name as _, Type::TEXT),
        (&model as _, Type::TEXT),
        (&rows(limit) as _, Type::INT8),
        (&after as _, Type::INT8),
    ];
    let waiting = db.query(sql, &values).await?;
    let one = |row: &Row| {
        Ok(Unembedded::from_memory(row.get::<_, i64>(0).unsigned_abs(), read(row.get(1))?))
    };
    waiting.iter().map(one).collect()
}

pub(super) async fn count_unembedded(
    db: &Session,
    tenant: &Tenant,
    model: &str,
) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM atlatl.memory m WHERE m.tenant = $1 \
               AND NOT EXISTS (SELECT 1 FROM atlatl.vector v \
                   WHERE v.tenant = $1 AND v.model = $2 AND v.key = m.key)";
    let model = storable(model);
    let values = [(&tenant.name as _, Type::TEXT), (&model as _, Type::TEXT)];
    let counted = db.query(sql, &values).await?;
    Ok(counted.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}

pub(super) async fn put(
    db: &Session,
    tenant: &Tenant,
    model: &str,
    vectors: &[(u64, Vec<f32>)],
) -> Result<(), StoreError> {
    let key = |version: u64| i64::try_from(version).unwrap_or(i64::MAX);
    let keys: Vec<i64> = vectors.iter().map(|(version, _)| key(*version)).collect();
    // Locks the memories until their vectors are stored, so that no vector of a deleted version
    // remains. The order is the one of other writers, which prevents deadlocks.
    let lock = "SELECT key FROM atlatl.memory WHERE tenant = $1 AND key = ANY ($2) \
                ORDER BY id FOR SHARE";
    let there = db.query(lock, &[(&tenant.name, Type::TEXT), (&keys, Type::INT8_ARRAY)]).await?;
    let there: Vec<i64> = there.iter().map(|row| row.get(0)).collect();
    let model = storable(model);
    for (version, vector) in vectors {
        let key = key(*version);
        if !there.contains(&key) {
            continue;
        }
        // A vector that is not finite would break every comparison.
        let usable = vector.iter().all(|number| number.is_finite());
        let vector = if usable { &vector[..] } else { &[] };
        let sql = "INSERT INTO atlatl.vector (model, key, vector) VALUES ($1, $2, $3) \
                   ON CONFLICT (tenant, model, key) DO UPDATE SET vector = excluded.vector";
        let values = [
            (&model as _, Type::TEXT),
            (&key as _, Type::INT8),
            (&vector as _, Type::FLOAT4_ARRAY),
        ];
        db.execute(sql, &values).await?;
    }
    Ok(())
}
