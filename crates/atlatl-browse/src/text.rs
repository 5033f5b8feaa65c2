//! Text for display: sanitized, on one line, fitted to a width.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Marks truncated text.
pub(crate) const CUT: &str = "\u{2026}";
/// The most combining marks on one character; more would run over other lines.
const MAX_COMBINING_MARKS: usize = 3;

/// Escapes everything that would control the terminal, reorder the text, or break the line.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let shown = lro_core::escape_invisible(text);
    let breaks = |c: char| matches!(c, '\n' | '\t' | '\r');
    if shown.is_ascii() && !shown.contains(breaks) {
        return shown;
    }
    let mut clean = String::with_capacity(shown.len());
    let mut marks = 0;
    for c in shown.chars() {
        match c {
            '\n' => clean.push_str("\\n"),
            '\t' => clean.push_str("\\t"),
            '\r' => clean.push_str("\\r"),
            // Writing to a String cannot fail.
            _ if c.width() == Some(0) && marks >= MAX_COMBINING_MARKS => {
                let _ = write!(clean, "<U+{:04X}>", u32::from(c));
            }
            _ => clean.push(c),
        }
        marks = if c.width() == Some(0) { marks + 1 } else { 0 };
    }
    Cow::Owned(clean)
}

/// The display width of a text.
pub fn width(text: &str) -> usize {
    // By grapheme clusters, as the screen fills its cells.
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(str::width).sum() }
}

/// Fits a text into `room` columns, truncated with a mark if necessary.
pub fn fit(text: &str, room: usize) -> Cow<'_, str> {
    if width(text) <= room {
        return Cow::Borrowed(text);
    }
    if room == 0 {
        return Cow::Borrowed("");
    }
    let head = &text[..end_of(text, room - 1)];
    Cow::Owned(format!("{head}{CUT}"))
}

/// The end of the longest prefix that fits into `room` columns.
pub(crate) fn end_of(text: &str, room: usize) -> usize {
    let (mut end, mut used) = (0, 0);
    for (at, piece) in text.grapheme_indices(true) {
        used += piece.width();
        if used > room {
            break;
        }
        end = at + piece.len();
    }
    end
}

/// Formats a number with thousands separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Decodes the escapes of a JSON string, up to `most` bytes. Invalid UTF-8 and unpaired surrogates
/// are replaced.
pub(crate) fn unescape(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::with_capacity(text.len().min(most) + 4);
    let mut rest = &*text;
    while let Some(i) = memchr::memchr(b'\\', rest.as_bytes()) {
        plain.push_str(&rest[..i]);
        rest = &rest[i..];
        if plain.len() > most {
            return plain;
        }
        let (c, used) = escape(rest);
        plain.push(c);
        rest = &rest[used..];
    }
    plain.push_str(rest);
    plain
}

/// Decodes the escape at the start of `text`, and returns its length.
fn escape(text: &str) -> (char, usize) {
    let Some(sign) = text[1..].chars().next() else { return ('\\', 1) };
    let plain = match sign {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => {
            let unit = |at: usize| {
                let digits =
                    text.get(at..at + 4).filter(|_| text.get(at - 2..at) == Some("\\u"))?;
                u16::from_str_radix(digits, 16).ok()
            };
            let Some(first) = unit(2) else { return ('\u{fffd}', 2) };
            return match char::decode_utf16([first].into_iter().chain(unit(8))).next() {
                Some(Ok(c)) => (c, if c.len_utf16() == 2 { 12 } else { 6 }),
                _ => ('\u{fffd}', 6),
            };
        }
        other => other,
    };
    (plain, 1 + sign.len_utf8())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminals_are_not_steered() {
        assert_eq!(
            harmless("\u{1b}[2J\r\n\u{9b}1m\u{202e}x\ty"),
            "<U+001B>[2J\\r\\n<U+009B>1m<U+202E>x\\ty"
        );
        assert_eq!(harmless("plain ключ 鍵"), "plain ключ 鍵");
        let pile = format!("e{}", "\u{301}".repeat(5));
        assert_eq!(harmless(&pile), "e\u{301}\u{301}\u{301}<U+0301><U+0301>");
    }

    #[test]
    fn wide_characters_are_cut_between_columns() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("字段名称", 5), "字段…");
        assert_eq!(fit("字段名称", 4), "字…");
        assert_eq!(fit("字", 1), "…");
        assert_eq!(fit("字", 0), "");
        assert_eq!(width("🦀a\u{301}"), 3);
    }

    #[test]
    fn escapes_are_read_as_json_reads_them() {
        assert_eq!(unescape(br#"a\n\"\\\/\u00e9\ud83e\udd80"#, 100), "a\n\"\\/é🦀");
        assert_eq!(unescape(br"\ud83ex\u12", 100), "\u{fffd}x\u{fffd}12");
        assert_eq!(unescape(b"\\", 100), "\\");
    }

    proptest! {
        #[test]
        fn nothing_that_steers_is_left(text in "\\PC{0,20}|.{0,20}|[\u{0}-\u{ff}\u{2000}-\u{2070}]{0,20}") {
            let shown = harmless(&text);
            prop_assert!(!shown.chars().any(char::is_control));
            let turns = |c| ('\u{202a}'..='\u{202e}').contains(&c);
            prop_assert!(!shown.contains(turns));
        }

        #[test]
        fn a_cut_text_fits(text in "[a字🦀\u{301}]{0,12}", room in 0_usize..10) {
            prop_assert!(width(&fit(&text, room)) <= room);
        }

        #[test]
        fn any_escape_is_survived(text in "[\\\\u0-9dDfnx\"é]{0,20}") {
            unescape(text.as_bytes(), 8);
        }
    }
}
