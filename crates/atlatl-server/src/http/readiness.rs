//! The readiness check, `GET /readyz`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atlatl_memory::with_work_guard;
use axum::extract::State;
use axum::http::StatusCode;
use lro_http::Problem;
use tokio::sync::Semaphore;

use super::admission::HttpState;

/// The timeout of a readiness check.
const READY_TIMEOUT: Duration = Duration::from_millis(800);

/// Runs the checks one at a time, so that they do not pile up when the store blocks.
///
/// A request that waited uses the result of another check if that began after the request arrived.
/// Any number of concurrent requests therefore takes the time of two checks.
pub(super) struct Readiness {
    permit: Arc<Semaphore>,
    /// When the last check began, and whether the store was ready.
    last: Mutex<Option<(Instant, bool)>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { permit: Arc::new(Semaphore::new(1)), last: Mutex::default() }
    }
}

impl Readiness {
    /// Returns whether the store is ready. `check` is awaited unless another check is recent enough.
    async fn is_ready<E>(&self, check: impl Future<Output = Result<(), E>>) -> bool {
        let arrived_at = Instant::now();
        // The semaphore is never closed. The permit belongs to the check until it has ended.
        let permit = Arc::new(Arc::clone(&self.permit).acquire_owned().await.ok());
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, ready)) = last.filter(|(began_at, _)| *began_at >= arrived_at) {
            return ready;
        }
        let began_at = Instant::now();
        let ready = with_work_guard(Arc::clone(&permit) as _, check).await.is_ok();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((began_at, ready));
        ready
    }
}

pub(super) async fn ready(State(state): State<HttpState>) -> Result<&'static str, Problem> {
    let message = |message: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, message);
    if state.stopping.load(Ordering::Relaxed) {
        return Err(message("server is shutting down"));
    }
    // No longer than an orchestrator would wait.
    let checked =
        tokio::time::timeout(READY_TIMEOUT, state.readiness.is_ready(state.tenants.ready()));
    match checked.await {
        Ok(true) => Ok("ok\n"),
        _ => Err(message("memory store is unavailable")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn g42_concurrent_requests_share_a_check_that_began_after_they_arrived() {
        let (readiness, checks) = (Arc::new(Readiness::default()), Arc::new(AtomicUsize::new(0)));
        let begin = || {
            let (readiness, checks) = (Arc::clone(&readiness), Arc::clone(&checks));
            tokio::spawn(async move {
                let check = async {
                    checks.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                    Ok::<(), ()>(())
                };
                readiness.is_ready(check).await
            })
        };
        let requests: Vec<_> = (0..100).map(|_| begin()).collect();
        for request in requests {
            assert!(request.await.unwrap());
        }
        let after_many = checks.load(Ordering::Relaxed);
        assert!((1..=2).contains(&after_many), "{after_many} checks");
        // A later request is not answered by a check that began before it.
        assert!(begin().await.unwrap());
        assert_eq!(checks.load(Ordering::Relaxed), after_many + 1);
        assert!(!readiness.is_ready(async { Err(()) }).await);
    }
}
