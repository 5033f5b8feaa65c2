//! Vectors in the database: exact search, storing, and the memories that have none.
//!
//! With pgvector 0.7 a vector is stored once, in half precision (`halfvec`): in `embedding`, or, for
//! a tenant with many, in a table with an [index](super::vector_index). Half precision has 11
//! significant bits; the cosine of two vectors of length 1 is off by at most 2^-12, because only the
//! stored one is rounded. Without pgvector a vector is a plain `real[]` in the table `vector`, which
//! plain SQL compares, about twenty times slower.

use std::collections::HashMap;

use mif::MemoryId;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::crud::{Tenant, Uuid, read, rows, storable};
use super::search::{Condition, matches};
use super::session::{Session, Value};
use crate::store::{MemoryMatch, StoreError, Unembedded};

/// The greatest number in half precision.
const MAX_HALF: f32 = 65_504.0;

/// Selects the table with an index for a model (`$2`) of a tenant (`$1`), if it still exists.
const INDEXED_TABLE: &str = "SELECT i.relation FROM atlatl.embedding_index i \
     JOIN pg_attribute a ON a.attrelid = to_regclass('atlatl.' || i.relation) \
         AND a.attname = 'embedding' AND NOT a.attisdropped \
     WHERE i.tenant = $1 AND i.model = $2";

/// How vectors are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VectorStorage {
    /// In the table `vector` as arrays. Plain SQL compares them, or a version of pgvector without
    /// half precision, in this schema.
    Arrays { pgvector: Option<String> },
    /// In half precision. This is the schema of pgvector.
    Half { pgvector: String, indexes: IndexSupport },
}

/// Whether vector indexes can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexSupport {
    /// pgvector has iterative index scans (0.8). Before, an index scan could stop before a filter had
    /// enough rows.
    Iterative,
    None,
}

/// How the vectors of memories are read. The planner cannot choose: it has no statistics by tenant,
/// takes both sides for a few rows, and would compare every memory with every vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// By key, if the filter admits few memories.
    OneByOne,
    /// All at once, if it may admit many.
    Together,
}

impl VectorStorage {
    /// The SQL that joins the vector of a model to the memory `m` of a tenant (`$1`), as `v`. `indexed` is
    /// the table with an index, if there is one.
    fn join(&self, model: &str, indexed: Option<&str>, lookup: Lookup) -> String {
        let (table, column) = self.table();
        // OFFSET keeps a subquery from being merged into the query, so it runs for each memory.
        let join = |table: &str, condition: &str| match lookup {
            Lookup::OneByOne => format!(
                "LEFT JOIN LATERAL (SELECT t.key, t.{column} FROM atlatl.{table} t \
                 WHERE t.tenant = $1 {condition} AND t.key = m.key OFFSET 0)"
            ),
            Lookup::Together => format!(
                "LEFT JOIN (SELECT t.key, t.{column} FROM atlatl.{table} t \
                 WHERE t.tenant = $1 {condition})"
            ),
        };
        let stored = join(table, &format!("AND t.model = {model}"));
        match indexed {
            None => format!(
                "{stored} e ON e.key = m.key CROSS JOIN LATERAL (SELECT e.{column} AS vector) v"
            ),
            // A vector outside of the table is newer.
            Some(relation) => format!(
                "{stored} e ON e.key = m.key {} n ON n.key = m.key CROSS JOIN LATERAL \
                 (SELECT CASE WHEN e.key IS NULL THEN n.{column} ELSE e.{column} END AS vector) v",
                join(&format!("\"{relation}\""), "")
            ),
        }
    }

    /// The table of vectors without an index, and its column.
    fn table(&self) -> (&'static str, &'static str) {
        match self {
            Self::Arrays { .. } => ("vector", "vector"),
            Self::Half { .. } => ("embedding", "embedding"),
        }
    }

    /// The SQL for the cosine similarity of `v`. All vectors have length 1, so it is the dot
    /// product.
    pub(super) fn cosine(&self, query_vector: &str) -> String {
        match self {
            // The query is not rounded.
            Self::Arrays { pgvector: Some(schema) } | Self::Half { pgvector: schema, .. } => {
                format!(
                    "-(v.vector::{schema}.vector OPERATOR({schema}.<#>) \
                 {query_vector}::real[]::{schema}.vector)"
                )
            }
            Self::Arrays { pgvector: None } => format!(
                "(SELECT sum(a * b)::float8 FROM unnest(v.vector, {query_vector}) AS n (a, b))"
            ),
        }
    }

    /// The SQL for whether `v` can be compared. A vector of another length cannot, and neither can
    /// the mark of a text that the model refused.
    pub(super) fn is_comparable(&self, query_vector: &str) -> String {
        match self {
            Self::Arrays { .. } => format!("cardinality(v.vector) = cardinality({query_vector})"),
            Self::Half { pgvector, .. } => {
                format!("{pgvector}.vector_dims(v.vector) = cardinality({query_vector})")
            }
        }
    }

    /// The SQL for whether the memory `m` of the tenant `$1` has a vector of the model `$2`.
    fn has_vector(&self, indexed: Option<&str>) -> String {
        let table = self.table().0;
        // As a join, of which the planner underestimates both sides, it could compare every memory with
        // every vector. OFFSET keeps it from becoming one.
        let stored = format!(
            "EXISTS (SELECT 1 FROM atlatl.{table} v \
             WHERE v.tenant = $1 AND v.model = $2 AND v.key = m.key OFFSET 0)"
        );
        match indexed {
            None => stored,
            Some(relation) => format!(
                "({stored} OR EXISTS (SELECT 1 FROM atlatl.\"{relation}\" n \
                 WHERE n.tenant = $1 AND n.key = m.key OFFSET 0))"
            ),
        }
    }

    /// Returns the table with an index for a model (`$2`) of a tenant (`$1`), if there is one.
    async fn indexed_table(
        &self,
        db: &Session,
        values: &[Value<'_>; 2],
    ) -> Result<Option<String>, StoreError> {
        if matches!(self, Self::Arrays { .. }) {
            return Ok(None);
        }
        Ok(db.query(INDEXED_TABLE, values).await?.first().map(|row| row.get(0)))
    }

    /// Returns the same, and configures the planner for a comparison of all vectors.
    async fn plan_comparison(
        &self,
        db: &Session,
        values: &[Value<'_>; 2],
        lookup: Lookup,
    ) -> Result<Option<String>, StoreError> {
        // Reading together is a hash join. An index search may have disabled sorting.
        let nested_loops = match lookup {
            Lookup::OneByOne => "on",
            Lookup::Together => "off",
        };
        let settings = format!(
            "set_config('enable_sort', 'on', true), \
             set_config('enable_nestloop', '{nested_loops}', true)"
        );
        let rows = match self {
            Self::Arrays { .. } => db.query(&format!("SELECT NULL::text, {settings}"), &[]).await?,
            Self::Half { .. } => {
                db.query(&format!("SELECT ({INDEXED_TABLE}), {settings}"), values).await?
            }
        };
        Ok(rows.first().and_then(|row| row.get(0)))
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

/// Returns the memories with the nearest vectors by comparing all.
pub(super) async fn nearest(
    db: &Session,
    storage: &VectorStorage,
    query_vector: &QueryVector<'_>,
    mut condition: Condition,
    limit: usize,
    lookup: Lookup,
) -> Result<Vec<MemoryMatch>, StoreError> {
    let values = [condition.tenant(), (&query_vector.model as _, Type::TEXT)];
    let indexed = storage.plan_comparison(db, &values, lookup).await?;
    let (model, query_vector) = query_vector.values(&mut condition);
    let limit = condition.value(rows(limit), Type::INT8);
    let sql = format!(
        "SELECT m.id, {}, m.fades FROM atlatl.memory m {} WHERE {} AND {} ORDER BY 2 DESC, m.key LIMIT {limit}",
        storage.cosine(&query_vector),
        storage.join(&model, indexed.as_deref(), lookup),
        condition.sql,
        storage.is_comparable(&query_vector),
    );
    let found = db.query(&sql, &condition.values()).await?;
    Ok(matches(&found))
}

/// Returns the cosine similarity to the vectors of these memories.
pub(super) async fn cosines(
    db: &Session,
    tenant: &Tenant,
    storage: &VectorStorage,
    query_vector: &QueryVector<'_>,
    ids: &[MemoryId],
) -> Result<Vec<Option<f64>>, StoreError> {
    let values = [(&tenant.name as _, Type::TEXT), (&query_vector.model as _, Type::TEXT)];
    let indexed = storage.indexed_table(db, &values).await?;
    let wanted: Vec<Uuid> = ids.iter().map(Uuid::from).collect();
    let sql = format!(
        "SELECT m.id, {} FROM atlatl.memory m {} WHERE m.tenant = $1 AND m.id = ANY ($4) AND {}",
        storage.cosine("$3"),
        storage.join("$2", indexed.as_deref(), Lookup::OneByOne),
        storage.is_comparable("$3"),
    );
    let [name, model] = values;
    let values = [
        name,
        model,
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

/// Returns the memories without a vector. A high-water mark would skip a memory that has an older
/// key and was committed later.
pub(super) async fn unembedded(
    db: &Session,
    tenant: &Tenant,
    storage: &VectorStorage,
    model: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<Unembedded>, StoreError> {
    let model = storable(model);
    let values = [(&tenant.name as _, Type::TEXT), (&model as _, Type::TEXT)];
    let indexed = storage.indexed_table(db, &values).await?;
    let sql = format!(
        "SELECT m.key, d.json FROM (SELECT m.key FROM atlatl.memory m WHERE m.tenant = $1 \
         AND m.key > $4 AND NOT {} ORDER BY m.key LIMIT $3) m \
         JOIN LATERAL (SELECT d.json FROM atlatl.document d \
             WHERE d.tenant = $1 AND d.key = m.key OFFSET 0) d ON true ORDER BY m.key",
        storage.has_vector(indexed.as_deref())
    );
    let (limit, after) = (rows(limit), i64::try_from(after).unwrap_or(i64::MAX));
    let [name, model] = values;
    let values = [name, model, (&limit as _, Type::INT8), (&after as _, Type::INT8)];
    texts(&db.query(&sql, &values).await?)
}

/// Returns the texts of the memories with these keys that exist and have no vector.
pub(super) async fn unembedded_texts(
    db: &Session,
    tenant: &Tenant,
    storage: &VectorStorage,
    model: &str,
    keys: &[i64],
) -> Result<Vec<Unembedded>, StoreError> {
    let values = [(&tenant.name as _, Type::TEXT), (&model as _, Type::TEXT)];
    let indexed = storage.indexed_table(db, &values).await?;
    let sql = format!(
        "SELECT m.key, m.json FROM atlatl.document m \
         WHERE m.tenant = $1 AND m.key = ANY ($3) AND NOT {} ORDER BY m.key",
        storage.has_vector(indexed.as_deref())
    );
    let [name, model] = values;
    texts(&db.query(&sql, &[name, model, (&keys, Type::INT8_ARRAY)]).await?)
}

/// Converts rows with the key and the JSON of a memory.
fn texts(rows: &[Row]) -> Result<Vec<Unembedded>, StoreError> {
    let one = |row: &Row| {
        Ok(Unembedded::from_memory(row.get::<_, i64>(0).unsigned_abs(), read(row.get(1))?))
    };
    rows.iter().map(one).collect()
}

pub(super) async fn count_unembedded(
    db: &Session,
    tenant: &Tenant,
    storage: &VectorStorage,
    model: &str,
) -> Result<u64, StoreError> {
    let model = storable(model);
    let values = [(&tenant.name as _, Type::TEXT), (&model as _, Type::TEXT)];
    let indexed = storage.indexed_table(db, &values).await?;
    let sql = format!(
        "SELECT count(*) FROM atlatl.memory m WHERE m.tenant = $1 AND NOT {}",
        storage.has_vector(indexed.as_deref())
    );
    let counted = db.query(&sql, &values).await?;
    Ok(counted.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}

/// Vectors as column arrays, so that one statement stores many. The numbers of all are in one
/// array, since arrays of arrays have equal lengths.
#[derive(Default)]
struct VectorRows {
    keys: Vec<i64>,
    firsts: Vec<i32>,
    lasts: Vec<i32>,
    numbers: Vec<f32>,
}

impl VectorRows {
    /// Adds a vector. One that cannot be stored or compared becomes empty.
    fn push(&mut self, storage: &VectorStorage, key: i64, vector: &[f32]) {
        let most = if matches!(storage, VectorStorage::Half { .. }) { MAX_HALF } else { f32::MAX };
        let usable = vector.iter().all(|number| number.abs() <= most);
        let end = |numbers: &[f32]| i32::try_from(numbers.len()).unwrap_or(i32::MAX);
        self.keys.push(key);
        self.firsts.push(end(&self.numbers).saturating_add(1));
        self.numbers.extend_from_slice(if usable { vector } else { &[] });
        self.lasts.push(end(&self.numbers));
    }
}

pub(super) async fn put(
    db: &Session,
    tenant: &Tenant,
    storage: &VectorStorage,
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
    let vectors: HashMap<i64, &[f32]> =
        vectors.iter().map(|(version, vector)| (key(*version), vector.as_slice())).collect();
    let mut rows = VectorRows::default();
    for row in &there {
        let key: i64 = row.get(0);
        if let Some(vector) = vectors.get(&key) {
            rows.push(storage, key, vector);
        }
    }
    if rows.keys.is_empty() {
        return Ok(());
    }
    // Triggers remove the memories from the embedding queue.
    let numbers = "($5::real[])[r.first:r.last]";
    let (table, column) = storage.table();
    let vector = match storage {
        VectorStorage::Arrays { .. } => numbers.to_owned(),
        VectorStorage::Half { pgvector, .. } => {
            format!("CASE WHEN r.last >= r.first THEN {numbers}::{pgvector}.halfvec END")
        }
    };
    let sql = format!(
        "INSERT INTO atlatl.{table} (model, key, {column}) SELECT $1, r.key, {vector} \
         FROM unnest($2::int8[], $3::int4[], $4::int4[]) AS r (key, first, last) \
         ON CONFLICT (tenant, model, key) DO UPDATE SET {column} = excluded.{column}"
    );
    let model = storable(model);
    let values: [Value<'_>; 5] = [
        (&model, Type::TEXT),
        (&rows.keys, Type::INT8_ARRAY),
        (&rows.firsts, Type::INT4_ARRAY),
        (&rows.lasts, Type::INT4_ARRAY),
        (&rows.numbers, Type::FLOAT4_ARRAY),
    ];
    db.execute(&sql, &values).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_that_cannot_be_stored_is_empty() {
        let half =
            VectorStorage::Half { pgvector: "public".to_owned(), indexes: IndexSupport::None };
        let arrays = VectorStorage::Arrays { pgvector: None };
        for (storage, large) in [(&half, 0), (&arrays, 1)] {
            let mut rows = VectorRows::default();
            for (key, vector) in
                [&[1.0, 2.0][..], &[f32::NAN], &[7e4], &[], &[3.0]].iter().enumerate()
            {
                rows.push(storage, i64::try_from(key).unwrap(), vector);
            }
            assert_eq!(rows.firsts, [1, 3, 3, 3 + large, 3 + large]);
            assert_eq!(rows.lasts, [2, 2, 2 + large, 2 + large, 3 + large]);
            assert_eq!(rows.keys, [0, 1, 2, 3, 4]);
        }
    }
}
