//! ISO 8601 durations, written as they were received.

use std::{fmt, str::FromStr};

use crate::{
    error::{Form, MifError, quoted},
    fields::{Located, Part},
    value::Value,
};

const EXPECTED: &str = "an ISO 8601 duration such as P30D or PT12H";
const DAY: f64 = 86_400.0;

/// A duration such as `P30D`, `P1Y6M` or `PT0.5S`, with its text.
///
/// Only the last part may have a fraction, and signs are not accepted. Equality is equality of
/// the text: `P7D` and `P1W` last equally long and are not equal.
#[derive(Debug, Clone, PartialEq)]
pub struct IsoDuration {
    text: String,
    seconds: f64,
}

impl IsoDuration {
    /// Returns the text as received.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the length in seconds. A year counts as 365 days and a month as 30: without a
    /// starting date they have no exact length, and decay and expiry need none.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

impl FromStr for IsoDuration {
    type Err = MifError;

    fn from_str(text: &str) -> Result<Self, MifError> {
        parse(text)
            .map(|seconds| Self { text: text.to_owned(), seconds })
            .ok_or_else(|| MifError::field("", EXPECTED, quoted(text)))
    }
}

fn parse(text: &str) -> Option<f64> {
    let rest = text.strip_prefix('P')?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None if rest.is_empty() => return None,
        None => (rest, ""),
    };
    let date_units = [('Y', 365.0 * DAY), ('M', 30.0 * DAY), ('W', 7.0 * DAY), ('D', DAY)];
    let time_units = [('H', 3600.0), ('M', 60.0), ('S', 1.0)];
    let (days, fraction) = sum(date, &date_units)?;
    if fraction && !time.is_empty() {
        return None;
    }
    let (seconds, _) = sum(time, &time_units)?;
    let total = days + seconds;
    total.is_finite().then_some(total)
}

/// Adds up `1Y6M`-like text; the units must come in the order given. Also tells whether the last
/// part had a fraction.
fn sum(mut text: &str, units: &[(char, f64)]) -> Option<(f64, bool)> {
    let mut units = units.iter();
    let mut total = 0.0;
    let mut fraction = false;
    while !text.is_empty() {
        let end = text.find(|c: char| c.is_ascii_uppercase())?;
        let (amount, unit) = (&text[..end], text[end..].chars().next()?);
        let (_, seconds) = units.find(|(name, _)| *name == unit)?;
        let (whole, part) = amount.split_once(['.', ',']).unwrap_or((amount, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if fraction || !digits(whole) || !digits(part) {
            return None;
        }
        fraction = amount.len() != whole.len();
        total += format!("{whole}.{part}").parse::<f64>().ok()? * seconds;
        text = &text[end + 1..];
    }
    Some((total, fraction))
}

impl fmt::Display for IsoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Part for IsoDuration {
    fn read(source: Located) -> Result<Self, MifError> {
        let text = source.text()?;
        text.parse().map_err(|_| source.error(EXPECTED, quoted(text)))
    }

    fn write(&self, _: Form) -> Value {
        Value::String(self.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        for (text, seconds) in [
            ("P30D", 30.0 * DAY),
            ("P1W", 7.0 * DAY),
            ("P1Y2M", 425.0 * DAY),
            ("PT1H30M", 5400.0),
            ("P1DT12H", 1.5 * DAY),
            ("P0.5D", 0.5 * DAY),
            ("PT0,25S", 0.25),
            ("PT0S", 0.0),
        ] {
            let duration: IsoDuration = text.parse().unwrap();
            assert!((duration.seconds() - seconds).abs() < 1e-9, "{text}");
            assert_eq!(duration.as_str(), text);
        }
    }

    #[test]
    fn refuses_other_texts() {
        for text in [
            "", "P", "PT", "30D", "P30", "P1D1Y", "P1H", "PT1D", "P-1D", "P1.5D2H", "P0.5DT1H",
            "P1DT", "p1d", "P1D1D", "P.5D", "P1éD",
        ] {
            assert!(text.parse::<IsoDuration>().is_err(), "{text}");
        }
    }
}
