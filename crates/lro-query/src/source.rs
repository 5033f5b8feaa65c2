//! Source: the records that a query reads.

use std::fmt;
use std::str::FromStr;

use lro_spool::{PositionedRead, SpoolError, StoredResult, records_begin};
use serde::{Deserialize, Serialize};

use crate::params::NotAName;

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

const MAX_NAME_LEN: usize = 40;

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
        if starts_well && !taken && text.len() <= MAX_NAME_LEN && text.bytes().all(word) {
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
}
