//! A record spread over rows of a given width, with every lexeme as it is.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::text::{CUT, harmless};

/// More rows than anybody scrolls through; a record of nothing but brackets would make millions.
const MOST_ROWS: usize = 100_000;

/// However deep a value lies, its row begins no farther to the right.
const DEEPEST: usize = 80;
/// Rows of a document that is read as text: as long as any value that is looked at.
const UNBROKEN: usize = 1 << 16;

/// Spreads a JSON document over lines, every lexeme as it is; nothing where that makes too many.
pub fn spread(json: &str) -> Option<String> {
    let rows = rows(json, UNBROKEN);
    (rows.len() <= MOST_ROWS).then(|| rows.join("\n"))
}

/// Rows being filled.
struct Rows {
    done: Vec<String>,
    row: String,
    used: usize,
    width: usize,
    depth: usize,
}

/// Spreads a record over rows of `width` columns.
pub(crate) fn rows(record: &str, width: usize) -> Vec<String> {
    Rows::filled(width, |rows| rows.json(record))
}

/// Wraps a line of text, every character of it as it is: it may look like the beginning of JSON.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    Rows::filled(width, |rows| rows.add(&harmless(text)))
}

impl Rows {
    fn filled(width: usize, fill: impl FnOnce(&mut Self)) -> Vec<String> {
        let width = width.max(1);
        let mut rows = Self { done: Vec::new(), row: String::new(), used: 0, width, depth: 0 };
        fill(&mut rows);
        rows.end();
        rows.done
    }

    fn json(&mut self, json: &str) {
        // The same value, with nothing in it that steers the terminal.
        let json = lro_core::escape_hidden(json);
        let bytes = json.as_bytes();
        let mut at = 0;
        while at < bytes.len() && self.done.len() < MOST_ROWS {
            let from = at;
            at += 1;
            match bytes[from] {
                b'{' | b'[' => {
                    self.add(&json[from..at]);
                    if let Some(b'}' | b']') = bytes.get(at) {
                        self.add(&json[at..=at]);
                        at += 1;
                    } else {
                        self.depth += 1;
                        self.line();
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.line();
                    self.add(&json[from..at]);
                }
                b',' => {
                    self.add(",");
                    self.line();
                }
                b':' => self.add(": "),
                b' ' | b'\t' | b'\n' | b'\r' => {}
                b'"' => {
                    while let Some(i) = memchr::memchr2(b'"', b'\\', &bytes[at..]) {
                        at += i + 1;
                        if bytes[at - 1] == b'"' {
                            break;
                        }
                        at += 1;
                        if at >= bytes.len() {
                            break;
                        }
                    }
                    let end = if bytes.get(at - 1) == Some(&b'"') && at > from + 1 {
                        at
                    } else {
                        bytes.len()
                    };
                    at = end;
                    self.add(&harmless(json.get(from..end).unwrap_or_default()));
                }
                _ => {
                    let ends = |b: &u8| {
                        matches!(b, b',' | b':' | b'}' | b']' | b'{' | b'[' | b'"')
                            || b.is_ascii_whitespace()
                    };
                    at = bytes[from..].iter().position(ends).map_or(bytes.len(), |i| from + i);
                    self.add(&harmless(&json[from..at]));
                }
            }
        }
    }

    /// Adds text, over as many rows as it takes.
    fn add(&mut self, text: &str) {
        for piece in text.graphemes(true) {
            let columns = piece.width();
            if self.used + columns > self.width && self.used > self.indentation() {
                if self.done.len() >= MOST_ROWS {
                    return;
                }
                self.line();
            }
            self.row.push_str(piece);
            self.used += columns;
        }
    }

    /// However deep a value lies, most of a row is left for it.
    fn indentation(&self) -> usize {
        (self.depth * 2).min(self.width / 3).min(DEEPEST)
    }

    fn line(&mut self) {
        self.done.push(std::mem::take(&mut self.row));
        self.used = self.indentation();
        self.row = " ".repeat(self.used);
    }

    fn end(&mut self) {
        if self.done.len() >= MOST_ROWS {
            CUT.clone_into(&mut self.row);
        }
        self.line();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::width;

    #[test]
    fn every_lexeme_stays_and_long_values_are_wrapped_under_themselves() {
        let json = r#"{"a":[149.90,1e400,{}],"b":{"a\"}":"x, \\ and a text","a":[]}}"#;
        insta::assert_snapshot!(rows(json, 18).join("\n"), @r#"
        {
          "a": [
            149.90,
            1e400,
            {}
          ],
          "b": {
            "a\"}": "x, \\
             and a text",
            "a": []
          }
        }
        "#);
    }

    #[test]
    fn a_record_of_brackets_ends_before_the_memory_does() {
        let rows = rows(&"[1,".repeat(1 << 20), 80);
        assert_eq!(rows.len(), MOST_ROWS + 1);
        assert_eq!(rows.last().unwrap(), "…");
    }

    #[test]
    fn hidden_characters_are_escaped_in_json_and_shown_in_text() {
        assert_eq!(rows("[\"\u{202e}\u{1b}\"]", 40)[1], r#"  "\u202e\u001b""#);
        assert_eq!(wrapped("a\u{1b}[2J\tb", 40), ["a<U+001B>[2J\\tb"]);
        assert_eq!(wrapped("[INFO] a: b, c", 9), ["[INFO] a:", " b, c"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_all_rows_fit(text in "[\\[{\"\\\\a:, 字\\]}]{0,30}", room in 2_usize..20) {
            let rows = rows(&text, room);
            prop_assert!(rows.iter().all(|row| width(row) <= room));
            let plain = |text: &str| text.replace([' ', '\t'], "");
            prop_assert_eq!(plain(&rows.concat()), plain(&text));
        }
    }
}
