//! Lexemes of JSON: their kinds, splitting and comparison, without building values.

use crate::SyntaxError;
use crate::cursor::{is_space, string_end};
use crate::unescape::decode;

/// The kind of a value, from its lexeme alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LexemeKind {
    /// `null`
    Null,
    /// `false`
    False,
    /// `true`
    True,
    /// A number.
    Number,
    /// `"…"`
    String,
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

impl LexemeKind {
    /// The kind that the first byte of `lexeme` promises; the rest of it is not looked at.
    #[inline]
    pub fn from_first_byte(lexeme: &[u8]) -> Option<Self> {
        Some(match lexeme.first()? {
            b'"' => Self::String,
            b'{' => Self::Object,
            b'[' => Self::Array,
            b'-' | b'0'..=b'9' => Self::Number,
            b'n' => Self::Null,
            b't' => Self::True,
            b'f' => Self::False,
            _ => return None,
        })
    }

    /// The kind of `lexeme`. `null`, `true` and `false` must be spelled out; strings, numbers and
    /// containers are recognized by their first byte.
    #[inline]
    pub fn from_lexeme(lexeme: &[u8]) -> Result<Self, SyntaxError> {
        let kind = Self::from_first_byte(lexeme).filter(|kind| match kind {
            Self::Null => lexeme == b"null",
            Self::True => lexeme == b"true",
            Self::False => lexeme == b"false",
            _ => true,
        });
        kind.ok_or(SyntaxError { offset: 0 })
    }
}

/// The inside of a string lexeme, quotes excluded; `None` for other kinds.
#[inline]
pub fn string_inside(lexeme: &[u8]) -> Option<&[u8]> {
    lexeme.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Whether two valid JSON texts have the same lexemes, apart from white space and with the escapes
/// of strings resolved (`"\u00e9"` equals `"é"`). Numbers must be spelled alike, and members must
/// have the same order.
pub fn same_lexemes(one: &[u8], other: &[u8]) -> bool {
    let (mut one, mut other) = (Lexemes(one), Lexemes(other));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a == b || same_string(a, b) => {}
            _ => return false,
        }
    }
}

fn same_string(a: &[u8], b: &[u8]) -> bool {
    let (Some(a), Some(b)) = (string_inside(a), string_inside(b)) else { return false };
    (a.contains(&b'\\') || b.contains(&b'\\'))
        && matches!((decode(a), decode(b)), (Some(a), Some(b)) if a == b)
}

/// `text` without the white space of JSON at its start.
pub fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| is_space(**byte)).count()..]
}

/// Splits valid JSON into its lexemes, and other text into pieces that are never empty.
///
/// A string without its closing quote is one lexeme up to the end of the text.
pub struct Lexemes<'a>(pub &'a [u8]);

impl<'a> Iterator for Lexemes<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = trim_start(self.0);
        let length = match rest.first()? {
            b'"' => string_end(rest, 0).unwrap_or(rest.len()),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => rest
                .iter()
                .position(|b| is_space(*b) || b"{}[],:\"".contains(b))
                .unwrap_or(rest.len()),
        };
        let (lexeme, rest) = rest.split_at(length);
        self.0 = rest;
        Some(lexeme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_escapes_do_not_matter() {
        for (one, other) in [
            (r#"{"a":[1,2.50,"é"]}"#, "{ \"a\" : [ 1, 2.50,\n\"\\u00e9\" ] }"),
            (r#""a\/b""#, r#""a/b""#),
            (r#"["\ud800"]"#, r#"[ "\ud800" ]"#),
            ("  true ", "true"),
        ] {
            assert!(same_lexemes(one.as_bytes(), other.as_bytes()), "{one} {other}");
        }
    }

    #[test]
    fn anything_else_does() {
        for (one, other) in [
            ("1", "1.0"),
            ("12", "1"),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
            ("[1]", "[1,1]"),
            (r#""1""#, "1"),
            (r#""\ud800""#, r#""\ud801""#),
            ("[]", ""),
        ] {
            assert!(!same_lexemes(one.as_bytes(), other.as_bytes()), "{one} {other}");
        }
    }

    #[test]
    fn what_is_no_json_has_an_end_as_well() {
        // A form feed is white space to ASCII, and none to JSON.
        let pieces: Vec<_> = Lexemes(b"a\x0cb \x0c\x0b,\x0c").collect();
        assert_eq!(pieces, [&b"a\x0cb"[..], b"\x0c\x0b", b",", b"\x0c"]);
        for byte in 0..=u8::MAX {
            assert!(Lexemes(&[byte, b'x', byte]).count() <= 3, "{byte}");
        }
        for cut in ["\"a", "\"a\\", "\"a\\\"", "\"\\\"a, b"] {
            assert_eq!(Lexemes(cut.as_bytes()).collect::<Vec<_>>(), [cut.as_bytes()], "{cut}");
        }
    }

    #[test]
    fn kinds_are_those_of_serde() {
        use serde_json::Value;
        for lexeme in ["null", "true", "false", "-1", "0", "\"\"", "[]", "{}"] {
            let expected = match serde_json::from_str(lexeme).unwrap() {
                Value::Null => LexemeKind::Null,
                Value::Bool(true) => LexemeKind::True,
                Value::Bool(false) => LexemeKind::False,
                Value::Number(_) => LexemeKind::Number,
                Value::String(_) => LexemeKind::String,
                Value::Array(_) => LexemeKind::Array,
                Value::Object(_) => LexemeKind::Object,
            };
            assert_eq!(LexemeKind::from_lexeme(lexeme.as_bytes()), Ok(expected), "{lexeme}");
            assert_eq!(LexemeKind::from_first_byte(lexeme.as_bytes()), Some(expected), "{lexeme}");
        }
        for lexeme in ["", "nul", "nulll", "True", "+1", ":", ".5"] {
            assert!(LexemeKind::from_lexeme(lexeme.as_bytes()).is_err(), "{lexeme}");
        }
        assert_eq!(string_inside(br#""a\"""#), Some(&br#"a\""#[..]));
        assert_eq!(string_inside(b"\""), None);
        assert_eq!(string_inside(b"1"), None);
    }
}
