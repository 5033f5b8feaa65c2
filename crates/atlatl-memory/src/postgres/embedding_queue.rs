//! The embedding queue of a database: memories that wait for a vector, claimed by workers of any
//! number of processes.
//!
//! Triggers fill it and remove memories from it, so that programs that know nothing of it take part.
//! A process registers the model that it embeds with. Memories that have no vector of a new model
//! are queued in batches, once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_postgres::types::Type;

use super::crud::{Tenant, storable};
use super::database::{Database, with_vectors};
use super::migrations::NO_TENANT;
use super::pool::{Pool, read_transaction, write_transaction};
use super::session::{Access, Value};
use super::vectors::unembedded_texts;
use super::{Postgres, PostgresStore};
use crate::store::{EmbeddingClaim, EmbeddingQueue, Release, StoreError, Unembedded};

/// The number of memories per transaction that are checked for a vector of a new model.
const QUEUE_BATCH_LEN: i32 = 2000;
/// How often a process reports that it uses a model. One that is not used for a day is removed.
const MODEL_INTERVAL: Duration = Duration::from_mins(15);

/// The queue of one tenant, or of all tenants of a database.
pub(super) struct PostgresQueue {
    database: Arc<Database>,
    tenant: Option<Tenant>,
    state: Arc<QueueState>,
}

/// What a process knows of the queue.
#[derive(Debug, Default)]
pub(super) struct QueueState {
    /// The tenant of the last claim. The next claim is for one behind it.
    last_tenant: Mutex<String>,
    /// When a model is registered again, for models whose memories are all queued.
    registered_until: Mutex<HashMap<String, Instant>>,
}

/// The memories that wait for a vector.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct EmbeddingBacklog {
    /// The number of memories, counted up to 100,000.
    pub memories: u64,
    /// The time since the oldest of them was written, in seconds.
    pub age_seconds: f64,
}

impl Postgres {
    /// Returns the embedding queue of all tenants.
    pub fn embedding_queue(&self) -> Arc<dyn EmbeddingQueue> {
        let database = Arc::clone(&self.0);
        Arc::new(PostgresQueue { database, tenant: None, state: Arc::default() })
    }

    /// Returns how many memories of all tenants wait for a vector of `model`.
    pub async fn embedding_backlog(&self, model: &str) -> Result<EmbeddingBacklog, StoreError> {
        let (pool, _) = self.0.verified(NO_TENANT).await?;
        let (sql, model) = ("SELECT * FROM atlatl.embedding_backlog($1)", storable(model));
        let found = read_transaction!(pool, NO_TENANT, Access::Keys, |db| db
            .query(sql, &[(&model, Type::TEXT)])
            .await)?;
        Ok(found.first().map_or_else(EmbeddingBacklog::default, |row| EmbeddingBacklog {
            memories: row.get::<_, i64>(0).unsigned_abs(),
            age_seconds: row.get(1),
        }))
    }
}

impl PostgresQueue {
    /// Returns the queue of one tenant.
    pub(super) fn new(database: Arc<Database>, tenant: Tenant, state: Arc<QueueState>) -> Self {
        Self { database, tenant: Some(tenant), state }
    }

    /// The tenant of the transactions, empty for all.
    fn scope(&self) -> &str {
        self.tenant.as_ref().map_or(NO_TENANT, |tenant| &tenant.name)
    }

    /// Registers the model and queues some memories that have no vector of it, if that is due.
    /// Returns the number of memories that were looked at.
    async fn queue_existing(&self, pool: &Pool, model: &str) -> Result<u64, StoreError> {
        let now = Instant::now();
        if lock(&self.state.registered_until).get(model).is_some_and(|until| now < *until) {
            return Ok(0);
        }
        let sql = "SELECT atlatl.queue_existing($1, $2)";
        let looked_at: Option<i32> = write_transaction!(pool, self.scope(), |db| {
            let values = [(&model as _, Type::TEXT), (&QUEUE_BATCH_LEN as _, Type::INT4)];
            Ok(db.query(sql, &values).await?.first().and_then(|row| row.get(0)))
        })?;
        if looked_at.is_none() {
            let until = now + MODEL_INTERVAL;
            lock(&self.state.registered_until).insert(model.to_owned(), until);
        }
        Ok(looked_at.map_or(0, |n| u64::from(n.unsigned_abs())))
    }

    /// Claims keys. Returns them with their tenant and the number of failures.
    async fn claim_keys(
        &self,
        pool: &Pool,
        model: &str,
        limit: usize,
        lease: Duration,
    ) -> Result<Option<(String, Vec<i64>, u32)>, StoreError> {
        let sql = "SELECT tenant, key, attempts FROM atlatl.claim_embeddings($1, $2, $3, $4)";
        let after = lock(&self.state.last_tenant).clone();
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let lease = lease.as_secs_f64();
        let claimed = write_transaction!(pool, self.scope(), |db| {
            let values: [Value<'_>; 4] = [
                (&model, Type::TEXT),
                (&after, Type::TEXT),
                (&limit, Type::INT4),
                (&lease, Type::FLOAT8),
            ];
            db.query(sql, &values).await
        })?;
        let Some(first) = claimed.first() else { return Ok(None) };
        let tenant: String = first.get(0);
        tenant.clone_into(&mut lock(&self.state.last_tenant));
        let mut keys: Vec<i64> = claimed.iter().map(|row| row.get(1)).collect();
        keys.sort_unstable();
        Ok(Some((tenant, keys, first.get::<_, i32>(2).unsigned_abs())))
    }
}

#[async_trait]
impl EmbeddingQueue for PostgresQueue {
    fn database(&self) -> &str {
        self.database.place()
    }

    fn is_shared(&self) -> bool {
        self.tenant.is_none()
    }

    async fn claim(
        &self,
        model: &str,
        limit: usize,
        lease: Duration,
    ) -> Result<Option<EmbeddingClaim>, StoreError> {
        let (pool, _) = self.database.verified(self.scope()).await?;
        let model = storable(model);
        loop {
            let looked_at = self.queue_existing(pool, &model).await?;
            let Some((name, keys, attempts)) = self.claim_keys(pool, &model, limit, lease).await?
            else {
                if looked_at == 0 {
                    return Ok(None);
                }
                continue;
            };
            let store = PostgresStore::new(Arc::clone(&self.database), &name);
            let memories = store.claimed_texts(&model, &keys).await?;
            if !memories.is_empty() {
                return Ok(Some(EmbeddingClaim::new(name, Arc::new(store), memories, attempts)));
            }
        }
    }

    async fn release(
        &self,
        model: &str,
        claim: &EmbeddingClaim,
        versions: &[u64],
        release: Release,
    ) -> Result<(), StoreError> {
        let (pool, _) = self.database.verified(self.scope()).await?;
        let keys: Vec<i64> =
            versions.iter().filter_map(|version| i64::try_from(*version).ok()).collect();
        let (attempts, seconds) = match release {
            Release::Unchanged => (0, 0.0),
            Release::Failed { retry_after } => (1, retry_after.as_secs_f64()),
        };
        let sql = "UPDATE atlatl.embedding_queue SET attempts = attempts + $4, claimed_until = \
                   CASE WHEN $4 = 0 THEN '-infinity' ELSE now() + make_interval(secs => $5) END \
                   WHERE tenant = $1 AND model = $2 AND key = ANY ($3)";
        let model = storable(model);
        write_transaction!(pool, &claim.tenant, |db| {
            let values: [Value<'_>; 5] = [
                (&claim.tenant, Type::TEXT),
                (&model, Type::TEXT),
                (&keys, Type::INT8_ARRAY),
                (&attempts, Type::INT4),
                (&seconds, Type::FLOAT8),
            ];
            db.execute(sql, &values).await.map(drop)
        })
    }
}

impl PostgresStore {
    /// Returns the texts of claimed memories. Those that were deleted or have a vector leave the queue.
    async fn claimed_texts(
        &self,
        model: &str,
        keys: &[i64],
    ) -> Result<Vec<Unembedded>, StoreError> {
        let tenant = &self.tenant;
        let memories = with_vectors!(self, |pool, storage| {
            read_transaction!(pool, &tenant.name, Access::Keys, |db| {
                unembedded_texts(db, tenant, storage, model, keys).await
            })
        })?;
        let is_waiting =
            |key: &i64| memories.iter().any(|one| i64::try_from(one.version) == Ok(*key));
        let done: Vec<i64> = keys.iter().copied().filter(|key| !is_waiting(key)).collect();
        if !done.is_empty() {
            let sql = "DELETE FROM atlatl.embedding_queue \
                       WHERE tenant = $1 AND model = $2 AND key = ANY ($3)";
            write_transaction!(self.pool().await?, &tenant.name, |db| {
                let values: [Value<'_>; 3] =
                    [(&tenant.name, Type::TEXT), (&model, Type::TEXT), (&done, Type::INT8_ARRAY)];
                db.execute(sql, &values).await
            })?;
        }
        Ok(memories)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
