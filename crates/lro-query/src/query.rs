//! The sources, the parameters and the answer of a query.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use lro_spool::{PositionedRead, SpoolError, StoredResult, records_offset};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::page::Page;

/// The records that a query reads: an open byte source and where its records begin, never a path.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub(crate) data: &'a dyn PositionedRead,
    pub(crate) begin: u64,
    pub(crate) layout: RecordLayout,
}

/// The layout of records in a byte source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordLayout {
    /// One JSON value per line.
    Lines,
    /// A single JSON value that may span lines: one record.
    Document,
}

impl<'a> Source<'a> {
    /// The records of a stored result, without its header.
    pub fn stored(result: &'a dyn StoredResult) -> Result<Self, SpoolError> {
        Ok(if result.listed().sidecar.content.has_records() {
            Self::lines(result, records_offset(result)?)
        } else {
            Self::document(result)
        })
    }

    /// One record per line from byte `begin` on.
    pub fn lines(data: &'a dyn PositionedRead, begin: u64) -> Self {
        Self { data, begin, layout: RecordLayout::Lines }
    }

    /// A single JSON value.
    pub fn document(data: &'a dyn PositionedRead) -> Self {
        Self { data, begin: 0, layout: RecordLayout::Document }
    }

    /// The number of bytes to read.
    pub(crate) fn bytes(&self) -> u64 {
        self.data.len().saturating_sub(self.begin)
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = &mut f.debug_struct("Source");
        output.field("bytes", &self.bytes()).field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// The table name of a source in a statement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Alias(String);

/// The table name of the first source.
pub(crate) const RESULTS: &str = "results";

const MAX_ALIAS_LEN: usize = 40;

impl Alias {
    pub(crate) fn results() -> Self {
        Self(RESULTS.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Alias {
    type Err = InvalidParamName;

    fn from_str(text: &str) -> Result<Self, InvalidParamName> {
        let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let valid_start = text.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        // SQLite reserves the prefix `sqlite_`, and has table-valued functions of the other names.
        let reserved = text.starts_with("sqlite_")
            || text.starts_with("pragma_")
            || ["json_each", "json_tree"].contains(&text);
        if valid_start && !reserved && text.len() <= MAX_ALIAS_LEN && text.bytes().all(word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidParamName::Alias)
        }
    }
}

impl TryFrom<String> for Alias {
    type Error = InvalidParamName;

    fn try_from(text: String) -> Result<Self, InvalidParamName> {
        text.parse()
    }
}

impl From<Alias> for String {
    fn from(alias: Alias) -> Self {
        alias.0
    }
}

/// Named parameters of a query. Engines receive them as variables, never as program text (Spec N3).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct QueryParams(BTreeMap<ParamName, Box<RawValue>>);

impl QueryParams {
    /// Sets `name` to a value, replacing an earlier one.
    pub fn insert(
        &mut self,
        name: ParamName,
        value: &impl Serialize,
    ) -> Result<(), InvalidParamName> {
        let raw = serde_json::value::to_raw_value(value).map_err(|_| InvalidParamName::NoJson)?;
        self.insert_raw(name, raw);
        Ok(())
    }

    /// Sets `name` to a JSON value as written, so that no number is rounded.
    pub fn insert_raw(&mut self, name: ParamName, value: Box<RawValue>) {
        self.0.insert(name, value);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.0.as_str(), value.get()))
    }
}

/// The name of a parameter, valid as a variable in every engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ParamName(String);

/// A parameter or alias that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidParamName {
    /// The parameter name is invalid.
    #[error("a parameter's name is a letter or `_`, then up to 63 letters, digits or `_`")]
    Name,
    /// The alias is invalid.
    #[error(
        "an alias is a lowercase letter or `_`, then up to 39 lowercase letters, digits or `_`, \
         and not a reserved name in SQL"
    )]
    Alias,
    /// The value has no JSON form.
    #[error("the value cannot be written as JSON")]
    NoJson,
}

const MAX_PARAM_NAME_LEN: usize = 64;

impl FromStr for ParamName {
    type Err = InvalidParamName;

    fn from_str(text: &str) -> Result<Self, InvalidParamName> {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let valid_start = text.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        if valid_start && text.len() <= MAX_PARAM_NAME_LEN && text.bytes().all(word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidParamName::Name)
        }
    }
}

impl TryFrom<String> for ParamName {
    type Error = InvalidParamName;

    fn try_from(text: String) -> Result<Self, InvalidParamName> {
        text.parse()
    }
}

impl From<ParamName> for String {
    fn from(name: ParamName) -> Self {
        name.0
    }
}

impl fmt::Display for ParamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The values that a query returned, with what was counted on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// One JSON value per line.
    pub lines: Vec<u8>,
    /// The number of values in `lines`.
    pub given: u64,
    /// The number of values that the query produces in total; `None` if it produces so many more
    /// than fit that the worker stopped counting.
    pub total: Option<u64>,
    /// The number of records read.
    pub records_read: u64,
    /// The records on which a filter failed; it continued with the next record.
    pub failed: Option<FailedRecords>,
    /// The columns with numbers that neither a 64-bit integer nor a double can hold. Statements see
    /// these numbers as text.
    pub kept_as_text: Vec<String>,
    /// The fields that a filter reads and no record has, if it returned nothing, or only null.
    pub unknown_fields: Vec<UnknownField>,
}

impl Answer {
    /// Whether some values of the page did not fit.
    pub fn is_cut(&self, page: Page) -> bool {
        match self.total {
            None => true,
            Some(total) => self.given < total.saturating_sub(page.offset).min(page.limit),
        }
    }

    /// The lines as text, with invalid UTF-8 replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.lines)
    }
}

/// Records on which a filter failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailedRecords {
    /// The number of these records.
    pub records: u64,
    /// The number of the first, from 1.
    pub first: u64,
    /// The engine's message about the first: untrusted data.
    pub message: String,
}

/// A field that a filter reads and no record has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnknownField {
    /// The name as written in the filter.
    pub name: String,
    /// Similar field names in the data, the most similar first: untrusted data.
    pub near: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_a_plain_small_word() {
        for good in ["old", "_a1", "yesterday_2"] {
            assert!(good.parse::<Alias>().is_ok(), "{good}");
        }
        for bad in ["", "1a", "Old", "a b", "a\"b", "sqlite_x", "pragma_x", "json_each", "é"] {
            assert!(bad.parse::<Alias>().is_err(), "{bad}");
        }
    }

    #[test]
    fn n3_a_parameter_name_is_a_plain_word() {
        for good in ["namespace", "_x", "K9", "a_b"] {
            assert!(good.parse::<ParamName>().is_ok(), "{good}");
        }
        let long = "x".repeat(65);
        for bad in ["", "9", "a b", "a|b", "$x", "a-b", "é", "a\u{0}", &long] {
            assert_eq!(bad.parse::<ParamName>(), Err(InvalidParamName::Name), "{bad}");
        }
    }
}
