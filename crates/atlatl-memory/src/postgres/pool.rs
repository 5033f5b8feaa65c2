//! The connection pool, and transactions that are bound to a tenant.

use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::Config;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::{Acquired, Connection, IdleConnections};
use super::options::{PostgresOptions, place};
use super::session::{Access, Prologue, Session};
use crate::store::StoreError;

/// The interval between queries for the status of a transaction.
const STATUS_POLL_INTERVAL: Duration = Duration::from_millis(50);

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
