//! A token bucket rate limiter.
//!
//! It limits requests, which are taken one by one before they run, or a cost that is known only
//! afterwards, such as time. A cost may leave the bucket in debt.

use std::num::NonZeroU32;
use std::time::Duration;

/// The cost of one request, where each nanosecond adds as many units as the limit has requests per
/// minute. All arithmetic is on integers, so nothing is lost to rounding.
const REQUEST_COST: i128 = 60_000_000_000;

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

    fn rate(self) -> i128 {
        i128::from(self.per_minute.get())
    }

    fn full(self) -> i128 {
        i128::from(self.burst.get()) * REQUEST_COST
    }
}

/// A token bucket.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    limit: RateLimit,
    /// Negative if the bucket is in debt.
    level: i128,
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
        self.require(now, REQUEST_COST)?;
        self.level -= REQUEST_COST;
        Ok(())
    }

    /// Takes `count` requests at `now` that were made already. The debt is at most a burst.
    pub fn spend(&mut self, now: Duration, count: u64) {
        self.advance(now);
        let level = self.level - i128::from(count) * REQUEST_COST;
        self.level = level.max(-self.limit.full());
    }

    /// Takes nothing, and returns the time until the bucket is no longer empty or in debt.
    pub fn check(&mut self, now: Duration) -> Result<(), Duration> {
        self.require(now, 1)
    }

    /// Returns the time until the bucket has this level.
    fn require(&mut self, now: Duration, level: i128) -> Result<(), Duration> {
        self.advance(now);
        if self.level >= level {
            return Ok(());
        }
        // Rounded up. The difference is positive.
        let wait = (level - self.level + self.limit.rate() - 1) / self.limit.rate();
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        Err(self.at.saturating_sub(now).saturating_add(wait))
    }

    fn advance(&mut self, now: Duration) {
        self.level = self.level_at(now);
        self.at = self.at.max(now);
    }

    /// Returns whether the bucket is full, so that a cache may drop it.
    pub fn is_full(&self, now: Duration) -> bool {
        self.level_at(now) == self.limit.full()
    }

    fn level_at(&self, now: Duration) -> i128 {
        let nanos = now.saturating_sub(self.at).as_nanos();
        let gained = i128::try_from(nanos).unwrap_or(i128::MAX).saturating_mul(self.limit.rate());
        self.limit.full().min(self.level.saturating_add(gained))
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
    fn a_cost_is_paid_back_and_a_debt_is_bounded() {
        let mut bucket = bucket(60, 3);
        assert_eq!(bucket.check(SECOND), Ok(()));
        bucket.spend(SECOND, 2);
        assert_eq!(bucket.check(SECOND), Ok(()));
        bucket.spend(SECOND, 1);
        assert!(bucket.check(SECOND).is_err(), "it is empty");
        assert_eq!(bucket.check(SECOND * 2), Ok(()));
        bucket.spend(SECOND * 2, 3);
        let wait = bucket.check(SECOND * 2).unwrap_err();
        assert!(wait > SECOND * 2 && wait < SECOND * 2 + SECOND / 1000, "{wait:?}");
        assert_eq!(bucket.check(SECOND * 2 + wait), Ok(()));
        bucket.spend(SECOND * 4, u64::MAX);
        let wait = bucket.check(SECOND * 4).unwrap_err();
        assert!(wait > SECOND * 3 && wait < SECOND * 3 + SECOND / 1000, "{wait:?}");
        assert_eq!(bucket.take(SECOND * 9), Ok(()));
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
