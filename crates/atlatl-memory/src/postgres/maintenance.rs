//! Maintenance: expiry, index repair, leases and the tenant's secret.

use chrono::{DateTime, Utc};
use mif::MemoryId;
use tokio_postgres::types::Type;

use super::crud::{Tenant, Uuid, WordsColumn, delete, read, rows, storable};
use super::lexemes::index;
use super::search_index;
use super::session::Session;
use super::vectors::VectorStorage;
use crate::listing::microseconds;
use crate::store::{BoxError, RepairReport, StoreError};

/// The number of memories indexed per query.
const REINDEX_BATCH_LEN: i64 = 500;

pub(super) async fn expire(
    db: &Session,
    tenant: &Tenant,
    now: DateTime<Utc>,
    limit: usize,
) -> Result<Vec<MemoryId>, StoreError> {
    // A memory that is being updated may get a later expiry.
    let sql = "SELECT id FROM atlatl.memory WHERE tenant = $1 AND expires <= $2 \
               ORDER BY expires LIMIT $3 FOR UPDATE SKIP LOCKED";
    let now = microseconds(now);
    let over = db
        .query(sql, &[(&tenant.name, Type::TEXT), (&now, Type::INT8), (&rows(limit), Type::INT8)])
        .await?;
    let ids: Vec<Uuid> = over.iter().map(|row| row.get(0)).collect();
    let gone = delete(db, tenant, &ids).await?;
    Ok(ids.into_iter().filter(|id| gone.contains(id)).map(MemoryId::from).collect())
}

/// Notes memories that the full-text index lacks in its backlog, indexes those that the index of
/// previous servers lacks, and deletes dependent rows without a memory.
pub(super) async fn repair(
    db: &Session,
    tenant: &Tenant,
    storage: &VectorStorage,
    words: WordsColumn,
) -> Result<RepairReport, StoreError> {
    // As other writers do first, so that a migration that stops them cannot deadlock with this.
    db.batch("LOCK TABLE atlatl.memory IN ROW SHARE MODE").await?;
    let mut orphaned = 0;
    let vectors = match storage {
        VectorStorage::Arrays { .. } => "vector",
        VectorStorage::Half { pgvector, .. } => {
            orphaned += super::vector_index::repair(db, tenant, pgvector).await?;
            "embedding"
        }
    };
    for table in ["document", vectors, "embedding_queue"] {
        let sql = format!(
            "DELETE FROM atlatl.{table} x WHERE x.tenant = $1 AND NOT EXISTS \
             (SELECT 1 FROM atlatl.memory m WHERE m.tenant = $1 AND m.key = x.key)"
        );
        orphaned += db.execute(&sql, &[(&tenant.name, Type::TEXT)]).await?;
    }
    orphaned += search_index::repair(db, tenant).await?;
    let mut missing = 0;
    if words == WordsColumn::Dropped {
        return Ok(RepairReport::new(missing, orphaned));
    }
    let wordless = "SELECT key, json FROM atlatl.document \
                    WHERE tenant = $1 AND words IS NULL ORDER BY key LIMIT $2";
    let write = "UPDATE atlatl.document SET words = $3::tsvector, length = $4 \
                 WHERE tenant = $1 AND key = $2";
    loop {
        let batch = db
            .query(wordless, &[(&tenant.name, Type::TEXT), (&REINDEX_BATCH_LEN, Type::INT8)])
            .await?;
        if batch.is_empty() {
            return Ok(RepairReport::new(missing, orphaned));
        }
        for row in &batch {
            let key: i64 = row.get(0);
            let tsvector = index(&tenant.tenant_prefix, &read(row.get(1))?);
            let values = [
                (&tenant.name as _, Type::TEXT),
                (&key as _, Type::INT8),
                (&tsvector.words as _, Type::TEXT),
                (&tsvector.length as _, Type::INT4),
            ];
            missing += db.execute(write, &values).await?;
        }
    }
}

pub(super) async fn lease(
    db: &Session,
    task: &str,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<bool, StoreError> {
    // A lease that ends later than this one would was taken by a process with a wrong clock.
    let sql = "INSERT INTO atlatl.lease AS l (task, until) VALUES ($1, $3) \
               ON CONFLICT (tenant, task) DO UPDATE SET until = $3 \
               WHERE l.until <= $2 OR l.until > $3";
    let (task, now, until) = (storable(task), microseconds(now), microseconds(until));
    let values = [(&task as _, Type::TEXT), (&now as _, Type::INT8), (&until as _, Type::INT8)];
    Ok(db.execute(sql, &values).await? == 1)
}

/// Returns the secret, if it exists.
pub(super) async fn secret(db: &Session, tenant: &Tenant) -> Result<Option<[u8; 32]>, StoreError> {
    let sql = "SELECT secret FROM atlatl.secret WHERE tenant = $1";
    let found = db.query(sql, &[(&tenant.name, Type::TEXT)]).await?;
    Ok(found.first().and_then(|row| row.get::<_, &[u8]>(0).try_into().ok()))
}

/// Creates the secret, unless another process just did.
pub(super) async fn make_secret(db: &Session, tenant: &Tenant) -> Result<[u8; 32], StoreError> {
    // Three random UUIDs of the database have 122 random bits each.
    let make = "INSERT INTO atlatl.secret (secret) VALUES (sha256( \
                uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || \
                uuid_send(gen_random_uuid()))) ON CONFLICT (tenant) DO NOTHING";
    db.execute(make, &[]).await?;
    let none = || StoreError::Engine(BoxError::from("missing signing secret"));
    secret(db, tenant).await?.ok_or_else(none)
}
