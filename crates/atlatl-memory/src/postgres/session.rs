//! A transaction on one connection, bound to one tenant, and the prologue that begins it.
//!
//! All settings are local to the transaction. Between transactions a connection belongs to no
//! tenant, and a transaction-level pooler may sit in between if it supports prepared statements.
//!
//! A transaction begins with its first statement: the prologue with the tenant and the timeout is
//! sent before it in the same round trip, and the result counts only if both succeed.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, SimpleQueryMessage};

use super::connection::{Connection, is_lost, to_store_error};
use super::options::PostgresOptions;
use crate::listing::Filter;
use crate::store::StoreError;

/// How much longer than the server's statement timeout the client waits.
const SERVER_TIMEOUT_GRACE: Duration = Duration::from_secs(1);

/// A parameter and its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// A transaction. If it is dropped before its end, the connection is closed.
pub(super) struct Session {
    connection: Connection,
    deadline: Duration,
    lost: Cell<bool>,
    /// The prologue, until it is sent.
    prologue: RefCell<Option<Prologue>>,
    transaction: RefCell<Option<String>>,
}

/// A transaction whose end was not confirmed.
pub(super) struct UnconfirmedEnd {
    pub(super) error: StoreError,
    /// Whether the connection broke.
    pub(super) lost: bool,
}

impl Session {
    /// Creates a transaction that begins with its first statement.
    pub(super) fn new(connection: Connection, prologue: Prologue, limit: Duration) -> Self {
        Self {
            connection,
            deadline: limit + SERVER_TIMEOUT_GRACE,
            lost: Cell::new(false),
            prologue: RefCell::new(Some(prologue)),
            transaction: RefCell::new(None),
        }
    }

    /// Runs a statement and returns its rows.
    pub(super) fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let (types, values) = split(values);
        #[cfg(feature = "contract")]
        super::statement_recorder::record(sql, &types, &values);
        self.run_with_prologue(async {
            let statement = self.connection.statement(sql, types).await?;
            self.connection.client().query(&statement, &values).await
        })
    }

    /// Runs a statement and returns the number of affected rows.
    pub(super) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, StoreError> {
        let (types, values) = split(values);
        #[cfg(feature = "contract")]
        super::statement_recorder::record(sql, &types, &values);
        self.run_with_prologue(async {
            let statement = self.connection.statement(sql, types).await?;
            self.connection.client().execute(&statement, &values).await
        })
    }

    /// Runs several statements without parameters.
    pub(super) fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.run_with_prologue(self.connection.client().batch_execute(sql))
    }

    /// Ends the transaction with this statement, and returns the connection when that is confirmed.
    pub(super) fn end(self, statement: &str) -> Result<Connection, UnconfirmedEnd> {
        let ended = if self.prologue.borrow().is_some() {
            Ok(())
        } else {
            self.with_timeout(self.connection.client().batch_execute(statement))
        };
        match ended {
            Ok(()) => Ok(self.connection),
            Err(error) => Err(UnconfirmedEnd { error, lost: self.lost.get() }),
        }
    }

    /// Ends the transaction with this statement, and returns the connection without waiting if it
    /// is still open. Later statements are executed after this one.
    pub(super) fn end_without_waiting(self, statement: &str) -> Option<Connection> {
        let said = self.prologue.borrow().is_some() || self.connection.execute_detached(statement);
        (said && !self.lost.get()).then_some(self.connection)
    }

    /// Returns whether the database began this transaction.
    pub(super) fn has_begun(&self) -> bool {
        self.transaction.borrow().is_some()
    }

    /// Returns whether the connection broke.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// Returns the transaction id, if the transaction writes.
    pub(super) fn transaction(&self) -> String {
        self.transaction.borrow().clone().unwrap_or_default()
    }

    /// Runs `work`, after the prologue if that has not been sent yet. Both are sent before a result
    /// arrives.
    fn run_with_prologue<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        let Some(prologue) = self.prologue.take() else { return self.with_timeout(work) };
        let prologue_rows = self.connection.client().simple_query(prologue.sql());
        let both = async {
            let (prologue_rows, done) = tokio::join!(biased; prologue_rows, work);
            Ok((prologue_rows?, done))
        };
        let (prologue_rows, done) = self.with_timeout(both)?;
        let name = prologue_rows.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        *self.transaction.borrow_mut() = Some(name.unwrap_or_default());
        done.map_err(|error| self.record_error(error))
    }

    fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        // Inside the future, because the timer belongs to the connection's runtime.
        match self.connection.run(async { timeout(self.deadline, work).await }) {
            Ok(done) => done.map_err(|error| self.record_error(error)),
            Err(late) => {
                // The late result would be read as the result of another statement.
                self.lost.set(true);
                Err(StoreError::Unavailable(late.into()))
            }
        }
    }

    fn record_error(&self, error: Error) -> StoreError {
        self.lost.set(self.lost.get() || is_lost(&error));
        to_store_error(error)
    }
}

/// Separates types and parameters.
fn split<'a>(values: &[Value<'a>]) -> (Vec<Type>, Vec<&'a (dyn ToSql + Sync)>) {
    values.iter().map(|(value, kind)| (kind.clone(), *value)).unzip()
}

/// The kind of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reads by key or in order: a generic plan fits all parameters.
    Keys,
    /// Reads with a filter: a plan for the given parameters may be better.
    Condition,
    Write,
}

impl Access {
    /// Returns the kind of a read with this filter.
    pub(super) fn by(filter: &Filter) -> Self {
        if *filter == Filter::default() { Self::Keys } else { Self::Condition }
    }
}

/// The statements that begin a transaction, in one message: isolation level, tenant, role and
/// statement timeout. The first row has the transaction id, which is needed if the end is not
/// confirmed; it is empty for a read-only transaction.
#[derive(Debug)]
pub(super) struct Prologue(String);

impl Prologue {
    /// `user` is the login of the connection.
    pub(super) fn new(
        tenant: &str,
        access: Access,
        options: &PostgresOptions,
        user: Option<&str>,
    ) -> Self {
        let (begin, name) = match access {
            Access::Keys | Access::Condition => {
                ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "''")
            }
            Access::Write => ("BEGIN", "pg_current_xact_id()::text"),
        };
        let mut sql = format!(
            "{begin}; SELECT {name}, set_config('atlatl.tenant', {}, true), \
             set_config('statement_timeout', '{}', true)",
            literal(tenant),
            options.statement_timeout.as_millis(),
        );
        if access == Access::Keys {
            // By default the planner overestimates the generic plan, because it counts the costs of
            // all partitions, and plans each time, which takes longer than the query.
            sql += ", set_config('plan_cache_mode', 'force_generic_plan', true)";
        }
        if user != Some(&options.role) {
            let _ = write!(sql, ", set_config('role', {}, true)", literal(&options.role));
        }
        Self(sql)
    }

    pub(super) fn sql(&self) -> &str {
        &self.0
    }
}

/// Returns any text as an SQL expression. The hexadecimal encoding cannot be misread as SQL,
/// whatever the quoting settings of the database.
fn literal(text: &str) -> String {
    let mut digits = String::with_capacity(2 * text.len());
    for byte in text.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    format!("convert_from(decode('{digits}', 'hex'), 'UTF8')")
}

/// Quotes an SQL identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_quotes() {
        let options = PostgresOptions::new("postgres://h/d");
        let prologue = Prologue::new("'; DROP TABLE x; --\\", Access::Write, &options, None);
        assert!(!prologue.sql().contains("DROP") && !prologue.sql().contains('\\'));
        assert_eq!(literal("a'é"), "convert_from(decode('6127c3a9', 'hex'), 'UTF8')");
    }
}
