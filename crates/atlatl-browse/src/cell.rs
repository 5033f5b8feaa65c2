//! Cell: one value of a record as a table shows it.

use std::cmp::Ordering;

use crate::text::{harmless, unescape};

/// More of a value than any screen shows in a cell.
const CELL_BYTES: usize = 2048;
/// How much of a text decides its place in the order.
const KEY_BYTES: usize = 256;

/// What a value is, as far as looks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Text,
    /// `null`, `true` and `false`, and a value that is too far behind in a long record.
    Word,
    /// An array or an object.
    Nested,
}

/// A value, fit to be shown on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Cell {
    /// A value as it is written in JSON.
    pub(crate) fn of_json(value: &[u8]) -> Self {
        let kind = match value.first() {
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            Some(b'"') => Kind::Text,
            Some(b'{' | b'[') => Kind::Nested,
            _ => Kind::Word,
        };
        let head = &value[..value.len().min(CELL_BYTES)];
        let mut text = match kind {
            Kind::Text => {
                let whole = head.len() == value.len() && head.len() > 1;
                let inner = if whole { head.strip_suffix(b"\"").unwrap_or(head) } else { head };
                harmless(&unescape(&inner[1..], CELL_BYTES)).into_owned()
            }
            _ => harmless(&String::from_utf8_lossy(head)).into_owned(),
        };
        if head.len() < value.len() {
            text.push_str(crate::text::CUT);
        }
        Self { kind, text }
    }
}

/// What a value is sorted by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Key {
    /// Its size, and by how much an integer is more than that.
    Number(f64, i64),
    Text(Box<str>),
    /// No value, or `null`: last in either direction.
    Missing,
}

impl Key {
    /// Of a value as it is written in JSON.
    pub(crate) fn of_json(value: Option<&[u8]>) -> Self {
        let Some(value) = value else { return Self::Missing };
        let head = &value[..value.len().min(KEY_BYTES)];
        match value.first() {
            None | Some(b'n') => Self::Missing,
            Some(b'-' | b'0'..=b'9') => {
                let text = str::from_utf8(value).unwrap_or_default();
                let Ok(number) = text.parse::<f64>() else { return Self::Missing };
                // Ids and times are often longer than what a float holds.
                #[expect(clippy::cast_possible_truncation, reason = "what is beyond is no integer")]
                let rest = text.parse::<i128>().map_or(0, |exact| exact - number as i128);
                Self::Number(number, i64::try_from(rest).unwrap_or(0))
            }
            Some(b'"') => {
                let inner = if head.len() == value.len() {
                    head.strip_suffix(b"\"").unwrap_or(head)
                } else {
                    head
                };
                let text = unescape(inner.get(1..).unwrap_or_default(), KEY_BYTES);
                Self::Text(text.to_lowercase().into_boxed_str())
            }
            _ => Self::Text(String::from_utf8_lossy(head).into_owned().into_boxed_str()),
        }
    }

    /// What it takes in memory beside itself.
    pub(crate) fn heap(&self) -> usize {
        match self {
            // What an allocation takes at least, and beside its bytes.
            Self::Text(text) => text.len() + 16,
            _ => 0,
        }
    }

    /// Numbers by their size, before texts by their letters, case ignored; what is missing last.
    pub(crate) fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let rank = |key: &Self| match key {
            Self::Number(..) => 0,
            Self::Text(_) => 1,
            Self::Missing => 2,
        };
        let order = match (self, other) {
            (Self::Missing, _) | (_, Self::Missing) => return rank(self).cmp(&rank(other)),
            (Self::Number(one, more), Self::Number(two, other)) => {
                one.total_cmp(two).then(more.cmp(other))
            }
            (Self::Text(one), Self::Text(two)) => one.cmp(two),
            _ => rank(self).cmp(&rank(other)),
        };
        if descending { order.reverse() } else { order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_they_are_written_and_texts_without_quotes() {
        let shown = |json: &str| {
            let cell = Cell::of_json(json.as_bytes());
            (cell.kind, cell.text)
        };
        assert_eq!(shown("149.90"), (Kind::Number, "149.90".to_owned()));
        assert_eq!(shown(r#""a\n\u001b[2J""#), (Kind::Text, "a\\n<U+001B>[2J".to_owned()));
        assert_eq!(shown(r#""""#), (Kind::Text, String::new()));
        assert_eq!(shown("\""), (Kind::Text, String::new()));
        assert_eq!(shown("null"), (Kind::Word, "null".to_owned()));
        assert_eq!(shown(r#"{"a":1}"#), (Kind::Nested, r#"{"a":1}"#.to_owned()));
        assert!(shown(&format!("\"{}\"", "x".repeat(5000))).1.ends_with('…'));
    }

    #[test]
    fn numbers_come_as_numbers_and_what_is_missing_last_either_way() {
        let key = |json: Option<&str>| Key::of_json(json.map(str::as_bytes));
        let mut keys: Vec<Key> =
            [Some("10"), Some("null"), Some("\"b\""), Some("9.5"), None, Some("\"A\"")]
                .map(key)
                .into();
        keys.sort_by(|one, two| one.compare(two, false));
        let text = |text: &str| Key::Text(text.into());
        let missing = [Key::Missing, Key::Missing];
        let up = [Key::Number(9.5, 0), Key::Number(10.0, 0), text("a"), text("b")];
        assert_eq!(keys, [&up[..], &missing[..]].concat());
        keys.sort_by(|one, two| one.compare(two, true));
        let down = [text("b"), text("a"), Key::Number(10.0, 0), Key::Number(9.5, 0)];
        assert_eq!(keys, [&down[..], &missing[..]].concat());
        let order = |one, two| key(Some(one)).compare(&key(Some(two)), false);
        assert_eq!(order("1763200000000000001", "1763200000000000002"), Ordering::Less);
        assert_eq!(order("-9007199254740993", "-9007199254740992"), Ordering::Less);
    }
}
