//! Durations, numbers of tokens and sizes as people type them: `7d`, `90 s`, `5k`, `10 GB`.

use std::time::Duration;

/// Parses a duration such as `7d`, `2h 30m` or `90s`. A bare number counts `bare`, the unit of the option.
pub(crate) fn parse_duration(text: &str, bare: Duration) -> Result<Duration, String> {
    let text = text.trim();
    let duration = match text.parse::<f64>() {
        Ok(number) => Duration::try_from_secs_f64(number * bare.as_secs_f64()).ok(),
        Err(_) => humantime::parse_duration(text).ok(),
    };
    match duration {
        Some(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("expected a duration such as 90s, 10m, 12h or 7d".to_owned()),
    }
}

/// Parses a duration; a bare number counts days.
pub(crate) fn parse_days(text: &str) -> Result<Duration, String> {
    parse_duration(text, Duration::from_hours(24))
}

/// Parses a whole number such as `5000`, `5_000`, `5k` or `1.5M`.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let invalid = || "expected a whole number such as 5000, 5k or 1.5M".to_owned();
    let text = text.trim().replace(['_', ','], "");
    let (digits, zeros) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 3),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 6),
            None => (&*text, 0),
        },
    };
    // In decimals: a float would round large numbers.
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if part.len() > zeros || whole.is_empty() {
        return Err(invalid());
    }
    let written = format!("{whole}{part}{}", "0".repeat(zeros - part.len()));
    let is_plain = written.bytes().all(|byte| byte.is_ascii_digit());
    written.parse().ok().filter(|_| is_plain).ok_or_else(invalid)
}

/// Parses a number of tokens that fits into 32 bits.
pub(crate) fn parse_small_count(text: &str) -> Result<u32, String> {
    u32::try_from(parse_count(text)?).map_err(|_| format!("must be at most {}", u32::MAX))
}

/// Parses a size such as `500MB`, `10G` or `1.5 TB`, in powers of ten. A bare number counts bytes.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let invalid = || "expected a size such as 500MB, 10G or 1.5TB".to_owned();
    let text = text.trim();
    let text = text.strip_suffix(['b', 'B']).unwrap_or(text).trim_end();
    let (count, factor) = match text.strip_suffix(['g', 'G']) {
        Some(digits) => (parse_count(&format!("{}m", digits.trim_end())), 1000),
        None => match text.strip_suffix(['t', 'T']) {
            Some(digits) => (parse_count(&format!("{}m", digits.trim_end())), 1_000_000),
            None => (parse_count(text), 1),
        },
    };
    count.ok().and_then(|count| count.checked_mul(factor)).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_or_that_of_the_option() {
        let day = Duration::from_hours(24);
        let seconds = |text| parse_duration(text, day).map(|duration| duration.as_secs());
        assert_eq!(seconds("7"), Ok(7 * 86_400));
        assert_eq!(seconds("0.5"), Ok(43_200));
        assert_eq!(seconds("7d"), Ok(7 * 86_400));
        assert_eq!(seconds("2h 30m"), Ok(9000));
        assert_eq!(seconds("90 s"), Ok(90));
        for invalid in ["", "0", "-1", "d", "7 x", "1e400", "nan"] {
            assert!(seconds(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn g48_sizes_have_units_of_bytes() {
        for (text, bytes) in [
            ("0", 0),
            ("5000", 5000),
            ("5 B", 5),
            ("1.5k", 1500),
            ("500MB", 500_000_000),
            ("10G", 10_000_000_000),
            ("1.5 TB", 1_500_000_000_000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for invalid in ["", "B", "G", "-1", "1.5", "10GiB", "99999999T"] {
            assert!(parse_bytes(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn counts_have_suffixes_of_thousands() {
        for (text, count) in [
            ("5000", 5000),
            ("5_000", 5000),
            ("5,000", 5000),
            ("5k", 5000),
            ("1.6K", 1600),
            ("1.5M", 1_500_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        for invalid in ["", "k", ".5k", "1.5", "-1", "+1", "1e3", "5kk", "1.2345k", "5 k"] {
            assert!(parse_count(invalid).is_err(), "{invalid}");
        }
        assert!(parse_small_count("5000M").is_err());
    }
}
