//! The idle connections of a process, and the permits for new ones.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Connection;
use crate::store::StoreError;

/// The delay before the next attempt after a failed connection attempt.
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The idle connections of a process, and the permits for new ones.
#[derive(Clone)]
pub(in crate::postgres) struct IdleConnections(Arc<Shared>);

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
pub(in crate::postgres) struct ConnectionPermit(Arc<Shared>);

/// An idle connection, or a permit for a new one.
#[expect(clippy::large_enum_variant, reason = "it is moved once")]
pub(in crate::postgres) enum Acquired {
    Idle(Connection),
    /// A permit to open a new connection.
    Permit(ConnectionPermit),
}

impl IdleConnections {
    pub(in crate::postgres) fn new(size: usize) -> Self {
        let state = State { idle: Vec::new(), available: size.max(1), paused_until: None };
        Self(Arc::new(Shared { state: Mutex::new(state), freed: Condvar::new() }))
    }

    /// Waits for an idle connection or a permit.
    pub(in crate::postgres) fn take(&self, timeout: Duration) -> Result<Acquired, StoreError> {
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
    pub(in crate::postgres) fn put(&self, connection: Connection) {
        self.0.lock().idle.push(connection);
        // Wakes one waiter only: it takes the connection even during a pause. Waking hundreds of
        // waiters for nothing would cost more than the query.
        self.0.freed.notify_one();
    }

    /// Delays the next connection attempts after a failure.
    pub(in crate::postgres) fn pause_connecting(&self) {
        self.0.lock().paused_until = Some(Instant::now() + CONNECT_RETRY_DELAY);
    }

    /// Closes all idle connections.
    pub(in crate::postgres) fn clear(&self) {
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
