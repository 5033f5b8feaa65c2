//! Times of the corpora, in milliseconds since 1970.

use chrono::{DateTime, SecondsFormat, Utc};
use testkit::SplitMix64;

/// 2026-01-05T00:00:00Z, a Monday.
pub(crate) const START_MILLIS: u64 = 1_767_571_200_000;
/// The days from the first to the last possible time.
pub(crate) const DAYS: usize = 180;
/// A minute.
pub(crate) const MINUTE_MILLIS: u64 = 60_000;
/// A day.
pub(crate) const DAY_MILLIS: u64 = 24 * 60 * MINUTE_MILLIS;

/// A time that is never midnight, so that no record is created exactly on the date of a question.
pub(crate) fn random_time(random: &mut SplitMix64) -> u64 {
    let minutes = random.below(DAYS * 24 * 60) as u64;
    let seconds = 1 + random.below(59) as u64;
    START_MILLIS + minutes * MINUTE_MILLIS + seconds * 1_000
}

/// The time as a date and time.
pub(crate) fn date_time(unix_millis: u64) -> DateTime<Utc> {
    let millis = i64::try_from(unix_millis).expect("far from the end of time");
    DateTime::from_timestamp_millis(millis).expect("far from the end of time")
}

/// The time as RFC 3339.
pub(crate) fn rfc3339(unix_millis: u64, precision: SecondsFormat) -> String {
    date_time(unix_millis).to_rfc3339_opts(precision, true)
}
