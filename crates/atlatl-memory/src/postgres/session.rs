//! Session: one transaction on one connection, for one tenant.
//!
//! Everything about it is set inside the transaction and gone with it, and no statement is kept
//! prepared: so a connection is nobody's between two transactions, and a pooler that lends
//! connections by transaction may stand in between.

use std::cell::Cell;
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use super::error::{failed, is_lost};
use super::options::PostgresOptions;
use crate::store::StoreError;

/// How much longer than the database itself is waited for its word that time is over.
const GRACE: Duration = Duration::from_secs(1);

/// A value and its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// One transaction.
pub(super) struct Session {
    connection: Option<Object>,
    bound: Duration,
    lost: Cell<bool>,
    transaction: String,
}

impl Session {
    pub(super) fn new(connection: Object, statement: Duration) -> Self {
        let (bound, lost) = (statement + GRACE, Cell::new(false));
        Self { connection: Some(connection), bound, lost, transaction: String::new() }
    }

    /// Begins, and says who asks and for how long. Both go out before an answer comes.
    pub(super) async fn begin(
        &mut self,
        tenant: &str,
        access: Access,
        options: &PostgresOptions,
    ) -> Result<(), StoreError> {
        // The name of a transaction is needed where its end is not heard.
        let (begin, name) = match access {
            Access::Read => ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "''"),
            Access::Write => ("BEGIN", "pg_current_xact_id()::text"),
        };
        let set = format!(
            "SELECT {name}, set_config('atlatl.tenant', $1, true), set_config('role', $2, true), \
             set_config('statement_timeout', $3, true)"
        );
        let patience = options.statement_timeout.as_millis().to_string();
        let values: [Value<'_>; 3] =
            [(&tenant, Type::TEXT), (&options.role, Type::TEXT), (&patience, Type::TEXT)];
        let connection = self.connection();
        let both = async {
            tokio::join!(connection.batch_execute(begin), connection.query_typed_one(&set, &values))
        };
        let row = self.bounded(async { both.await.1 }).await?;
        self.transaction = row.get(0);
        Ok(())
    }

    /// The rows that a statement gives.
    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        self.bounded(self.connection().query_typed(sql, values)).await
    }

    /// How many rows a statement changed.
    pub(super) async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, StoreError> {
        self.bounded(self.connection().execute_typed(sql, values)).await
    }

    /// Several statements without values.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.bounded(self.connection().batch_execute(sql)).await
    }

    /// Ends the transaction with this word and gives the connection back.
    pub(super) async fn end(&mut self, word: &str) -> Result<(), StoreError> {
        let ended = self.batch(word).await;
        if ended.is_ok() && !self.lost.get() {
            drop(self.connection.take());
        }
        ended
    }

    /// Whether the connection broke.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// What the database calls this transaction.
    pub(super) fn transaction(&self) -> &str {
        &self.transaction
    }

    fn connection(&self) -> &Object {
        self.connection.as_ref().expect("there until the transaction ends")
    }

    async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        match timeout(self.bound, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                self.lost.set(self.lost.get() || is_lost(&error));
                Err(failed(error))
            }
            Err(late) => {
                // Its answer may still come, and would be taken for another one.
                self.lost.set(true);
                Err(StoreError::Unavailable(late.into()))
            }
        }
    }
}

impl Drop for Session {
    /// A transaction that was not ended, since someone panicked or the connection broke, must not
    /// meet the next one.
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}
