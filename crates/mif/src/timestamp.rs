//! A point in time, written as it was received.

use std::{fmt, str::FromStr};

use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};

use crate::{
    error::{Form, MifError, quoted},
    fields::{Located, Part},
    value::Value,
};

const EXPECTED: &str = "an RFC 3339 time such as 2026-01-15T10:30:00Z";

/// An RFC 3339 time that keeps its text: rewriting `+02:00` or `.500` would lose what was said.
///
/// Equality is equality of the text; compare [`instant`](Self::instant)s for time.
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
            .map_err(|_| MifError::field("", EXPECTED, quoted(text)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Part for Timestamp {
    fn read(source: Located) -> Result<Self, MifError> {
        let text = source.text()?;
        text.parse().map_err(|_| source.error(EXPECTED, quoted(text)))
    }

    fn write(&self, _: Form) -> Value {
        Value::String(self.text.clone())
    }
}
