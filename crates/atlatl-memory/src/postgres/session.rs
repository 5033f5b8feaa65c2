//! Session: one transaction on one connection, for one tenant.
//!
//! Everything about it is set inside the transaction and gone with it, and no statement is kept
//! prepared unless that was asked for: so a connection is nobody's between two transactions, and a
//! pooler that lends connections by transaction may stand in between.
//!
//! A transaction begins with its first statement: who asks, and for how long, goes out with it and
//! before it, and its answer counts only if both were taken.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, SimpleQueryMessage};

use super::error::{failed, is_lost};
use super::opening::Opening;
use super::options::PostgresOptions;
use crate::store::StoreError;

/// How much longer than the database itself is waited for its word that time is over.
const GRACE: Duration = Duration::from_secs(1);

/// A value and its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// One transaction.
pub(super) struct Session {
    connection: Option<Object>,
    bound: Duration,
    prepare: bool,
    lost: Cell<bool>,
    /// What goes before the first statement, until it went.
    opening: RefCell<Option<Opening>>,
    transaction: RefCell<Option<String>>,
}

impl Session {
    /// A transaction that begins with its first statement.
    pub(super) fn new(connection: Object, opening: Opening, options: &PostgresOptions) -> Self {
        Self {
            connection: Some(connection),
            bound: options.statement_timeout + GRACE,
            prepare: options.prepare,
            lost: Cell::new(false),
            opening: RefCell::new(Some(opening)),
            transaction: RefCell::new(None),
        }
    }

    /// The rows that a statement gives.
    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        #[cfg(feature = "contract")]
        super::recorded::note(sql, values);
        self.opened(self.ask(sql, values)).await
    }

    /// How many rows a statement changed.
    pub(super) async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, StoreError> {
        #[cfg(feature = "contract")]
        super::recorded::note(sql, values);
        self.opened(self.client().execute_typed(sql, values)).await
    }

    /// Several statements without values.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.opened(self.client().batch_execute(sql)).await
    }

    /// Ends the transaction with this word, and gives the connection back when it is heard of.
    pub(super) async fn end(&mut self, word: &str) -> Result<(), StoreError> {
        if self.opening.get_mut().is_none() {
            self.bounded(self.client().batch_execute(word)).await?;
        }
        drop(self.connection.take());
        Ok(())
    }

    /// Ends the transaction with this word and gives the connection back at once: whatever is asked
    /// on it next comes behind the word.
    pub(super) fn leave(&mut self, word: &str) {
        if self.lost.get() {
            return;
        }
        if self.opening.get_mut().is_none() {
            let sent = pin!(self.client().batch_execute(word))
                .poll(&mut Context::from_waker(Waker::noop()));
            // An answer already is the news that the connection broke.
            if sent.is_ready() {
                return;
            }
        }
        drop(self.connection.take());
    }

    /// Whether the database knows of this transaction.
    pub(super) fn is_begun(&self) -> bool {
        self.transaction.borrow().is_some()
    }

    /// Whether the connection broke.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// What the database calls this transaction, if it writes.
    pub(super) fn transaction(&self) -> String {
        self.transaction.borrow().clone().unwrap_or_default()
    }

    fn client(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("there until the transaction ends")
    }

    /// What has been prepared on this connection is not sent again: it was under the same role, and
    /// whose rows it sees is looked up when it runs.
    async fn ask(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let client = self.client();
        if !self.prepare {
            return client.query_typed(sql, values).await;
        }
        let types: Vec<Type> = values.iter().map(|(_, kind)| kind.clone()).collect();
        let statement = client.prepare_typed_cached(sql, &types).await?;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
        client.query(&statement, &values).await
    }

    /// Runs `work`, behind what opens the transaction if that is still to be sent. Both go out before
    /// an answer comes.
    async fn opened<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        let Some(opening) = self.opening.take() else { return self.bounded(work).await };
        let client = self.client();
        let both = async {
            let (opened, done) = tokio::join!(biased; client.simple_query(opening.sql()), work);
            Ok((opened?, done))
        };
        let (opened, done) = self.bounded(both).await?;
        let name = opened.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        *self.transaction.borrow_mut() = Some(name.unwrap_or_default());
        self.bounded(async { done }).await
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
