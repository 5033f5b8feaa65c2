//! A value of a record as a table cell, and as a sort key.

use std::cmp::Ordering;

use lro_json::LexemeKind;

use crate::text::{harmless, unescape};

/// The longest part of a value, in bytes, that a cell shows.
const CELL_BYTES: usize = 2048;
/// The longest part of a text, in bytes, that is compared.
const KEY_BYTES: usize = 256;

/// The kind of a value, as the table distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Text,
    /// `null`, `true` and `false`, and a value beyond the part of a long record that is read.
    Word,
    /// An array or an object.
    Nested,
}

/// A value on one line, without characters that control the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Cell {
    /// The cell of a JSON value.
    pub(crate) fn from_json(value: &[u8]) -> Self {
        let kind = match LexemeKind::from_first_byte(value) {
            Some(LexemeKind::Number) => Kind::Number,
            Some(LexemeKind::String) => Kind::Text,
            Some(LexemeKind::Object | LexemeKind::Array) => Kind::Nested,
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

/// The sort key of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Key {
    /// The nearest double, and the difference of an integer to it.
    Number(f64, i64),
    Text(Box<str>),
    /// No value, or `null`: last in either direction.
    Missing,
}

impl Key {
    /// The key of a JSON value.
    pub(crate) fn from_json(value: Option<&[u8]>) -> Self {
        let Some(value) = value else { return Self::Missing };
        let head = &value[..value.len().min(KEY_BYTES)];
        match LexemeKind::from_first_byte(value) {
            Some(LexemeKind::Null) => Self::Missing,
            _ if value.is_empty() => Self::Missing,
            Some(LexemeKind::Number) => {
                let text = str::from_utf8(value).unwrap_or_default();
                let Ok(number) = text.parse::<f64>() else { return Self::Missing };
                // Ids and times are often longer than what a float holds.
                #[expect(clippy::cast_possible_truncation, reason = "what is beyond is no integer")]
                let rest = text.parse::<i128>().map_or(0, |exact| exact - number as i128);
                Self::Number(number, i64::try_from(rest).unwrap_or(0))
            }
            Some(LexemeKind::String) => {
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

    /// The key of a line of text.
    pub(crate) fn from_text(line: &[u8]) -> Self {
        let head = &line[..line.len().min(KEY_BYTES)];
        Self::Text(String::from_utf8_lossy(head).to_lowercase().into_boxed_str())
    }

    /// The bytes that the key takes on the heap.
    pub(crate) fn heap(&self) -> usize {
        match self {
            // The overhead of an allocation.
            Self::Text(text) => text.len() + 16,
            _ => 0,
        }
    }

    /// Numbers by size, then texts without regard to case; missing values are last in both
    /// directions.
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
        let cell = |json: &str| {
            let cell = Cell::from_json(json.as_bytes());
            (cell.kind, cell.text)
        };
        assert_eq!(cell("149.90"), (Kind::Number, "149.90".to_owned()));
        assert_eq!(cell(r#""a\n\u001b[2J""#), (Kind::Text, "a\\n<U+001B>[2J".to_owned()));
        assert_eq!(cell(r#""""#), (Kind::Text, String::new()));
        assert_eq!(cell("\""), (Kind::Text, String::new()));
        assert_eq!(cell("null"), (Kind::Word, "null".to_owned()));
        assert_eq!(cell(r#"{"a":1}"#), (Kind::Nested, r#"{"a":1}"#.to_owned()));
        assert!(cell(&format!("\"{}\"", "x".repeat(5000))).1.ends_with('…'));
    }

    #[test]
    fn numbers_come_as_numbers_and_what_is_missing_last_either_way() {
        let key = |json: Option<&str>| Key::from_json(json.map(str::as_bytes));
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
