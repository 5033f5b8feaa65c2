//! Tool result: the payload inside an MCP `CallToolResult`, taken once.
//!
//! A result often carries the same content twice, as `structuredContent` and as text, and the text
//! is often JSON written into a string. The payload is the decoded content, one time; text that
//! says something else is a further part. Nothing here depends on an MCP library: a result is JSON
//! of a known form, read as raw lexemes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::same_lexemes;
use crate::records::{Content, Found};

/// A tool result, its payload taken.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolResult<'a> {
    /// Whether the tool said that it failed; such a result is never offloaded.
    pub is_error: bool,
    /// Whether the result is final: not `input_required`, not `task`.
    pub complete: bool,
    /// The payload and, behind it, whatever text says something else.
    pub parts: Vec<Part<'a>>,
    /// Images, audio, links and embedded resources, which always stay where they are.
    pub other_blocks: usize,
}

/// One piece of content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part<'a> {
    /// Where it stood.
    pub origin: Origin,
    /// The content: JSON as it came, or the text of a block with its escapes resolved.
    pub payload: Cow<'a, str>,
}

/// Where a piece of content stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// `structuredContent`.
    Structured,
    /// One text block.
    Text,
    /// Several text blocks, each a JSON value of its own, joined line by line.
    TextBlocks,
    /// A text block that cannot be decoded; its JSON string is kept as it came.
    UndecodableText,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
    #[serde(borrow, default)]
    result_type: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

const BLOCK_KINDS: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

impl<'a> ToolResult<'a> {
    /// Reads `json` as a tool result; `None` where it is something else.
    pub fn read(json: &'a str) -> Option<Self> {
        let envelope: Envelope<'a> = serde_json::from_str(json).ok()?;
        let blocks: Vec<Block<'a>> = serde_json::from_str(envelope.content?.get()).ok()?;
        if !blocks.iter().all(|block| BLOCK_KINDS.contains(&block.kind.as_ref())) {
            return None;
        }
        let texts: Vec<Part<'a>> =
            blocks.iter().filter(|b| b.kind == "text").filter_map(|b| b.text.map(text)).collect();
        let other_blocks = blocks.len() - texts.len();
        if texts.is_empty() && other_blocks == 0 && envelope.structured_content.is_none() {
            return None;
        }
        Some(Self {
            is_error: envelope.is_error,
            complete: envelope.result_type.is_none_or(|kind| kind == "complete"),
            parts: parts(envelope.structured_content.map(RawValue::get), texts),
            other_blocks,
        })
    }

    /// The payload: the first part.
    pub fn payload(&self) -> Option<&Part<'a>> {
        self.parts.first()
    }
}

fn text(raw: &RawValue) -> Part<'_> {
    match serde_json::from_str::<Borrowed<'_>>(raw.get()) {
        Ok(Borrowed(payload)) => Part { origin: Origin::Text, payload },
        // A lone surrogate: no UTF-8 stands for it, so the lexeme itself is the content.
        Err(_) => Part { origin: Origin::UndecodableText, payload: Cow::Borrowed(raw.get()) },
    }
}

/// A string that borrows where it has no escapes; serde's own `Cow` never does.
#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

fn parts<'a>(structured: Option<&'a str>, mut texts: Vec<Part<'a>>) -> Vec<Part<'a>> {
    if let Some(json) = structured {
        // f30: a server's wrapper around one string, which the text block gives decoded.
        if let [only] = texts.as_slice()
            && wraps(json, &only.payload)
        {
            return texts;
        }
        // f12: the same content once.
        texts.retain(|part| !same_json(json, &part.payload));
        texts.insert(0, Part { origin: Origin::Structured, payload: Cow::Borrowed(json) });
        return texts;
    }
    if texts.len() > 1 && texts.iter().all(|part| is_container(&part.payload)) {
        let lines: Vec<&str> = texts.iter().map(|part| part.payload.trim()).collect();
        return vec![Part { origin: Origin::TextBlocks, payload: Cow::Owned(lines.join("\n")) }];
    }
    texts
}

fn is_container(text: &str) -> bool {
    let form = Found::of(text.as_bytes()).content;
    text.trim_start().starts_with(['{', '['])
        && matches!(form, Content::Records(_) | Content::Document)
}

fn same_json(json: &str, text: &str) -> bool {
    // The first character spares the scan of text that is no JSON.
    json.trim_start().chars().next() == text.trim_start().chars().next()
        && serde_json::from_str::<&RawValue>(text).is_ok()
        && same_lexemes(json.as_bytes(), text.as_bytes())
}

/// Whether `json` is an object whose only member is the string `text`.
fn wraps(json: &str, text: &str) -> bool {
    let mut lexemes = crate::json::Lexemes(json.as_bytes());
    let mut next = || lexemes.next();
    next() == Some(b"{")
        && next().is_some_and(|key| key.starts_with(b"\""))
        && next() == Some(b":")
        && next().is_some_and(|value| matches!(value, [b'"', inside @ .., b'"'] if crate::json::decode(inside).as_deref() == Some(text)))
        && next() == Some(b"}")
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
    fn blocks_of_json_become_lines_and_others_stay_apart() {
        let json = r#"{"content":[{"type":"text","text":"{\"a\":1}"},{"type":"text","text":"{\"a\":2}\n"}]}"#;
        assert_eq!(origins(json), [(Origin::TextBlocks, "{\"a\":1}\n{\"a\":2}".to_owned())]);
        let mixed =
            r#"{"content":[{"type":"text","text":"{\"a\":1}"},{"type":"text","text":"done"}]}"#;
        assert_eq!(origins(mixed).len(), 2);
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
            r#"{"content":[{"text":"x"}]}"#,
            "text",
        ] {
            assert!(ToolResult::read(json).is_none(), "{json}");
        }
        let task = r#"{"content":[{"type":"text","text":"x"}],"resultType":"task"}"#;
        assert!(!ToolResult::read(task).unwrap().complete);
    }
}
