//! Tells a process that works from one that waits: for a disk, a lock or another process.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How often to ask.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(25);
/// Less processor time between two checks is that of the check.
const MIN_WORK: Duration = Duration::from_millis(1);

/// Measures how long the process has used no processor time.
pub(crate) struct StallTimer {
    processor_time: Duration,
    last_work: Instant,
}

impl StallTimer {
    /// Begins now.
    pub(crate) fn start() -> Self {
        Self { processor_time: processor_time(), last_work: Instant::now() }
    }

    /// How long the process has not worked. To be called every [`CHECK_INTERVAL`].
    pub(crate) fn elapsed(&mut self) -> Duration {
        let processor_time = processor_time();
        if processor_time.saturating_sub(self.processor_time) >= MIN_WORK {
            *self = Self { processor_time, last_work: Instant::now() };
        }
        self.last_work.elapsed()
    }
}

/// The processor time of all threads of this process.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;

    use super::*;

    #[test]
    fn waiting_is_counted_and_work_ends_it() {
        let mut timer = StallTimer::start();
        // Other tests of this process may run beside it and work.
        let mut waited = Duration::ZERO;
        for _ in 0..1000 {
            thread::sleep(Duration::from_millis(2));
            waited = timer.elapsed();
            if waited >= Duration::from_millis(20) {
                break;
            }
        }
        assert!(waited >= Duration::from_millis(20), "{waited:?}");
        let end = processor_time() + 2 * MIN_WORK;
        while processor_time() < end {
            black_box(end);
        }
        assert!(timer.elapsed() < waited);
    }
}
