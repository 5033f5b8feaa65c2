//! What a server knows of its own health, for probes.
//!
//! A probe must be answered at once, also while the store blocks or the server is overloaded. So a task of
//! the server checks the store periodically, and a probe reads the last result. If that task does not run
//! any more, the probe says so.
//!
//! A store that hangs fails no call for as long as statements may take, so that the check reports it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::admission::Tenants;
use crate::dependency::Dependency;

/// The interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The timeout of a check.
const CHECK_TIMEOUT: Duration = Duration::from_millis(800);
/// The number of checks without an answer, one after the other, from which the store hangs. One alone may
/// be due to an overloaded machine.
const MAX_UNANSWERED_CHECKS: u32 = 3;
/// The age of the last check from which the server is not ready.
const MAX_READY_AGE: Duration = Duration::from_secs(5);
/// The age of the last check from which the server is dead. An overloaded one is only slow.
const MAX_LIVE_AGE: Duration = Duration::from_secs(30);

/// The health of a server.
#[derive(Debug)]
pub(super) struct Health {
    started: Instant,
    stopping: Arc<AtomicBool>,
    store: AtomicU8,
    /// The time of the last check, in milliseconds since the start.
    checked: AtomicU64,
}

/// Whether a server is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    Starting,
    ShuttingDown,
    StoreUnavailable,
    /// The task that checks the store does not run.
    Stalled,
}

const UNKNOWN: u8 = 0;
const READY: u8 = 1;
const UNAVAILABLE: u8 = 2;

impl Health {
    pub(super) fn new(stopping: Arc<AtomicBool>) -> Self {
        Self {
            started: Instant::now(),
            stopping,
            store: AtomicU8::new(UNKNOWN),
            checked: AtomicU64::new(0),
        }
    }

    /// Checks the store until it is dropped. If it hangs, that is reported to `dependency`.
    pub(super) async fn watch(
        self: Arc<Self>,
        tenants: Arc<dyn Tenants>,
        dependency: Option<Arc<Dependency>>,
    ) {
        let mut unanswered = 0;
        loop {
            let checked = timeout(CHECK_TIMEOUT, tenants.ready()).await;
            self.set(matches!(checked, Ok(Ok(()))), self.started.elapsed());
            unanswered = if checked.is_err() { unanswered + 1 } else { 0 };
            if unanswered >= MAX_UNANSWERED_CHECKS
                && let Some(dependency) = &dependency
            {
                dependency.failed(&"no answer to a health check", CHECK_TIMEOUT);
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    fn set(&self, ready: bool, at: Duration) {
        self.store.store(if ready { READY } else { UNAVAILABLE }, Ordering::Relaxed);
        self.checked.store(u64::try_from(at.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn readiness(&self) -> Readiness {
        self.readiness_at(self.started.elapsed())
    }

    fn readiness_at(&self, now: Duration) -> Readiness {
        if self.stopping.load(Ordering::Relaxed) {
            return Readiness::ShuttingDown;
        }
        match self.store.load(Ordering::Relaxed) {
            UNKNOWN if self.age(now) <= MAX_READY_AGE => Readiness::Starting,
            _ if self.age(now) > MAX_READY_AGE => Readiness::Stalled,
            READY => Readiness::Ready,
            _ => Readiness::StoreUnavailable,
        }
    }

    /// Whether the server still runs its tasks.
    pub(super) fn is_live(&self) -> bool {
        self.age(self.started.elapsed()) <= MAX_LIVE_AGE
    }

    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.checked.load(Ordering::Relaxed)))
    }
}

impl Readiness {
    /// The message for a probe.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Ready => "ok",
            Self::Starting => "server is starting",
            Self::ShuttingDown => "server is shutting down",
            Self::StoreUnavailable => "memory store is unavailable",
            Self::Stalled => "server does not respond",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g44_readiness_is_that_of_the_last_check_unless_it_is_old() {
        let stopping = Arc::new(AtomicBool::new(false));
        let health = Health::new(Arc::clone(&stopping));
        let at = |millis| health.readiness_at(Duration::from_millis(millis));
        assert_eq!(at(0), Readiness::Starting);
        assert_eq!(at(5001), Readiness::Stalled);
        health.set(true, Duration::from_secs(10));
        assert_eq!(at(10_000), Readiness::Ready);
        assert_eq!(at(15_000), Readiness::Ready);
        assert_eq!(at(15_001), Readiness::Stalled);
        health.set(false, Duration::from_secs(16));
        assert_eq!(at(16_500), Readiness::StoreUnavailable);
        stopping.store(true, Ordering::Relaxed);
        assert_eq!(at(16_500), Readiness::ShuttingDown);
    }
}
