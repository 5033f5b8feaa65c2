//! Bounds the number of concurrent workers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::Cancel;

/// Free places for workers. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Slots(Arc<(Mutex<usize>, Condvar)>);

/// A place, free again when dropped.
#[derive(Debug)]
pub(super) struct Slot(Slots);

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoSlot {
    Busy,
    Cancelled,
}

/// How soon somebody who waits notices a cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Slots {
    pub(super) fn new(at_most: usize) -> Self {
        Self(Arc::new((Mutex::new(at_most.max(1)), Condvar::new())))
    }

    pub(super) fn take(&self, until: Instant, cancel: &Cancel) -> Result<Slot, NoSlot> {
        let mut free = self.free();
        loop {
            if cancel.is_cancelled() {
                return Err(NoSlot::Cancelled);
            }
            if *free > 0 {
                *free -= 1;
                return Ok(Slot(self.clone()));
            }
            if Instant::now() >= until {
                return Err(NoSlot::Busy);
            }
            let waited = self.0.1.wait_timeout(free, POLL_INTERVAL);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn free(&self) -> MutexGuard<'_, usize> {
        // Nothing panics while the lock is held.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free() += 1;
        self.0.0.1.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_again_when_it_is_dropped() {
        let slots = Slots::new(1);
        let cancel = Cancel::default();
        let soon = || Instant::now() + Duration::from_millis(30);
        let first = slots.take(soon(), &cancel).unwrap();
        assert_eq!(slots.take(soon(), &cancel).unwrap_err(), NoSlot::Busy);
        drop(first);
        assert!(slots.take(soon(), &cancel).is_ok());
        cancel.cancel();
        assert_eq!(slots.take(soon(), &cancel).unwrap_err(), NoSlot::Cancelled);
    }
}
