//! Id: what a request is called until it is answered.

use std::fmt;

use serde_json::value::RawValue;

use lro_json::text;

/// A request's id, as it is spelled.
///
/// Servers read an id and write it again: `1.0` may come back as `1`, `"\u0061"` as `"a"`, and a
/// number beyond 2^53 rounded. Two ids are equal when they stand for the same.
#[derive(Debug, Clone)]
pub struct Id(Box<str>);

impl Id {
    /// The id that `raw` spells.
    pub fn from_raw(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }

    /// As it is spelled.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// `result`, which is JSON, as the response to the request called so.
    pub fn response(&self, result: impl fmt::Display) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{self},"result":{result}}}"#)
    }

    /// What the id stands for.
    pub fn key(&self) -> IdKey {
        match self.0.as_bytes().first() {
            Some(b'"') => text(&self.0).map_or_else(
                || IdKey::Odd(self.0.clone()),
                |text| IdKey::Text(text.into_owned().into()),
            ),
            Some(b'-' | b'0'..=b'9') => self.0.parse::<f64>().map_or_else(
                |_| IdKey::Odd(self.0.clone()),
                // -0 is 0.
                |number| IdKey::Number((number + 0.0).to_bits()),
            ),
            _ => IdKey::Odd(self.0.clone()),
        }
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.key() == other.key()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an id stands for, however it is spelled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IdKey {
    /// A string.
    Text(Box<str>),
    /// A number, as most servers hold it.
    Number(u64),
    /// What no request should be called by.
    Odd(Box<str>),
}
