//! The preview of a stored result: its first records or lines.
//!
//! A preview is for reading. It preserves lexemes, but escapes invisible characters and marks strings
//! that are not text. A first record that exceeds the budget is records with its long strings, arrays
//! and objects truncated and marked. The stored data is not affected.

pub(crate) mod truncate;

use serde::Serialize;
use serde_json::value::RawValue;

use self::truncate::{Limits, show};
use crate::sanitize::escape_invisible;
use crate::tokens::{Measure, Tokens};
use lro_json::encode;

/// The preview of a stored result.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Preview {
    /// The first records.
    Records(Vec<Box<RawValue>>),
    /// The first lines or characters.
    Text(String),
}

/// Whether a preview consists of complete records or of the complete text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a yes or a no")]
pub enum PreviewExtent {
    /// Complete.
    Whole,
    /// Truncated.
    Abridged,
}

impl Preview {
    /// The first of the record `lines` that fit `budget`. If not even the first one fits, it is
    /// truncated. The last line may be incomplete if it is the only one.
    pub fn from_records(lines: &str, budget: Tokens) -> Option<(Self, PreviewExtent)> {
        let mut left = budget.0;
        let mut records = Vec::new();
        if lines.ends_with('\n') {
            for line in lines.lines() {
                let Some(text) = show(line, Limits::NONE) else { break };
                let Some(rest) = left.checked_sub(cost(&text)) else { break };
                left = rest;
                records.push(RawValue::from_string(text).ok()?);
            }
        }
        if !records.is_empty() {
            return Some((Self::Records(records), PreviewExtent::Whole));
        }
        let first = lines.lines().next()?;
        let text = Limits::ever_smaller()
            .filter_map(|limits| show(first, limits))
            .find(|text| cost(text) <= budget.0)?;
        Some((Self::Records(vec![RawValue::from_string(text).ok()?]), PreviewExtent::Abridged))
    }

    /// The beginning of `text` that fits `budget`, up to the end of a line if there is one.
    pub fn from_text(text: &str, budget: Tokens) -> Option<(Self, PreviewExtent)> {
        // More characters never fit the budget.
        let max_chars = usize::try_from(budget.0.saturating_mul(4)).unwrap_or(usize::MAX);
        let start = text.char_indices().nth(max_chars).map_or(text, |(end, _)| &text[..end]);
        let mut preview = escape_invisible(start).into_owned();
        while cost(&encode(&preview)) > budget.0 && !preview.is_empty() {
            let end = preview.floor_char_boundary(preview.len() * 4 / 5);
            preview.truncate(end);
        }
        if preview.is_empty() {
            return None;
        }
        if preview.len() == escape_invisible(text).len() {
            return Some((Self::Text(preview), PreviewExtent::Whole));
        }
        if let Some(line) = preview.rfind('\n').filter(|line| *line > 0) {
            preview.truncate(line);
        }
        Some((Self::Text(preview), PreviewExtent::Abridged))
    }
}

fn cost(text: &str) -> u64 {
    Measure::from_bytes(text.as_bytes()).cost()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lines: &str, budget: u64) -> (String, PreviewExtent) {
        let (preview, cut) = Preview::from_records(lines, Tokens(budget)).unwrap();
        (serde_json::to_string(&preview).unwrap(), cut)
    }

    #[test]
    fn whole_records_are_shown_while_they_fit() {
        let lines =
            "{\"a\":12345678901234567890}\n{\"a\":1.50}\n{\"a\":\"long enough not to fit\"}\n";
        let expected = "[{\"a\":12345678901234567890},{\"a\":1.50}]";
        assert_eq!(records(lines, 16), (expected.to_owned(), PreviewExtent::Whole));
        assert!(Preview::from_records("", Tokens(100)).is_none());
    }

    #[test]
    fn f32_a_record_too_large_is_abridged_and_stays_json() {
        let record = format!(
            r#"{{"text":"{}","list":[1,[2,3],{{"x":4}},5,6,7,8,9,10,11,12],"last":true}}"#,
            "word ".repeat(500)
        );
        let (preview, cut) = records(&(record + "\n"), 90);
        assert_eq!(cut, PreviewExtent::Abridged);
        let value: serde_json::Value = serde_json::from_str(&preview).unwrap();
        assert!(value[0]["text"].as_str().unwrap().ends_with("characters)"), "{preview}");
        let list = value[0]["list"].as_array().unwrap();
        assert!(list.last().unwrap().as_str().unwrap().ends_with("more)"));
        assert_eq!(value[0]["last"], true);
    }

    #[test]
    fn f32_a_record_whose_end_was_not_kept_still_has_a_preview() {
        let record = format!(r#"{{"id":7,"tags":["a"],"text":"{}","more":[1]}}"#, "x".repeat(9000));
        for cut in [&record[..5000], &record[..20], &record[..13], &record[..2]] {
            let (preview, whole) = records(cut, 120);
            assert_eq!(whole, PreviewExtent::Abridged);
            let value: serde_json::Value = serde_json::from_str(&preview).expect(&preview);
            assert!(value[0].is_object(), "{preview}");
        }
        assert!(records(&record[..5000], 120).0.contains(r#""id":7,"tags":["a"],"text":"xxx"#));
    }

    #[test]
    fn f32_a_record_of_many_fields_is_abridged_too() {
        let fields: Vec<String> = (0..300).map(|i| format!(r#""field_{i}":{i}"#)).collect();
        let (preview, _) = records(&format!("{{{}}}\n", fields.join(",")), 300);
        let value: serde_json::Value = serde_json::from_str(&preview).unwrap();
        assert_eq!(value[0]["field_0"], 0);
        assert!(value[0]["\u{2026}"].as_str().unwrap().ends_with("more"), "{preview}");
    }

    #[test]
    fn hidden_characters_surrogates_and_depth_do_not_reach_the_client() {
        let (preview, _) = records("{\"a\":\"x\u{202e}y\",\"b\":\"\\ud800\"}\n", 100);
        assert_eq!(preview, r#"[{"a":"x<U+202E>y","b":"<not text>"}]"#);
        let deep = "{\"a\":".repeat(40) + "1" + &"}".repeat(40) + "\n";
        assert!(Preview::from_records(&deep, Tokens(1000)).is_none());
    }

    #[test]
    fn text_is_cut_at_a_line_within_its_budget() {
        let (preview, cut) =
            Preview::from_text("first line\nsecond line\nthird", Tokens(8)).unwrap();
        assert_eq!(cut, PreviewExtent::Abridged);
        assert_eq!(serde_json::to_string(&preview).unwrap(), r#""first line""#);
        assert!(Preview::from_text("x", Tokens(0)).is_none());
        for text in ["\u{1}", "\u{200b}", "a\r\n", "\u{1b}[31m", "\"", "\u{13080}"] {
            let (preview, _) = Preview::from_text(&text.repeat(5000), Tokens(300)).unwrap();
            assert!(cost(&serde_json::to_string(&preview).unwrap()) <= 300, "{text:?}");
        }
    }
}
