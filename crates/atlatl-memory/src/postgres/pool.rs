//! The connection pool, and transactions that are bound to a tenant.
//!
//! [`read_transaction`] and [`write_transaction`] run statements in a transaction. They are macros,
//! because the compiler cannot prove that the futures of asynchronous closures may move between
//! threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool::Runtime;
use deadpool::managed::{
    self, Metrics, Object, PoolError, QueueMode, RecycleError, RecycleResult, Timeouts,
};
use tokio::time::sleep;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::{Connection, ReportedError};
use super::fair_queue::{FairQueue, Requester, Shares};
use super::migrations::{MIGRATION_TIMEOUT, NO_TENANT};
use super::options::{PostgresOptions, Target};
use super::session::{Access, Lease, Prologue, Session};
use crate::store::StoreError;

/// The interval between queries for the status of a transaction.
const STATUS_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The delay before the next attempt after a failed connection attempt.
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Runs statements on a consistent snapshot. If the connection breaks, they run once more on
/// another.
macro_rules! read_transaction {
    ($pool:expr, $requester:expr, $access:expr, |$db:ident| $query:expr) => {{
        let pool: &$crate::postgres::pool::Pool = $pool;
        let mut attempts = $crate::postgres::pool::Attempts::default();
        loop {
            let requester = $crate::postgres::fair_queue::Requester::from($requester);
            let session = pool.session(requester, $access).await?;
            let answer: Result<_, $crate::store::StoreError> = {
                let $db = &session;
                async { $query }.await
            };
            if let Some(answer) = pool.finish_read(session, answer, &mut attempts) {
                break answer;
            }
        }
    }};
}

/// Runs statements in a transaction that is durable when the result is `Ok`, and rolled back
/// otherwise.
macro_rules! write_transaction {
    ($pool:expr, $requester:expr, |$db:ident| $change:expr) => {{
        let pool: &$crate::postgres::pool::Pool = $pool;
        let mut attempts = $crate::postgres::pool::Attempts::default();
        loop {
            let requester = $crate::postgres::fair_queue::Requester::from($requester);
            let access = $crate::postgres::session::Access::Write;
            let session = pool.session(requester, access).await?;
            let done: Result<_, $crate::store::StoreError> = {
                let $db = &session;
                async { $change }.await
            };
            if let Some(done) = pool.finish_write(session, done, &mut attempts).await {
                break done;
            }
        }
    }};
}

pub(super) use {read_transaction, write_transaction};

/// Whether a transaction was already repeated.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    is_repeated: bool,
}

impl Attempts {
    /// Returns whether the transaction may be repeated now.
    fn repeat(&mut self) -> bool {
        !std::mem::replace(&mut self.is_repeated, true)
    }
}

/// A connection of the pool. It is returned on drop.
pub(super) type PooledConnection = Object<Connector>;

/// How many connections are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatus {
    /// The maximum number.
    pub max: usize,
    /// The open ones.
    pub open: usize,
    /// Those that run a transaction.
    pub in_use: usize,
    /// The transactions that wait for one.
    pub waiting: usize,
}

/// The connections of a process.
pub(super) struct Pool {
    connections: managed::Pool<Connector>,
    /// Decides which transaction gets the next connection.
    queue: Arc<FairQueue>,
    options: PostgresOptions,
    /// The URL of the database without the password.
    pub(super) place: String,
}

/// Opens the connections of a pool.
pub(super) struct Connector {
    target: Target,
    /// No connection is attempted before this time.
    paused_until: Mutex<Option<Instant>>,
}

impl managed::Manager for Connector {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        let paused = *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = paused {
            sleep(until.saturating_duration_since(Instant::now())).await;
        }
        // Boxed, since every transaction contains this future.
        let opened = Box::pin(Connection::open(&self.target)).await;
        let failed = matches!(opened, Err(StoreError::Unavailable(_) | StoreError::Connect(_)));
        *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner) =
            failed.then(|| Instant::now() + CONNECT_RETRY_DELAY);
        opened
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<StoreError> {
        if connection.is_open() { Ok(()) } else { Err(RecycleError::message("closed")) }
    }
}

impl Pool {
    /// Creates a pool without connecting.
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let target = options.target()?;
        let place = target.place.clone();
        let connector = Connector { target, paused_until: Mutex::default() };
        let connections = managed::Pool::builder(connector)
            // A permit of the queue is held for each, so that no transaction waits here. A connection
            // attempt has its own timeout.
            .max_size(options.connections.max(1))
            .timeouts(Timeouts { wait: Some(options.acquire_timeout), ..Timeouts::default() })
            // The connection that was used last has the warmest caches.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Engine(error.into()))?;
        let queue = FairQueue::new(Shares::new(options.connections, options.sharing));
        Ok(Self { connections, queue, options: options.clone(), place })
    }

    /// Returns a pool of one connection for statements that may take hours. Their time is not that
    /// of a tenant's requests.
    pub(super) fn for_long_statements(&self) -> Result<Self, StoreError> {
        Self::new(&PostgresOptions {
            connections: 1,
            statement_timeout: MIGRATION_TIMEOUT,
            database_time: None,
            transactions: None,
            ..self.options.clone()
        })
    }

    /// Begins a transaction, after those that are before it in the fair queue.
    pub(super) async fn session(
        &self,
        requester: Requester<'_>,
        access: Access,
    ) -> Result<Session, StoreError> {
        let Requester { queue, tenant } = requester;
        let user = self.connections.manager().target.config.get_user();
        let permit = self.queue.acquire(queue, self.options.acquire_timeout).await?;
        let began = Instant::now();
        let connection = self.connections.get().await.map_err(to_store_error);
        let connection = connection.inspect_err(|error| self.report(Err(error), began))?;
        let kind = connection.pooler().kind();
        let prologue = Prologue::new(tenant, access, &self.options, user, kind);
        let lease = Lease::new(permit, self.options.database_time.as_ref(), began);
        Ok(Session::new(connection, lease, prologue, self.options.statement_timeout))
    }

    /// Returns how many connections are in use.
    pub(super) fn status(&self) -> PoolStatus {
        let connections = self.connections.status();
        let (in_use, waiting) = self.queue.usage();
        PoolStatus { max: connections.max_size, open: connections.size, in_use, waiting }
    }

    /// Reports the outcome of a transaction.
    fn report(&self, outcome: Result<(), &StoreError>, began: Instant) {
        if let Some(sink) = &self.options.transactions {
            sink(outcome, began.elapsed());
        }
    }

    /// Ends a transaction that read. Returns `None` if it has to be repeated.
    pub(super) fn finish_read<T>(
        &self,
        session: Session,
        answer: Result<T, StoreError>,
        attempts: &mut Attempts,
    ) -> Option<Result<T, StoreError>> {
        if answer.is_err() && session.is_lost() {
            self.discard_idle();
            if attempts.repeat() {
                return None;
            }
        }
        self.report(answer.as_ref().map(drop), session.began());
        // Nothing was written, so the end need not be confirmed.
        session.end_without_waiting(end_statement(&answer));
        Some(answer)
    }

    /// Ends a transaction that wrote. Returns `None` if it has to be repeated.
    pub(super) async fn finish_write<T>(
        &self,
        session: Session,
        done: Result<T, StoreError>,
        attempts: &mut Attempts,
    ) -> Option<Result<T, StoreError>> {
        if done.is_err() && session.is_lost() {
            self.discard_idle();
            // The connection broke while idle: the database received nothing of the transaction.
            if !session.has_begun() && attempts.repeat() {
                return None;
            }
        }
        let (transaction, began) = (session.transaction(), session.began());
        let ended = session.end(end_statement(&done)).await;
        let done = match (done, ended) {
            (Ok(done), Ok(())) => Ok(done),
            (Ok(_), Err(end)) if end.lost => {
                Err(self.resolve_lost_commit(&transaction, end.error).await)
            }
            (Ok(_), Err(end)) => Err(end.error),
            // Without a connection the database rolls the transaction back.
            (Err(error), _) => Err(error),
        };
        self.report(done.as_ref().map(drop), began);
        Some(done)
    }

    /// Closes the idle connections: if one broke, most likely all did.
    fn discard_idle(&self) {
        self.connections.retain(|_, _| false);
    }

    /// Determines the outcome of a transaction whose connection broke during the commit. Only the
    /// database knows it, and is queried for as long as a caller waits for a connection.
    ///
    /// "Aborted" is certain. "Committed" is not: a server that crashed before it wrote the
    /// transaction assigns the same id to another one, and reports the status of that.
    async fn resolve_lost_commit(&self, transaction: &str, error: StoreError) -> StoreError {
        let StoreError::Unavailable(cause) = error else { return error };
        let end = Instant::now() + self.options.acquire_timeout.max(self.options.connect_timeout);
        loop {
            match self.transaction_status(transaction).await {
                Ok(Some(status)) if status == "aborted" => return StoreError::Unavailable(cause),
                Ok(Some(status)) if status == "committed" => return StoreError::Unsure(cause),
                // The transaction was never written.
                Err(StoreError::Engine(why)) if is_unknown_transaction(&*why) => {
                    return StoreError::Unavailable(cause);
                }
                _ if Instant::now() >= end => return StoreError::Unsure(cause),
                _ => sleep(STATUS_POLL_INTERVAL).await,
            }
        }
    }

    async fn transaction_status(&self, transaction: &str) -> Result<Option<String>, StoreError> {
        let session = self.session(NO_TENANT.into(), Access::Keys).await?;
        let sql = "SELECT pg_xact_status($1::xid8)";
        let rows = session.query(sql, &[(&transaction, Type::TEXT)]).await;
        session.end_without_waiting("ROLLBACK");
        Ok(rows?.first().and_then(|row| row.get(0)))
    }
}

/// Maps an error of the pool.
fn to_store_error(error: PoolError<StoreError>) -> StoreError {
    match error {
        PoolError::Backend(error) => error,
        PoolError::Timeout(_) => StoreError::Busy,
        other => StoreError::Engine(other.into()),
    }
}

/// Returns the statement that ends the transaction.
fn end_statement<T>(done: &Result<T, StoreError>) -> &'static str {
    if done.is_ok() { "COMMIT" } else { "ROLLBACK" }
}

fn is_unknown_transaction(cause: &(dyn std::error::Error + 'static)) -> bool {
    let error = cause.downcast_ref::<ReportedError>();
    error.map(ReportedError::code) == Some(&SqlState::INVALID_PARAMETER_VALUE)
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("place", &self.place).finish_non_exhaustive()
    }
}
