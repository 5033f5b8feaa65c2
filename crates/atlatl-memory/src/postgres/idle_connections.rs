//! Idle connections of the pool, and permits for new ones.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;
use crate::store::StoreError;

/// After the database let nobody in, the next try is not sooner.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections of a process that nobody uses just now.
#[derive(Clone)]
pub(super) struct IdleConnections(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Someone gave a connection back, or closed one.
    freed: Condvar,
}

struct State {
    idle: Vec<Connection>,
    /// How many more may be made.
    free: usize,
    /// Until then nobody tries to connect.
    pause: Option<Instant>,
}

/// Room for one connection, until it is dropped.
pub(super) struct Slot(Arc<Shared>);

/// What there is for one who wants a connection.
#[expect(clippy::large_enum_variant, reason = "it is moved once")]
pub(super) enum Found {
    Idle(Connection),
    /// Room for a new one.
    Room(Slot),
}

impl IdleConnections {
    pub(super) fn new(size: usize) -> Self {
        let state = State { idle: Vec::new(), free: size.max(1), pause: None };
        Self(Arc::new(Shared { state: Mutex::new(state), freed: Condvar::new() }))
    }

    /// A connection or room for one, as soon as there is either.
    pub(super) fn take(&self, patience: Duration) -> Result<Found, StoreError> {
        let end = Instant::now() + patience;
        let mut state = self.0.lock();
        loop {
            if let Some(connection) = state.idle.pop() {
                return Ok(Found::Idle(connection));
            }
            let now = Instant::now();
            let paused = state.pause.filter(|pause| now < *pause);
            if state.free > 0 && paused.is_none() {
                state.free -= 1;
                return Ok(Found::Room(Slot(Arc::clone(&self.0))));
            }
            if now >= end {
                return Err(StoreError::Busy);
            }
            let wake = paused.filter(|_| state.free > 0).map_or(end, |pause| pause.min(end));
            let waited = self.0.freed.wait_timeout(state, wake - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives a connection back on which nothing is open.
    pub(super) fn put(&self, connection: Connection) {
        self.0.lock().idle.push(connection);
        // One alone: whoever wakes takes it, pause or not. Hundreds may be waiting, and to wake them all
        // for nothing costs more than what the connection is wanted for.
        self.0.freed.notify_one();
    }

    /// The database let nobody in: whoever comes next waits a little before they try.
    pub(super) fn pause(&self) {
        self.0.lock().pause = Some(Instant::now() + PAUSE);
    }

    /// Closes all that lie here.
    pub(super) fn clear(&self) {
        // Each gives its room back, which needs the lock.
        let idle = std::mem::take(&mut self.0.lock().idle);
        drop(idle);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.lock().free += 1;
        // Not one alone: that one may be waiting for a pause to end.
        self.0.freed.notify_all();
    }
}
