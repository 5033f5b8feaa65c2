//! Session: one transaction on one connection, for one tenant.
//!
//! Everything about it is set inside the transaction and gone with it: so a connection is nobody's
//! between two transactions, and a pooler that lends connections by transaction may stand in between
//! if it knows prepared statements.
//!
//! A transaction begins with its first statement: who asks, and for how long, goes out with it and
//! before it, and its answer counts only if both were taken.

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

/// How much longer than the database itself is waited for its word that time is over.
const SERVER_TIMEOUT_GRACE: Duration = Duration::from_secs(1);

/// A value and its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// One transaction. Dropped before it ended, it takes its connection with it.
pub(super) struct Session {
    connection: Connection,
    deadline: Duration,
    lost: Cell<bool>,
    /// What goes before the first statement, until it went.
    prologue: RefCell<Option<Prologue>>,
    transaction: RefCell<Option<String>>,
}

/// A transaction whose end was not heard.
pub(super) struct UnconfirmedEnd {
    pub(super) error: StoreError,
    /// Whether the connection broke.
    pub(super) lost: bool,
}

impl Session {
    /// A transaction that begins with its first statement.
    pub(super) fn new(connection: Connection, prologue: Prologue, limit: Duration) -> Self {
        Self {
            connection,
            deadline: limit + SERVER_TIMEOUT_GRACE,
            lost: Cell::new(false),
            prologue: RefCell::new(Some(prologue)),
            transaction: RefCell::new(None),
        }
    }

    /// The rows that a statement gives.
    pub(super) fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        #[cfg(feature = "contract")]
        super::statement_recorder::record(sql, values);
        let (types, values) = split(values);
        self.run_with_prologue(async {
            let statement = self.connection.statement(sql, types).await?;
            self.connection.client().query(&statement, &values).await
        })
    }

    /// How many rows a statement changed.
    pub(super) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, StoreError> {
        #[cfg(feature = "contract")]
        super::statement_recorder::record(sql, values);
        let (types, values) = split(values);
        self.run_with_prologue(async {
            let statement = self.connection.statement(sql, types).await?;
            self.connection.client().execute(&statement, &values).await
        })
    }

    /// Several statements without values.
    pub(super) fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.run_with_prologue(self.connection.client().batch_execute(sql))
    }

    /// Ends the transaction with this word; the connection, when that was heard of.
    pub(super) fn end(self, word: &str) -> Result<Connection, UnconfirmedEnd> {
        let ended = if self.prologue.borrow().is_some() {
            Ok(())
        } else {
            self.with_timeout(self.connection.client().batch_execute(word))
        };
        match ended {
            Ok(()) => Ok(self.connection),
            Err(error) => Err(UnconfirmedEnd { error, lost: self.lost.get() }),
        }
    }

    /// Ends the transaction with this word and gives the connection at once, if there is still one:
    /// whatever is asked on it next comes behind the word.
    pub(super) fn end_without_waiting(self, word: &str) -> Option<Connection> {
        let said = self.prologue.borrow().is_some() || self.connection.execute_detached(word);
        (said && !self.lost.get()).then_some(self.connection)
    }

    /// Whether the database knows of this transaction.
    pub(super) fn has_begun(&self) -> bool {
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

    /// Runs `work`, behind what opens the transaction if that is still to be sent. Both go out before
    /// an answer comes.
    fn run_with_prologue<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        let Some(prologue) = self.prologue.take() else { return self.with_timeout(work) };
        let run_with_prologue = self.connection.client().simple_query(prologue.sql());
        let both = async {
            let (run_with_prologue, done) = tokio::join!(biased; run_with_prologue, work);
            Ok((run_with_prologue?, done))
        };
        let (run_with_prologue, done) = self.with_timeout(both)?;
        let name = run_with_prologue.iter().find_map(|message| match message {
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
        // Inside, since a timer belongs to the connection's runtime.
        match self.connection.run(async { timeout(self.deadline, work).await }) {
            Ok(done) => done.map_err(|error| self.record_error(error)),
            Err(late) => {
                // Its answer may still come, and would be taken for another one.
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

/// The types of values, and the values.
fn split<'a>(values: &[Value<'a>]) -> (Vec<Type>, Vec<&'a (dyn ToSql + Sync)>) {
    values.iter().map(|(value, kind)| (kind.clone(), *value)).unzip()
}

// --- The statements that begin a transaction: isolation, tenant, role and statement timeout.

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reads by keys and in orders: the same plan does for all values.
    Keys,
    /// Reads what some condition lets through: a plan for its values may be a better one.
    Condition,
    Write,
}

impl Access {
    /// Of a read of what `filter` lets through.
    pub(super) fn by(filter: &Filter) -> Self {
        if *filter == Filter::default() { Self::Keys } else { Self::Condition }
    }
}

/// The words that begin a transaction, in one message. Its first row names the transaction, which is
/// needed where its end is not heard; one that only reads has no name.
#[derive(Debug)]
pub(super) struct Prologue(String);

impl Prologue {
    /// `user` is who the connection is anyway.
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
        // Writing to a string cannot fail.
        if access == Access::Keys {
            // Left to itself the database takes the one plan for the worse, since it counts the costs
            // of all partitions, and makes a new one each time, which takes longer than the answer.
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

/// Any text as SQL. In digits, so that nothing in it can be taken for SQL, whatever the settings of
/// the database say of quotes.
fn literal(text: &str) -> String {
    let mut digits = String::with_capacity(2 * text.len());
    for byte in text.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    format!("convert_from(decode('{digits}', 'hex'), 'UTF8')")
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
