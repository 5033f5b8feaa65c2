//! TODO module doc

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use lro_spool::{PositionedRead, SpoolError, StoredResult, records_begin};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::worker::Question;

// --- Ask: one query with all it reads.

/// One query with all it reads.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub(crate) question: Question,
    pub(crate) sources: Vec<(Alias, Source<'a>)>,
    pub(crate) window: Window,
}

impl<'a> Ask<'a> {
    /// A filter over `source`.
    #[cfg(feature = "jq")]
    pub fn jq(query: &crate::jq::Query, source: Source<'a>) -> Self {
        Self::new(Question::Jq(query.clone()), source)
    }

    /// A statement over `source`, which it calls `results`.
    #[cfg(feature = "sql")]
    pub fn sql(query: &crate::sql::Query, source: Source<'a>) -> Self {
        Self::new(Question::Sql(query.clone()), source)
    }

    fn new(question: Question, source: Source<'a>) -> Self {
        Self { question, sources: vec![(Alias::results(), source)], window: Window::default() }
    }

    /// A further source, for statements only; the same alias again replaces the source.
    #[cfg(feature = "sql")]
    pub fn with(mut self, alias: Alias, source: Source<'a>) -> Self {
        self.sources.retain(|(other, _)| *other != alias);
        self.sources.push((alias, source));
        self
    }

    /// Wants only some of the values.
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }
}

// --- Source: the records that a query reads.

/// Bytes with records in them: a range of something that can be read from any place, not a path.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub(crate) data: &'a dyn PositionedRead,
    pub(crate) begin: u64,
    pub(crate) form: Form,
}

/// How the records lie in their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One JSON value per line.
    Lines,
    /// One JSON value, on however many lines: a single record.
    Document,
}

impl<'a> Source<'a> {
    /// The records of a stored result, its header left out.
    pub fn stored(result: &'a dyn StoredResult) -> Result<Self, SpoolError> {
        Ok(if result.listed().sidecar.content.has_records() {
            Self::lines(result, records_begin(result)?)
        } else {
            Self::document(result)
        })
    }

    /// One record per line from byte `begin` on.
    pub fn lines(data: &'a dyn PositionedRead, begin: u64) -> Self {
        Self { data, begin, form: Form::Lines }
    }

    /// A single JSON value.
    pub fn document(data: &'a dyn PositionedRead) -> Self {
        Self { data, begin: 0, form: Form::Document }
    }

    /// How many bytes there are to read.
    pub(crate) fn bytes(&self) -> u64 {
        self.data.len().saturating_sub(self.begin)
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &mut f.debug_struct("Source");
        shown.field("bytes", &self.bytes()).field("form", &self.form).finish_non_exhaustive()
    }
}

/// What a statement calls a further source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Alias(String);

/// What a statement calls the source it is asked of.
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
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let starts_well = text.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        // `sqlite_` is reserved; the other two are functions that stand where tables stand.
        let taken = text.starts_with("sqlite_")
            || text.starts_with("pragma_")
            || ["json_each", "json_tree"].contains(&text);
        if starts_well && !taken && text.len() <= MAX_ALIAS_LEN && text.bytes().all(word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAName::Alias)
        }
    }
}

impl TryFrom<String> for Alias {
    type Error = NotAName;

    fn try_from(text: String) -> Result<Self, NotAName> {
        text.parse()
    }
}

impl From<Alias> for String {
    fn from(alias: Alias) -> Self {
        alias.0
    }
}

// --- Params: values that a query is given beside its text.

/// Values by name. They reach an engine as variables, never as program text (N3).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Params(BTreeMap<ParamName, Box<RawValue>>);

impl Params {
    /// Gives `name` a value, in place of any it had.
    pub fn insert(&mut self, name: ParamName, value: &impl Serialize) -> Result<(), NotAName> {
        let raw = serde_json::value::to_raw_value(value).map_err(|_| NotAName::NoJson)?;
        self.insert_raw(name, raw);
        Ok(())
    }

    /// Gives `name` a value as it was written: no number is rounded on its way.
    pub fn insert_raw(&mut self, name: ParamName, value: Box<RawValue>) {
        self.0.insert(name, value);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.0.as_str(), value.get()))
    }
}

/// The name of a value: a variable in every engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ParamName(String);

/// Why there is no such value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAName {
    /// The name is not one.
    #[error("a parameter's name is a letter or `_`, then up to 63 letters, digits or `_`")]
    Name,
    /// An alias is not one.
    #[error(
        "an alias is a small letter or `_`, then up to 39 small letters, digits or `_`, \
         and not a name that SQL takes for something else"
    )]
    Alias,
    /// The value has no JSON form.
    #[error("the value has no JSON form")]
    NoJson,
}

const MAX_PARAM_NAME_LEN: usize = 64;

impl FromStr for ParamName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let starts_well = text.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        if starts_well && text.len() <= MAX_PARAM_NAME_LEN && text.bytes().all(word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAName::Name)
        }
    }
}

impl TryFrom<String> for ParamName {
    type Error = NotAName;

    fn try_from(text: String) -> Result<Self, NotAName> {
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

// --- Answer: what a query gave, and how much of it.

/// What a query gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// One JSON value per line.
    pub lines: Vec<u8>,
    /// The number of values in `lines`.
    pub given: u64,
    /// The number of values that the query makes in all; `None` where it makes so many more than
    /// may be given that counting was given up.
    pub total: Option<u64>,
    /// The number of records that were read.
    pub records_read: u64,
    /// The records on which a filter failed; it went on behind them.
    pub failed: Option<Failed>,
    /// The columns with numbers that neither a 64-bit integer nor a double can hold. Statements see
    /// those numbers as text.
    pub kept_as_text: Vec<String>,
    /// The fields that a filter reads and no record has, where it gave nothing, or nothing but null.
    pub unknown_fields: Vec<UnknownField>,
}

impl Answer {
    /// Whether there are values in the window that did not fit.
    pub fn is_cut(&self, window: Window) -> bool {
        let wanted = match self.total {
            None => return true,
            Some(total) => total.saturating_sub(window.offset),
        };
        self.given < window.limit.map_or(wanted, |limit| limit.min(wanted))
    }

    /// The lines as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.lines)
    }
}

/// Records on which a filter failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// How many.
    pub records: u64,
    /// The number of the first, from 1.
    pub first: u64,
    /// What the engine said about it: data, not guidance.
    pub message: String,
}

/// A field that a filter reads and no record has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnknownField {
    /// As the filter writes it.
    pub name: String,
    /// The fields that it probably means, the nearest first: data.
    pub near: Vec<String>,
}

/// Which of the values are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// How many to leave out.
    pub offset: u64,
    /// How many to give at most.
    pub limit: Option<u64>,
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
            assert_eq!(bad.parse::<ParamName>(), Err(NotAName::Name), "{bad}");
        }
    }
}
