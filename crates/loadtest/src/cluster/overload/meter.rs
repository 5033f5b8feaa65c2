//! Meter: how many good answers there were, and when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How exactly a time is known.
const SLOT: Duration = Duration::from_millis(50);
/// As many slots as a minute and a half has.
const SLOTS: usize = 1800;
/// Over how many slots a speed is taken.
const WINDOW: usize = 10;

/// Good answers by the time they came.
#[derive(Debug)]
pub(super) struct Meter {
    began: Instant,
    slots: Vec<AtomicU64>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts answers that came now.
    pub(super) fn add(&self, answers: u64) {
        self.add_at(self.now(), answers);
    }

    fn add_at(&self, at: Duration, answers: u64) {
        if let Some(slot) = self.slots.get(slot(at)) {
            slot.fetch_add(answers, Ordering::Relaxed);
        }
    }

    /// The time since it began.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Answers a second from one time to another.
    pub(super) fn speed(&self, from: Duration, to: Duration) -> f64 {
        let (from, to) = (slot(from), slot(to).min(SLOTS));
        if from >= to {
            return 0.0;
        }
        number(self.count(from, to)) / (number((to - from) as u64) * SLOT.as_secs_f64())
    }

    /// How long after `since` there were `speed` answers a second again, if ever until `end`.
    pub(super) fn back(&self, since: Duration, end: Duration, speed: f64) -> Option<Duration> {
        let enough = speed * SLOT.as_secs_f64() * number(WINDOW as u64);
        let first = slot(since) + 1;
        let last = slot(end).min(SLOTS).checked_sub(WINDOW)?;
        let is_enough = |from: &usize| number(self.count(*from, from + WINDOW)) >= enough;
        let back = (first..=last).find(is_enough)?;
        Some(SLOT * u32::try_from(back - first).ok()?)
    }

    fn count(&self, from: usize, to: usize) -> u64 {
        self.slots[from..to].iter().map(|slot| slot.load(Ordering::Relaxed)).sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody is answered so often")]
fn number(count: u64) -> f64 {
    count as f64
}

fn slot(at: Duration) -> usize {
    usize::try_from(at.as_millis() / SLOT.as_millis()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_speed_is_that_of_its_time_and_a_gap_is_measured() {
        let meter = Meter::new();
        // Ten answers a slot, but for the time from two to three seconds.
        for slot in (0..40).chain(60..100) {
            meter.add_at(SLOT * slot, 10);
        }
        let near = |one: f64, other: f64| (one - other).abs() < 1e-6;
        assert!(near(meter.speed(Duration::ZERO, 2 * SECOND), 200.0));
        assert!(near(meter.speed(2 * SECOND, 3 * SECOND), 0.0));
        assert!(near(meter.speed(SECOND, 3 * SECOND), 100.0));
        assert!(near(meter.speed(SECOND, SECOND), 0.0));
        let gap = meter.back(2 * SECOND, 5 * SECOND, 200.0);
        assert_eq!(gap, Some(Duration::from_millis(950)));
        assert_eq!(meter.back(SECOND, 5 * SECOND, 200.0), Some(Duration::ZERO));
        assert_eq!(meter.back(2 * SECOND, 5 * SECOND, 201.0), None);
        assert_eq!(meter.back(2 * SECOND, 3 * SECOND, 100.0), None);
    }
}
