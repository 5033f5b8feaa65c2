//! The connection pool, and transactions that are bound to a tenant.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::Config;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::options::{PostgresOptions, place};
use super::session::{Access, Prologue, Session};
use crate::store::StoreError;

/// The interval between queries for the status of a transaction.
const STATUS_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The delay before the next attempt after a failed connection attempt.
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The connections of a process.
pub(super) struct Pool {
    idle_connections: IdleConnections,
    config: Config,
    options: PostgresOptions,
    /// The URL of the database without the password.
    pub(super) place: String,
}

impl Pool {
    /// Creates a pool without connecting.
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let config = options.config()?;
        let (place, idle_connections) = (place(&config), IdleConnections::new(options.connections));
        Ok(Self { idle_connections, config, options: options.clone(), place })
    }

    /// Runs `query` on a consistent snapshot. If the connection breaks, it runs once more on
    /// another.
    pub(super) fn read<T>(
        &self,
        tenant: &str,
        access: Access,
        query: &impl Fn(&Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut again = true;
        loop {
            let session = self.session(tenant, access)?;
            let answer = query(&session);
            if answer.is_err() && session.is_lost() {
                self.discard_idle();
                if again {
                    again = false;
                    continue;
                }
            }
            // Nothing was written, so the end need not be confirmed.
            if let Some(connection) = session.end_without_waiting(end_statement(&answer)) {
                self.idle_connections.put(connection);
            }
            return answer;
        }
    }

    /// Runs `change` in a transaction that is durable when this returns `Ok`, and rolled back
    /// otherwise.
    pub(super) fn write<T>(
        &self,
        tenant: &str,
        mut change: impl FnMut(&Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut again = true;
        loop {
            let session = self.session(tenant, Access::Write)?;
            let done = change(&session);
            if done.is_err() && session.is_lost() {
                self.discard_idle();
            }
            // The connection broke while idle: the database received nothing of the transaction.
            if done.is_err() && session.is_lost() && !session.has_begun() && again {
                again = false;
                continue;
            }
            let transaction = session.transaction();
            let ended = session.end(end_statement(&done));
            return match (done, ended) {
                (Ok(done), Ok(connection)) => {
                    self.idle_connections.put(connection);
                    Ok(done)
                }
                (Ok(_), Err(end)) if end.lost => {
                    Err(self.resolve_lost_commit(&transaction, end.error))
                }
                (Ok(_), Err(end)) => Err(end.error),
                (Err(error), Ok(connection)) => {
                    self.idle_connections.put(connection);
                    Err(error)
                }
                // Without a connection the database rolls the transaction back.
                (Err(error), Err(_)) => Err(error),
            };
        }
    }

    /// Closes the idle connections: if one broke, most likely all did.
    fn discard_idle(&self) {
        self.idle_connections.clear();
    }

    fn session(&self, tenant: &str, access: Access) -> Result<Session, StoreError> {
        let opening = Prologue::new(tenant, access, &self.options, self.config.get_user());
        Ok(Session::new(self.connection()?, opening, self.options.statement_timeout))
    }

    fn connection(&self) -> Result<Connection, StoreError> {
        let permit = loop {
            match self.idle_connections.take(self.options.acquire_timeout)? {
                Acquired::Idle(connection) if connection.is_open() => return Ok(connection),
                Acquired::Idle(_) => {}
                Acquired::Permit(permit) => break permit,
            }
        };
        let opened = Connection::open(&self.config, permit);
        if matches!(opened, Err(StoreError::Unavailable(_))) {
            self.idle_connections.pause_connecting();
        }
        opened
    }

    /// Determines the outcome of a transaction whose connection broke during the commit. Only the
    /// database knows it, and is queried for as long as a caller waits for a connection.
    ///
    /// "Aborted" is certain. "Committed" is not: a server that crashed before it wrote the
    /// transaction assigns the same id to another one, and reports the status of that.
    fn resolve_lost_commit(&self, transaction: &str, error: StoreError) -> StoreError {
        let StoreError::Unavailable(cause) = error else { return error };
        let end = Instant::now() + self.options.acquire_timeout.max(self.options.connect_timeout);
        loop {
            match self.status(transaction) {
                Ok(Some(status)) if status == "aborted" => return StoreError::Unavailable(cause),
                Ok(Some(status)) if status == "committed" => return StoreError::Unsure(cause),
                // The transaction was never written.
                Err(StoreError::Engine(why)) if is_unknown_transaction(&*why) => {
                    return StoreError::Unavailable(cause);
                }
                _ if Instant::now() >= end => return StoreError::Unsure(cause),
                _ => thread::sleep(STATUS_POLL_INTERVAL),
            }
        }
    }

    fn status(&self, transaction: &str) -> Result<Option<String>, StoreError> {
        // No tenant has this name, so no rows are visible.
        let session = self.session("", Access::Keys)?;
        let sql = "SELECT pg_xact_status($1::xid8)";
        let rows = session.query(sql, &[(&transaction, Type::TEXT)]);
        if let Some(connection) = session.end_without_waiting("ROLLBACK") {
            self.idle_connections.put(connection);
        }
        Ok(rows?.first().and_then(|row| row.get(0)))
    }
}

/// Returns the statement that ends the transaction.
fn end_statement<T>(done: &Result<T, StoreError>) -> &'static str {
    if done.is_ok() { "COMMIT" } else { "ROLLBACK" }
}

fn is_unknown_transaction(cause: &(dyn std::error::Error + 'static)) -> bool {
    let error = cause.downcast_ref::<tokio_postgres::Error>();
    error.and_then(tokio_postgres::Error::code) == Some(&SqlState::INVALID_PARAMETER_VALUE)
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.idle_connections.clear();
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The idle connections of a process, and the permits for new ones.
#[derive(Clone)]
pub(super) struct IdleConnections(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Signals that a connection was returned or closed.
    freed: Condvar,
}

struct State {
    idle: Vec<Connection>,
    /// The number of connections that may still be opened.
    available: usize,
    /// No connection is attempted before this time.
    paused_until: Option<Instant>,
}

/// A permit for one connection, released on drop.
pub(super) struct ConnectionPermit(Arc<Shared>);

/// An idle connection, or a permit for a new one.
#[expect(clippy::large_enum_variant, reason = "it is moved once")]
pub(super) enum Acquired {
    Idle(Connection),
    /// A permit to open a new connection.
    Permit(ConnectionPermit),
}

impl IdleConnections {
    pub(super) fn new(size: usize) -> Self {
        let state = State { idle: Vec::new(), available: size.max(1), paused_until: None };
        Self(Arc::new(Shared { state: Mutex::new(state), freed: Condvar::new() }))
    }

    /// Waits for an idle connection or a permit.
    pub(super) fn take(&self, timeout: Duration) -> Result<Acquired, StoreError> {
        let end = Instant::now() + timeout;
        let mut state = self.0.lock();
        loop {
            if let Some(connection) = state.idle.pop() {
                return Ok(Acquired::Idle(connection));
            }
            let now = Instant::now();
            let paused = state.paused_until.filter(|until| now < *until);
            if state.available > 0 && paused.is_none() {
                state.available -= 1;
                return Ok(Acquired::Permit(ConnectionPermit(Arc::clone(&self.0))));
            }
            if now >= end {
                return Err(StoreError::Busy);
            }
            let wake = paused.filter(|_| state.available > 0).map_or(end, |until| until.min(end));
            let waited = self.0.freed.wait_timeout(state, wake - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns a connection without an open transaction.
    pub(super) fn put(&self, connection: Connection) {
        self.0.lock().idle.push(connection);
        // Wakes one waiter only: it takes the connection even during a pause. Waking hundreds of
        // waiters for nothing would cost more than the query.
        self.0.freed.notify_one();
    }

    /// Delays the next connection attempts after a failure.
    pub(super) fn pause_connecting(&self) {
        self.0.lock().paused_until = Some(Instant::now() + CONNECT_RETRY_DELAY);
    }

    /// Closes all idle connections.
    pub(super) fn clear(&self) {
        // Dropping a connection releases its permit, which needs the lock.
        let idle = std::mem::take(&mut self.0.lock().idle);
        drop(idle);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.lock().available += 1;
        // Wakes all waiters, because a single one may be waiting for the end of a pause.
        self.0.freed.notify_all();
    }
}
