//! JSON lexemes, compared and decoded without building values.

use std::borrow::Cow;

/// The text that a string lexeme (quotes excluded) stands for; `None` when it cannot be UTF-8, as
/// with a lone surrogate.
pub fn decode(lexeme: &[u8]) -> Option<Cow<'_, str>> {
    if !lexeme.contains(&b'\\') {
        return std::str::from_utf8(lexeme).ok().map(Cow::Borrowed);
    }
    let mut quoted = Vec::with_capacity(lexeme.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(lexeme);
    quoted.push(b'"');
    serde_json::from_slice::<String>(&quoted).ok().map(Cow::Owned)
}

/// `text` as a JSON string, quotes included.
pub fn encode(text: &str) -> String {
    // A &str always serializes; the fallback keeps the function total.
    serde_json::to_string(text).unwrap_or_else(|_| String::from("\"\""))
}

/// Whether two valid JSON texts say the same, lexeme by lexeme: white space aside, and with a
/// string's escapes resolved (`"\u00e9"` is `"é"`). Numbers must be spelled alike and members must
/// stand in the same order; anything else counts as saying something different.
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
    fn inside(lexeme: &[u8]) -> Option<&[u8]> {
        lexeme.strip_prefix(b"\"")?.strip_suffix(b"\"")
    }
    let (Some(a), Some(b)) = (inside(a), inside(b)) else { return false };
    (a.contains(&b'\\') || b.contains(&b'\\'))
        && matches!((decode(a), decode(b)), (Some(a), Some(b)) if a == b)
}

/// `text` without the white space of JSON at its start.
pub fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| is_space(**byte)).count()..]
}

/// Whether JSON takes the byte for white space; a form feed is none.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Splits valid JSON into its lexemes, and anything else into pieces that are never empty.
pub struct Lexemes<'a>(pub &'a [u8]);

impl<'a> Iterator for Lexemes<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = trim_start(self.0);
        let length = match rest.first()? {
            b'"' => string_length(rest),
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

fn string_length(text: &[u8]) -> usize {
    let mut i = 1;
    while i < text.len() {
        match text[i] {
            b'"' => return i + 1,
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    text.len()
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
    }

    #[test]
    fn decoding_resolves_escapes_and_refuses_lone_surrogates() {
        assert_eq!(decode(br"a\n\u00e9").as_deref(), Some("a\n\u{e9}"));
        assert_eq!(decode(br"\ud83d\ude00").as_deref(), Some("\u{1F600}"));
        assert_eq!(decode(br"\ud83d"), None);
        assert_eq!(decode(b"\xff"), None);
    }
}
