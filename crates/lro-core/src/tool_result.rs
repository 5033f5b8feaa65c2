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
    /// The number of images, audio, links and binary resources, which are never offloaded.
    pub other_blocks: usize,
    /// `structuredContent`, also if it is null: a slice of the input.
    pub structured: Option<&'a str>,
    /// The JSON string of the only text: a slice of the input. `None` if there is no text block, more
    /// than one, or an embedded resource with text.
    pub only_text: Option<&'a str>,
}

/// The most embedded resources whose address stays in a result that is replaced. With more of them,
/// all addresses are stored as a further text.
pub const MAX_SHOWN_RESOURCES: usize = 5;

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
    /// The address of the embedded resource, if the text comes from one.
    pub uri: Option<Cow<'a, str>>,
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
    /// The text of an embedded resource.
    Resource,
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
    #[serde(borrow, default)]
    resource: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Resource<'a> {
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

impl<'a> Block<'a> {
    /// The text of the block or of its resource.
    fn part(&self) -> Option<Part<'a>> {
        match &*self.kind {
            "text" => self.text.map(text),
            "resource" => {
                let resource: Resource<'a> = serde_json::from_str(self.resource?.get()).ok()?;
                let mut part = resource.text.filter(|raw| raw.get().starts_with('"')).map(text)?;
                if part.origin == Origin::Text {
                    part.origin = Origin::Resource;
                }
                part.uri = Some(resource.uri.unwrap_or_default());
                Some(part)
            }
            _ => None,
        }
    }
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
        let texts: Vec<Part<'a>> = blocks.iter().filter_map(Block::part).collect();
        let has_resources = texts.iter().any(|part| part.uri.is_some());
        let mut text_blocks = blocks.iter().filter(|block| block.kind == "text");
        let only_text = match (text_blocks.next(), text_blocks.next()) {
            (Some(only), None) if !has_resources => only.text.map(RawValue::get),
            _ => None,
        };
        let other_blocks = blocks.len() - texts.len();
        // f14, g14: blocks that `structuredContent` repeats are not a payload.
        let wrapper = structured.and_then(|structured| wrapper_of_blocks(json, structured));
        let structured = structured.filter(|_| wrapper.is_none());
        let mut parts = parts(structured, texts);
        if let (Some(name), [only]) = (wrapper, parts.as_mut_slice()) {
            only.wrapper = Some(name);
        }
        Some(Self {
            is_error: envelope.is_error.unwrap_or_default(),
            complete: envelope.result_type.is_none_or(|kind| kind == "complete"),
            other_blocks,
            parts,
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
    Part { origin, payload, wrapper: None, uri: None }
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
    texts.insert(0, Part { origin: Origin::Structured, payload, wrapper: None, uri: None });
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
    vec![Part { origin: Origin::TextBlocks, payload, wrapper: None, uri: None }]
}

fn is_container(text: &str) -> bool {
    if !text.trim_start().starts_with(['{', '[']) {
        return false;
    }
    let detected = Detected::detect(text.as_bytes());
    detected.main_range.is_none()
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

/// The name of the only member of `structured`, if its value is the content blocks of `json`. Some
/// frameworks write the missing members of a block as null.
fn wrapper_of_blocks<'a>(json: &str, structured: &'a str) -> Option<Cow<'a, str>> {
    #[derive(serde::Deserialize)]
    struct Blocks<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    let (name, inside) = only_member(structured)?;
    let elements = inside.strip_prefix('[');
    // The first element decides in most cases, without parsing the others.
    let first = serde_json::Deserializer::from_str(elements.unwrap_or(inside));
    let Some(Ok(Members(first))) = first.into_iter().next() else { return None };
    let is_kind = |value: &RawValue| BLOCK_KINDS.iter().any(|kind| is_string(value.get(), kind));
    if !first.iter().any(|(name, value)| name == "type" && is_kind(value)) {
        return None;
    }
    let Blocks { content } = serde_json::from_str(json).ok()?;
    let repeated: Vec<&RawValue> = match elements {
        Some(_) => serde_json::from_str(inside).ok()?,
        None => vec![serde_json::from_str(inside).ok()?],
    };
    let same = content.len() == repeated.len()
        && content.iter().zip(&repeated).all(|(one, other)| same_block(one.get(), other.get()));
    same.then_some(name)
}

/// Whether two content blocks are the same, except for members that are null.
fn same_block(one: &str, other: &str) -> bool {
    let members = |json| {
        let Members(mut members) = serde_json::from_str(json).ok()?;
        let all = members.len() < MAX_MEMBERS;
        members.retain(|(_, value)| value.get() != "null");
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        all.then_some(members)
    };
    let (Some(one), Some(other)) = (members(one), members(other)) else { return false };
    one.len() == other.len()
        && one.iter().zip(&other).all(|((a, one), (b, other))| {
            a == b && same_lexemes(one.get().as_bytes(), other.get().as_bytes())
        })
}

/// The name and the value of the only member of an object.
fn only_member(json: &str) -> Option<(Cow<'_, str>, &str)> {
    let Members(members) = serde_json::from_str(json).ok()?;
    let mut members = members.into_iter();
    let (name, value) = members.next()?;
    members.next().is_none().then(|| (name, value.get()))
}

/// The most members of an object that are read: more than a content block has.
const MAX_MEMBERS: usize = 16;

/// The first members of an object, including duplicates.
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
                    if members.len() == MAX_MEMBERS {
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
    fn g14_blocks_that_structured_content_wraps_are_the_payload() {
        let text = r#""type":"text","text":"[{\"id\":1},{\"id\":2}]""#;
        for wrapped in [
            format!("[{{{text}}}]"),
            format!("[{{{text},\"annotations\":null,\"meta\":null}}]"),
            format!("[ {{\"_meta\":null, {text}}} ]"),
            format!("{{{text}}}"),
            r#"[{"text":"[{\u0022id\":1},{\"id\":2}]","type":"text"}]"#.to_owned(),
        ] {
            let json =
                format!(r#"{{"content":[{{{text}}}],"structuredContent":{{"result":{wrapped}}}}}"#);
            let result = ToolResult::read(&json).unwrap();
            let expected = [(Origin::Text, r#"[{"id":1},{"id":2}]"#.to_owned())];
            assert_eq!(origins(&json), expected, "{wrapped}");
            assert_eq!(result.payload().unwrap().wrapper.as_deref(), Some("result"), "{wrapped}");
        }
        for other in [
            format!("[{{{text},\"annotations\":{{\"priority\":1}}}}]"),
            format!("[{{{text}}},{{{text}}}]"),
            r#"[{"type":"text","text":"other"}]"#.to_owned(),
            r#"[{"type":"bug","text":"[{\"id\":1},{\"id\":2}]"}]"#.to_owned(),
        ] {
            let json =
                format!(r#"{{"content":[{{{text}}}],"structuredContent":{{"result":{other}}}}}"#);
            assert_eq!(origins(&json)[0].0, Origin::Structured, "{other}");
        }
    }

    #[test]
    fn g12_the_text_of_a_resource_is_a_part() {
        let resource = |n: usize| {
            format!(
                r#"{{"type":"resource","resource":{{"uri":"file:///{n}","text":"line\n{n}"}}}}"#
            )
        };
        let blob = r#"{"type":"resource","resource":{"uri":"file:///b","blob":"AAAA"}}"#;
        let json = format!(
            r#"{{"content":[{{"type":"text","text":"two files"}},{},{blob}]}}"#,
            resource(1)
        );
        let result = ToolResult::read(&json).unwrap();
        assert_eq!(
            origins(&json),
            [(Origin::Text, "two files".to_owned()), (Origin::Resource, "line\n1".to_owned())]
        );
        assert_eq!((result.other_blocks, result.only_text), (1, None));
        assert_eq!(result.parts[1].uri.as_deref(), Some("file:///1"));
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
