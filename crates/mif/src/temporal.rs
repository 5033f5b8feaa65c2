//! The temporal fields of a memory: validity, expiry, decay, timestamps, durations.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};

use crate::error::{MemoryFormat, MifError, quoted};
use crate::fields::{
    FieldKey, FieldValue, LocatedNode, ObjectWriter, extensible_enum, extensible_enum_value,
};
use crate::provenance::UnitInterval;
use crate::value::{Map, Value};

const VALID_FROM: FieldKey = FieldKey::new("valid_from", "validFrom");
const VALID_UNTIL: FieldKey = FieldKey::new("valid_until", "validUntil");
const RECORDED_AT: FieldKey = FieldKey::new("recorded_at", "recordedAt");
const TTL: FieldKey = FieldKey::same("ttl");
const DECAY: FieldKey = FieldKey::same("decay");
const ACCESS_COUNT: FieldKey = FieldKey::new("access_count", "accessCount");
const LAST_ACCESSED: FieldKey = FieldKey::new("last_accessed", "lastAccessed");

/// The temporal fields of a memory.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Temporal {
    /// The start of its validity.
    pub valid_from: Option<Timestamp>,
    /// The end of its validity.
    pub valid_until: Option<Timestamp>,
    /// When it was recorded.
    pub recorded_at: Option<Timestamp>,
    /// The time to live.
    pub ttl: Option<IsoDuration>,
    /// Its decay.
    pub decay: Option<Decay>,
    /// The number of accesses.
    pub access_count: Option<u64>,
    /// When it was last accessed.
    pub last_accessed: Option<Timestamp>,
    /// Keys that this version does not know.
    pub other: Map,
}

impl FieldValue for Temporal {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            valid_from: fields.optional(&VALID_FROM)?,
            valid_until: fields.optional(&VALID_UNTIL)?,
            recorded_at: fields.optional(&RECORDED_AT)?,
            ttl: fields.optional(&TTL)?,
            decay: fields.optional(&DECAY)?,
            access_count: fields.optional(&ACCESS_COUNT)?,
            last_accessed: fields.optional(&LAST_ACCESSED)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: MemoryFormat) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&VALID_FROM, self.valid_from.as_ref());
        object.optional(&VALID_UNTIL, self.valid_until.as_ref());
        object.optional(&RECORDED_AT, self.recorded_at.as_ref());
        object.optional(&TTL, self.ttl.as_ref());
        object.optional(&DECAY, self.decay.as_ref());
        object.optional(&ACCESS_COUNT, self.access_count.as_ref());
        object.optional(&LAST_ACCESSED, self.last_accessed.as_ref());
        Value::Object(object.rest(&self.other))
    }
}

const DECAY_MODEL: FieldKey = FieldKey::same("model");
const HALF_LIFE: FieldKey = FieldKey::new("half_life", "halfLife");
const STRENGTH: FieldKey = FieldKey::new("strength", "currentStrength").also(&["current_strength"]);
const LAST_REINFORCED: FieldKey = FieldKey::new("last_reinforced", "lastReinforced");

/// How the strength of a memory decays.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Decay {
    /// The decay model.
    pub model: Option<DecayModel>,
    /// The half-life.
    pub half_life: Option<IsoDuration>,
    /// The strength computed by the last writer; kept, never used.
    pub strength: Option<UnitInterval>,
    /// When it was last reinforced.
    pub last_reinforced: Option<Timestamp>,
    /// Keys that this version does not know.
    pub other: Map,
}

/// A decay model. In every model, half of the strength is left after one half-life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecayModel {
    /// No decay: always 1.
    None,
    /// Linear, reaching 0 after two half-lives.
    Linear,
    /// `0.5^(t / half_life)`.
    Exponential,
    /// Halved at the end of each half-life, constant in between.
    Step,
    /// A model of a newer version; treated as no decay.
    Custom(String),
}

extensible_enum!(
    DecayModel,
    None = "none",
    Linear = "linear",
    Exponential = "exponential",
    Step = "step"
);
extensible_enum_value!(DecayModel);

impl Decay {
    /// Computes the strength at `now`, from the last reinforcement or else from `created`.
    ///
    /// It is computed from scratch each time, never from a stored strength, so that frequent reads
    /// do not weaken a memory. Without a model or a positive half-life, and before the last
    /// reinforcement (clocks differ), it is 1.
    pub fn strength_at(&self, now: DateTime<FixedOffset>, created: &Timestamp) -> f64 {
        let since = self.last_reinforced.as_ref().unwrap_or(created).instant();
        let elapsed = now.signed_duration_since(since).as_seconds_f64();
        let half_life = self.half_life.as_ref().map_or(0.0, IsoDuration::seconds);
        if elapsed <= 0.0 || half_life <= 0.0 {
            return 1.0;
        }
        let half_lives = elapsed / half_life;
        match self.model {
            Some(DecayModel::Linear) => (1.0 - half_lives / 2.0).max(0.0),
            Some(DecayModel::Exponential) => 0.5_f64.powf(half_lives),
            Some(DecayModel::Step) => 0.5_f64.powf(half_lives.floor()),
            Some(DecayModel::None | DecayModel::Custom(_)) | None => 1.0,
        }
    }
}

impl FieldValue for Decay {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            model: fields.optional(&DECAY_MODEL)?,
            half_life: fields.optional(&HALF_LIFE)?,
            strength: fields.optional(&STRENGTH)?,
            last_reinforced: fields.optional(&LAST_REINFORCED)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: MemoryFormat) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&DECAY_MODEL, self.model.as_ref());
        object.optional(&HALF_LIFE, self.half_life.as_ref());
        object.optional(&STRENGTH, self.strength.as_ref());
        object.optional(&LAST_REINFORCED, self.last_reinforced.as_ref());
        Value::Object(object.rest(&self.other))
    }
}

const EXPECTED_DURATION: &str = "an ISO 8601 duration such as P30D or PT12H";
const DAY_SECONDS: f64 = 86_400.0;

/// An ISO 8601 duration such as `P30D`, `P1Y6M` or `PT0.5S`, with its text.
///
/// Only the last component may have a fraction, and signs are not accepted. Equality compares the
/// text: `P7D` and `P1W` are equally long and not equal.
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

    /// Returns the length in seconds. A year counts as 365 days and a month as 30: without a start
    /// date they have no exact length, and decay and expiry need none.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

impl FromStr for IsoDuration {
    type Err = MifError;

    fn from_str(text: &str) -> Result<Self, MifError> {
        parse_duration(text)
            .map(|seconds| Self { text: text.to_owned(), seconds })
            .ok_or_else(|| MifError::field("", EXPECTED_DURATION, quoted(text)))
    }
}

fn parse_duration(text: &str) -> Option<f64> {
    let rest = text.strip_prefix('P')?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None if rest.is_empty() => return None,
        None => (rest, ""),
    };
    let date_units = [
        ('Y', 365.0 * DAY_SECONDS),
        ('M', 30.0 * DAY_SECONDS),
        ('W', 7.0 * DAY_SECONDS),
        ('D', DAY_SECONDS),
    ];
    let time_units = [('H', 3600.0), ('M', 60.0), ('S', 1.0)];
    let (days, fraction) = sum_units(date, &date_units)?;
    if fraction && !time.is_empty() {
        return None;
    }
    let (seconds, _) = sum_units(time, &time_units)?;
    let total = days + seconds;
    total.is_finite().then_some(total)
}

/// Adds up text such as `1Y6M`, with units in the order of `units`. Also returns whether the last
/// component has a fraction.
fn sum_units(mut text: &str, units: &[(char, f64)]) -> Option<(f64, bool)> {
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

impl FieldValue for IsoDuration {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let text = source.text()?;
        text.parse().map_err(|_| source.error(EXPECTED_DURATION, quoted(text)))
    }

    fn write(&self, _: MemoryFormat) -> Value {
        Value::String(self.text.clone())
    }
}

const EXPECTED_TIME: &str = "an RFC 3339 time such as 2026-01-15T10:30:00Z";

/// An RFC 3339 time that keeps its text: rewriting `+02:00` or `.500` would lose information.
///
/// Equality compares the text; compare [`instant`](Self::instant)s for time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Timestamp {
    text: String,
    instant: DateTime<FixedOffset>,
}

impl Timestamp {
    /// Returns the text as received.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the point in time (fractions beyond nanoseconds are only in the text).
    pub fn instant(&self) -> DateTime<FixedOffset> {
        self.instant
    }
}

impl From<DateTime<Utc>> for Timestamp {
    /// Writes the time in UTC with `Z` and as many fraction digits as it needs.
    fn from(time: DateTime<Utc>) -> Self {
        let text = time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        Self { text, instant: time.fixed_offset() }
    }
}

impl FromStr for Timestamp {
    type Err = MifError;

    fn from_str(text: &str) -> Result<Self, MifError> {
        DateTime::parse_from_rfc3339(text)
            .map(|instant| Self { text: text.to_owned(), instant })
            .map_err(|_| MifError::field("", EXPECTED_TIME, quoted(text)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FieldValue for Timestamp {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let text = source.text()?;
        text.parse().map_err(|_| source.error(EXPECTED_TIME, quoted(text)))
    }

    fn write(&self, _: MemoryFormat) -> Value {
        Value::String(self.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decay(model: DecayModel) -> Decay {
        Decay {
            model: Some(model),
            half_life: Some("P10D".parse().unwrap()),
            last_reinforced: Some("2026-01-11T00:00:00Z".parse().unwrap()),
            strength: UnitInterval::new(0.1),
            ..Decay::default()
        }
    }

    #[test]
    fn half_is_left_after_one_half_life() {
        let created = "2026-01-01T00:00:00Z".parse().unwrap();
        let at =
            |day: &str| format!("2026-{day}T00:00:00Z").parse::<Timestamp>().unwrap().instant();
        for (model, five, ten, twenty) in [
            (DecayModel::None, 1.0, 1.0, 1.0),
            (DecayModel::Linear, 0.75, 0.5, 0.0),
            (DecayModel::Exponential, 0.5_f64.sqrt(), 0.5, 0.25),
            (DecayModel::Step, 1.0, 0.5, 0.25),
            (DecayModel::Custom("power".to_owned()), 1.0, 1.0, 1.0),
        ] {
            let decay = decay(model);
            for (day, expected) in
                [("01-16", five), ("01-21", ten), ("01-31", twenty), ("01-02", 1.0)]
            {
                let strength = decay.strength_at(at(day), &created);
                assert!((strength - expected).abs() < 1e-12, "{:?} {day}: {strength}", decay.model);
            }
        }
    }

    #[test]
    fn never_reinforced_counts_from_creation() {
        let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let decay = Decay { last_reinforced: None, ..decay(DecayModel::Exponential) };
        let now = "2026-01-11T00:00:00Z".parse::<Timestamp>().unwrap().instant();
        assert!((decay.strength_at(now, &created) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn lengths() {
        for (text, seconds) in [
            ("P30D", 30.0 * DAY_SECONDS),
            ("P1W", 7.0 * DAY_SECONDS),
            ("P1Y2M", 425.0 * DAY_SECONDS),
            ("PT1H30M", 5400.0),
            ("P1DT12H", 1.5 * DAY_SECONDS),
            ("P0.5D", 0.5 * DAY_SECONDS),
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
