//! HNSW vector indexes of tenants with many vectors, kept up to date in the background.
//!
//! Inserting into such an index is slow, so writers do not. A trigger enqueues every vector that
//! was added, changed or deleted since the index exists; [`advance`] applies the queue in small
//! steps, and a search compares the queued vectors one by one until then.
//!
//! The index only proposes candidates: the vectors and memories themselves decide about hits and
//! their order. A stale entry never returns a memory that was deleted or changed.
//!
//! Queued vectors are applied in one transaction and removed from the queue in the next, because
//! the first takes long and a writer may enqueue the same vector again. Applying a vector twice is
//! harmless.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::crud::{Tenant, rows};
use super::pool::{Pool, read_transaction, write_transaction};
use super::search::{Condition, QueryVector, cosine, matches};
use super::session::{Access, Session, Value};
use crate::store::{MemoryMatch, StoreError};

/// The maximum number of dimensions of a pgvector index.
const MAX_DIMENSIONS: i32 = 2000;
/// The maximum number of hits requested from an index. For more, all vectors are compared.
const MAX_INDEX_HITS: usize = 400;
/// The maximum queue length at which the index is used.
const MAX_PENDING: i64 = 5000;
/// The maximum number of index entries scanned per hit if the filter rejects them. A stricter
/// filter has few hits, which are found faster without the index.
const MAX_SCANNED_PER_HIT: usize = 10;
/// The number of vectors applied per step: a second's work or less.
const APPLY_BATCH_LEN: i64 = 200;
/// The number of vectors enqueued per step.
const ENQUEUE_BATCH_LEN: i64 = 5000;

/// A model of which a tenant has vectors or an index.
struct Model {
    name: String,
    /// The number of vectors, counted up to the limit of the query.
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
}

/// The state of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexState {
    /// The database cannot use it.
    Invalid,
    /// Running transactions may not know of it yet.
    New,
    /// Vectors that existed before the index are enqueued up to this key.
    Backfilling(i64),
    /// Every vector is enqueued or applied, and the queue is not empty.
    Behind,
    /// Every vector is applied.
    UpToDate,
}

/// The next step for an index.
#[derive(Debug, PartialEq, Eq)]
enum IndexAction {
    /// Create the index, for vectors of this length.
    Create(i32),
    /// Record the transaction from which on all writers know of the index.
    Announce,
    /// Enqueue vectors that existed before the index, above this key.
    Enqueue(i64),
    /// Apply queued vectors.
    Apply,
    /// Drop the index, because too few vectors are left.
    Drop,
}

impl Model {
    /// Returns the next step, if a tenant with `from` vectors has an index. It is dropped below
    /// half of that, so that it does not come and go around the limit.
    fn next_action(&self, from: i64) -> Option<IndexAction> {
        match &self.index {
            None => self
                .dimensions
                .filter(|n| (1..=MAX_DIMENSIONS).contains(n))
                .map(IndexAction::Create),
            Some(_) if self.vectors < from / 2 => Some(IndexAction::Drop),
            Some(Index { dimensions, state, .. }) => match *state {
                IndexState::Invalid => Some(IndexAction::Create(*dimensions)),
                IndexState::New => Some(IndexAction::Announce),
                IndexState::Backfilling(up_to) => Some(IndexAction::Enqueue(up_to)),
                IndexState::Behind => Some(IndexAction::Apply),
                IndexState::UpToDate => None,
            },
        }
    }
}

/// Returns the models of a tenant. `from` vectors are enough for an index, and counting stops there.
async fn models(db: &Session, tenant: &Tenant, from: i64) -> Result<Vec<Model>, StoreError> {
    let sql = "WITH RECURSIVE used AS ( \
                   (SELECT v.model FROM atlatl.vector v WHERE v.tenant = $1 ORDER BY v.model LIMIT 1) \
                   UNION ALL SELECT (SELECT v.model FROM atlatl.vector v \
                       WHERE v.tenant = $1 AND v.model > used.model ORDER BY v.model LIMIT 1) \
                   FROM used WHERE used.model IS NOT NULL), \
               counted AS MATERIALIZED (SELECT u.model, (SELECT count(*) FROM (SELECT 1 \
                   FROM atlatl.vector v WHERE v.tenant = $1 AND v.model = u.model LIMIT $2) c) AS n \
                   FROM (SELECT model FROM used WHERE model IS NOT NULL \
                       UNION SELECT model FROM atlatl.near WHERE tenant = $1) u) \
               SELECT c.model, c.n, \
                   CASE WHEN n.relation IS NULL AND c.n >= $2 THEN (SELECT cardinality(v.vector) \
                       FROM atlatl.vector v WHERE v.tenant = $1 AND v.model = c.model \
                       AND v.vector <> '{}' ORDER BY v.key DESC LIMIT 1) END, \
                   n.relation, n.dimensions, n.since IS NOT NULL, n.complete, n.upto, \
                   EXISTS (SELECT 1 FROM pg_index i WHERE i.indisvalid AND i.indexrelid = \
                       to_regclass('atlatl.' || n.relation || '_hnsw')), \
                   EXISTS (SELECT 1 FROM atlatl.waiting w WHERE w.tenant = $1 AND w.model = c.model) \
               FROM counted c \
               LEFT JOIN atlatl.near n ON n.tenant = $1 AND n.model = c.model ORDER BY c.model";
    let found = db.query(sql, &[(&tenant.name, Type::TEXT), (&from, Type::INT8)]).await?;
    let state = |row: &Row| match (row.get(8), row.get(5), row.get(6), row.get(9)) {
        (false, ..) => IndexState::Invalid,
        (_, false, ..) => IndexState::New,
        (_, _, false, _) => IndexState::Backfilling(row.get(7)),
        (.., true) => IndexState::Behind,
        _ => IndexState::UpToDate,
    };
    let index = |row: &Row, relation| Index { relation, dimensions: row.get(4), state: state(row) };
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
    from: usize,
) -> Result<bool, StoreError> {
    let from = rows(from.max(1));
    Ok(models(db, tenant, from).await?.iter().any(|model| model.next_action(from).is_some()))
}

/// Enqueues vectors that an index lacks, and entries without a vector. Returns the number of each.
/// Either means that a write bypassed the trigger.
pub(super) async fn repair(db: &Session, tenant: &Tenant) -> Result<(u64, u64), StoreError> {
    let (mut missing, mut orphaned) = (0, 0);
    for model in models(db, tenant, 1).await? {
        let Some(Index { relation, dimensions, state: IndexState::Behind | IndexState::UpToDate }) =
            model.index
        else {
            continue;
        };
        let lacks = format!(
            "INSERT INTO atlatl.waiting (model, key) SELECT v.model, v.key FROM atlatl.vector v \
             WHERE v.tenant = $1 AND v.model = $2 AND cardinality(v.vector) = $3 AND NOT EXISTS \
             (SELECT 1 FROM atlatl.\"{relation}\" n WHERE n.tenant = $1 AND n.key = v.key) \
             ON CONFLICT DO NOTHING"
        );
        let values = [
            (&tenant.name as _, Type::TEXT),
            (&model.name as _, Type::TEXT),
            (&dimensions as _, Type::INT4),
        ];
        missing += db.execute(&lacks, &values).await?;
        let keeps = format!(
            "INSERT INTO atlatl.waiting (model, key) SELECT $2, n.key FROM atlatl.\"{relation}\" n \
             WHERE n.tenant = $1 AND NOT EXISTS (SELECT 1 FROM atlatl.vector v \
             WHERE v.tenant = $1 AND v.model = $2 AND v.key = n.key) ON CONFLICT DO NOTHING"
        );
        orphaned += db.execute(&keeps, &values[..2]).await?;
    }
    Ok((missing, orphaned))
}

/// Returns the memories with the nearest vectors, or `None` if no index can answer.
pub(super) async fn search(
    db: &Session,
    pgvector: &str,
    query_vector: &QueryVector<'_>,
    mut condition: Condition,
    limit: usize,
) -> Result<Option<Vec<MemoryMatch>>, StoreError> {
    if limit == 0 || limit > MAX_INDEX_HITS {
        return Ok(None);
    }
    let Some(relation) = usable_index(db, query_vector, &condition, limit).await? else {
        return Ok(None);
    };
    let (model, vector) = query_vector.values(&mut condition);
    let most = condition.value(rows(limit), Type::INT8);
    let cosine = cosine(Some(pgvector), &vector);
    let filter = &condition.sql;
    let sql = format!(
        "WITH near AS MATERIALIZED (SELECT n.key FROM atlatl.\"{relation}\" n \
             JOIN atlatl.memory m ON m.key = n.key WHERE n.tenant = $1 AND {filter} \
             AND n.key NOT IN (SELECT w.key FROM atlatl.waiting w \
                 WHERE w.tenant = $1 AND w.model = {model}) \
             ORDER BY n.embedding OPERATOR({pgvector}.<#>) {vector}::real[]::{pgvector}.vector \
             LIMIT {most}) \
         SELECT m.id, {cosine}, m.fades, (SELECT count(*) FROM near) \
         FROM (SELECT key FROM near UNION SELECT w.key FROM atlatl.waiting w \
             WHERE w.tenant = $1 AND w.model = {model}) c \
         JOIN atlatl.vector v ON v.tenant = $1 AND v.model = {model} AND v.key = c.key \
         JOIN atlatl.memory m ON m.key = c.key \
         WHERE {filter} AND cardinality(v.vector) = cardinality({vector}) \
         ORDER BY 2 DESC, m.key LIMIT {most}"
    );
    let found = db.query(&sql, &condition.values()).await?;
    let proposed = found.first().map_or(0, |row| row.get::<_, i64>(3));
    // The scan ended before it had enough, so there may be more.
    Ok((proposed >= rows(limit)).then(|| matches(&found)))
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
        "SELECT n.relation, set_config('hnsw.ef_search', '{wide}', true), \
             set_config('hnsw.iterative_scan', 'relaxed_order', true), \
             set_config('hnsw.max_scan_tuples', '{most}', true), \
             set_config('enable_sort', 'off', true), set_config('jit', 'off', true) \
         FROM atlatl.near n WHERE n.tenant = $1 AND n.model = $2 AND n.dimensions = $3 \
             AND n.complete AND (SELECT count(*) FROM (SELECT 1 FROM atlatl.waiting w \
                 WHERE w.tenant = $1 AND w.model = $2 LIMIT {}) c) <= {MAX_PENDING}",
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
    for model in
        read_transaction!(pool, name, Access::Condition, |db| models(db, tenant, from).await)?
    {
        let done = match (model.next_action(from), &model.index) {
            (Some(IndexAction::Create(size)), _) => {
                write_transaction!(pool, name, |db| create_index(db, &model, size).await)?
            }
            (Some(IndexAction::Drop), _) => {
                write_transaction!(pool, name, |db| drop_index(db, &model).await)?
            }
            (Some(IndexAction::Announce), _) => {
                write_transaction!(pool, name, |db| announce_index(db, tenant, &model).await)?
            }
            (Some(IndexAction::Enqueue(up_to)), _) => {
                write_transaction!(pool, name, |db| enqueue_existing(db, tenant, &model, up_to)
                    .await)?
            }
            (Some(IndexAction::Apply), Some(index)) => {
                let pending = read_transaction!(pool, name, Access::Condition, |db| pending(
                    db, tenant, &model
                )
                .await)?;
                write_transaction!(pool, name, |db| {
                    apply_pending(db, tenant, &model, index, pgvector, &pending.keys).await
                })?;
                write_transaction!(pool, name, |db| clear_pending(db, tenant, &model, &pending)
                    .await)?
            }
            (None, _) | (Some(IndexAction::Apply), None) => 0,
        };
        if done > 0 {
            return Ok(done);
        }
    }
    Ok(0)
}

async fn create_index(db: &Session, model: &Model, size: i32) -> Result<u64, StoreError> {
    let sql = "SELECT atlatl.make_near($1, $2) IS NOT NULL";
    let made = db.query(sql, &[(&model.name, Type::TEXT), (&size, Type::INT4)]).await?;
    Ok(made.first().map_or(0, |row| u64::from(row.get::<_, bool>(0))))
}

async fn drop_index(db: &Session, model: &Model) -> Result<u64, StoreError> {
    let gone = db.query("SELECT atlatl.drop_near($1)", &[(&model.name, Type::TEXT)]).await?;
    Ok(gone.first().map_or(0, |row| u64::from(row.get::<_, bool>(0))))
}

/// Records this transaction's id. Writers with a greater id know of the index.
async fn announce_index(db: &Session, tenant: &Tenant, model: &Model) -> Result<u64, StoreError> {
    let sql = "UPDATE atlatl.near SET since = pg_current_xact_id() \
               WHERE tenant = $1 AND model = $2 AND since IS NULL";
    db.execute(sql, &[(&tenant.name, Type::TEXT), (&model.name, Type::TEXT)]).await
}

/// Enqueues some vectors that existed before the index; new ones are enqueued by the trigger. It
/// waits until the last transaction that does not know of the index has ended, because its vectors
/// are not visible yet.
async fn enqueue_existing(
    db: &Session,
    tenant: &Tenant,
    model: &Model,
    up_to: i64,
) -> Result<u64, StoreError> {
    let values = [(&tenant.name as _, Type::TEXT), (&model.name as _, Type::TEXT)];
    // A writer may hold a queue row and wait for another. This transaction gives up first, so that
    // the writer does not fail.
    db.batch("SET LOCAL lock_timeout = '200ms'").await?;
    // An id that no transaction had here comes from the server of a backup, whose writers do not
    // exist here.
    let all = "SELECT pg_snapshot_xmin(pg_current_snapshot()) > since \
               OR pg_snapshot_xmax(pg_current_snapshot()) <= since FROM atlatl.near \
               WHERE tenant = $1 AND model = $2";
    let known = db.query(all, &values).await?;
    if known.first().and_then(|row| row.get(0)) != Some(true) {
        return Ok(0);
    }
    let sql = "WITH earlier AS MATERIALIZED (SELECT v.key FROM atlatl.vector v \
                   WHERE v.tenant = $1 AND v.model = $2 AND v.key > $3 ORDER BY v.key LIMIT $4), \
               noted AS (INSERT INTO atlatl.waiting (model, key) SELECT $2, key FROM earlier \
                   ON CONFLICT DO NOTHING) \
               UPDATE atlatl.near SET upto = coalesce((SELECT max(key) FROM earlier), $3), \
                   complete = (SELECT count(*) FROM earlier) < $4 \
               WHERE tenant = $1 AND model = $2 AND upto = $3";
    let values: Vec<Value<'_>> = values
        .into_iter()
        .chain([(&up_to as _, Type::INT8), (&ENQUEUE_BATCH_LEN as _, Type::INT8)])
        .collect();
    db.execute(sql, &values).await
}

/// Queued vectors.
struct PendingVectors {
    keys: Vec<i64>,
    turns: Vec<i64>,
}

async fn pending(
    db: &Session,
    tenant: &Tenant,
    model: &Model,
) -> Result<PendingVectors, StoreError> {
    let sql = "SELECT key, turn FROM atlatl.waiting WHERE tenant = $1 AND model = $2 \
               ORDER BY key LIMIT $3";
    let values = [
        (&tenant.name as _, Type::TEXT),
        (&model.name as _, Type::TEXT),
        (&APPLY_BATCH_LEN as _, Type::INT8),
    ];
    let found = db.query(sql, &values).await?;
    let column = |n| found.iter().map(|row| row.get(n)).collect();
    Ok(PendingVectors { keys: column(0), turns: column(1) })
}

/// Updates the index entries of the vectors with these keys.
async fn apply_pending(
    db: &Session,
    tenant: &Tenant,
    model: &Model,
    Index { relation, dimensions, .. }: &Index,
    pgvector: &str,
    keys: &[i64],
) -> Result<(), StoreError> {
    let values: [Value<'_>; 4] = [
        (&tenant.name, Type::TEXT),
        (&model.name, Type::TEXT),
        (&keys, Type::INT8_ARRAY),
        (dimensions, Type::INT4),
    ];
    // One at a time regardless of the lease: a deletion must see the entries that another process
    // inserted.
    let alone = "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))";
    db.query(alone, &[(relation, Type::TEXT)]).await?;
    let theirs = "v.tenant = $1 AND v.model = $2 AND cardinality(v.vector) = $4";
    let gone = format!(
        "DELETE FROM atlatl.\"{relation}\" n WHERE n.tenant = $1 AND n.key = ANY ($3) \
         AND NOT EXISTS (SELECT 1 FROM atlatl.vector v WHERE {theirs} AND v.key = n.key)"
    );
    db.execute(&gone, &values).await?;
    // In the order of the keys, which prevents deadlocks.
    let there = format!(
        "INSERT INTO atlatl.\"{relation}\" AS n (key, embedding) \
         SELECT v.key, v.vector::{pgvector}.vector FROM atlatl.vector v \
         WHERE {theirs} AND v.key = ANY ($3) ORDER BY v.key \
         ON CONFLICT (tenant, key) DO UPDATE SET embedding = excluded.embedding \
         WHERE n.embedding::real[] <> excluded.embedding::real[]"
    );
    db.execute(&there, &values).await.map(drop)
}

/// Removes queue entries that were applied, unless they were renewed or are being renewed. It
/// selects by key only, because the planner's statistics rarely know the queue length.
async fn clear_pending(
    db: &Session,
    tenant: &Tenant,
    model: &Model,
    pending: &PendingVectors,
) -> Result<u64, StoreError> {
    let free = "SELECT key FROM atlatl.waiting WHERE tenant = $1 AND model = $2 \
                AND key = ANY ($3) AND turn = ANY ($4) FOR UPDATE SKIP LOCKED";
    let values: [Value<'_>; 4] = [
        (&tenant.name, Type::TEXT),
        (&model.name, Type::TEXT),
        (&pending.keys, Type::INT8_ARRAY),
        (&pending.turns, Type::INT8_ARRAY),
    ];
    let found = db.query(free, &values).await?;
    let keys: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
    let gone = "DELETE FROM atlatl.waiting WHERE tenant = $1 AND model = $2 AND key = ANY ($3)";
    let values: [Value<'_>; 3] =
        [(&tenant.name, Type::TEXT), (&model.name, Type::TEXT), (&keys, Type::INT8_ARRAY)];
    db.execute(gone, &values).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(vectors: i64, dimensions: Option<i32>, index: Option<Index>) -> Model {
        Model { name: String::from("m"), vectors, dimensions, index }
    }

    #[test]
    fn an_index_needs_one_thing_after_the_other() {
        let index = |state| Index { relation: String::from("near_0"), dimensions: 3, state };
        let next_action = |state| model(10, None, Some(index(state))).next_action(10);
        assert_eq!(next_action(IndexState::Invalid), Some(IndexAction::Create(3)));
        assert_eq!(next_action(IndexState::New), Some(IndexAction::Announce));
        assert_eq!(next_action(IndexState::Backfilling(7)), Some(IndexAction::Enqueue(7)));
        assert_eq!(next_action(IndexState::Behind), Some(IndexAction::Apply));
        assert_eq!(next_action(IndexState::UpToDate), None);
        assert_eq!(model(5, None, Some(index(IndexState::UpToDate))).next_action(10), None);
        assert_eq!(
            model(4, None, Some(index(IndexState::UpToDate))).next_action(10),
            Some(IndexAction::Drop)
        );
        assert_eq!(model(9, None, None).next_action(10), None);
        assert_eq!(model(10, Some(384), None).next_action(10), Some(IndexAction::Create(384)));
        assert_eq!(
            model(10, Some(2001), None).next_action(10),
            None,
            "above the limit of pgvector"
        );
    }
}
