//! Preview: the first whole records, so that the reader sees what they are like.
//!
//! A preview is for the eye. It keeps lexemes as they came, but hidden characters are made visible,
//! what cannot be text is said to be so, and a first record too large for the budget is shown with
//! its long strings and arrays cut and marked. The stored data has none of this.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::json::{Lexemes, decode, encode};
use crate::neutral::neutralise;
use crate::tokens::{Measure, Tokens};

/// Nesting beyond what common JSON parsers accept inside a message.
const DEPTH_CAP: usize = 32;

/// What is shown of a stored result.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Preview {
    /// The first records.
    Records(Vec<Box<RawValue>>),
    /// The first lines or characters.
    Text(String),
}

impl Preview {
    /// The first of the record `lines` that fit into `budget`. When not even the first does, it is
    /// cut, and the second value says so.
    pub fn of_records(lines: &str, budget: Tokens) -> Option<(Self, Cut)> {
        let mut left = budget.0;
        let mut shown = Vec::new();
        for line in lines.lines() {
            let Some(text) = show(line, Limits::NONE) else { break };
            let cost = cost(&text);
            if cost > left {
                break;
            }
            left -= cost;
            shown.push(RawValue::from_string(text).ok()?);
        }
        if !shown.is_empty() {
            return Some((Self::Records(shown), Cut::Whole));
        }
        let first = lines.lines().next()?;
        let text = Limits::ever_smaller()
            .filter_map(|limits| show(first, limits))
            .find(|text| cost(text) <= budget.0)?;
        Some((Self::Records(vec![RawValue::from_string(text).ok()?]), Cut::Abridged))
    }

    /// The beginning of `text`, up to `budget`, at a line's end where there is one.
    pub fn of_text(text: &str, budget: Tokens) -> Option<(Self, Cut)> {
        if budget.0 == 0 || text.is_empty() {
            return None;
        }
        let chars = usize::try_from(budget.0.saturating_mul(4)).unwrap_or(usize::MAX);
        let mut end = text.char_indices().nth(chars).map_or(text.len(), |(end, _)| end);
        while cost(&text[..end]) > budget.0 {
            end = text.floor_char_boundary(end / 2);
        }
        if end == text.len() {
            return Some((Self::Text(neutralise(text).into_owned()), Cut::Whole));
        }
        let end = text[..end].rfind('\n').filter(|line| *line > 0).unwrap_or(end);
        Some((Self::Text(neutralise(&text[..end]).into_owned()), Cut::Abridged))
    }
}

/// Whether what is shown of a record or text is all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a yes or a no")]
pub enum Cut {
    /// Whole records.
    Whole,
    /// A part.
    Abridged,
}

/// From above rather than below: records are full of ids and dates, which take a token for two and
/// a half characters, and a character beyond Latin is rarely more than a token.
fn cost(text: &str) -> u64 {
    let measure = Measure::of(text.as_bytes());
    ((measure.chars - measure.beyond_latin) * 2).div_ceil(5) + measure.beyond_latin
}

/// How long strings and arrays may be in an abridged record.
#[derive(Clone, Copy)]
struct Limits {
    chars: usize,
    items: usize,
}

impl Limits {
    const NONE: Self = Self { chars: usize::MAX, items: usize::MAX };

    fn ever_smaller() -> impl Iterator<Item = Self> {
        [(400, 10), (160, 5), (80, 3), (40, 2), (16, 1), (8, 0)]
            .into_iter()
            .map(|(chars, items)| Self { chars, items })
    }
}

/// A record line within `limits`; `None` where it is nested too deeply to be put in a message.
fn show(line: &str, limits: Limits) -> Option<String> {
    let mut out = String::with_capacity(line.len().min(4096));
    // Per open array, how many elements have begun; `None` for an object.
    let mut open: Vec<Option<usize>> = Vec::new();
    // Inside elements that are left out: how many containers deep.
    let mut hidden: Option<usize> = None;
    for lexeme in Lexemes(line.as_bytes()) {
        let closes = matches!(lexeme, b"]" | b"}");
        if let Some(depth) = hidden {
            match lexeme {
                b"[" | b"{" => hidden = Some(depth + 1),
                b"]" | b"}" if depth > 0 => hidden = Some(depth - 1),
                b"," if depth == 0 => {
                    if let Some(Some(count)) = open.last_mut() {
                        *count += 1;
                    }
                }
                _ => {}
            }
            if !(closes && depth == 0) {
                continue;
            }
            hidden = None;
            if let Some(Some(count)) = open.last() {
                let left = *count - limits.items;
                out.push_str(&encode(&format!("\u{2026} (+{left} more)")));
            }
        }
        if let Some(Some(count)) = open.last_mut()
            && !closes
            && lexeme != b","
            && lexeme != b":"
        {
            *count += 1;
            if *count > limits.items {
                let depth = usize::from(matches!(lexeme, b"[" | b"{"));
                hidden = Some(depth);
                continue;
            }
        }
        match lexeme {
            b"[" => open.push(Some(0)),
            b"{" => open.push(None),
            b"]" | b"}" => drop(open.pop()),
            _ => {}
        }
        if open.len() > DEPTH_CAP {
            return None;
        }
        match lexeme {
            [b'"', inside @ .., b'"'] => out.push_str(&show_string(inside, limits.chars)),
            other => out.push_str(std::str::from_utf8(other).ok()?),
        }
    }
    Some(out)
}

fn show_string(inside: &[u8], limit: usize) -> String {
    let Some(text) = decode(inside) else { return encode("<not text>") };
    let shown = neutralise(&text);
    match shown.char_indices().nth(limit) {
        None => encode(&shown),
        Some((cut, _)) => {
            let left = shown[cut..].chars().count();
            encode(&format!("{}\u{2026} (+{left} characters)", &shown[..cut]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lines: &str, budget: u64) -> (String, Cut) {
        let (preview, cut) = Preview::of_records(lines, Tokens(budget)).unwrap();
        (serde_json::to_string(&preview).unwrap(), cut)
    }

    #[test]
    fn whole_records_are_shown_while_they_fit() {
        let lines =
            "{\"a\":12345678901234567890}\n{\"a\":1.50}\n{\"a\":\"long enough not to fit\"}\n";
        assert_eq!(
            records(lines, 16),
            ("[{\"a\":12345678901234567890},{\"a\":1.50}]".into(), Cut::Whole)
        );
        assert!(Preview::of_records("", Tokens(100)).is_none());
    }

    #[test]
    fn f32_a_record_too_large_is_abridged_and_stays_json() {
        let record = format!(
            r#"{{"text":"{}","list":[1,[2,3],{{"x":4}},5,6,7,8,9,10,11,12],"last":true}}"#,
            "word ".repeat(500)
        );
        let (shown, cut) = records(&record, 90);
        assert_eq!(cut, Cut::Abridged);
        let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert!(value[0]["text"].as_str().unwrap().ends_with("characters)"), "{shown}");
        assert!(
            value[0]["list"]
                .as_array()
                .unwrap()
                .last()
                .unwrap()
                .as_str()
                .unwrap()
                .ends_with("more)")
        );
        assert_eq!(value[0]["last"], true);
    }

    #[test]
    fn arrays_are_cut_after_any_kind_of_element() {
        for (line, shown) in [
            ("[1,2,3]", "[1,\"\u{2026} (+2 more)\"]"),
            ("[[1],[2],[3]]", "[[1],\"\u{2026} (+2 more)\"]"),
            ("[{\"a\":[1]},{\"b\":[2,3]}]", "[{\"a\":[1]},\"\u{2026} (+1 more)\"]"),
            ("[1]", "[1]"),
            ("[]", "[]"),
        ] {
            assert_eq!(
                show(line, Limits { chars: 99, items: 1 }).as_deref(),
                Some(shown),
                "{line}"
            );
        }
    }

    #[test]
    fn hidden_characters_surrogates_and_depth_do_not_reach_the_client() {
        let (shown, _) = records("{\"a\":\"x\u{202e}y\",\"b\":\"\\ud800\"}", 100);
        assert_eq!(shown, r#"[{"a":"x<U+202E>y","b":"<not text>"}]"#);
        let deep = "{\"a\":".repeat(40) + "1" + &"}".repeat(40);
        assert!(Preview::of_records(&deep, Tokens(1000)).is_none());
    }

    #[test]
    fn text_is_cut_at_a_line() {
        let (preview, cut) = Preview::of_text("first line\nsecond line\nthird", Tokens(6)).unwrap();
        assert_eq!(cut, Cut::Abridged);
        assert_eq!(serde_json::to_string(&preview).unwrap(), r#""first line""#);
        assert!(Preview::of_text("x", Tokens(0)).is_none());
    }
}
