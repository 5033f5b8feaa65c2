//! Services that the server depends on: their calls, and one line of the log when one fails and when it
//! recovers.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::http::Metrics;

/// How long calls must succeed until a dependency has recovered: while one fails, some calls may succeed.
const RECOVERY_TIME: Duration = Duration::from_secs(3);

/// A service such as the database, with the state that its last calls show.
pub struct Dependency {
    name: &'static str,
    metrics: Arc<Metrics>,
    outage: Arc<Mutex<Option<Outage>>>,
}

/// A time in which calls failed.
#[derive(Debug, Clone, Copy)]
struct Outage {
    began: Instant,
    last_failure: Instant,
    failures: u64,
    /// Whether a call succeeded after the last failure.
    is_answered: bool,
}

impl Dependency {
    /// A dependency that works. The name is a label of metrics.
    pub fn new(name: &'static str, metrics: Arc<Metrics>) -> Self {
        metrics.set_dependency(name, true);
        let outage = Arc::<Mutex<Option<Outage>>>::default();
        // The next call may be an hour away.
        let sampled = Arc::clone(&outage);
        metrics.add_sampler(move |metrics| end_outage(name, &sampled, metrics, Instant::now()));
        Self { name, metrics, outage }
    }

    /// Records a call that the service answered, with whatever answer.
    pub fn answered(&self, took: Duration) {
        self.metrics.dependency_call(self.name, true, took);
        self.answered_at(Instant::now());
    }

    fn answered_at(&self, now: Instant) {
        if let Some(outage) = &mut *lock(&self.outage) {
            outage.is_answered = true;
        }
        end_outage(self.name, &self.outage, &self.metrics, now);
    }

    /// Records a call that failed. `error` must not contain credentials or contents.
    pub fn failed(&self, error: &dyn Display, took: Duration) {
        self.metrics.dependency_call(self.name, false, took);
        self.failed_at(error, Instant::now());
    }

    fn failed_at(&self, error: &dyn Display, now: Instant) {
        let mut outage = lock(&self.outage);
        if let Some(outage) = &mut *outage {
            outage.last_failure = now;
            outage.failures += 1;
            outage.is_answered = false;
            return;
        }
        let (began, last_failure) = (now, now);
        *outage = Some(Outage { began, last_failure, failures: 1, is_answered: false });
        drop(outage);
        self.metrics.set_dependency(self.name, false);
        tracing::warn!(dependency = self.name, error = %error, "{} is unavailable", self.name);
    }
}

/// Ends an outage if calls have succeeded for long enough.
fn end_outage(name: &str, outage: &Mutex<Option<Outage>>, metrics: &Metrics, now: Instant) {
    let is_over =
        |outage: &Outage| outage.is_answered && now >= outage.last_failure + RECOVERY_TIME;
    let Some(ended) = lock(outage).take_if(|outage| is_over(outage)) else { return };
    metrics.set_dependency(name, true);
    tracing::info!(
        dependency = name,
        failed_calls = ended.failures,
        outage_seconds = (ended.last_failure - ended.began).as_secs_f64(),
        "{name} is available again"
    );
}

fn lock(outage: &Mutex<Option<Outage>>) -> MutexGuard<'_, Option<Outage>> {
    outage.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g43_an_outage_begins_with_the_first_failure_and_ends_after_a_while_without() {
        let dependency = Dependency::new("bucket", Arc::default());
        let is_out = || dependency.outage.lock().unwrap().is_some();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        dependency.answered_at(at(0));
        assert!(!is_out());
        dependency.failed_at(&"refused", at(1));
        dependency.failed_at(&"refused", at(5));
        assert_eq!(dependency.outage.lock().unwrap().unwrap().failures, 2);
        // One of several connections still works.
        dependency.answered_at(at(7));
        assert!(is_out());
        dependency.answered_at(at(8));
        assert!(!is_out());
    }

    #[test]
    fn g43_a_call_that_succeeded_ends_an_outage_without_another_one() {
        let metrics = Arc::<Metrics>::default();
        let dependency = Dependency::new("bucket", Arc::clone(&metrics));
        let start = Instant::now();
        let ended = |seconds| {
            end_outage(
                "bucket",
                &dependency.outage,
                &metrics,
                start + Duration::from_secs(seconds),
            );
            dependency.outage.lock().unwrap().is_none()
        };
        dependency.failed_at(&"timeout", start);
        assert!(!ended(60), "no call succeeded since");
        dependency.answered_at(start + Duration::from_secs(1));
        assert!(!ended(2));
        assert!(ended(3));
    }
}
