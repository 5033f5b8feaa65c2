//! HNSW vector indexes of tenants with many vectors, kept up to date in the background.
//!
//! Inserting into such an index is slow, so writers do not: they write to `embedding`. If a tenant
//! has many vectors there, [`advance`] builds a table with an index from them, and then moves
//! vectors from the one to the other in small steps. A vector is stored once, except between two
//! steps. A search compares what is not in the table one by one.
//!
//! The index only proposes candidates: the memories themselves decide about hits. A table that still
//! has the vector of a deleted or changed memory never returns it, because every version of a memory
//! has its own key.
//!
//! Vectors are copied in one transaction and removed where they came from in the next, because the
//! first takes long and a writer may replace the same vector.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::crud::{Tenant, rows};
use super::pool::{Pool, read_transaction, write_transaction};
use super::search::{Condition, matches};
use super::session::{Access, Session, Value};
use super::vectors::{QueryVector, VectorStorage};
use crate::store::{MemoryMatch, StoreError};

/// The maximum number of dimensions of an index in half precision.
const MAX_DIMENSIONS: i32 = 4000;
/// The maximum number of hits requested from an index. For more, all vectors are compared.
const MAX_INDEX_HITS: usize = 400;
/// The maximum number of vectors outside of the table at which the index is used.
const MAX_PENDING: i64 = 5000;
/// The maximum number of index entries scanned per hit if the filter rejects them. A stricter
/// filter has few hits, which are found faster without the index.
const MAX_SCANNED_PER_HIT: usize = 10;
/// The number of vectors inserted into an index per step: a second's work or less.
const MOVE_BATCH_LEN: usize = 200;
/// The number of copied vectors removed per step.
const REMOVE_BATCH_LEN: i64 = 5000;
/// An index is built again if the vectors outside of it are more than this part of it.
const REBUILD_PART: i64 = 4;

/// A model of which a tenant has vectors or an index.
struct Model {
    name: String,
    /// The number of vectors outside of the index, counted up to the limit of the query.
    vectors: i64,
    /// The dimensions of the newest vector, if there is no index and there are enough vectors for
    /// one.
    dimensions: Option<i32>,
    index: Option<Index>,
}

/// A vector index.
struct Index {
    relation: String,
    dimensions: i32,
    state: IndexState,
    /// The estimated number of vectors in it.
    vectors: i64,
}

/// The state of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexState {
    /// Its table is gone.
    Lost,
    /// Its former table still exists.
    Replaced,
    /// The database cannot use it.
    Invalid,
    Valid,
}

/// The next step for an index.
#[derive(Debug, PartialEq, Eq)]
enum IndexAction {
    /// Build the index, for vectors of this length.
    Build(i32),
    /// Drop the former table.
    DropFormer,
    /// Move vectors into the table.
    Move,
    /// Drop the index, because its table is gone.
    Drop,
    /// Drop the index if too few vectors are left.
    DropIfSmall,
}

impl Model {
    /// Returns the next step, if a tenant with `from` vectors has an index.
    fn next_action(&self, from: i64) -> Option<IndexAction> {
        let Some(index) = &self.index else {
            let dimensions = self.dimensions.filter(|n| (1..=MAX_DIMENSIONS).contains(n));
            return dimensions.map(IndexAction::Build);
        };
        let is_outgrown =
            self.vectors >= from && self.vectors.saturating_mul(REBUILD_PART) >= index.vectors;
        match index.state {
            IndexState::Lost => Some(IndexAction::Drop),
            IndexState::Replaced => Some(IndexAction::DropFormer),
            IndexState::Invalid => Some(IndexAction::Build(index.dimensions)),
            IndexState::Valid if is_outgrown => Some(IndexAction::Build(index.dimensions)),
            IndexState::Valid if self.vectors > 0 => Some(IndexAction::Move),
            IndexState::Valid => Some(IndexAction::DropIfSmall),
        }
    }
}

/// Returns the models of a tenant. `from` vectors are enough for an index, and counting stops there.
async fn models(
    db: &Session,
    tenant: &Tenant,
    pgvector: &str,
    from: i64,
) -> Result<Vec<Model>, StoreError> {
    let sql = format!(
        "WITH RECURSIVE used AS ( \
             (SELECT e.model FROM atlatl.embedding e WHERE e.tenant = $1 ORDER BY e.model LIMIT 1) \
             UNION ALL SELECT (SELECT e.model FROM atlatl.embedding e \
                 WHERE e.tenant = $1 AND e.model > used.model ORDER BY e.model LIMIT 1) \
             FROM used WHERE used.model IS NOT NULL), \
         known AS MATERIALIZED (SELECT u.model, i.relation, i.retired, i.dimensions, \
             coalesce((SELECT greatest(t.reltuples, 0)::int8 FROM pg_class t \
                 WHERE t.oid = to_regclass('atlatl.' || i.relation)), 0) AS indexed \
             FROM (SELECT model FROM used WHERE model IS NOT NULL \
                 UNION SELECT model FROM atlatl.embedding_index WHERE tenant = $1) u \
             LEFT JOIN atlatl.embedding_index i ON i.tenant = $1 AND i.model = u.model), \
         counted AS MATERIALIZED (SELECT k.*, CASE WHEN k.relation IS NULL \
             THEN (SELECT count(*) FROM (SELECT 1 FROM atlatl.embedding e \
                 WHERE e.tenant = $1 AND e.model = k.model LIMIT $2) c) \
             ELSE (SELECT count(*) FROM (SELECT 1 FROM atlatl.embedding e \
                 WHERE e.tenant = $1 AND e.model = k.model \
                 AND {pgvector}.vector_dims(e.embedding) = k.dimensions \
                 LIMIT greatest($2, k.indexed / {REBUILD_PART} + 1)) c) \
             END AS n FROM known k) \
         SELECT c.model, c.n, \
             CASE WHEN c.relation IS NULL AND c.n >= $2 THEN \
                 (SELECT {pgvector}.vector_dims(e.embedding) FROM atlatl.embedding e \
                  WHERE e.tenant = $1 AND e.model = c.model AND e.embedding IS NOT NULL \
                  ORDER BY e.key DESC LIMIT 1) END, \
             c.relation, c.dimensions, c.retired IS NOT NULL, \
             EXISTS (SELECT 1 FROM pg_attribute a \
                 WHERE a.attrelid = to_regclass('atlatl.' || c.relation) \
                 AND a.attname = 'embedding' AND NOT a.attisdropped), \
             EXISTS (SELECT 1 FROM pg_index i WHERE i.indisvalid \
                 AND i.indexrelid = to_regclass('atlatl.' || c.relation || '_index')), c.indexed \
         FROM counted c ORDER BY c.model"
    );
    let found = db.query(&sql, &[(&tenant.name, Type::TEXT), (&from, Type::INT8)]).await?;
    let state = |row: &Row| match (row.get(6), row.get(5), row.get(7)) {
        (false, _, _) => IndexState::Lost,
        (true, true, _) => IndexState::Replaced,
        (true, false, false) => IndexState::Invalid,
        (true, false, true) => IndexState::Valid,
    };
    let index = |row: &Row, relation| Index {
        relation,
        dimensions: row.get(4),
        state: state(row),
        vectors: row.get(8),
    };
    let model = |row: &Row| Model {
        name: row.get(0),
        vectors: row.get(1),
        dimensions: row.get(2),
        index: row.get::<_, Option<String>>(3).map(|relation| index(row, relation)),
    };
    Ok(found.iter().map(model).collect())
}

/// Returns whether there is work to do.
pub(super) async fn is_behind(
    db: &Session,
    tenant: &Tenant,
    pgvector: &str,
    from: usize,
) -> Result<bool, StoreError> {
    let from = rows(from.max(1));
    for model in models(db, tenant, pgvector, from).await? {
        match (model.next_action(from), &model.index) {
            (None, _) => {}
            (Some(IndexAction::DropIfSmall), Some(index)) => {
                if is_small(db, tenant, index, from).await? {
                    return Ok(true);
                }
            }
            (Some(_), _) => return Ok(true),
        }
    }
    Ok(false)
}

/// Returns whether an index has less than half of `from` vectors, so that it does not come and go
/// around the limit.
async fn is_small(
    db: &Session,
    tenant: &Tenant,
    index: &Index,
    from: i64,
) -> Result<bool, StoreError> {
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM atlatl.\"{}\" n WHERE n.tenant = $1 LIMIT $2) c",
        index.relation
    );
    let least = from / 2;
    let counted = db.query(&sql, &[(&tenant.name, Type::TEXT), (&least, Type::INT8)]).await?;
    Ok(counted.first().is_some_and(|row| row.get::<_, i64>(0) < least))
}

/// Deletes vectors without a memory from the tables of a tenant. Returns their number. They remain
/// if a memory was deleted while its vector was moved.
pub(super) async fn repair(
    db: &Session,
    tenant: &Tenant,
    pgvector: &str,
) -> Result<u64, StoreError> {
    let mut orphaned = 0;
    for model in models(db, tenant, pgvector, 1).await? {
        let Some(Index { relation, state, .. }) = model.index else { continue };
        if state != IndexState::Lost {
            let sql = format!(
                "DELETE FROM atlatl.\"{relation}\" n WHERE n.tenant = $1 AND NOT EXISTS \
                 (SELECT 1 FROM atlatl.memory m WHERE m.tenant = $1 AND m.key = n.key OFFSET 0)"
            );
            orphaned += db.execute(&sql, &[(&tenant.name, Type::TEXT)]).await?;
        }
    }
    Ok(orphaned)
}

/// The outcome of an index search.
pub(super) enum IndexSearch {
    Found(Vec<MemoryMatch>),
    /// The filter rejected most of what the index proposed.
    TooFew,
    /// There is no index, or it cannot answer.
    Unusable,
}

/// Returns the memories with the nearest vectors.
pub(super) async fn search(
    db: &Session,
    storage: &VectorStorage,
    query_vector: &QueryVector<'_>,
    mut condition: Condition,
    limit: usize,
) -> Result<IndexSearch, StoreError> {
    let VectorStorage::Half { pgvector, .. } = storage else { return Ok(IndexSearch::Unusable) };
    if limit == 0 || limit > MAX_INDEX_HITS {
        return Ok(IndexSearch::Unusable);
    }
    let Some(relation) = usable_index(db, query_vector, &condition, limit).await? else {
        return Ok(IndexSearch::Unusable);
    };
    let (model, vector) = query_vector.values(&mut condition);
    let most = condition.value(rows(limit), Type::INT8);
    let (cosine, comparable) = (storage.cosine(&vector), storage.is_comparable(&vector));
    let filter = &condition.sql;
    // OFFSET keeps a subquery from being merged into the query: memories are read one by one. The
    // planner takes a tenant for a few rows, and would compare all of its memories with each vector.
    let sql = format!(
        "WITH near AS MATERIALIZED (SELECT n.key, n.embedding FROM atlatl.\"{relation}\" n \
             CROSS JOIN LATERAL (SELECT 1 FROM atlatl.memory m \
                 WHERE m.key = n.key AND {filter} OFFSET 0) m \
             WHERE n.tenant = $1 AND n.key NOT IN (SELECT e.key FROM atlatl.embedding e \
                 WHERE e.tenant = $1 AND e.model = {model}) \
             ORDER BY n.embedding OPERATOR({pgvector}.<#>) {vector}::real[]::{pgvector}.halfvec \
             LIMIT {most}) \
         SELECT m.id, {cosine}, m.fades, (SELECT count(*) FROM near) \
         FROM (SELECT key, embedding AS vector FROM near \
             UNION ALL SELECT e.key, e.embedding FROM atlatl.embedding e \
             WHERE e.tenant = $1 AND e.model = {model}) v \
         CROSS JOIN LATERAL (SELECT m.id, m.fades, m.key FROM atlatl.memory m \
             WHERE m.key = v.key AND {filter} OFFSET 0) m WHERE {comparable} \
         ORDER BY 2 DESC, m.key LIMIT {most}"
    );
    let found = db.query(&sql, &condition.values()).await?;
    let proposed = found.first().map_or(0, |row| row.get::<_, i64>(3));
    // If the scan ended before it had enough, there may be more.
    Ok(if proposed >= rows(limit) {
        IndexSearch::Found(matches(&found))
    } else {
        IndexSearch::TooFew
    })
}

/// Returns the table of the index, if it can answer, and configures index scans for this
/// transaction. `enable_sort = off` only makes the planner prefer the order of the index.
async fn usable_index(
    db: &Session,
    query_vector: &QueryVector<'_>,
    condition: &Condition,
    limit: usize,
) -> Result<Option<String>, StoreError> {
    let wide = (2 * limit).clamp(100, 1000);
    let most = MAX_SCANNED_PER_HIT * limit.max(100);
    let sql = format!(
        "SELECT i.relation, set_config('hnsw.ef_search', '{wide}', true), \
             set_config('hnsw.iterative_scan', 'relaxed_order', true), \
             set_config('hnsw.max_scan_tuples', '{most}', true), \
             set_config('enable_sort', 'off', true) \
         FROM atlatl.embedding_index i WHERE i.tenant = $1 AND i.model = $2 AND i.dimensions = $3 \
             AND (SELECT count(*) FROM (SELECT 1 FROM atlatl.embedding e \
                 WHERE e.tenant = $1 AND e.model = $2 LIMIT {}) c) <= {MAX_PENDING}",
        MAX_PENDING + 1
    );
    let dimensions = i32::try_from(query_vector.vector.len()).unwrap_or(i32::MAX);
    let values = [
        condition.tenant(),
        (&query_vector.model as _, Type::TEXT),
        (&dimensions as _, Type::INT4),
    ];
    Ok(db.query(&sql, &values).await?.first().map(|row| row.get(0)))
}

/// Does the next step for the first index that needs one. Returns the amount of work, 0 if nothing
/// can be done now. `pgvector` is the schema of the extension.
pub(super) async fn advance(
    pool: &Pool,
    tenant: &Tenant,
    pgvector: &str,
    from: usize,
) -> Result<u64, StoreError> {
    let from = rows(from.max(1));
    let name = &tenant.name;
    let models =
        read_transaction!(pool, name, Access::Condition, |db| models(db, tenant, pgvector, from)
            .await)?;
    for model in models {
        let done = match (model.next_action(from), &model.index) {
            (Some(IndexAction::Build(size)), _) => {
                build(pool, tenant, &model, size, pgvector).await?
            }
            (Some(IndexAction::DropFormer), _) => {
                write_transaction!(pool, name, |db| call(db, "drop_retired_index", &model).await)?
            }
            (Some(IndexAction::Drop), _) => {
                write_transaction!(pool, name, |db| call(db, "drop_embedding_index", &model).await)?
            }
            (Some(IndexAction::DropIfSmall), Some(index)) => {
                write_transaction!(pool, name, |db| {
                    if is_small(db, tenant, index, from).await? {
                        call(db, "drop_embedding_index", &model).await
                    } else {
                        Ok(0)
                    }
                })?
            }
            (Some(IndexAction::Move), Some(index)) => {
                move_vectors(pool, tenant, &model, index, pgvector).await?
            }
            (None | Some(IndexAction::Move | IndexAction::DropIfSmall), _) => 0,
        };
        if done > 0 {
            return Ok(done);
        }
    }
    Ok(0)
}

/// Builds the index of a model in a transaction that may take long, and removes the vectors that it
/// copied. If another process builds it, nothing is done.
async fn build(
    pool: &Pool,
    tenant: &Tenant,
    model: &Model,
    size: i32,
    pgvector: &str,
) -> Result<u64, StoreError> {
    let (long, name) = (pool.for_long_statements()?, &tenant.name);
    let sql = "SELECT atlatl.build_embedding_index($1, $2)";
    let built = write_transaction!(&long, name, |db| {
        let built = db.query(sql, &[(&model.name, Type::TEXT), (&size, Type::INT4)]).await?;
        Ok(built.first().is_some_and(|row| row.get(0)))
    })?;
    if !built {
        return Ok(0);
    }
    let built = "SELECT relation FROM atlatl.embedding_index WHERE tenant = $1 AND model = $2";
    let relation: Option<String> = read_transaction!(pool, name, Access::Keys, |db| {
        let values = [(name as _, Type::TEXT), (&model.name as _, Type::TEXT)];
        Ok(db.query(built, &values).await?.first().map(|row| row.get(0)))
    })?;
    let Some(relation) = relation else { return Ok(1) };
    let index = Index { relation, dimensions: size, state: IndexState::Valid, vectors: 0 };
    let mut moved = 1;
    loop {
        let keys = pending(pool, tenant, model, &index, pgvector).await?;
        let removed = write_transaction!(pool, name, |db| {
            remove_copied(db, tenant, model, &index, pgvector, &keys).await
        })?;
        if removed == 0 {
            return Ok(moved);
        }
        moved += removed;
    }
}

/// Calls a function for a model that returns whether it did something.
async fn call(db: &Session, function: &str, model: &Model) -> Result<u64, StoreError> {
    let sql = format!("SELECT atlatl.{function}($1)");
    let done = db.query(&sql, &[(&model.name, Type::TEXT)]).await?;
    Ok(done.first().map_or(0, |row| u64::from(row.get::<_, bool>(0))))
}

/// Returns the keys of vectors that are not in the table of an index only.
async fn pending(
    pool: &Pool,
    tenant: &Tenant,
    model: &Model,
    index: &Index,
    pgvector: &str,
) -> Result<Vec<i64>, StoreError> {
    let sql = format!(
        "SELECT e.key FROM atlatl.embedding e WHERE e.tenant = $1 AND e.model = $2 \
         AND {pgvector}.vector_dims(e.embedding) = $3 ORDER BY e.key LIMIT $4"
    );
    read_transaction!(pool, &tenant.name, Access::Condition, |db| {
        let values: [Value<'_>; 4] = [
            (&tenant.name, Type::TEXT),
            (&model.name, Type::TEXT),
            (&index.dimensions, Type::INT4),
            (&REMOVE_BATCH_LEN, Type::INT8),
        ];
        Ok(db.query(&sql, &values).await?.iter().map(|row| row.get(0)).collect())
    })
}

/// Moves some vectors into the table of an index: first those that were copied already.
async fn move_vectors(
    pool: &Pool,
    tenant: &Tenant,
    model: &Model,
    index: &Index,
    pgvector: &str,
) -> Result<u64, StoreError> {
    let name = &tenant.name;
    let keys = pending(pool, tenant, model, index, pgvector).await?;
    let removed = write_transaction!(pool, name, |db| {
        remove_copied(db, tenant, model, index, pgvector, &keys).await
    })?;
    if removed > 0 {
        return Ok(removed);
    }
    let keys = &keys[..keys.len().min(MOVE_BATCH_LEN)];
    write_transaction!(pool, name, |db| copy(db, tenant, model, index, pgvector, keys).await)?;
    write_transaction!(pool, name, |db| {
        remove_copied(db, tenant, model, index, pgvector, keys).await
    })
}

/// Returns whether a table is still the one of its index, and keeps it so until the end of the
/// transaction. If another process builds the index, vectors that are moved to the former table would
/// be dropped with it.
async fn keep_table(
    db: &Session,
    tenant: &Tenant,
    model: &Model,
    relation: &str,
) -> Result<bool, StoreError> {
    // `build_embedding_index` takes this lock alone.
    let lock = "SELECT pg_try_advisory_xact_lock_shared( \
                hashtextextended(format('%L %L', $1, $2), 7))";
    let values: [Value<'_>; 2] = [(&tenant.name, Type::TEXT), (&model.name, Type::TEXT)];
    let is_locked = db.query(lock, &values).await?.first().is_some_and(|row| row.get(0));
    if !is_locked {
        return Ok(false);
    }
    // A statement of its own, which sees what was committed before the lock was taken.
    let sql = "SELECT EXISTS (SELECT FROM atlatl.embedding_index \
               WHERE tenant = $1 AND model = $2 AND relation = $3)";
    let values: [Value<'_>; 3] =
        [(&tenant.name, Type::TEXT), (&model.name, Type::TEXT), (&relation, Type::TEXT)];
    Ok(db.query(sql, &values).await?.first().is_some_and(|row| row.get(0)))
}

/// Copies vectors into the table of an index.
async fn copy(
    db: &Session,
    tenant: &Tenant,
    model: &Model,
    Index { relation, dimensions, .. }: &Index,
    pgvector: &str,
    keys: &[i64],
) -> Result<u64, StoreError> {
    // One at a time regardless of the lease, which prevents deadlocks.
    let alone = "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))";
    db.query(alone, &[(relation, Type::TEXT)]).await?;
    if !keep_table(db, tenant, model, relation).await? {
        return Ok(0);
    }
    let sql = format!(
        "INSERT INTO atlatl.\"{relation}\" AS n (key, embedding) \
         SELECT e.key, e.embedding FROM atlatl.embedding e \
         WHERE e.tenant = $1 AND e.model = $2 AND e.key = ANY ($3) \
         AND {pgvector}.vector_dims(e.embedding) = $4 ORDER BY e.key \
         ON CONFLICT (tenant, key) DO UPDATE SET embedding = excluded.embedding"
    );
    let values: [Value<'_>; 4] = [
        (&tenant.name, Type::TEXT),
        (&model.name, Type::TEXT),
        (&keys, Type::INT8_ARRAY),
        (dimensions, Type::INT4),
    ];
    db.execute(&sql, &values).await
}

/// Removes vectors that are in the table of an index as they are.
async fn remove_copied(
    db: &Session,
    tenant: &Tenant,
    model: &Model,
    index: &Index,
    pgvector: &str,
    keys: &[i64],
) -> Result<u64, StoreError> {
    let relation = &index.relation;
    if !keep_table(db, tenant, model, relation).await? {
        return Ok(0);
    }
    let values: [Value<'_>; 3] =
        [(&tenant.name, Type::TEXT), (&model.name, Type::TEXT), (&keys, Type::INT8_ARRAY)];
    // Rows that a writer holds are left for the next step.
    let sql = format!(
        "WITH free AS MATERIALIZED (SELECT e.key FROM atlatl.embedding e \
             WHERE e.tenant = $1 AND e.model = $2 AND e.key = ANY ($3) \
             AND EXISTS (SELECT 1 FROM atlatl.\"{relation}\" n WHERE n.tenant = $1 \
                 AND n.key = e.key AND n.embedding OPERATOR({pgvector}.=) e.embedding) \
             FOR UPDATE SKIP LOCKED) \
         DELETE FROM atlatl.embedding e WHERE e.tenant = $1 AND e.model = $2 \
             AND e.key = ANY (ARRAY(SELECT f.key FROM free f))"
    );
    db.execute(&sql, &values).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(vectors: i64, dimensions: Option<i32>, index: Option<Index>) -> Model {
        Model { name: String::from("m"), vectors, dimensions, index }
    }

    #[test]
    fn an_index_needs_one_thing_after_the_other() {
        let index = |state, vectors| Index {
            relation: String::from("hnsw_0"),
            dimensions: 3,
            state,
            vectors,
        };
        let next_action =
            |vectors, state| model(vectors, None, Some(index(state, 100))).next_action(10);
        assert_eq!(next_action(0, IndexState::Lost), Some(IndexAction::Drop));
        assert_eq!(next_action(0, IndexState::Invalid), Some(IndexAction::Build(3)));
        assert_eq!(next_action(50, IndexState::Replaced), Some(IndexAction::DropFormer));
        assert_eq!(next_action(0, IndexState::Valid), Some(IndexAction::DropIfSmall));
        assert_eq!(next_action(1, IndexState::Valid), Some(IndexAction::Move));
        assert_eq!(next_action(24, IndexState::Valid), Some(IndexAction::Move));
        assert_eq!(next_action(25, IndexState::Valid), Some(IndexAction::Build(3)));
        let small = |vectors| model(vectors, None, Some(index(IndexState::Valid, 1)));
        assert_eq!(small(9).next_action(10), Some(IndexAction::Move), "too few to build");
        assert_eq!(model(9, None, None).next_action(10), None);
        assert_eq!(model(10, Some(384), None).next_action(10), Some(IndexAction::Build(384)));
        assert_eq!(
            model(10, Some(4001), None).next_action(10),
            None,
            "above the limit of pgvector"
        );
    }
}
