//! Params: values that a query is given beside its text.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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

const MAX_NAME_LEN: usize = 64;

impl FromStr for ParamName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let starts_well = text.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        if starts_well && text.len() <= MAX_NAME_LEN && text.bytes().all(word) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
