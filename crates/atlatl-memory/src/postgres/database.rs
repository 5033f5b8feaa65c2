//! The database handle that verifies the schema before first use, and server information.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::error::SqlState;

use super::crud::WordsColumn;
use super::fair_queue::QueueName;
use super::migrations::{self, NO_TENANT};
use super::options::PostgresOptions;
use super::pool::{Pool, read_transaction};
use super::session::{Access, quoted};
use crate::store::StoreError;

/// A database whose schema is verified before its first use.
#[derive(Debug)]
pub(super) struct Database {
    pool: Pool,
    role: String,
    /// The number of vectors from which a tenant has an index.
    pub(super) index_from: usize,
    capabilities: OnceLock<Capabilities>,
    /// Whether the words of previous servers were dropped.
    is_finished: AtomicBool,
}

#[derive(Debug)]
struct Capabilities {
    /// pgvector, if it is installed.
    pgvector: Option<Pgvector>,
}

/// The pgvector extension.
#[derive(Debug)]
pub(super) struct Pgvector {
    /// The quoted name of its schema.
    pub(super) schema: String,
    /// Whether it supports iterative index scans (0.8), and this role may use the indexes.
    pub(super) indexes: bool,
}

impl Database {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let (pool, role) = (Pool::new(options)?, options.role.clone());
        Ok(Self {
            pool,
            role,
            index_from: options.index_from,
            capabilities: OnceLock::new(),
            is_finished: AtomicBool::new(false),
        })
    }

    /// Returns the pool and pgvector, after verifying once that the schema is compatible and the
    /// policies apply. A failed verification is repeated at the next use. The verification waits in
    /// the queue of the transaction that needs it.
    pub(super) async fn verified(
        &self,
        queue: impl Into<QueueName>,
    ) -> Result<(&Pool, Option<&Pgvector>), StoreError> {
        let capabilities = if let Some(capabilities) = self.capabilities.get() {
            capabilities
        } else {
            let queue = queue.into();
            migrations::check(&self.pool, &queue, &self.role).await?;
            let pgvector = find_pgvector(&self.pool, &queue).await?;
            let is_finished = migrations::is_finished(&self.pool, &queue).await?;
            self.is_finished.store(is_finished, Ordering::Relaxed);
            self.capabilities.get_or_init(|| Capabilities { pgvector })
        };
        Ok((&self.pool, capabilities.pgvector.as_ref()))
    }

    /// Runs a query on the connection that is reserved for this.
    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        let (pool, _) = self.verified(QueueName::Readiness).await?;
        let sql = "SELECT 1 FROM atlatl.tenant_of('')";
        read_transaction!(pool, &QueueName::Readiness, Access::Keys, |db| db
            .query(sql, &[])
            .await
            .map(drop))
    }

    pub(super) async fn about(&self) -> Result<DatabaseInfo, StoreError> {
        self.verified(NO_TENANT).await?;
        DatabaseInfo::query(&self.pool, &self.role).await
    }

    /// Returns whether documents have the words of previous servers.
    pub(super) fn words_column(&self) -> WordsColumn {
        if self.is_finished.load(Ordering::Relaxed) {
            WordsColumn::Dropped
        } else {
            WordsColumn::Present
        }
    }

    /// Returns whether a write failed because the words of previous servers were dropped meanwhile,
    /// and has to be repeated without them.
    pub(super) fn notice_dropped_words<T>(&self, done: &Result<T, StoreError>) -> bool {
        let Err(StoreError::Engine(cause)) = done else { return false };
        let error = cause.downcast_ref::<tokio_postgres::Error>();
        let code = error.and_then(tokio_postgres::Error::code);
        code == Some(&SqlState::UNDEFINED_COLUMN) && !self.is_finished.swap(true, Ordering::Relaxed)
    }

    /// Returns the URL of the database without the password.
    pub(super) fn place(&self) -> &str {
        &self.pool.place
    }
}

/// Returns pgvector, if the extension is installed and usable.
async fn find_pgvector(pool: &Pool, queue: &QueueName) -> Result<Option<Pgvector>, StoreError> {
    // Before version 0.8 an index scan could stop before a filter had enough rows.
    let sql = "SELECT n.nspname::text, \
                 regexp_split_to_array(e.extversion, '[^0-9]+')::int[] >= ARRAY[0, 8] \
                 AND has_table_privilege('atlatl.near', 'SELECT') FROM pg_extension e \
                 JOIN pg_namespace n ON n.oid = e.extnamespace \
                 WHERE e.extname = 'vector' AND has_schema_privilege(n.oid, 'USAGE')";
    read_transaction!(pool, queue, Access::Condition, |db| {
        let found = db.query(sql, &[]).await?;
        Ok(found.first().map(|row| Pgvector { schema: quoted(row.get(0)), indexes: row.get(1) }))
    })
}

/// Information about a database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseInfo {
    /// The URL without the password.
    pub place: String,
    /// The version of the server.
    pub server: String,
    /// The role that every statement runs as.
    pub role: String,
    /// The version of the schema.
    pub schema: i32,
    /// The newest schema version that this program has.
    pub supported: i32,
    /// The version of pgvector, if it is usable.
    pub pgvector: Option<String>,
    /// The maximum number of connections of the server.
    pub connections: u32,
}

impl DatabaseInfo {
    async fn query(pool: &Pool, role: &str) -> Result<Self, StoreError> {
        let sql = "SELECT current_setting('server_version'), \
                     current_setting('max_connections'), \
                     (SELECT max(number) FROM atlatl.migration), \
                     (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'vector' \
                      AND has_schema_privilege(e.extnamespace, 'USAGE'))";
        read_transaction!(pool, NO_TENANT, Access::Condition, |db| {
            let rows = db.query(sql, &[]).await?;
            let row = rows.first().ok_or_else(|| StoreError::Engine("no answer".into()))?;
            Ok(Self {
                place: pool.place.clone(),
                server: row.get(0),
                role: role.to_owned(),
                schema: row.get(2),
                supported: migrations::newest(),
                pgvector: row.get(3),
                connections: row.get::<_, &str>(1).parse().unwrap_or_default(),
            })
        })
    }
}
