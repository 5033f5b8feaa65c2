//! A transaction on one connection, bound to one tenant, and the prologue that begins it.
//!
//! All settings are local to the transaction. Between transactions a connection belongs to no
//! tenant, so that a transaction pooler may run each on another server connection.
//!
//! A transaction begins with its first statement: the prologue with the tenant and the timeout is
//! sent before it in the same round trip, and the result counts only if both succeed. The first
//! transaction of a connection waits for its prologue, whose result tells whether there is a pooler.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool::managed::Object;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::{Error, Row, SimpleQueryMessage, SimpleQueryRow};

pub(super) use super::connection::Value;
use super::connection::{is_lost, to_store_error};
use super::crud::storable;
use super::fair_queue::Permit;
use super::options::{DatabaseTimeSink, PostgresOptions};
use super::pool::PooledConnection;
use super::pooler::StatementKind;
use crate::author::current_author;
use crate::blocking::{WorkGuard, current_guard};
use crate::listing::Filter;
use crate::store::StoreError;

/// How much longer than the server's statement timeout the client waits.
const SERVER_TIMEOUT_GRACE: Duration = Duration::from_secs(1);

/// The statement timeout of full-text searches, which take some tens of milliseconds.
pub(super) const RECALL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an abandoned transaction may take to end. After that its connection is closed.
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(5);

/// What a transaction keeps for as long as it has a connection, also after it was dropped.
pub(super) struct Lease {
    /// Reports the time before the permit is returned.
    _timer: Option<DatabaseTimer>,
    _permit: Permit,
    _guard: Option<WorkGuard>,
    /// When a connection was requested.
    began: Instant,
}

impl Lease {
    /// Creates the lease of a transaction that has a connection from now on.
    pub(super) fn new(permit: Permit, sink: Option<&DatabaseTimeSink>, began: Instant) -> Self {
        let timer = sink.zip(permit.tenant()).map(|(sink, tenant)| DatabaseTimer {
            sink: Arc::clone(sink),
            tenant: Arc::clone(tenant),
            since: Instant::now(),
        });
        Self { _timer: timer, _permit: permit, _guard: current_guard(), began }
    }
}

/// Measures how long a tenant has a connection, and reports it on drop.
struct DatabaseTimer {
    sink: DatabaseTimeSink,
    tenant: Arc<str>,
    since: Instant,
}

impl Drop for DatabaseTimer {
    fn drop(&mut self) {
        (self.sink)(&self.tenant, self.since.elapsed());
    }
}

/// A transaction.
///
/// If it is dropped before its end, it is rolled back, and a running statement is canceled. The
/// connection counts as used until that is done.
pub(super) struct Session {
    /// `None` after the end. It is returned before the permit in the lease.
    connection: Option<PooledConnection>,
    lease: Option<Lease>,
    deadline: Duration,
    lost: AtomicBool,
    /// Whether a statement is running whose result has not been read.
    is_running: AtomicBool,
    /// Whether the transaction is being committed.
    is_ending: AtomicBool,
    /// The prologue, until it is sent.
    prologue: Mutex<Option<Prologue>>,
    transaction: Mutex<Option<String>>,
}

/// A transaction whose end was not confirmed.
pub(super) struct UnconfirmedEnd {
    pub(super) error: StoreError,
    /// Whether the connection broke.
    pub(super) lost: bool,
}

impl Session {
    /// Returns when a connection for the transaction was requested.
    pub(super) fn began(&self) -> Instant {
        self.lease.as_ref().map_or_else(Instant::now, |lease| lease.began)
    }

    /// Creates a transaction that begins with its first statement.
    pub(super) fn new(
        connection: PooledConnection,
        lease: Lease,
        prologue: Prologue,
        limit: Duration,
    ) -> Self {
        Self {
            connection: Some(connection),
            lease: Some(lease),
            deadline: limit + SERVER_TIMEOUT_GRACE,
            lost: AtomicBool::new(false),
            is_running: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            prologue: Mutex::new(Some(prologue)),
            transaction: Mutex::new(None),
        }
    }

    fn connection(&self) -> &PooledConnection {
        self.connection.as_ref().expect("there until the end")
    }

    /// Runs a statement and returns its rows.
    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        #[cfg(feature = "contract")]
        let recording = super::statement_recorder::record(sql, values);
        let done = self.run_with_prologue(self.connection().query(sql, values)).await;
        #[cfg(feature = "contract")]
        recording.end();
        done
    }

    /// Runs a statement and returns the number of affected rows.
    pub(super) async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, StoreError> {
        #[cfg(feature = "contract")]
        let recording = super::statement_recorder::record(sql, values);
        let done = self.run_with_prologue(self.connection().execute(sql, values)).await;
        #[cfg(feature = "contract")]
        recording.end();
        done
    }

    /// Runs several statements without parameters.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.run_with_prologue(self.connection().client().batch_execute(sql)).await
    }

    /// Ends the transaction with this statement, and returns the connection to the pool when that
    /// is confirmed.
    pub(super) async fn end(mut self, statement: &str) -> Result<(), UnconfirmedEnd> {
        self.is_ending.store(true, Ordering::Relaxed);
        let ended = if lock(&self.prologue).is_some() {
            Ok(())
        } else {
            self.with_timeout(self.connection().client().batch_execute(statement)).await
        };
        let connection = self.connection.take();
        match ended {
            Ok(()) => Ok(()),
            Err(error) => {
                // It would be returned with an open transaction.
                drop(connection.map(Object::take));
                Err(UnconfirmedEnd { error, lost: self.is_lost() })
            }
        }
    }

    /// Ends the transaction with this statement, and returns the connection to the pool without
    /// waiting if it is still open. Later statements are executed after this one.
    pub(super) fn end_without_waiting(mut self, statement: &str) {
        let Some(connection) = self.connection.take() else { return };
        let said = lock(&self.prologue).is_some() || connection.execute_detached(statement);
        if !said || self.is_lost() {
            drop(Object::take(connection));
        }
    }

    /// Returns whether the database began this transaction.
    pub(super) fn has_begun(&self) -> bool {
        lock(&self.transaction).is_some()
    }

    /// Returns whether the connection broke.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns the transaction id, if the transaction writes.
    pub(super) fn transaction(&self) -> String {
        lock(&self.transaction).clone().unwrap_or_default()
    }

    /// Runs `work`, after the prologue if that has not been sent yet. Both are sent before a result
    /// arrives, except on a connection that may lead to a pooler.
    async fn run_with_prologue<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        let prologue = lock(&self.prologue).take();
        let Some(prologue) = prologue else { return self.with_timeout(work).await };
        let connection = self.connection();
        let messages = connection.client().simple_query(prologue.sql());
        let both = async {
            if connection.pooler().kind().is_some() {
                let (messages, done) = tokio::join!(biased; messages, work);
                return Ok((messages?, done));
            }
            let messages = messages.await?;
            // It decides about the kind of the statement.
            let _ = connection.pooler().observe(backend_pid(&messages));
            Ok((messages, work.await))
        };
        let (messages, done) = self.with_timeout(both).await?;
        if let Err(replaced) = connection.pooler().observe(backend_pid(&messages)) {
            self.lost.store(true, Ordering::Relaxed);
            return Err(StoreError::Unavailable(replaced.into()));
        }
        let name = first_row(&messages).and_then(|row| row.get(Prologue::TRANSACTION_ID));
        *lock(&self.transaction) = Some(name.unwrap_or_default().to_owned());
        done.map_err(|error| self.record_error(error))
    }

    async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        self.is_running.store(true, Ordering::Relaxed);
        let done = timeout(self.deadline, work).await;
        self.is_running.store(false, Ordering::Relaxed);
        match done {
            Ok(done) => done.map_err(|error| self.record_error(error)),
            Err(late) => {
                // The late result would be read as the result of another statement.
                self.lost.store(true, Ordering::Relaxed);
                Err(StoreError::Unavailable(late.into()))
            }
        }
    }

    fn record_error(&self, error: Error) -> StoreError {
        self.lost.fetch_or(is_lost(&error), Ordering::Relaxed);
        to_store_error(error)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let is_unused = lock(&self.prologue).is_some();
        if is_unused && connection.is_open() {
            return;
        }
        let is_running = self.is_running.load(Ordering::Relaxed);
        let is_ending = self.is_ending.load(Ordering::Relaxed);
        match Handle::try_current() {
            Ok(runtime) if !self.is_lost() => {
                let (cancel, lease) = (is_running && !is_ending, self.lease.take());
                runtime.spawn(async move {
                    end_abandoned(connection, cancel).await;
                    drop(lease);
                });
            }
            // Without a connection the database rolls the transaction back.
            _ => drop(Object::take(connection)),
        }
    }
}

/// Rolls an abandoned transaction back. The connection is returned to the pool when that is
/// confirmed, unless a statement was canceled: a cancel request that is delivered late would hit the
/// next user of the connection.
async fn end_abandoned(connection: PooledConnection, cancel: bool) {
    let ended = async {
        let cancel_sent = !cancel || connection.cancel_request().send().await.is_ok();
        // The result of a statement arrives after those of the statements before it.
        cancel_sent && connection.client().batch_execute("ROLLBACK").await.is_ok()
    };
    let ended = timeout(ABANDONED_TIMEOUT, ended).await.unwrap_or(false);
    if cancel || !ended {
        drop(Object::take(connection));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the process id in the result of a prologue.
fn backend_pid(messages: &[SimpleQueryMessage]) -> Option<i32> {
    first_row(messages)?.get(Prologue::BACKEND_PID)?.parse().ok()
}

fn first_row(messages: &[SimpleQueryMessage]) -> Option<&SimpleQueryRow> {
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}

/// The kind of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reads by key or in order: a generic plan fits all parameters.
    Keys,
    /// Reads with a filter: a plan for the given parameters may be better.
    Condition,
    /// A full-text search, which has a time limit of its own.
    Recall,
    Write,
}

impl Access {
    /// Returns the kind of a read with this filter.
    pub(super) fn by(filter: &Filter) -> Self {
        if *filter == Filter::default() { Self::Keys } else { Self::Condition }
    }
}

/// The statements that begin a transaction, in one message: isolation level, tenant, author, role and
/// statement timeout. Compiling a short statement takes longer than running it, so JIT is off. The first
/// row has the transaction id, which is needed if the end is not confirmed and is empty for a read-only
/// transaction, and the process id of the server.
#[derive(Debug)]
pub(super) struct Prologue(String);

impl Prologue {
    /// The columns of the first row.
    const TRANSACTION_ID: usize = 0;
    const BACKEND_PID: usize = 1;

    /// `user` is the login of the connection, and `kind` the kind of its statements.
    pub(super) fn new(
        tenant: &str,
        access: Access,
        options: &PostgresOptions,
        user: Option<&str>,
        kind: Option<StatementKind>,
    ) -> Self {
        let (begin, name) = match access {
            Access::Keys | Access::Condition | Access::Recall => {
                ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "''")
            }
            Access::Write => ("BEGIN", "pg_current_xact_id()::text"),
        };
        let statement_timeout = match access {
            Access::Recall => options.statement_timeout.min(RECALL_TIMEOUT),
            _ => options.statement_timeout,
        };
        let mut sql = format!(
            "{begin}; SELECT {name}, pg_backend_pid(), \
             set_config('atlatl.tenant', {}, true), set_config('statement_timeout', '{}', true), \
             set_config('jit', 'off', true)",
            literal(tenant),
            statement_timeout.as_millis(),
        );
        if access == Access::Write
            && let Some(author) = current_author()
        {
            let author = literal(&storable(&author));
            let _ = write!(sql, ", set_config('atlatl.author', {author}, true)");
        }
        // An unnamed statement is planned for its parameters each time, with their partition alone.
        // A search needs the generic plan, which does not depend on statistics.
        let is_named = kind != Some(StatementKind::Unnamed);
        if access == Access::Recall || (access == Access::Keys && is_named) {
            // By default the planner overestimates the generic plan, because it counts the costs of
            // all partitions, and plans each time, which takes longer than the query.
            sql += ", set_config('plan_cache_mode', 'force_generic_plan', true)";
        }
        if access == Access::Recall {
            // With old statistics the planner prefers to read all rows of a partition.
            sql += ", set_config('enable_seqscan', 'off', true)";
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
pub(super) fn literal(text: &str) -> String {
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
        let prologue = Prologue::new("'; DROP TABLE x; --\\", Access::Write, &options, None, None);
        assert!(!prologue.sql().contains("DROP") && !prologue.sql().contains('\\'));
        assert_eq!(literal("a'é"), "convert_from(decode('6127c3a9', 'hex'), 'UTF8')");
    }
}
