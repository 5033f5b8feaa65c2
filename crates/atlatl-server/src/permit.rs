//! Permit: a share of the server's capacity, owned by the work that uses it.
//!
//! A client may disconnect while its request waits for a store. Work that has begun on a blocking thread
//! goes on without it, so a permit is released when that work ends, not when the request does. Otherwise
//! abandoned requests would pile up threads without bound.

use std::sync::{Arc, LazyLock, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

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
    holding(permits, work).await
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
    holding(permit, work).await
}

/// Runs `work`, which holds `permit` until it ends.
pub(crate) async fn holding<P: Send + 'static, T: Send + 'static>(
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
