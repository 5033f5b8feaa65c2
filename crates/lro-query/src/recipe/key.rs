//! JSON values in the sort order of `jq`.
//!
//! The order is null, false, true, numbers, strings, arrays, objects. Numbers compare as doubles,
//! strings by code point (the order of UTF-8 bytes), arrays element by element, and objects first by
//! their sorted names, then by the values of these names.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::error::Flaw;
use super::json_cursor::{Cursor, Kind, inside};
use super::json_string;

/// The maximum nesting depth; `jq` 1.6 does not read such values at all.
const MAX_DEPTH: usize = 256;

#[derive(Debug, Clone)]
pub(super) enum Key {
    Null,
    False,
    True,
    Number(f64),
    Text(Box<[u8]>),
    Array(Box<[Key]>),
    /// Sorted by name.
    Object(Box<[(Box<[u8]>, Key)]>),
}

impl Key {
    /// The key of a field; a missing field is null.
    pub(super) fn from_lexeme(lexeme: Option<&[u8]>) -> Result<Self, Flaw> {
        lexeme.map_or(Ok(Self::Null), |lexeme| Self::parse(&mut Cursor::new(lexeme), MAX_DEPTH))
    }

    /// Whether the operator `//` of `jq` takes the alternative instead.
    pub(super) fn is_falsy(&self) -> bool {
        matches!(self, Self::Null | Self::False)
    }

    fn parse(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, Flaw> {
        let depth = depth.checked_sub(1).ok_or(Flaw::TooDeep)?;
        match cursor.peek() {
            Some(b'[') => Self::array(cursor, depth),
            Some(b'{') => Self::object(cursor, depth),
            _ => Self::scalar(cursor.value()?),
        }
    }

    #[inline]
    fn scalar(lexeme: &[u8]) -> Result<Self, Flaw> {
        Ok(match Kind::from_lexeme(lexeme)? {
            Kind::Null => Self::Null,
            Kind::False => Self::False,
            Kind::True => Self::True,
            Kind::Number => {
                let number = std::str::from_utf8(lexeme).ok().and_then(|text| text.parse().ok());
                Self::Number(number.ok_or(Flaw::NotJson)?)
            }
            Kind::String => Self::Text(string(lexeme)?),
            Kind::Array | Kind::Object => return Err(Flaw::NotJson),
        })
    }

    fn array(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, Flaw> {
        let mut elements = Vec::new();
        cursor.take(b'[');
        if !cursor.take(b']') {
            loop {
                elements.push(Self::parse(cursor, depth)?);
                if cursor.take(b']') {
                    break;
                }
                if !cursor.take(b',') {
                    return Err(Flaw::NotJson);
                }
            }
        }
        Ok(Self::Array(elements.into()))
    }

    fn object(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, Flaw> {
        let mut members = BTreeMap::new();
        cursor.take(b'{');
        if !cursor.take(b'}') {
            loop {
                let name = string(cursor.value()?)?;
                if !cursor.take(b':') {
                    return Err(Flaw::NotJson);
                }
                members.insert(name, Self::parse(cursor, depth)?);
                if cursor.take(b'}') {
                    break;
                }
                if !cursor.take(b',') {
                    return Err(Flaw::NotJson);
                }
            }
        }
        Ok(Self::Object(members.into_iter().collect()))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::False => 1,
            Self::True => 2,
            Self::Number(_) => 3,
            Self::Text(_) => 4,
            Self::Array(_) => 5,
            Self::Object(_) => 6,
        }
    }
}

fn string(lexeme: &[u8]) -> Result<Box<[u8]>, Flaw> {
    let inside = inside(lexeme).ok_or(Flaw::NotJson)?;
    Ok(json_string::decode(inside, &mut Vec::new()).into())
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            // JSON has no NaN; -0 equals 0, as in jq.
            (Self::Number(a), Self::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            (Self::Array(a), Self::Array(b)) => a.cmp(b),
            (Self::Object(a), Self::Object(b)) => {
                let names = a.iter().map(|member| &member.0).cmp(b.iter().map(|member| &member.0));
                names.then_with(|| a.iter().map(|m| &m.1).cmp(b.iter().map(|m| &m.1)))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_ordered_as_jq_orders_them() {
        let ascending = [
            "null",
            "false",
            "true",
            "-1e400",
            "-2",
            "0",
            "0.5",
            "1e3",
            r#""""#,
            r#""A""#,
            r#""a""#,
            r#""\u00e9""#,
            r#""日""#,
            r#""\ud83d\ude00""#,
            "[]",
            "[null]",
            "[1]",
            "[1,0]",
            "[2]",
            "{}",
            r#"{"a":2}"#,
            r#"{"a":3}"#,
            r#"{"a":1,"b":1}"#,
            r#"{"b":0}"#,
        ];
        let keys: Vec<Key> = ascending
            .iter()
            .map(|lexeme| Key::from_lexeme(Some(lexeme.as_bytes())).unwrap())
            .collect();
        for (i, key) in keys.iter().enumerate() {
            for (j, other) in keys.iter().enumerate() {
                assert_eq!(key.cmp(other), i.cmp(&j), "{} {}", ascending[i], ascending[j]);
            }
        }
        assert_eq!(Key::from_lexeme(Some(b"1.0")), Key::from_lexeme(Some(b"10e-1")));
        assert_eq!(Key::from_lexeme(None), Ok(Key::Null));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(Key::from_lexeme(Some(deep.as_bytes())), Err(Flaw::TooDeep));
    }
}
