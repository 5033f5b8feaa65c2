//! Nearest: memories by their vectors. All are compared and none is skipped, unless the tenant has so
//! many that there is an index ([`near`](super::vector_index)).
//!
//! They are kept as plain numbers, so that a database without pgvector can keep them too and one that
//! gets it later has nothing to change. Where the extension is there it compares them; else plain SQL
//! does, some twenty times slower.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::crud::{Tenant, read};
use super::list::Condition;
use super::session::Session;
use super::value::{Uuid, rows, storable};
use crate::store::{Match, StoreError, Unembedded};

/// A vector to which others may be near.
pub(super) struct Wanted<'a> {
    pub(super) model: String,
    pub(super) vector: &'a [f32],
}

impl<'a> Wanted<'a> {
    /// Unless nothing can be near to it.
    pub(super) fn new(model: &str, vector: &'a [f32]) -> Option<Self> {
        let usable = !vector.is_empty() && vector.iter().all(|number| number.is_finite());
        usable.then(|| Self { model: storable(model), vector })
    }

    /// What stands for the model and for the vector.
    pub(super) fn values(&self, condition: &mut Condition) -> (String, String) {
        let model = condition.value(self.model.clone(), Type::TEXT);
        (model, condition.value(self.vector.to_vec(), Type::FLOAT4_ARRAY))
    }
}

/// How near a vector `v` is. All have length 1, so the product is the cosine.
pub(super) fn cosine(pgvector: Option<&str>, wanted: &str) -> String {
    match pgvector {
        Some(schema) => format!(
            "-(v.vector::{schema}.vector OPERATOR({schema}.<#>) {wanted}::real[]::{schema}.vector)"
        ),
        None => format!("(SELECT sum(a * b)::float8 FROM unnest(v.vector, {wanted}) AS n (a, b))"),
    }
}

/// Which memories have the nearest vectors. `pgvector` is where the extension lies.
pub(super) fn nearest(
    db: &Session,
    pgvector: Option<&str>,
    wanted: &Wanted<'_>,
    mut condition: Condition,
    limit: usize,
) -> Result<Vec<Match>, StoreError> {
    let (model, wanted) = wanted.values(&mut condition);
    let limit = condition.value(rows(limit), Type::INT8);
    // What is of another length cannot be compared: a text that no vector can be made from.
    let cosine = cosine(pgvector, &wanted);
    let sql = format!(
        "SELECT m.id, {cosine}, m.fades FROM atlatl.memory m \
         JOIN atlatl.vector v ON v.tenant = m.tenant AND v.key = m.key AND v.model = {model} \
         WHERE {} AND cardinality(v.vector) = cardinality({wanted}) \
         ORDER BY 2 DESC, m.key LIMIT {limit}",
        condition.sql
    );
    let found = db.query(&sql, &condition.values())?;
    Ok(matches(&found))
}

/// Rows that begin with an id, how near it is and whether it fades.
pub(super) fn matches(found: &[Row]) -> Vec<Match> {
    let one = |row: &Row| Match::new(row.get::<_, Uuid>(0).into(), row.get(1), row.get(2));
    found.iter().map(one).collect()
}

/// What has no vector. A mark behind the last that got one would pass over a memory that has an older
/// key and was acknowledged later.
pub(super) fn unembedded(
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
    let waiting = db.query(sql, &values)?;
    let one = |row: &Row| {
        Ok(Unembedded::from_memory(row.get::<_, i64>(0).unsigned_abs(), read(row.get(1))?))
    };
    waiting.iter().map(one).collect()
}

pub(super) fn put(
    db: &Session,
    tenant: &Tenant,
    model: &str,
    vectors: &[(u64, Vec<f32>)],
) -> Result<(), StoreError> {
    let key = |version: u64| i64::try_from(version).unwrap_or(i64::MAX);
    let keys: Vec<i64> = vectors.iter().map(|(version, _)| key(*version)).collect();
    // Nobody changes these memories until their vectors are there: a vector of a version that is gone
    // would be nobody's. In the order in which others take them.
    let lock = "SELECT key FROM atlatl.memory WHERE tenant = $1 AND key = ANY ($2) \
                ORDER BY id FOR SHARE";
    let there = db.query(lock, &[(&tenant.name, Type::TEXT), (&keys, Type::INT8_ARRAY)])?;
    let there: Vec<i64> = there.iter().map(|row| row.get(0)).collect();
    let model = storable(model);
    for (version, vector) in vectors {
        let key = key(*version);
        if !there.contains(&key) {
            continue;
        }
        // One that cannot be compared would spoil every question.
        let usable = vector.iter().all(|number| number.is_finite());
        let vector = if usable { &vector[..] } else { &[] };
        let sql = "INSERT INTO atlatl.vector (model, key, vector) VALUES ($1, $2, $3) \
                   ON CONFLICT (tenant, model, key) DO UPDATE SET vector = excluded.vector";
        let values = [
            (&model as _, Type::TEXT),
            (&key as _, Type::INT8),
            (&vector as _, Type::FLOAT4_ARRAY),
        ];
        db.execute(sql, &values)?;
    }
    Ok(())
}
