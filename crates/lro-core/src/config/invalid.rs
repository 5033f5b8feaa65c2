//! What is wrong with a value, said so that a person can mend it.

use std::fmt;

/// A value that a key does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}, expected {expected}")]
#[non_exhaustive]
pub struct InvalidValue {
    /// The key as it is written in a file, for an entry of a map with the entry's name.
    pub key: String,
    /// The value as it was written, secrets left out and cut when long.
    pub value: String,
    /// What the key takes.
    pub expected: String,
}

/// Enough to recognise a value by; a message is no place for a whole list.
const VALUE_CHARS_SHOWN: usize = 80;

impl InvalidValue {
    /// Says that `key` holds `value` where `expected` was wanted.
    pub fn new(
        key: impl Into<String>,
        value: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let mut value = value.into();
        if let Some((cut, _)) = value.char_indices().nth(VALUE_CHARS_SHOWN) {
            value.truncate(cut);
            value.push('…');
        }
        Self { key: key.into(), value, expected: expected.into() }
    }
}

/// All values of a configuration that are wrong: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValues(Vec<InvalidValue>);

impl InvalidValues {
    /// `Ok` when there is nothing to complain about.
    pub(super) fn none_or(values: Vec<InvalidValue>) -> Result<(), Self> {
        if values.is_empty() { Ok(()) } else { Err(Self(values)) }
    }

    /// Each of them.
    pub fn iter(&self) -> std::slice::Iter<'_, InvalidValue> {
        self.0.iter()
    }
}

impl From<InvalidValue> for InvalidValues {
    fn from(value: InvalidValue) -> Self {
        Self(vec![value])
    }
}

impl IntoIterator for InvalidValues {
    type Item = InvalidValue;
    type IntoIter = std::vec::IntoIter<InvalidValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a InvalidValues {
    type Item = &'a InvalidValue;
    type IntoIter = std::slice::Iter<'a, InvalidValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for InvalidValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, value) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(formatter, "{separator}{value}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidValues {}
