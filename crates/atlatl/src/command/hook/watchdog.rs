//! Ends the process with status 0 when it waits too long, whatever its other threads do.

use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::stall::{CHECK_INTERVAL, StallTimer};

/// A thread that ends the process at a deadline, or earlier if it has stopped working.
pub(super) struct Watchdog {
    allowance: Duration,
    limits: Arc<Mutex<Limits>>,
}

struct Limits {
    deadline: Instant,
    stall: StallTimer,
}

impl Watchdog {
    /// Starts the thread. The process ends after `allowance`.
    pub(super) fn start(allowance: Duration) -> Self {
        let limits = Arc::new(Mutex::new(Limits::new(allowance)));
        let shared = Arc::clone(&limits);
        let thread = thread::Builder::new().name("watchdog".to_owned());
        if thread.spawn(move || watch(&shared, allowance)).is_err() {
            // Without the thread the agent could wait forever.
            process::exit(0);
        }
        Self { allowance, limits }
    }

    /// Starts the allowance again.
    pub(super) fn restart(&self) {
        *lock(&self.limits) = Limits::new(self.allowance);
    }

    /// Moves the deadline, for as long as the process works: after the allowance without work, it ends.
    pub(super) fn extend(&self, by: Duration) {
        lock(&self.limits).deadline += by;
    }

    /// Runs `work`, during which the process does not end.
    pub(super) fn exclude(&self, work: impl FnOnce()) {
        let _held = lock(&self.limits);
        work();
    }
}

impl Limits {
    fn new(allowance: Duration) -> Self {
        Self { deadline: Instant::now() + allowance, stall: StallTimer::start() }
    }
}

fn lock(limits: &Mutex<Limits>) -> MutexGuard<'_, Limits> {
    limits.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(limits: &Mutex<Limits>, allowance: Duration) {
    loop {
        let mut held = lock(limits);
        let left = held.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || held.stall.elapsed() >= allowance {
            // The lock is still held: nothing is printed from here on.
            process::exit(0);
        }
        drop(held);
        thread::sleep(left.min(CHECK_INTERVAL));
    }
}
