//! A JSON reader that refuses duplicate member names.
//!
//! Of two equal names one reader takes the first and another the last. Whoever signed such a text
//! and whoever reads it may mean different things, so it is refused.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The object that `json` is, if it is one whose own names differ.
pub(crate) fn read(json: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice::<Object>(json).ok().map(|object| object.0)
}

struct Object(Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
        let mut object = Map::new();
        while let Some((name, value)) = entries.next_entry::<String, Value>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate member name"));
            }
        }
        Ok(Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_once() {
        assert_eq!(read(br#"{"a":1,"b":{"a":2}}"#).map(|object| object.len()), Some(2));
        let twice = [&br#"{"a":1,"a":1}"#[..], br#"{"a":1,"b":2,"\u0061":3}"#];
        let none = [&b"[]"[..], b"1", b"", b"{}{}", b"{\"a\":1,}", b"\xff", b"{\"a\":\"\xff\"}"];
        for refused in twice.into_iter().chain(none) {
            assert_eq!(read(refused), None, "{}", String::from_utf8_lossy(refused));
        }
    }
}
