//! Periodic background tasks, such as `offload_cleanup`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::offloader::Offloader;

/// Spec L2: how often it runs by default.
pub const CLEANUP_INTERVAL: Duration = Duration::from_hours(1);

/// Sweeps at once and then at every interval, until it is dropped; dropping it waits for a sweep
/// that is under way.
#[derive(Debug)]
pub struct MaintenanceTask {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MaintenanceTask {
    /// Starts to sweep for `offloader`. `clock` says what time it is.
    pub fn start(
        offloader: Arc<Offloader>,
        interval: Duration,
        clock: impl Fn() -> DateTime<Utc> + Send + 'static,
    ) -> std::io::Result<Self> {
        // What cannot be swept now is tried again at the next interval.
        Self::every(interval, move || drop(offloader.sweep(clock())))
    }

    /// Calls `sweep` at once and then at every interval.
    pub fn every(interval: Duration, sweep: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread =
            std::thread::Builder::new().name("offload_cleanup".to_owned()).spawn(move || {
                loop {
                    // One that panicked is tried again at the next interval.
                    let _ = catch_unwind(AssertUnwindSafe(&sweep));
                    if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
            })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MaintenanceTask {
    fn drop(&mut self) {
        // The thread wakes when the sender goes.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A sweep that panicked has nothing left to clean up here.
            let _ = thread.join();
        }
    }
}
