//! Escapes invisible characters in text from results.
//!
//! Control, bidirectional, zero-width and tag characters can make a text look like another, or carry
//! invisible instructions. Where a part of a result is shown (a preview, a namespace, a column name),
//! each such character is replaced by its code point, as in `<U+202E>`. The stored data keeps them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether `text` contains no invisible characters. Line breaks and tabs are allowed.
pub fn is_visible(text: &str) -> bool {
    !text.char_indices().any(|(i, c)| is_invisible(c) && !is_line_break(text, i))
}

/// Replaces each invisible character by its code point, as in `<U+202E>`.
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if is_visible(text) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for (i, c) in text.char_indices() {
        if is_invisible(c) && !is_line_break(text, i) {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "<U+{:04X}>", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// The first `chars` characters of untrusted `text`, with invisible ones escaped and `…` if it was
/// longer. It is truncated first, because it may have megabytes.
pub fn excerpt(text: &str, chars: usize) -> String {
    let head: String = text.chars().take(chars).collect();
    let mut excerpt = escape_invisible(&head).into_owned();
    if head.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
}

/// Writes the invisible characters of `json` as `\u` escapes: the same value, but safe to print.
pub fn escape_invisible_json(json: &str) -> Cow<'_, str> {
    if is_visible(json) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    let mut units = [0; 2];
    for c in json.chars() {
        // Outside of strings, JSON has no invisible characters but line breaks.
        if is_invisible(c) && c != '\r' {
            for unit in c.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Whether the carriage return at `i` is part of a line break; alone it would overwrite the line.
fn is_line_break(text: &str, i: usize) -> bool {
    text[i..].starts_with("\r\n")
}

/// Whether `c` is invisible in displayed text.
pub fn is_invisible(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{200B}'..='\u{200F}'     // zero-width and directional marks
        | '\u{2028}'..='\u{202E}'   // line separators, bidirectional embedding and override
        | '\u{2060}'..='\u{206F}'   // invisible operators, bidirectional isolates
        | '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FE00}'..='\u{FE0F}'   // variation selectors
        | '\u{FFF0}'..='\u{FFFB}' // unassigned and interlinear
        | '\u{13430}'..='\u{1343F}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}' // tags and further variation selectors
        => true,
        c => c.is_control(),
    }
}

/// The first `limit` characters of the escaped `text`, with `…` if it was longer.
pub(crate) fn label(text: &str, limit: usize) -> String {
    let escaped = escape_invisible(text);
    match escaped.char_indices().nth(limit) {
        None => escaped.into_owned(),
        Some((cut, _)) => format!("{}\u{2026}", &escaped[..cut]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_become_visible_and_others_stay() {
        assert_eq!(
            escape_invisible("a\u{202e}b\u{e0041}\u{1b}[31m\u{200b}"),
            "a<U+202E>b<U+E0041><U+001B>[31m<U+200B>"
        );
        for plain in ["tab\there\r\n", "\u{e9}\u{4e2d}\u{1F600}\u{627}", ""] {
            assert!(matches!(escape_invisible(plain), Cow::Borrowed(_)), "{plain}");
        }
        let json = "{\"a\":\"\u{202e}\u{e0041}\u{7f}\"}";
        assert_eq!(escape_invisible_json(json), r#"{"a":"\u202e\udb40\udc41\u007f"}"#);
        assert_eq!(label("abcdef", 3), "abc\u{2026}");
        assert_eq!(label("abc", 3), "abc");
    }
}
