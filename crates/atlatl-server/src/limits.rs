//! Capacity limits: permits owned by the work that uses them, and the memory quota.
//!
//! A client may disconnect while its request waits for a store. Work that has started on a blocking
//! thread continues, so a permit is released when that work ends, not when the request does.
//! Otherwise abandoned requests would accumulate threads without bound.
//!
//! Memories are counted periodically and not with every write, since counting takes longer than
//! writing. A tenant may exceed its quota by what all servers write within [`COUNT_TTL`].

use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use atlatl_memory::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::tools::response::ToolError;

/// The maximum number of concurrent reads of stored results by all responses.
const MAX_STREAM_READS: usize = 64;
/// How long a count is used.
const COUNT_TTL: Duration = Duration::from_secs(10);

tokio::task_local! {
    /// The permits of the current request.
    static PERMITS: Arc<Permits>;
}

/// The permits of one request.
struct Permits {
    _server: OwnedSemaphorePermit,
    /// Set after authentication.
    tenant: OnceLock<OwnedSemaphorePermit>,
}

/// Runs a request that holds a permit of the server. Work that it passes to [`blocking`] holds the
/// permit too.
pub(crate) async fn with_permit<T>(
    server: OwnedSemaphorePermit,
    request: impl Future<Output = T>,
) -> T {
    let permits = Permits { _server: server, tenant: OnceLock::new() };
    PERMITS.scope(Arc::new(permits), request).await
}

/// Adds a permit of the tenant to the current request.
pub(crate) fn add_tenant(permit: OwnedSemaphorePermit) {
    // Without a request there is no work that could outlive it.
    let _ = PERMITS.try_with(|permits| permits.tenant.set(permit));
}

/// A blocking task that is not started if its caller is gone.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        // Has no effect on work that has started.
        self.0.abort();
    }
}

/// Runs `work` on a blocking thread with the permits of the current request. If the request is
/// dropped before the work starts, the work is dropped too.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let permits = PERMITS.try_with(Arc::clone).ok();
    run_holding(permits, work).await
}

/// Reads a chunk of a response body. The request has been handled by then, so the read waits for
/// its own permit.
pub(crate) async fn stream_read<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    static READS: LazyLock<Arc<Semaphore>> =
        LazyLock::new(|| Arc::new(Semaphore::new(MAX_STREAM_READS)));
    // The semaphore is never closed.
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

/// A limit on the number of memories.
#[derive(Default)]
pub(crate) struct MemoryQuota(Mutex<State>);

#[derive(Default)]
struct State {
    max: Option<u64>,
    /// The time of the count, and the count with the memories added since.
    counted: Option<(Instant, u64)>,
}

impl MemoryQuota {
    /// Sets the limit.
    pub(crate) fn set_limit(&self, max: Option<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State { max, counted: None };
    }

    /// Reserves one memory. Fails with the limit if it is reached.
    pub(crate) fn take(
        &self,
        count: impl FnOnce() -> Result<u64, StoreError>,
    ) -> Result<(), ToolError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_is_enforced_and_the_store_is_not_counted_each_time() {
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
