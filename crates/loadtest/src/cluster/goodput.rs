//! The goodput of a group of clients: good responses by the time they arrive.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::client::Client;
use super::counters::Counters;
use super::tenants::Tenants;

/// The resolution of the goodput meter.
const SLOT_DURATION: Duration = Duration::from_millis(50);
/// Half an hour.
const METER_SLOTS: usize = 36_000;
/// Slots over which a rate is averaged to detect recovery.
const WINDOW_SLOTS: usize = 10;

/// Starts clients that run until `stop` and add their good responses to `meter`.
pub(super) fn spawn_clients<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    tenants: &'env Tenants,
    port: u16,
    numbers: std::ops::Range<usize>,
    meter: &'env GoodputMeter,
    stop: &'env AtomicBool,
) -> Vec<ScopedJoinHandle<'scope, Counters>> {
    spawn_paced_clients(scope, tenants, port, numbers, Duration::ZERO, meter, stop)
}

/// The same with a pause after each request, so that the clients do not use the whole machine.
pub(super) fn spawn_paced_clients<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    tenants: &'env Tenants,
    port: u16,
    numbers: std::ops::Range<usize>,
    pause: Duration,
    meter: &'env GoodputMeter,
    stop: &'env AtomicBool,
) -> Vec<ScopedJoinHandle<'scope, Counters>> {
    let clients = numbers.map(|number| {
        scope.spawn(move || {
            let mut client = Client::new(tenants, number, port);
            let mut counted = 0;
            while !stop.load(Ordering::Relaxed) {
                client.step();
                let good = client.api.counters.good_responses();
                meter.add(good - counted);
                counted = good;
                thread::sleep(pause);
            }
            client.api.counters
        })
    });
    clients.collect()
}

/// Good responses by the time they arrived.
#[derive(Debug)]
pub(super) struct GoodputMeter {
    start: Instant,
    slots: Vec<AtomicU64>,
}

impl GoodputMeter {
    pub(super) fn new() -> Self {
        let slots = (0..METER_SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { start: Instant::now(), slots }
    }

    /// Counts responses that arrived now.
    fn add(&self, responses: u64) {
        self.add_at(self.elapsed(), responses);
    }

    fn add_at(&self, at: Duration, responses: u64) {
        if let Some(slot) = self.slots.get(slot_index(at)) {
            slot.fetch_add(responses, Ordering::Relaxed);
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Responses a second between two times.
    pub(super) fn rate(&self, from: Duration, to: Duration) -> f64 {
        let (from, to) = (slot_index(from), slot_index(to).min(METER_SLOTS));
        if from >= to {
            return 0.0;
        }
        to_f64(self.count(from, to)) / (to_f64((to - from) as u64) * SLOT_DURATION.as_secs_f64())
    }

    /// How long after `since` the rate reached `rate`, if it did until `end`.
    pub(super) fn time_to_reach(
        &self,
        rate: f64,
        since: Duration,
        end: Duration,
    ) -> Option<Duration> {
        let enough = rate * SLOT_DURATION.as_secs_f64() * to_f64(WINDOW_SLOTS as u64);
        let first = slot_index(since) + 1;
        let last = slot_index(end).min(METER_SLOTS).checked_sub(WINDOW_SLOTS)?;
        let is_enough = |from: &usize| to_f64(self.count(*from, from + WINDOW_SLOTS)) >= enough;
        let reached = (first..=last).find(is_enough)?;
        Some(SLOT_DURATION * u32::try_from(reached - first).ok()?)
    }

    /// The longest time without a response until `end`, from the first response on.
    pub(super) fn longest_gap(&self, end: Duration) -> Duration {
        let slots = &self.slots[..slot_index(end).min(METER_SLOTS)];
        let (mut longest, mut gap) = (0_u32, None::<u32>);
        for slot in slots {
            gap = match (slot.load(Ordering::Relaxed), gap) {
                (0, gap) => gap.map(|slots| slots + 1),
                _ => Some(0),
            };
            longest = longest.max(gap.unwrap_or(0));
        }
        SLOT_DURATION * longest
    }

    fn count(&self, from: usize, to: usize) -> u64 {
        self.slots[from..to].iter().map(|slot| slot.load(Ordering::Relaxed)).sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

fn slot_index(at: Duration) -> usize {
    usize::try_from(at.as_millis() / SLOT_DURATION.as_millis()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_rate_belongs_to_its_time_and_a_gap_is_measured() {
        let meter = GoodputMeter::new();
        // Ten responses a slot, but for the time from two to three seconds.
        for slot in (0..40).chain(60..100) {
            meter.add_at(SLOT_DURATION * slot, 10);
        }
        let near = |one: f64, other: f64| (one - other).abs() < 1e-6;
        assert!(near(meter.rate(Duration::ZERO, 2 * SECOND), 200.0));
        assert!(near(meter.rate(2 * SECOND, 3 * SECOND), 0.0));
        assert!(near(meter.rate(SECOND, 3 * SECOND), 100.0));
        assert!(near(meter.rate(SECOND, SECOND), 0.0));
        let gap = meter.time_to_reach(200.0, 2 * SECOND, 5 * SECOND);
        assert_eq!(gap, Some(Duration::from_millis(950)));
        assert_eq!(meter.time_to_reach(200.0, SECOND, 5 * SECOND), Some(Duration::ZERO));
        assert_eq!(meter.time_to_reach(201.0, 2 * SECOND, 5 * SECOND), None);
        assert_eq!(meter.time_to_reach(100.0, 2 * SECOND, 3 * SECOND), None);
    }

    #[test]
    fn the_longest_gap_begins_with_the_first_response() {
        let meter = GoodputMeter::new();
        assert_eq!(meter.longest_gap(SECOND), Duration::ZERO);
        for slot in [20, 21, 24, 30] {
            meter.add_at(SLOT_DURATION * slot, 1);
        }
        assert_eq!(meter.longest_gap(SLOT_DURATION * 31), SLOT_DURATION * 5);
        // Up to the end, too.
        assert_eq!(meter.longest_gap(SLOT_DURATION * 40), SLOT_DURATION * 9);
    }
}
