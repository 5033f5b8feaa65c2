//! A [`MemoryStore`] for many tenants in `PostgreSQL`, shared by any number of processes.
//!
//! [`Postgres`] is a database; [`Postgres::tenant`] returns the store of one tenant in it.
//! Row-level security policies on the role of the connection decide which rows a statement sees. A
//! statement without a tenant setting sees none.

mod cancel;
mod candidates;
mod cells;
mod cleartext_guard;
mod connect_refusal;
mod connection;
mod connection_string;
mod credentials;
mod crud;
mod database;
mod embedding_queue;
mod erasure;
mod fair_queue;
mod filter_values;
mod finish;
mod index_statistics;
mod lexemes;
mod lexical;
mod maintenance;
mod migrations;
mod newest_matches;
mod options;
mod phrase_counts;
mod pool;
mod pooler;
mod recall;
mod registry;
mod row_level_security;
mod search;
mod search_index;
mod session;
#[cfg(feature = "contract")]
mod statement_recorder;
mod tls;
mod units;
mod usage;
mod vector_index;
mod vectors;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

pub use self::credentials::PasswordSource;
use self::crud::Tenant;
pub use self::database::DatabaseInfo;
use self::database::{Database, with_vectors};
pub use self::embedding_queue::EmbeddingBacklog;
use self::embedding_queue::{PostgresQueue, QueueState};
pub use self::erasure::{
    Erasure, ErasureBatch, ErasureId, ErasureRequest, ErasureStep, ErasureWorker,
};
use self::fair_queue::QueueName;
pub use self::finish::Finish;
pub use self::options::{
    ConnectionSharing, DatabaseTimeSink, MIN_SHARED_CONNECTIONS, PlainText, PostgresOptions,
    TransactionSink,
};
pub use self::pool::PoolStatus;
use self::pool::{Pool, read_transaction, write_transaction};
pub use self::pooler::PreparedStatements;
use self::recall::LexicalQuery;
pub use self::registry::{
    KeySummary, NewKey, Registry, StoredKey, TenantLimits, TenantRecord, TenantSummary,
};
use self::search::Condition;
use self::session::Access;
#[cfg(feature = "contract")]
pub use self::statement_recorder::{RecordedStatement, RecordedValue, record_statements};
pub use self::usage::{DailyUsage, TenantUse};
use self::vector_index::IndexSearch;
use self::vectors::{IndexSupport, Lookup, QueryVector, VectorStorage};
use super::listing::{Filter, ListPosition, MemoryPage, Order};
use crate::search::query::{Phrase, Terms};
use crate::store::{
    EmbeddingQueue, Matches, MemoryMatch, MemoryStore, OnConflict, PutOutcome, RepairReport,
    StoreError, Unembedded, UpdateFn,
};

/// The number of memories from which on a write also counts words if the tenant changed much.
const LARGE_PUT: usize = 500;
/// The maximum length of a tenant's name in bytes.
const MAX_TENANT_NAME_LEN: usize = 128;

/// A database with its connection pool.
#[derive(Debug, Clone)]
pub struct Postgres(Arc<Database>);

impl Postgres {
    /// Creates a handle to a database that may not be reachable yet. It is checked before its first
    /// use.
    pub fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Database::new(options)?)))
    }

    /// Connects and checks the database. An incompatible schema is refused, and so is a role that
    /// bypasses the policies.
    pub async fn open(options: &PostgresOptions) -> Result<Self, StoreError> {
        let database = Self::new(options)?;
        database.verify().await?;
        Ok(database)
    }

    /// Checks the schema and the role, unless that was done already.
    pub async fn verify(&self) -> Result<(), StoreError> {
        self.0.verified(QueueName::Readiness).await.map(drop)
    }

    /// Returns how many connections are in use.
    pub fn pool_status(&self) -> PoolStatus {
        self.0.pool_status()
    }

    /// Checks whether the database answers now. The check does not wait for other transactions.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.0.ready().await
    }

    /// Returns information about the server and the schema.
    pub async fn about(&self) -> Result<DatabaseInfo, StoreError> {
        self.0.about().await
    }

    /// Migrates the schema. The URL of `owner` names the schema owner; its `role` must exist, and
    /// gets access. Returns the names of the applied migrations.
    pub async fn migrate(owner: &PostgresOptions) -> Result<Vec<String>, StoreError> {
        migrations::migrate(owner).await
    }

    /// Drops what older schema versions needed, if no server of such a version is connected. The options
    /// are those of [`migrate`](Self::migrate), which must have been run.
    pub async fn finish(owner: &PostgresOptions) -> Result<Finish, StoreError> {
        finish::finish(owner).await
    }

    /// Returns the store of one tenant. A name has 1 to 128 bytes and no control characters.
    pub fn tenant(&self, name: &str) -> Result<PostgresStore, StoreError> {
        check_name(name, self.0.place())?;
        Ok(PostgresStore::new(Arc::clone(&self.0), name))
    }
}

fn check_name(name: &str, place: &str) -> Result<(), StoreError> {
    if name.is_empty() || name.len() > MAX_TENANT_NAME_LEN || name.contains(char::is_control) {
        return Err(StoreError::NotAStore {
            place: place.to_owned(),
            why: format!(
                "invalid tenant name: expected 1 to {MAX_TENANT_NAME_LEN} bytes without control \
                 characters"
            ),
        });
    }
    Ok(())
}

/// The store of one tenant.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    database: Arc<Database>,
    tenant: Tenant,
    queue: Arc<QueueState>,
}

impl PostgresStore {
    fn new(database: Arc<Database>, name: &str) -> Self {
        Self { database, tenant: Tenant::new(name), queue: Arc::default() }
    }

    async fn pool(&self) -> Result<&Pool, StoreError> {
        self.verified().await.map(|(pool, _)| pool)
    }

    async fn verified(&self) -> Result<(&Pool, &VectorStorage), StoreError> {
        self.database.verified(&self.tenant.name).await
    }

    fn condition(&self, filter: &Filter, now: DateTime<Utc>) -> Condition {
        Condition::from_filter(&self.tenant, filter, now)
    }

    /// Returns the tenant's name.
    #[cfg(feature = "contract")]
    pub fn name(&self) -> &str {
        &self.tenant.name
    }

    /// Returns the statement timeout of full-text searches.
    #[cfg(feature = "contract")]
    pub fn recall_timeout() -> std::time::Duration {
        session::RECALL_TIMEOUT
    }

    /// Runs plain SQL on a connection of this store and returns the first column as text, to test
    /// what the store can see.
    #[cfg(feature = "contract")]
    pub async fn query_column(&self, sql: &str) -> Result<Vec<String>, StoreError> {
        read_transaction!(self.pool().await?, &self.tenant.name, Access::Condition, |db| {
            Ok(db.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect())
        })
    }
}

#[async_trait]
impl MemoryStore for PostgresStore {
    async fn put(
        &self,
        memories: &[Memory],
        on_conflict: OnConflict,
    ) -> Result<Vec<PutOutcome>, StoreError> {
        if memories.is_empty() {
            return Ok(Vec::new());
        }
        let (pool, tenant) = (self.pool().await?, &self.tenant);
        let outcomes = loop {
            let words = self.database.words_column();
            let done = write_transaction!(pool, &tenant.name, |db| crud::put(
                db,
                tenant,
                memories,
                on_conflict,
                words
            )
            .await);
            if !self.database.notice_dropped_words(words, &done) {
                break done?;
            }
        };
        if memories.len() >= LARGE_PUT {
            // The memories are stored. A failed count is repeated by the next recall.
            let counted =
                write_transaction!(pool, &tenant.name, |db| search_index::advance(db, tenant, 0)
                    .await);
            drop(counted);
        }
        Ok(outcomes)
    }

    async fn get(&self, id: &MemoryId) -> Result<Option<Memory>, StoreError> {
        self.get_all(std::slice::from_ref(id)).await.map(|mut found| found.pop())
    }

    async fn get_all(&self, ids: &[MemoryId]) -> Result<Vec<Memory>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let tenant = &self.tenant;
        read_transaction!(self.pool().await?, &tenant.name, Access::Keys, |db| crud::get_all(
            db, tenant, ids
        )
        .await)
    }

    async fn ids(
        &self,
        first: &MemoryId,
        last: &MemoryId,
        limit: usize,
    ) -> Result<Vec<MemoryId>, StoreError> {
        let tenant = &self.tenant;
        read_transaction!(self.pool().await?, &tenant.name, Access::Keys, |db| crud::ids(
            db, tenant, first, last, limit
        )
        .await)
    }

    async fn update(
        &self,
        id: &MemoryId,
        mut change: UpdateFn,
    ) -> Result<Option<Memory>, StoreError> {
        let (pool, tenant) = (self.pool().await?, &self.tenant);
        loop {
            let words = self.database.words_column();
            let done = write_transaction!(pool, &tenant.name, |db| crud::update(
                db,
                tenant,
                id,
                &mut change,
                words
            )
            .await);
            if !self.database.notice_dropped_words(words, &done) {
                return done;
            }
        }
    }

    async fn delete(&self, id: &MemoryId) -> Result<bool, StoreError> {
        let (tenant, ids) = (&self.tenant, [id.into()]);
        let gone = write_transaction!(self.pool().await?, &tenant.name, |db| crud::delete(
            db, tenant, &ids
        )
        .await)?;
        Ok(!gone.is_empty())
    }

    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        list_after: Option<&ListPosition>,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<MemoryPage, StoreError> {
        read_transaction!(self.pool().await?, &self.tenant.name, Access::by(filter), |db| {
            search::list_after(db, self.condition(filter, now), order, list_after, limit).await
        })
    }

    async fn list_from(
        &self,
        filter: &Filter,
        order: Order,
        offset: u64,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Memory>, StoreError> {
        read_transaction!(self.pool().await?, &self.tenant.name, Access::by(filter), |db| {
            search::list_from(db, self.condition(filter, now), order, offset, limit).await
        })
    }

    async fn count(&self, filter: &Filter, now: DateTime<Utc>) -> Result<u64, StoreError> {
        let condition = self.condition(filter, now);
        read_transaction!(self.pool().await?, &self.tenant.name, Access::Condition, |db| {
            search::count(db, &condition).await
        })
    }

    async fn lexical(
        &self,
        terms: &Terms,
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Matches, StoreError> {
        let query = LexicalQuery { terms, filter, limit, now };
        self.find(query, 0).await.map(|(matches, _)| matches)
    }

    async fn lexical_and_read(
        &self,
        terms: &Terms,
        filter: &Filter,
        limit: usize,
        first: usize,
        now: DateTime<Utc>,
    ) -> Result<(Matches, Vec<Memory>), StoreError> {
        self.find(LexicalQuery { terms, filter, limit, now }, first).await
    }

    async fn frequencies(&self, phrases: &[Phrase], cap: u64) -> Result<Vec<u64>, StoreError> {
        read_transaction!(self.pool().await?, &self.tenant.name, Access::Recall, |db| {
            phrase_counts::frequencies(db, &self.tenant, phrases, cap).await
        })
    }

    async fn nearest(
        &self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<MemoryMatch>, StoreError> {
        let Some(query_vector) = QueryVector::new(model, vector) else { return Ok(Vec::new()) };
        let name = &self.tenant.name;
        with_vectors!(self, |pool, storage| {
            if let VectorStorage::Half { indexes: IndexSupport::Iterative, .. } = storage {
                let found = read_transaction!(pool, name, Access::Condition, |db| {
                    let condition = self.condition(filter, now);
                    let found =
                        vector_index::search(db, storage, &query_vector, condition, limit).await?;
                    let lookup = match found {
                        IndexSearch::Found(found) => return Ok(found),
                        IndexSearch::TooFew => Lookup::OneByOne,
                        IndexSearch::Unusable => Lookup::Together,
                    };
                    let condition = self.condition(filter, now);
                    vectors::nearest(db, storage, &query_vector, condition, limit, lookup).await
                });
                // If the index search fails, exact search still has the answer.
                if !matches!(found, Err(StoreError::Engine(_))) {
                    return found;
                }
            }
            read_transaction!(pool, name, Access::Condition, |db| {
                let (condition, lookup) = (self.condition(filter, now), Lookup::Together);
                vectors::nearest(db, storage, &query_vector, condition, limit, lookup).await
            })
        })
    }

    async fn cosines(
        &self,
        model: &str,
        vector: &[f32],
        ids: &[MemoryId],
    ) -> Result<Vec<Option<f64>>, StoreError> {
        let Some(query_vector) = QueryVector::new(model, vector).filter(|_| !ids.is_empty()) else {
            return Ok(vec![None; ids.len()]);
        };
        let tenant = &self.tenant;
        with_vectors!(self, |pool, storage| {
            read_transaction!(pool, &tenant.name, Access::Keys, |db| {
                vectors::cosines(db, tenant, storage, &query_vector, ids).await
            })
        })
    }

    async fn is_index_behind(&self) -> Result<bool, StoreError> {
        let (pool, storage) = self.verified().await?;
        let VectorStorage::Half { pgvector, indexes } = storage else { return Ok(false) };
        let (tenant, from) = (&self.tenant, self.database.index_from);
        read_transaction!(pool, &tenant.name, Access::Condition, |db| {
            let converting = db.query("SELECT atlatl.is_converting()", &[]).await?;
            if converting.first().is_some_and(|row| row.get(0)) {
                return Ok(true);
            }
            match indexes {
                IndexSupport::None => Ok(false),
                IndexSupport::Iterative => {
                    vector_index::is_behind(db, tenant, pgvector, from).await
                }
            }
        })
    }

    async fn advance_index(&self) -> Result<u64, StoreError> {
        let (pool, storage) = self.verified().await?;
        let VectorStorage::Half { pgvector, indexes } = storage else { return Ok(0) };
        if let Some(converted) = migrations::convert_some_vectors(pool).await? {
            return Ok(converted);
        }
        match indexes {
            IndexSupport::None => Ok(0),
            IndexSupport::Iterative => {
                let from = self.database.index_from;
                vector_index::advance(pool, &self.tenant, pgvector, from).await
            }
        }
    }

    async fn unembedded(
        &self,
        model: &str,
        list_after: u64,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError> {
        let tenant = &self.tenant;
        with_vectors!(self, |pool, storage| {
            read_transaction!(pool, &tenant.name, Access::Condition, |db| {
                vectors::unembedded(db, tenant, storage, model, list_after, limit).await
            })
        })
    }

    async fn count_unembedded(&self, model: &str) -> Result<u64, StoreError> {
        let tenant = &self.tenant;
        with_vectors!(self, |pool, storage| {
            read_transaction!(pool, &tenant.name, Access::Condition, |db| {
                vectors::count_unembedded(db, tenant, storage, model).await
            })
        })
    }

    async fn put_vectors(
        &self,
        model: &str,
        vectors: &[(u64, Vec<f32>)],
    ) -> Result<(), StoreError> {
        let tenant = &self.tenant;
        with_vectors!(self, |pool, storage| {
            write_transaction!(pool, &tenant.name, |db| vectors::put(
                db, tenant, storage, model, vectors
            )
            .await)
        })
    }

    fn embedding_queue(&self) -> Option<Arc<dyn EmbeddingQueue>> {
        let (database, queue) = (Arc::clone(&self.database), Arc::clone(&self.queue));
        Some(Arc::new(PostgresQueue::new(database, self.tenant.clone(), queue)))
    }

    async fn expire(&self, now: DateTime<Utc>, limit: usize) -> Result<Vec<MemoryId>, StoreError> {
        let tenant = &self.tenant;
        // Every server does this; one without tenants has no other task that could.
        while matches!(Postgres(Arc::clone(&self.database)).fold_usage().await, Ok(1..)) {}
        write_transaction!(self.pool().await?, &tenant.name, |db| maintenance::expire(
            db, tenant, now, limit
        )
        .await)
    }

    async fn retire(
        &self,
        before: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<MemoryId>, StoreError> {
        let tenant = &self.tenant;
        write_transaction!(self.pool().await?, &tenant.name, |db| usage::retire(
            db, tenant, before, limit
        )
        .await)
    }

    async fn stored_bytes(&self) -> Result<Option<u64>, StoreError> {
        self.count_bytes().await
    }

    async fn repair(&self) -> Result<RepairReport, StoreError> {
        let tenant = &self.tenant;
        let report = with_vectors!(self, |pool, storage| loop {
            let words = self.database.words_column();
            let done = write_transaction!(pool, &tenant.name, |db| maintenance::repair(
                db, tenant, storage, words
            )
            .await);
            if !self.database.notice_dropped_words(words, &done) {
                break done;
            }
        })?;
        let indexed = search_index::fill_all(self.pool().await?, tenant).await?;
        Ok(RepairReport::new(report.missing + indexed, report.orphaned))
    }

    async fn is_search_index_behind(&self) -> Result<bool, StoreError> {
        let tenant = &self.tenant;
        read_transaction!(self.pool().await?, &tenant.name, Access::Keys, |db| {
            search_index::is_behind(db, tenant).await
        })
    }

    async fn advance_search_index(&self) -> Result<u64, StoreError> {
        let tenant = &self.tenant;
        write_transaction!(self.pool().await?, &tenant.name, |db| search_index::advance(
            db,
            tenant,
            search_index::FILL_BATCH_LEN
        )
        .await)
    }

    async fn lease(
        &self,
        task: &str,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        write_transaction!(self.pool().await?, &self.tenant.name, |db| maintenance::lease(
            db, task, now, until
        )
        .await)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.database.ready().await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        let (pool, tenant) = (self.pool().await?, &self.tenant);
        let secret = read_transaction!(pool, &tenant.name, Access::Keys, |db| {
            maintenance::secret(db, tenant).await
        });
        match secret? {
            Some(secret) => Ok(secret),
            None => {
                write_transaction!(pool, &tenant.name, |db| maintenance::make_secret(db, tenant)
                    .await)
            }
        }
    }
}
