//! The payload of an MCP `CallToolResult`.
//!
//! A result often contains the same content twice, as `structuredContent` and as text, and the text is
//! often JSON in a string. The payload is the decoded content, once; text with other content is a
//! further part. This module needs no MCP library: a result is JSON with a known structure, read as
//! raw lexemes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::records::{Content, Detected};
use lro_json::{decode, same_lexemes};

/// A parsed tool result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolResult<'a> {
    /// Whether the tool failed; such a result is never offloaded.
    pub is_error: bool,
    /// Whether the result is final: not `input_required`, not `task`.
    pub complete: bool,
    /// The payload, followed by texts with other content.
    pub parts: Vec<Part<'a>>,
    /// The number of images, audio, links and embedded resources, which are never offloaded.
    pub other_blocks: usize,
    /// `structuredContent`, also if it is null: a slice of the input.
    pub structured: Option<&'a str>,
    /// The JSON string of the only text block: a slice of the input. `None` if there is no text
    /// block, or more than one.
    pub only_text: Option<&'a str>,
}

/// One part of the content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part<'a> {
    /// Where it comes from.
    pub origin: Origin,
    /// The content: unchanged JSON, or the decoded text of a block.
    pub payload: Cow<'a, str>,
    /// The name of the only member of `structuredContent`, if that has the same text.
    pub wrapper: Option<Cow<'a, str>>,
}

/// Where a part of the content comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// `structuredContent`.
    Structured,
    /// One text block.
    Text,
    /// Several text blocks, each a JSON value, joined by line breaks.
    TextBlocks,
    /// A text block that cannot be decoded; the content is its JSON string.
    UndecodableText,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow)]
    content: Option<Vec<Block<'a>>>,
    #[serde(borrow, default, deserialize_with = "present")]
    structured_content: Option<&'a RawValue>,
    is_error: Option<bool>,
    #[serde(borrow, default)]
    result_type: Option<Cow<'a, str>>,
}

#[derive(serde::Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

/// Deserializes a member that is present, also if it is null.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

const BLOCK_KINDS: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

impl<'a> ToolResult<'a> {
    /// Parses `json` as a tool result; `None` if it looks like something else. Blocks of an unknown
    /// type are allowed if other members identify a tool result.
    pub fn read(json: &'a str) -> Option<Self> {
        let envelope: Envelope<'a> = serde_json::from_str(json).ok()?;
        let has_content = envelope.content.is_some();
        let blocks = envelope.content.unwrap_or_default();
        let is_known = |block: &Block<'_>| BLOCK_KINDS.contains(&block.kind.as_ref());
        let spelled = envelope.structured_content.map(RawValue::get);
        let structured = spelled.filter(|json| *json != "null");
        let is_identified = structured.is_some()
            || (has_content && (envelope.is_error.is_some() || envelope.result_type.is_some()));
        if !is_identified && !blocks.iter().any(is_known) {
            return None;
        }
        let is_text = |block: &&Block<'_>| block.kind == "text";
        let texts: Vec<Part<'a>> =
            blocks.iter().filter(is_text).filter_map(|block| block.text.map(text)).collect();
        let mut text_blocks = blocks.iter().filter(is_text);
        let only_text = match (text_blocks.next(), text_blocks.next()) {
            (Some(only), None) => only.text.map(RawValue::get),
            _ => None,
        };
        let other_blocks = blocks.len() - texts.len();
        // f14: blocks that `structuredContent` repeats are not a payload.
        let structured =
            structured.filter(|structured| other_blocks == 0 || !repeats_blocks(json, structured));
        Some(Self {
            is_error: envelope.is_error.unwrap_or_default(),
            complete: envelope.result_type.is_none_or(|kind| kind == "complete"),
            other_blocks,
            parts: parts(structured, texts),
            structured: spelled,
            only_text,
        })
    }

    /// The payload: the first part.
    pub fn payload(&self) -> Option<&Part<'a>> {
        self.parts.first()
    }
}

fn text(raw: &RawValue) -> Part<'_> {
    let (origin, payload) = match serde_json::from_str::<Borrowed<'_>>(raw.get()) {
        Ok(Borrowed(payload)) => (Origin::Text, payload),
        // A lone surrogate has no UTF-8, so the lexeme itself is the content.
        Err(_) => (Origin::UndecodableText, Cow::Borrowed(raw.get())),
    };
    Part { origin, payload, wrapper: None }
}

/// A string that borrows if it has no escapes; serde's own `Cow` never does.
#[derive(serde::Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

fn parts<'a>(structured: Option<&'a str>, mut texts: Vec<Part<'a>>) -> Vec<Part<'a>> {
    let Some(json) = structured else { return joined(texts) };
    if let Some((name, inside)) = only_member(json) {
        // f30: a wrapper around one string that is also the text block.
        if let [only] = texts.as_mut_slice()
            && is_string(inside, &only.payload)
        {
            only.wrapper = Some(name);
            return texts;
        }
        // f12: a wrapper around a value or a list that is also in the text blocks.
        if texts_repeat(inside, &texts) {
            texts.clear();
        }
    }
    texts.retain(|part| !same_json(json, &part.payload));
    let payload = Cow::Borrowed(json);
    texts.insert(0, Part { origin: Origin::Structured, payload, wrapper: None });
    texts
}

/// The main part of several texts is a structured one if the largest is at most this many times as
/// large.
const MIN_STRUCTURED_SHARE: usize = 4;

/// Joins several text blocks into records if each is a JSON object or array. Otherwise the main part
/// comes first.
fn joined(mut texts: Vec<Part<'_>>) -> Vec<Part<'_>> {
    if texts.len() < 2 {
        return texts;
    }
    if !texts.iter().all(|part| is_container(&part.payload)) {
        // A structured part, unless another is much larger; then the largest; of equal ones the first.
        let largest = texts.iter().map(|part| part.payload.len()).max().unwrap_or_default();
        let rank = |part: &Part<'_>| {
            let len = part.payload.len();
            (len * MIN_STRUCTURED_SHARE >= largest && is_structured(&part.payload), len)
        };
        let main = (0..texts.len()).rev().max_by_key(|n| rank(&texts[*n])).unwrap_or_default();
        texts[..=main].rotate_right(1);
        return texts;
    }
    let lines: Vec<&str> = texts.iter().map(|part| part.payload.trim()).collect();
    let payload = Cow::Owned(lines.join("\n"));
    vec![Part { origin: Origin::TextBlocks, payload, wrapper: None }]
}

fn is_container(text: &str) -> bool {
    if !text.trim_start().starts_with(['{', '[']) {
        return false;
    }
    let detected = Detected::detect(text.as_bytes());
    detected.json_range.is_none()
        && match detected.content {
            Content::Document => true,
            Content::Records(records) => records.form.span().is_some(),
            _ => false,
        }
}

/// Whether `text` is a JSON document or contains records.
fn is_structured(text: &str) -> bool {
    matches!(Detected::detect(text.as_bytes()).content, Content::Records(_) | Content::Document)
}

fn same_json(json: &str, text: &str) -> bool {
    // Comparing the first character avoids scanning text that is not JSON.
    json.trim_start().chars().next() == text.trim_start().chars().next()
        && serde_json::from_str::<&RawValue>(text).is_ok()
        && same_lexemes(json.as_bytes(), text.as_bytes())
}

/// Whether the JSON string `json` decodes to `text`.
fn is_string(json: &str, text: &str) -> bool {
    matches!(json.as_bytes(), [b'"', inside @ .., b'"'] if decode(inside).as_deref() == Some(text))
}

/// Whether the text blocks repeat `json`: as one value, or element by element.
fn texts_repeat(json: &str, texts: &[Part<'_>]) -> bool {
    let same = |json: &str, text: &Part<'_>| {
        same_json(json, &text.payload) || is_string(json, &text.payload)
    };
    if let [only] = texts
        && same(json, only)
    {
        return true;
    }
    serde_json::from_str::<Vec<&RawValue>>(json).is_ok_and(|elements| {
        elements.len() == texts.len()
            && elements.iter().zip(texts).all(|(element, text)| same(element.get(), text))
    })
}

/// Whether `structured` is an object whose only member is the content blocks of `json`.
fn repeats_blocks(json: &str, structured: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Blocks<'a> {
        #[serde(borrow)]
        content: &'a RawValue,
    }
    serde_json::from_str::<Blocks<'_>>(json)
        .is_ok_and(|blocks| wraps(structured, blocks.content.get()))
}

/// Whether `json` is an object whose only member is `inside`.
fn wraps(json: &str, inside: &str) -> bool {
    only_member(json).is_some_and(|(_, value)| same_lexemes(value.as_bytes(), inside.as_bytes()))
}

/// The name and the value of the only member of an object.
fn only_member(json: &str) -> Option<(Cow<'_, str>, &str)> {
    let Members(members) = serde_json::from_str(json).ok()?;
    let mut members = members.into_iter();
    let (name, value) = members.next()?;
    members.next().is_none().then(|| (name, value.get()))
}

/// The members of an object, including duplicates.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Borrowed(name), value)) = map.next_entry()? {
                    members.push((name, value));
                    // Only the number one matters: skip the rest.
                    if members.len() == 2 {
                        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(json: &str) -> Vec<(Origin, String)> {
        let result = ToolResult::read(json).unwrap_or_else(|| panic!("{json}"));
        result.parts.iter().map(|p| (p.origin, p.payload.to_string())).collect()
    }

    #[test]
    fn f12_content_given_twice_is_taken_once() {
        let json = r#"{"content":[{"type":"text","text":"{\"a\": [1, \"\\u00e9\"]}"}],"structuredContent":{"a":[1,"é"]}}"#;
        assert_eq!(origins(json), [(Origin::Structured, r#"{"a":[1,"é"]}"#.to_owned())]);
    }

    #[test]
    fn text_that_says_something_else_is_a_further_part() {
        let json = r#"{"content":[{"type":"text","text":"two rows"},{"type":"image","data":"","mimeType":"image/png"}],"structuredContent":{"a":[1]}}"#;
        assert_eq!(
            origins(json),
            [
                (Origin::Structured, r#"{"a":[1]}"#.to_owned()),
                (Origin::Text, "two rows".to_owned())
            ]
        );
        assert_eq!(ToolResult::read(json).unwrap().other_blocks, 1);
    }

    #[test]
    fn f30_json_in_a_string_is_decoded_once() {
        let wrapped = r#"{"content":[{"type":"text","text":"[{\"id\":1}]"}],"structuredContent":{"result":"[{\"id\":1}]"}}"#;
        assert_eq!(origins(wrapped), [(Origin::Text, r#"[{"id":1}]"#.to_owned())]);
        let twice = r#"{"content":[{"type":"text","text":"\"[1]\""}]}"#;
        assert_eq!(origins(twice), [(Origin::Text, "\"[1]\"".to_owned())]);
    }

    #[test]
    fn f30_the_wrappers_name_is_kept() {
        let json = r#"{"content":[{"type":"text","text":"all of it"}],"structuredContent":{"content":"all of it"}}"#;
        let result = ToolResult::read(json).unwrap();
        assert_eq!(result.payload().unwrap().wrapper.as_deref(), Some("content"));
        assert_eq!(result.parts.len(), 1);
    }

    #[test]
    fn f12_a_wrapped_value_given_again_as_text_is_taken_once() {
        for texts in [
            r#"{"type":"text","text":"[{\"id\": 0}, {\"id\": 1}]"}"#,
            r#"{"type":"text","text":"{\"id\":0}"},{"type":"text","text":"{ \"id\": 1 }"}"#,
        ] {
            let json = format!(
                r#"{{"content":[{texts}],"structuredContent":{{"result":[{{"id":0}},{{"id":1}}]}}}}"#
            );
            let whole = r#"{"result":[{"id":0},{"id":1}]}"#.to_owned();
            assert_eq!(origins(&json), [(Origin::Structured, whole)]);
        }
        let strings = r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structuredContent":{"result":["a","b"]}}"#;
        assert_eq!(origins(strings).len(), 1);
        let other = r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"c"}],"structuredContent":{"result":["a","b"]}}"#;
        assert_eq!(origins(other).len(), 3);
    }

    #[test]
    fn f14_blocks_that_structured_content_gives_again_are_no_payload() {
        let image = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
        let json =
            format!(r#"{{"content":[{image}],"structuredContent":{{"content":[ {image} ]}}}}"#);
        let result = ToolResult::read(&json).unwrap();
        assert_eq!((result.parts.len(), result.other_blocks), (0, 1));
        let both = format!(r#"[{image},{{"type":"text","text":"two cats"}}]"#);
        let json = format!(r#"{{"content":{both},"structuredContent":{{"blocks":{both}}}}}"#);
        assert_eq!(origins(&json), [(Origin::Text, "two cats".to_owned())]);
        let more =
            format!(r#"{{"content":[{image}],"structuredContent":{{"a":1,"content":[{image}]}}}}"#);
        assert_eq!(origins(&more).len(), 1);
    }

    #[test]
    fn f11_an_error_is_seen_whatever_is_beside_it() {
        for json in [
            r#"{"content":[{"type":"text","text":"x"},{"type":"video","data":""}],"isError":true}"#,
            r#"{"content":[],"isError":true}"#,
            r#"{"structuredContent":{"a":1},"isError":true}"#,
        ] {
            assert!(ToolResult::read(json).unwrap().is_error, "{json}");
        }
        let unsaid = r#"{"content":[{"type":"text","text":"x"}],"isError":null}"#;
        assert!(!ToolResult::read(unsaid).unwrap().is_error);
    }

    #[test]
    fn blocks_of_json_become_lines_and_others_stay_apart() {
        let json = r#"{"content":[{"type":"text","text":"{\"a\":1}"},{"type":"text","text":"{\"a\":2}\n"}]}"#;
        assert_eq!(origins(json), [(Origin::TextBlocks, "{\"a\":1}\n{\"a\":2}".to_owned())]);
        let mixed =
            r#"{"content":[{"type":"text","text":"{\"a\":1}"},{"type":"text","text":"done"}]}"#;
        assert_eq!(origins(mixed).len(), 2);
        let lines = r#"{"content":[{"type":"text","text":"{\"a\":1}\n{\"a\":2}"},{"type":"text","text":"{}"}]}"#;
        assert_eq!(origins(lines).len(), 2);
    }

    #[test]
    fn places_are_pieces_of_what_was_read() {
        let places = |json: &str| {
            let result = ToolResult::read(json).unwrap();
            (result.structured.map(str::to_owned), result.only_text.map(str::to_owned))
        };
        let one = r#"{"content":[{"type":"image"},{"type":"text","text":"a\nb"}],"structuredContent": null }"#;
        assert_eq!(places(one), (Some("null".to_owned()), Some(r#""a\nb""#.to_owned())));
        assert_eq!(origins(one), [(Origin::Text, "a\nb".to_owned())]);
        let two = r#"{"content":[{"type":"text","text":"a"},{"type":"text"}]}"#;
        assert_eq!(places(two), (None, None));
    }

    #[test]
    fn an_undecodable_text_keeps_its_lexeme() {
        let json = r#"{"content":[{"type":"text","text":"a\ud800b"}],"isError":true}"#;
        assert_eq!(origins(json), [(Origin::UndecodableText, r#""a\ud800b""#.to_owned())]);
        assert!(ToolResult::read(json).unwrap().is_error);
    }

    #[test]
    fn other_json_is_no_tool_result() {
        for json in [
            "[]",
            "{}",
            r#"{"content":[]}"#,
            r#"{"content":"x"}"#,
            r#"{"content":[{"type":"paragraph"}]}"#,
            r#"{"isError":true}"#,
            r#"{"content":[{"text":"x"}]}"#,
            "text",
        ] {
            assert!(ToolResult::read(json).is_none(), "{json}");
        }
        let task = r#"{"content":[{"type":"text","text":"x"}],"resultType":"task"}"#;
        assert!(!ToolResult::read(task).unwrap().complete);
    }
}
