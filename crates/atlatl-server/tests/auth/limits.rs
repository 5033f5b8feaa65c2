//! Rate limits at any time of request.

use std::num::NonZeroU32;
use std::time::Duration;

use atlatl_server::auth::{RateLimit, TokenBucket};
use proptest::prelude::*;

const MINUTE: u128 = 60_000_000_000;

fn limit(per_minute: u32, burst: u32) -> RateLimit {
    RateLimit::per_minute(NonZeroU32::new(per_minute).unwrap(), NonZeroU32::new(burst).unwrap())
}

/// Pauses in nanoseconds: none, short ones, long ones.
fn pauses() -> impl Strategy<Value = Vec<u64>> {
    let pause = prop_oneof![Just(0), 1..1_000_u64, 1..2_000_000_000_u64, 1..90_000_000_000_u64];
    prop::collection::vec(pause, 1..120)
}

proptest! {
    #[test]
    fn prop_no_window_holds_more_than_is_allowed(per_minute in 1..5_000_u32, burst in 1..20_u32, pauses in pauses()) {
        let mut bucket = TokenBucket::new(limit(per_minute, burst));
        let mut now = Duration::ZERO;
        let mut given = Vec::new();
        for pause in pauses {
            now += Duration::from_nanos(pause);
            if bucket.take(now).is_ok() {
                given.push(now.as_nanos());
            }
        }
        for (first, from) in given.iter().enumerate() {
            for (last, until) in given.iter().enumerate().skip(first) {
                let gained = (until - from) * u128::from(per_minute) / MINUTE;
                let allowed = u128::from(burst) + gained;
                prop_assert!((last - first + 1) as u128 <= allowed);
            }
        }
    }

    #[test]
    fn prop_a_refusal_says_exactly_when_to_come_back(per_minute in 1..5_000_u32, burst in 1..20_u32, pauses in pauses()) {
        let mut bucket = TokenBucket::new(limit(per_minute, burst));
        let mut now = Duration::ZERO;
        for pause in pauses {
            now += Duration::from_nanos(pause);
            if let Err(wait) = bucket.take(now) {
                prop_assert!(!wait.is_zero());
                prop_assert!(bucket.clone().take(now + wait.saturating_sub(Duration::from_nanos(1))).is_err());
                prop_assert!(bucket.clone().take(now + wait).is_ok());
            }
        }
    }

    #[test]
    fn prop_a_clock_that_goes_back_gives_nothing(per_minute in 1..5_000_u32, burst in 1..20_u32, times in prop::collection::vec(0..3_000_000_000_u64, 1..120)) {
        let mut jumping = TokenBucket::new(limit(per_minute, burst));
        let mut steady = TokenBucket::new(limit(per_minute, burst));
        let mut latest = Duration::ZERO;
        for time in times {
            let now = Duration::from_nanos(time);
            latest = latest.max(now);
            let (one, other) = (jumping.take(now), steady.take(latest));
            prop_assert_eq!(one.is_ok(), other.is_ok());
            // A clock that was set back adds no tokens until it has caught up.
            prop_assert_eq!(one.err(), other.err().map(|wait| wait + latest.saturating_sub(now)));
        }
    }
}
