//! Pool: connections, and transactions on them that know their tenant.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, RecyclingMethod, Runtime as Timers};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::error::no_connection;
use super::opening::{Access, Opening};
use super::options::{PostgresOptions, place};
use super::session::Session;
use crate::store::StoreError;

/// How often is asked what became of a transaction.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The connections of a process.
pub(super) struct Pool {
    /// Drives the connections. Two threads: one connection's burst does not hold up all others.
    runtime: Option<Runtime>,
    connections: deadpool_postgres::Pool,
    options: PostgresOptions,
    /// Which database, without a password.
    pub(super) place: String,
}

impl Pool {
    /// Connects to nothing yet.
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let config = options.config()?;
        let place = place(&config);
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Engine(error.into()))?;
        // A closed connection is seen without asking it; one that is found out later is replaced.
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config, NoTls, how);
        let connections = deadpool_postgres::Pool::builder(manager)
            .max_size(options.connections)
            .runtime(Timers::Tokio1)
            .wait_timeout(Some(options.acquire_timeout))
            .create_timeout(Some(options.connect_timeout))
            .recycle_timeout(Some(options.connect_timeout))
            .build()
            .map_err(|error| StoreError::Engine(error.into()))?;
        Ok(Self { runtime: Some(runtime), connections, options: options.clone(), place })
    }

    /// Waits for `future` on the calling thread.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let runtime = self.runtime.as_ref().expect("there until it is dropped");
        let _inside = runtime.enter();
        // `block_on` of a runtime panics on a thread of another one. There, too, a budget would be
        // counted that is never filled up again.
        pollster::block_on(tokio::task::unconstrained(future))
    }

    /// Runs `ask` on the state of one moment. Where the connection breaks, once more on another.
    pub(super) fn read<T>(
        &self,
        tenant: &str,
        ask: &impl AsyncFn(&Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.wait(async {
            let mut again = true;
            loop {
                let mut session = self.session(tenant, Access::Read).await?;
                let answer = ask(&session).await;
                // Nothing was written: whether the end is heard is all the same.
                session.leave(if answer.is_ok() { "COMMIT" } else { "ROLLBACK" });
                if answer.is_err() && session.is_lost() && again {
                    again = false;
                    continue;
                }
                return answer;
            }
        })
    }

    /// Runs `change` in a transaction that is durable when this returns `Ok`, and is undone else.
    pub(super) fn write<T>(
        &self,
        tenant: &str,
        mut change: impl AsyncFnMut(&Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.wait(async {
            let mut again = true;
            let (mut session, done) = loop {
                let mut session = self.session(tenant, Access::Write).await?;
                match change(&session).await {
                    Ok(done) => break (session, done),
                    // It broke while nobody used it: not even the beginning was heard of.
                    Err(_) if session.is_lost() && !session.is_begun() && again => again = false,
                    Err(error) => {
                        // Without a connection the database does so by itself.
                        session.end("ROLLBACK").await.ok();
                        return Err(error);
                    }
                }
            };
            match session.end("COMMIT").await {
                Ok(()) => Ok(done),
                Err(error) if session.is_lost() => {
                    Err(self.fate(&session.transaction(), error).await)
                }
                Err(error) => Err(error),
            }
        })
    }

    async fn session(&self, tenant: &str, access: Access) -> Result<Session, StoreError> {
        let connection: Object = self.connections.get().await.map_err(no_connection)?;
        let opening = Opening::new(tenant, access, &self.options);
        Ok(Session::new(connection, opening, &self.options))
    }

    /// The connection broke while a transaction was to be made durable: only the database knows
    /// whether it was. It is asked, for as long as is waited for a connection anyway.
    ///
    /// "Aborted" is certain. "Committed" is not: a server that crashed before it wrote anything down
    /// gives the same number to another transaction, and says what became of that.
    async fn fate(&self, transaction: &str, error: StoreError) -> StoreError {
        let StoreError::Unavailable(cause) = error else { return error };
        let end = Instant::now() + self.options.acquire_timeout.max(self.options.connect_timeout);
        loop {
            match self.status(transaction).await {
                Ok(Some(status)) if status == "aborted" => return StoreError::Unavailable(cause),
                Ok(Some(status)) if status == "committed" => return StoreError::Unsure(cause),
                // Nothing was written of such a transaction.
                Err(StoreError::Engine(why)) if is_in_the_future(&*why) => {
                    return StoreError::Unavailable(cause);
                }
                _ if Instant::now() >= end => return StoreError::Unsure(cause),
                _ => sleep(ASK_AGAIN).await,
            }
        }
    }

    async fn status(&self, transaction: &str) -> Result<Option<String>, StoreError> {
        // No tenant is like this, so nothing can be seen but what is asked for.
        let mut session = self.session("", Access::Read).await?;
        let asked = "SELECT pg_xact_status($1::xid8)";
        let rows = session.query(asked, &[(&transaction, Type::TEXT)]).await;
        session.leave("ROLLBACK");
        Ok(rows?.first().and_then(|row| row.get(0)))
    }
}

fn is_in_the_future(cause: &(dyn std::error::Error + 'static)) -> bool {
    let error = cause.downcast_ref::<tokio_postgres::Error>();
    error.and_then(tokio_postgres::Error::code) == Some(&SqlState::INVALID_PARAMETER_VALUE)
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.connections.close();
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads would panic on a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("place", &self.place).finish_non_exhaustive()
    }
}
