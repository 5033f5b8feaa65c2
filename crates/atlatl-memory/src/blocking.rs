//! Work that may outlive the call that started it: on blocking threads, and in a database until a
//! statement is canceled.

use std::any::Any;
use std::sync::Arc;

use tokio::task::{JoinError, JoinHandle, spawn_blocking};

tokio::task_local! {
    /// The guard of the current call.
    static GUARD: WorkGuard;
}

/// Something that work keeps until it has ended, such as a permit.
pub type WorkGuard = Arc<dyn Any + Send + Sync>;

/// Runs `call`. All work that it starts keeps `guard` until the work has ended, even if the call was
/// dropped before that.
pub async fn with_work_guard<T>(guard: WorkGuard, call: impl Future<Output = T>) -> T {
    let guard = match current_guard() {
        Some(outer) => Arc::new((guard, outer)),
        None => guard,
    };
    GUARD.scope(guard, call).await
}

/// Returns the guard for work of the current call.
pub(crate) fn current_guard() -> Option<WorkGuard> {
    GUARD.try_with(Arc::clone).ok()
}

/// Runs `work` on a blocking thread. Work that has started is completed even if the caller is gone.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    join(&mut spawn(work)).await
}

/// Starts `work` on a blocking thread.
pub(crate) fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let guard = current_guard();
    spawn_blocking(move || {
        let done = work();
        drop(guard);
        done
    })
}

/// Waits for `work`. A panic in it continues in the caller. Fails if the runtime shuts down.
pub(crate) async fn join<T>(work: &mut JoinHandle<T>) -> Result<T, JoinError> {
    work.await.map_err(|failed| match failed.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(cancelled) => cancelled,
    })
}
