//! Lines that a lenient JSON parser accepts and a strict one rejects.
//!
//! Every line that a client would act on must be inspected first. Clients accept duplicate members (the last one counts),
//! bytes that are not UTF-8, and `NaN` or `Infinity`. Such a line is read here as those clients read it.

use std::borrow::Cow;

use lro_wire::{Messages, Object};

/// A line as a lenient client reads it.
pub(crate) struct LenientLine {
    /// Valid JSON without duplicate members in a message.
    pub(crate) text: String,
    /// Whether clients may disagree on what the line says, so that `text` must replace it.
    pub(crate) ambiguous: bool,
}

impl LenientLine {
    /// Reads `line`. `None` if no client would take it for a message.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_start_matches('\u{feff}').trim();
        let text = finite_numbers(text);
        let (text, ambiguous) = match deduplicated(&text) {
            Some(text) => (text, true),
            None => (text.into_owned(), false),
        };
        Messages::read(&text)?;
        Some(Self { text, ambiguous })
    }
}

/// Whether `line` has the form of a message: an object or an array.
pub(crate) fn looks_like_json(line: &[u8]) -> bool {
    let is_skipped = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
    String::from_utf8_lossy(line).trim_start_matches(is_skipped).starts_with(['{', '['])
}

/// The message or batch `json` with only the last of members that have the same name; `None` if there are none.
fn deduplicated(json: &str) -> Option<String> {
    if json.starts_with('[') {
        let Some(Messages::Batch(batch)) = Messages::read(json) else { return None };
        let mut changed = false;
        let members: Vec<Cow<'_, str>> = batch
            .into_iter()
            .map(|(text, _)| match deduplicated(text) {
                Some(text) => {
                    changed = true;
                    text.into()
                }
                None => text.into(),
            })
            .collect();
        return changed.then(|| format!("[{}]", members.join(",")));
    }
    let object = Object::read(json)?;
    let mut members: Vec<(&str, &str)> = Vec::new();
    for (name, value) in &object.members {
        match members.iter_mut().find(|(existing, _)| existing == name) {
            Some(member) => member.1 = value.get(),
            None => members.push((name, value.get())),
        }
    }
    if members.len() == object.members.len() {
        return None;
    }
    let members: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name)))
        .collect();
    Some(format!("{{{}}}", members.join(",")))
}

/// `json` with `null` for numbers that JSON does not have.
fn finite_numbers(json: &str) -> Cow<'_, str> {
    const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !WORDS.iter().any(|word| json.contains(word)) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len());
    let (mut rest, mut in_string) = (json, false);
    while let Some(c) = rest.chars().next() {
        let word =
            if in_string { None } else { WORDS.iter().find(|word| rest.starts_with(**word)) };
        let taken = match (word, c) {
            (Some(word), _) => {
                out.push_str("null");
                rest = &rest[word.len()..];
                continue;
            }
            // An escape and the character behind it.
            (None, '\\') if in_string => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, '"') => {
                in_string = !in_string;
                1
            }
            (None, c) => c.len_utf8(),
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &[u8]) -> Option<(String, bool)> {
        LenientLine::parse(line).map(|line| (line.text, line.ambiguous))
    }

    #[test]
    fn the_last_of_duplicate_members_counts() {
        let line = br#"{"id":77,"result":{"a":1,"a":2},"id":2}"#;
        let read = r#"{"id":2,"result":{"a":1,"a":2}}"#.to_owned();
        assert_eq!(text(line), Some((read.clone(), true)));
        let batch = format!("[{},1]", std::str::from_utf8(line).unwrap());
        assert_eq!(text(batch.as_bytes()), Some((format!("[{read},1]"), true)));
    }

    #[test]
    fn numbers_that_json_does_not_have_are_null_outside_of_strings() {
        let line = br#"{"id":2,"result":[NaN,-Infinity,Infinity,"NaN \" NaN \\"]}"#;
        let read = r#"{"id":2,"result":[null,null,null,"NaN \" NaN \\"]}"#;
        assert_eq!(text(line), Some((read.to_owned(), false)));
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_replaced_and_a_byte_order_mark_is_removed() {
        let line = b"\xef\xbb\xbf{\"id\":2,\"result\":\"\xff\"}";
        assert_eq!(text(line), Some((r#"{"id":2,"result":"�"}"#.to_owned(), false)));
        assert!(looks_like_json(line));
    }

    #[test]
    fn what_is_not_json_is_no_message() {
        for line in [&b"starting"[..], b"{", b"{]", br#"{"id":1,}"#] {
            assert_eq!(text(line), None);
        }
        assert!(!looks_like_json(b"starting"));
    }
}
