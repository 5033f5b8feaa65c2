//! Pretty printing of a record into rows of a given width, with every lexeme as it is.

use lro_json::PrettyTokens;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::text::{CUT, harmless};

/// The most rows of a record; one of nothing but brackets would make millions.
const MAX_ROWS: usize = 100_000;

/// The widest indentation, in columns.
const MAX_INDENTATION: usize = 80;
/// The width of rows, in columns, of a document that is read as text.
const DOCUMENT_WIDTH: usize = 1 << 16;

/// Spreads a JSON document over lines, every lexeme as it is; `None` where that makes too many.
pub fn spread(json: &str) -> Option<String> {
    let rows = rows(json, DOCUMENT_WIDTH);
    (rows.len() <= MAX_ROWS).then(|| rows.join("\n"))
}

/// The rows that are complete, and the one being filled.
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

/// Wraps a line of text, which may look like JSON and is not parsed.
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
        // The same value, without characters that control the terminal.
        let json = lro_core::escape_invisible_json(json);
        for token in PrettyTokens::new(&json) {
            if self.done.len() >= MAX_ROWS {
                break;
            }
            if token.break_before {
                self.depth = token.depth;
                self.line();
            }
            self.add(&harmless(token.text));
            if token.break_after {
                self.depth = token.depth;
                self.line();
            }
        }
    }

    /// Adds text, over as many rows as it takes.
    fn add(&mut self, text: &str) {
        for piece in text.graphemes(true) {
            let columns = piece.width();
            if self.used + columns > self.width && self.used > self.indentation() {
                if self.done.len() >= MAX_ROWS {
                    return;
                }
                self.line();
            }
            self.row.push_str(piece);
            self.used += columns;
        }
    }

    /// Leaves most of a row for the value, however deep it is nested.
    fn indentation(&self) -> usize {
        (self.depth * 2).min(self.width / 3).min(MAX_INDENTATION)
    }

    fn line(&mut self) {
        self.done.push(std::mem::take(&mut self.row));
        self.used = self.indentation();
        self.row = " ".repeat(self.used);
    }

    fn end(&mut self) {
        if self.done.len() >= MAX_ROWS {
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
        assert_eq!(rows.len(), MAX_ROWS + 1);
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
        fn nothing_is_lost_and_all_rows_fit(text in "[\\[{\"\\\\a:, 字\\]}]{0,30}", columns in 2_usize..20) {
            let rows = rows(&text, columns);
            prop_assert!(rows.iter().all(|row| width(row) <= columns));
            let plain = |text: &str| text.replace([' ', '\t'], "");
            prop_assert_eq!(plain(&rows.concat()), plain(&text));
        }
    }
}
