//! The database handle that verifies the schema before first use, and server information.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::error::SqlState;

use super::connection::ReportedError;
use super::crud::WordsColumn;
use super::fair_queue::QueueName;
use super::migrations::{self, NO_TENANT};
use super::options::PostgresOptions;
use super::pool::{Pool, PoolStatus, read_transaction};
use super::session::{Access, quoted};
use super::vectors::{IndexSupport, VectorStorage};
use crate::store::StoreError;

/// Runs transactions with the pool and the storage of vectors of a store, and once more if a table
/// was dropped meanwhile: the vectors of a dropped index are in another table, and so are arrays after
/// pgvector was installed and the upgrade finished.
macro_rules! with_vectors {
    ($store:expr, |$pool:ident, $storage:ident| $work:expr) => {{
        let mut is_repeated = false;
        loop {
            let ($pool, $storage) = $store.verified().await?;
            let done: Result<_, $crate::store::StoreError> = async { $work }.await;
            if is_repeated || !$crate::postgres::database::lacks_table(&done) {
                break done;
            }
            is_repeated = true;
            $store.database.find_vectors_again(&$store.tenant.name).await?;
        }
    }};
}

pub(super) use with_vectors;

/// A database whose schema is verified before its first use.
#[derive(Debug)]
pub(super) struct Database {
    pool: Pool,
    role: String,
    /// The number of vectors from which a tenant has an index.
    pub(super) index_from: usize,
    vectors: OnceLock<VectorStorage>,
    /// How vectors are stored since they are no longer arrays: pgvector was installed meanwhile.
    converted_vectors: OnceLock<VectorStorage>,
    /// Whether the words of servers before version 6 were dropped.
    are_words_dropped: AtomicBool,
}

impl Database {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let (pool, role) = (Pool::new(options)?, options.role.clone());
        Ok(Self {
            pool,
            role,
            index_from: options.index_from,
            vectors: OnceLock::new(),
            converted_vectors: OnceLock::new(),
            are_words_dropped: AtomicBool::new(false),
        })
    }

    /// Returns the pool and how vectors are stored, after verifying once that the schema is compatible
    /// and the policies apply. A failed verification is repeated at the next use. The verification
    /// waits in the queue of the transaction that needs it.
    pub(super) async fn verified(
        &self,
        queue: impl Into<QueueName>,
    ) -> Result<(&Pool, &VectorStorage), StoreError> {
        let vectors = if let Some(vectors) = self.vectors.get() {
            vectors
        } else {
            let queue = queue.into();
            migrations::check(&self.pool, &queue, &self.role).await?;
            let vectors = find_storage(&self.pool, &queue, &self.role).await?;
            let has_words = migrations::has_words(&self.pool, &queue).await?;
            self.are_words_dropped.store(!has_words, Ordering::Relaxed);
            self.vectors.get_or_init(|| vectors)
        };
        Ok((&self.pool, self.converted_vectors.get().unwrap_or(vectors)))
    }

    /// Looks up again how vectors are stored, after a transaction lacked a table. The query waits in
    /// `queue`.
    pub(super) async fn find_vectors_again(
        &self,
        queue: impl Into<QueueName>,
    ) -> Result<(), StoreError> {
        let is_arrays = matches!(self.vectors.get(), Some(VectorStorage::Arrays { .. }));
        if is_arrays && self.converted_vectors.get().is_none() {
            let found = find_storage(&self.pool, &queue.into(), &self.role).await?;
            if matches!(found, VectorStorage::Half { .. }) {
                self.converted_vectors.get_or_init(|| found);
            }
        }
        Ok(())
    }

    pub(super) fn pool_status(&self) -> PoolStatus {
        self.pool.status()
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

    /// Returns whether documents have the words of servers before version 6.
    pub(super) fn words_column(&self) -> WordsColumn {
        if self.are_words_dropped.load(Ordering::Relaxed) {
            WordsColumn::Dropped
        } else {
            WordsColumn::Present
        }
    }

    /// Returns whether a transaction with `words` failed because these words or the functions that
    /// search them were dropped meanwhile, and has to be repeated without them.
    pub(super) fn notice_dropped_words<T>(
        &self,
        words: WordsColumn,
        done: &Result<T, StoreError>,
    ) -> bool {
        let dropped = [SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_FUNCTION];
        let are_dropped = words == WordsColumn::Present
            && error_code(done).is_some_and(|code| dropped.contains(code));
        self.are_words_dropped.fetch_or(are_dropped, Ordering::Relaxed);
        are_dropped
    }

    /// Returns the URL of the database without the password.
    pub(super) fn place(&self) -> &str {
        &self.pool.place
    }
}

/// Returns whether a transaction failed because it named a table that does not exist.
pub(super) fn lacks_table<T>(done: &Result<T, StoreError>) -> bool {
    error_code(done) == Some(&SqlState::UNDEFINED_TABLE)
}

/// Returns the code of the database's error.
fn error_code<T>(done: &Result<T, StoreError>) -> Option<&SqlState> {
    let Err(StoreError::Engine(cause)) = done else { return None };
    cause.downcast_ref::<ReportedError>().map(ReportedError::code)
}

/// Returns how vectors are stored. The query waits in `queue`.
async fn find_storage(
    pool: &Pool,
    queue: &QueueName,
    role: &str,
) -> Result<VectorStorage, StoreError> {
    let sql = "SELECT to_regclass('atlatl.embedding') IS NOT NULL, n.nspname::text, \
                 regexp_split_to_array(e.extversion, '[^0-9]+')::int[] >= ARRAY[0, 8] \
               FROM (SELECT 1) AS one LEFT JOIN pg_extension e ON e.extname = 'vector' \
                 AND has_schema_privilege(e.extnamespace, 'USAGE') \
               LEFT JOIN pg_namespace n ON n.oid = e.extnamespace";
    let found = read_transaction!(pool, queue, Access::Condition, |db| db.query(sql, &[]).await)?;
    let row = found.first().ok_or_else(|| StoreError::Engine("no answer".into()))?;
    let pgvector = row.get::<_, Option<&str>>(1).map(quoted);
    match (row.get(0), pgvector) {
        (false, pgvector) => Ok(VectorStorage::Arrays { pgvector }),
        (true, Some(pgvector)) => {
            let is_iterative: Option<bool> = row.get(2);
            let indexes = match is_iterative {
                Some(true) => IndexSupport::Iterative,
                _ => IndexSupport::None,
            };
            Ok(VectorStorage::Half { pgvector, indexes })
        }
        (true, None) => Err(StoreError::NotAStore {
            place: pool.place.clone(),
            why: format!(
                "role {} cannot use the schema of the extension vector: grant it USAGE",
                quoted(role)
            ),
        }),
    }
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
