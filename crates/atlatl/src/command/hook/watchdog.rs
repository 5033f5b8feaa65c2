//! Ends the process with status 0 at a deadline, whatever the other threads wait for.

use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A thread that ends the process at a deadline.
pub(super) struct Watchdog {
    allowance: Duration,
    deadline: Arc<Mutex<Instant>>,
}

impl Watchdog {
    /// Starts the thread. The process ends after `allowance`.
    pub(super) fn start(allowance: Duration) -> Self {
        let deadline = Arc::new(Mutex::new(Instant::now() + allowance));
        let shared = Arc::clone(&deadline);
        let thread = thread::Builder::new().name("watchdog".to_owned());
        if thread.spawn(move || watch(&shared)).is_err() {
            // Without the thread the agent could wait forever.
            process::exit(0);
        }
        Self { allowance, deadline }
    }

    /// Starts the allowance again.
    pub(super) fn restart(&self) {
        *lock(&self.deadline) = Instant::now() + self.allowance;
    }

    /// Moves the deadline.
    pub(super) fn extend(&self, by: Duration) {
        *lock(&self.deadline) += by;
    }

    /// Runs `work`, during which the process does not end.
    pub(super) fn exclude(&self, work: impl FnOnce()) {
        let _held = lock(&self.deadline);
        work();
    }
}

fn lock(deadline: &Mutex<Instant>) -> MutexGuard<'_, Instant> {
    deadline.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(deadline: &Mutex<Instant>) {
    loop {
        let held = lock(deadline);
        let left = held.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // The lock is still held: nothing is printed from here on.
            process::exit(0);
        }
        drop(held);
        thread::sleep(left);
    }
}
