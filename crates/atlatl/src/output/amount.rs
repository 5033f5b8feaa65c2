//! Amounts as a person reads them.

pub(crate) use atlatl_browse::grouped;
use chrono::{DateTime, TimeDelta, Utc};

/// A number of things.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A number of bytes in the unit that keeps it short.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut amount, mut unit) = (u128::from(bytes) * 10 / 1000, 0);
    while amount >= 10_000 && unit + 1 < units.len() {
        amount /= 1000;
        unit += 1;
    }
    format!("{}.{} {}", amount / 10, amount % 10, units[unit])
}

/// How far `time` is from `now`.
pub(crate) fn distance(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let ahead = time - now;
    let span = |span: TimeDelta| match span.num_seconds() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    };
    if ahead > TimeDelta::zero() {
        format!("in {}", span(ahead))
    } else {
        format!("{} ago", span(-ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_999, "999.9 kB"),
            (1_000_000, "1.0 MB"),
            (u64::MAX, "18446744.0 TB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn distances_are_in_the_unit_that_matters() {
        let now = DateTime::UNIX_EPOCH;
        let at = |seconds| distance(now + TimeDelta::seconds(seconds), now);
        assert_eq!(
            [at(0), at(59), at(-119), at(3600), at(-7200), at(172_800)],
            ["0 s ago", "in 59 s", "119 s ago", "in 60 min", "2 h ago", "in 2 days"]
        );
    }
}
