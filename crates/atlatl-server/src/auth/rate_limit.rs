//! A token bucket rate limiter.

use std::num::NonZeroU32;
use std::time::Duration;

/// The cost of one request, where each nanosecond adds as many units as the limit has requests per
/// minute. All arithmetic is on integers, so nothing is lost to rounding.
const REQUEST_COST: u128 = 60_000_000_000;

/// A rate limit: requests per minute, and a burst size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    per_minute: NonZeroU32,
    burst: NonZeroU32,
}

impl RateLimit {
    /// Allows `per_minute` requests per minute on average, and up to `burst` at once after a pause.
    pub const fn per_minute(per_minute: NonZeroU32, burst: NonZeroU32) -> Self {
        Self { per_minute, burst }
    }

    fn rate(self) -> u128 {
        u128::from(self.per_minute.get())
    }

    fn full(self) -> u128 {
        u128::from(self.burst.get()) * REQUEST_COST
    }
}

/// A token bucket.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    limit: RateLimit,
    level: u128,
    /// The time of the level, which never goes back.
    at: Duration,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(limit: RateLimit) -> Self {
        Self { limit, level: limit.full(), at: Duration::ZERO }
    }

    /// Takes one request at `now`, a time since a fixed start, or returns the time until one is
    /// available. A clock that was set back adds and removes nothing.
    pub fn take(&mut self, now: Duration) -> Result<(), Duration> {
        self.level = self.level_at(now);
        self.at = self.at.max(now);
        if let Some(level) = self.level.checked_sub(REQUEST_COST) {
            self.level = level;
            return Ok(());
        }
        let wait = (REQUEST_COST - self.level).div_ceil(self.limit.rate());
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        Err(self.at.saturating_sub(now).saturating_add(wait))
    }

    /// Returns whether the bucket is full, so that a cache may drop it.
    pub fn is_full(&self, now: Duration) -> bool {
        self.level_at(now) == self.limit.full()
    }

    fn level_at(&self, now: Duration) -> u128 {
        let gained = now.saturating_sub(self.at).as_nanos() * self.limit.rate();
        self.limit.full().min(self.level + gained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(per_minute: u32, burst: u32) -> TokenBucket {
        let some = |n| NonZeroU32::new(n).expect("not zero");
        TokenBucket::new(RateLimit::per_minute(some(per_minute), some(burst)))
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_given_at_once_and_then_one_by_one() {
        let mut bucket = bucket(60, 3);
        for _ in 0..3 {
            assert_eq!(bucket.take(SECOND), Ok(()));
        }
        assert_eq!(bucket.take(SECOND), Err(SECOND));
        assert_eq!(bucket.take(SECOND * 3 / 2), Err(SECOND / 2));
        assert_eq!(bucket.take(SECOND * 2), Ok(()));
        assert_eq!(bucket.take(SECOND * 2), Err(SECOND));
    }

    #[test]
    fn nothing_is_lost_to_rounding_over_a_day() {
        // A seventh of a minute is not a whole number of nanoseconds or seconds. A burst of two
        // leaves room for requests in between.
        let mut bucket = bucket(7, 2);
        let given = (0..24 * 60 * 60).filter(|n| bucket.take(SECOND * *n).is_ok()).count();
        assert_eq!(given, 2 + (24 * 60 * 60 - 1) * 7 / 60);
    }

    #[test]
    fn a_clock_that_was_set_back_gives_nothing_and_takes_nothing() {
        let mut bucket = bucket(60, 1);
        assert_eq!(bucket.take(SECOND * 100), Ok(()));
        assert_eq!(bucket.take(SECOND * 40), Err(SECOND * 61));
        assert_eq!(bucket.take(SECOND * 100), Err(SECOND));
        assert_eq!(bucket.take(SECOND * 101), Ok(()));
    }

    #[test]
    fn the_longest_times_and_largest_limits_do_no_harm() {
        let mut large = bucket(u32::MAX, u32::MAX);
        assert_eq!(large.take(Duration::MAX), Ok(()));
        assert_eq!(large.take(Duration::ZERO), Ok(()));
        let mut small = bucket(1, 1);
        assert_eq!(small.take(Duration::MAX), Ok(()));
        assert_eq!(small.take(Duration::ZERO), Err(Duration::MAX));
    }

    #[test]
    fn an_idle_bucket_is_full_again() {
        let mut bucket = bucket(60, 2);
        assert!(bucket.is_full(Duration::ZERO));
        assert_eq!(bucket.take(SECOND), Ok(()));
        assert!(!bucket.is_full(SECOND));
        assert!(bucket.is_full(SECOND * 2));
    }
}
