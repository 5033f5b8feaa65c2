//! TODO module doc

use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use atlatl_memory::{Filter, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::server::ServerInner;
use super::tools::response::ToolError;

// --- Permit: a share of the server's capacity, owned by the work that uses it.
// ---
// --- A client may disconnect while its request waits for a store. Work that has begun on a blocking thread
// --- goes on without it, so a permit is released when that work ends, not when the request does. Otherwise
// --- abandoned requests would pile up threads without bound.

/// Pieces of stored results that are read at a time, by all responses that are being sent.
const MAX_STREAM_READS: usize = 64;

tokio::task_local! {
    /// The permits of the request that the task works on.
    static PERMITS: Arc<Permits>;
}

/// The permits of one request.
struct Permits {
    _server: OwnedSemaphorePermit,
    /// Known only once the request is authenticated.
    tenant: OnceLock<OwnedSemaphorePermit>,
}

/// Runs a request that holds a permit of the server; what it gives to [`blocking`] holds it too.
pub(crate) async fn with_permit<T>(
    server: OwnedSemaphorePermit,
    request: impl Future<Output = T>,
) -> T {
    let permits = Permits { _server: server, tenant: OnceLock::new() };
    PERMITS.scope(Arc::new(permits), request).await
}

/// Adds a permit of the tenant to those of the current request.
pub(crate) fn add_tenant(permit: OwnedSemaphorePermit) {
    // Without a request there is no work that could outlive it.
    let _ = PERMITS.try_with(|permits| permits.tenant.set(permit));
}

/// A blocking task that is not started any more once nothing waits for it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        // Of no effect on work that has begun.
        self.0.abort();
    }
}

/// Runs `work`, which may block, on a thread for that, with the permits of the current request. If the
/// request is dropped before the work began, the work is dropped too.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let permits = PERMITS.try_with(Arc::clone).ok();
    run_holding(permits, work).await
}

/// Reads a piece of a response that is being sent. The request itself has been handled by then, so that
/// it waits for a permit of its own.
pub(crate) async fn stream_read<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    static READS: LazyLock<Arc<Semaphore>> =
        LazyLock::new(|| Arc::new(Semaphore::new(MAX_STREAM_READS)));
    // It is never closed.
    let permit = Arc::clone(&READS).acquire_owned().await.ok();
    run_holding(permit, work).await
}

/// Runs `work`, which holds `permit` until it ends.
pub(crate) async fn run_holding<P: Send + 'static, T: Send + 'static>(
    permit: P,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let mut running = AbortOnDrop(spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    }));
    (&mut running.0).await
}

// --- Quota: how many memories there may be.
// ---
// --- They are counted now and again and not with every write, since counting takes longer than writing: a
// --- tenant may be over by what all servers write in [`COUNT_TTL`].

/// For how long a count is good.
const COUNT_TTL: Duration = Duration::from_secs(10);

/// Room for memories.
#[derive(Default)]
pub(crate) struct MemoryQuota(Mutex<State>);

#[derive(Default)]
struct State {
    max: Option<u64>,
    /// When they were counted, and how many there are with those that came since.
    counted: Option<(Instant, u64)>,
}

impl MemoryQuota {
    /// From now on there may be so many.
    pub(crate) fn set_limit(&self, max: Option<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State { max, counted: None };
    }

    /// Takes a place for one more; how many there may be, if there is none.
    fn take(&self, count: impl FnOnce() -> Result<u64, StoreError>) -> Result<(), ToolError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(max) = state.max else { return Ok(()) };
        let good = state.counted.filter(|(at, _)| at.elapsed() < COUNT_TTL);
        let (at, there) = match good {
            Some(counted) => counted,
            None => (Instant::now(), count()?),
        };
        if there >= max {
            state.counted = Some((at, there));
            return Err(ToolError::QuotaExceeded(max));
        }
        state.counted = Some((at, there + 1));
        Ok(())
    }
}

impl ServerInner {
    /// Whether one more memory may be kept.
    pub(crate) fn reserve_memory(&self) -> Result<(), ToolError> {
        self.quota.take(|| {
            let mut any = Filter::default();
            any.status = None;
            self.store.count(&any, self.now())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_let_in_beyond_the_bound_and_the_store_is_not_asked_each_time() {
        let room = MemoryQuota::default();
        assert!(room.take(|| unreachable!("there is no bound")).is_ok());
        room.set_limit(Some(3));
        let mut asked = 0;
        let mut take = |there| {
            room.take(|| {
                asked += 1;
                Ok(there)
            })
        };
        assert!(take(1).is_ok() && take(9).is_ok());
        assert!(matches!(take(9), Err(ToolError::QuotaExceeded(3))));
        assert_eq!(asked, 1);
        room.set_limit(Some(0));
        assert!(matches!(room.take(|| Ok(0)), Err(ToolError::QuotaExceeded(0))));
        room.set_limit(None);
        assert!(room.take(|| unreachable!("there is no bound")).is_ok());
    }
}
