//! Parses tool results that are too large for memory.
//!
//! [`Parts`] makes the same decisions as for a result in memory, from ranges. The price is that text
//! equal to `structuredContent` but with other escapes is kept as further text.
//!
//! [`LargeFile`] tells whether a large file is a tool result, and which bytes are the payload. It
//! agrees with [`ToolResult::read`](lro_core::tool_result::ToolResult::read). If ranges do not decide
//! it (several texts, text beside other content, duplicate members), it is undecided, and the caller
//! reads the whole file.

use std::ops::Range;

use lro_core::outline::{Node, OutlineKind};
use lro_core::payload::{Payload, Unreadable};
use lro_core::{LoneSurrogate, Unescape, payload};

/// The total size of further texts, which are kept in memory.
const MAX_FURTHER_TEXT_BYTES: u64 = 16 << 20;

/// The bytes at the beginning of a list that show whether its elements are content blocks.
const BLOCK_HEAD_LEN: u64 = 256;

/// The bytes read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The parts of a large tool result.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) main: Main,
    /// Texts with other content than the payload.
    pub(super) further_texts: Vec<String>,
    /// The text blocks, which the descriptor replaces.
    pub(super) text_blocks: Vec<Range<u64>>,
    /// The texts of embedded resources.
    pub(super) resources: Vec<Range<u64>>,
    /// Whether ranges are not enough: several texts, embedded resources, or `structuredContent` that
    /// may repeat the blocks.
    pub(super) needs_parsing: bool,
}

/// The range of the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Main {
    /// JSON.
    Json(Range<u64>),
    /// A JSON string whose text is the payload.
    Text(Range<u64>),
}

/// A part could not be read.
#[derive(Debug)]
pub(super) enum PartError {
    Unreadable(Unreadable),
    LoneSurrogate,
}

impl From<Unreadable> for PartError {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl From<LoneSurrogate> for PartError {
    fn from(_: LoneSurrogate) -> Self {
        Self::LoneSurrogate
    }
}

impl Parts {
    /// The parts of the tool result `result` in `message`. `None` if it must stay unchanged: an error,
    /// a task, no payload, or further texts that do not fit into memory.
    pub(super) fn parse(message: &dyn Payload, result: &Node) -> Result<Option<Self>, PartError> {
        let is = |name: &str, word: &[u8]| -> Result<bool, PartError> {
            let Some(node) = result.get(name) else { return Ok(false) };
            Ok(payload::part(message, node.range.clone())? == word)
        };
        let complete =
            result.get("resultType").is_none() || result.text("resultType") == Some("complete");
        let cut = result.cut || result.get("content").is_some_and(|content| content.cut);
        if is("isError", b"true")? || !complete || cut {
            return Ok(None);
        }
        let blocks = result.get("content").map_or(&[][..], |content| &content.children);
        let text = |block: &Node| match (block.text("type"), block.get("text")) {
            (Some("text"), Some(text)) if matches!(text.form, OutlineKind::String(_)) => {
                Some((block.range.clone(), text.range.clone()))
            }
            _ => None,
        };
        let texts: Vec<(Range<u64>, Range<u64>)> = blocks.iter().filter_map(text).collect();
        let resources: Vec<Range<u64>> = blocks.iter().filter_map(resource_text).collect();
        let (text_blocks, mut strings): (Vec<_>, Vec<_>) = texts.into_iter().unzip();
        strings.extend(resources.iter().cloned());
        let may_repeat_blocks = match result.get("structuredContent") {
            Some(structured) => begins_with_block(message, structured)?,
            None => false,
        };
        let needs_parsing = strings.len() > 1 || !resources.is_empty() || may_repeat_blocks;
        // f14: blocks that `structuredContent` repeats are not a payload.
        let repeats_blocks =
            |structured: &Node| match (result.get("content"), &*structured.children) {
                (Some(content), [only]) if strings.len() < blocks.len() && !structured.cut => {
                    same_bytes(message, &only.range, &content.range)
                }
                _ => Ok(false),
            };
        let structured = match result.get("structuredContent") {
            // Null counts as missing.
            Some(Node { form: OutlineKind::Other, .. }) => None,
            Some(structured) if !repeats_blocks(structured)? => Some(structured),
            _ => None,
        };
        let main = if let Some(structured) = structured {
            structured_payload(message, structured, &mut strings)?
        } else {
            // The largest is the payload.
            let largest = (0..strings.len()).max_by_key(|&n| length(&strings[n]));
            let Some(largest) = largest else { return Ok(None) };
            Main::Text(strings.remove(largest))
        };
        if strings.iter().map(length).sum::<u64>() > MAX_FURTHER_TEXT_BYTES {
            return Ok(None);
        }
        let mut further_texts = Vec::new();
        for string in strings {
            let mut text = Vec::new();
            each_decoded(message, &string, |part| text.extend_from_slice(part))?;
            further_texts.push(String::from_utf8_lossy(&text).into_owned());
        }
        Ok(Some(Self { main, further_texts, text_blocks, resources, needs_parsing }))
    }
}

impl Main {
    /// Calls `feed` with the payload, in pieces.
    pub(super) fn each(
        &self,
        message: &dyn Payload,
        mut feed: impl FnMut(&[u8]),
    ) -> Result<(), PartError> {
        match self {
            Self::Json(range) => Ok(each_raw(message, range.clone(), |part| feed(part))?),
            Self::Text(string) => each_decoded(message, string, feed),
        }
    }
}

/// The range of the text of an embedded resource.
fn resource_text(block: &Node) -> Option<Range<u64>> {
    if block.text("type") != Some("resource") {
        return None;
    }
    let text = block.get("resource")?.get("text")?;
    matches!(text.form, OutlineKind::String(_)).then(|| text.range.clone())
}

/// Whether the only member of `structured` begins like a list of content blocks.
fn begins_with_block(message: &dyn Payload, structured: &Node) -> Result<bool, Unreadable> {
    let [only] = &*structured.children else { return Ok(false) };
    let end = only.range.end.min(only.range.start + BLOCK_HEAD_LEN);
    let head = payload::part(message, only.range.start..end)?;
    Ok(head.starts_with(b"[") && head.windows(6).any(|word| word == b"\"type\""))
}

/// The payload of a result with `structuredContent`; removes texts with the same content.
fn structured_payload(
    message: &dyn Payload,
    structured: &Node,
    strings: &mut Vec<Range<u64>>,
) -> Result<Main, PartError> {
    // f30: a wrapper around one string that is also the text block. One serializer writes both, so
    // the escapes are the same.
    if let ([only], [text], false) = (&*structured.children, &**strings, structured.cut)
        && matches!(only.form, OutlineKind::String(_))
        && same_bytes(message, &only.range, text)?
    {
        return Ok(Main::Text(strings.remove(0)));
    }
    let mut other = Vec::new();
    for string in strings.drain(..) {
        // f12: a wrapper around a value or a list that is also the text.
        let inside = match (&*structured.children, structured.cut) {
            ([only], false) => same_json(message, &only.range, &string)?,
            _ => false,
        };
        if !inside && !same_json(message, &structured.range, &string)? {
            other.push(string);
        }
    }
    *strings = other;
    Ok(Main::Json(structured.range.clone()))
}

fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}

fn each_raw(
    message: &dyn Payload,
    range: Range<u64>,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), Unreadable> {
    let mut at = range.start;
    while at < range.end {
        let to = (at + PIECE_BYTES as u64).min(range.end);
        visit(&payload::part(message, at..to)?);
        at = to;
    }
    Ok(())
}

/// Calls `visit` with the decoded text of the JSON string at `string`, in pieces.
fn each_decoded(
    message: &dyn Payload,
    string: &Range<u64>,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), PartError> {
    let inside = string.start + 1..string.end - 1;
    let (mut unescape, mut text) = (Unescape::default(), Vec::new());
    let mut decoded = Ok(());
    each_raw(message, inside, |part| {
        if decoded.is_ok() {
            text.clear();
            decoded = unescape.feed(part, &mut text);
            visit(&text);
        }
    })?;
    decoded?;
    Ok(unescape.finish()?)
}

fn same_bytes(
    message: &dyn Payload,
    one: &Range<u64>,
    other: &Range<u64>,
) -> Result<bool, Unreadable> {
    if length(one) != length(other) {
        return Ok(false);
    }
    let mut at = 0;
    while at < length(one) {
        let to = (at + PIECE_BYTES as u64).min(length(one));
        let part = |from: u64| payload::part(message, from + at..from + to);
        if part(one.start)? != part(other.start)? {
            return Ok(false);
        }
        at = to;
    }
    Ok(true)
}

/// Whether the text of the string at `string` is the JSON at `json`, except for white space between
/// lexemes.
fn same_json(
    message: &dyn Payload,
    json: &Range<u64>,
    string: &Range<u64>,
) -> Result<bool, PartError> {
    let mut one = CompactJson::new(json.clone(), None);
    let mut other = CompactJson::new(string.start + 1..string.end - 1, Some(Unescape::default()));
    loop {
        let a = one.bytes(message)?;
        let b = match other.bytes(message) {
            // A string that is not text is not JSON either.
            Err(PartError::LoneSurrogate) => return Ok(false),
            bytes => bytes?,
        };
        let both = a.len().min(b.len());
        if a[..both] != b[..both] {
            return Ok(false);
        }
        if both == 0 {
            return Ok(a.len() == b.len());
        }
        one.taken += both;
        other.taken += both;
    }
}

/// Reads JSON without the white space between its lexemes.
struct CompactJson {
    rest: Range<u64>,
    unescape: Option<Unescape>,
    bytes: Vec<u8>,
    taken: usize,
    in_string: bool,
    escaped: bool,
}

impl CompactJson {
    fn new(range: Range<u64>, unescape: Option<Unescape>) -> Self {
        Self {
            rest: range,
            unescape,
            bytes: Vec::new(),
            taken: 0,
            in_string: false,
            escaped: false,
        }
    }

    /// The next bytes; empty at the end.
    fn bytes(&mut self, message: &dyn Payload) -> Result<&[u8], PartError> {
        while self.taken == self.bytes.len() && !self.rest.is_empty() {
            (self.taken, self.bytes) = (0, Vec::new());
            let to = (self.rest.start + PIECE_BYTES as u64).min(self.rest.end);
            let raw = payload::part(message, self.rest.start..to)?;
            self.rest.start = to;
            let text = match &mut self.unescape {
                None => raw,
                Some(unescape) => {
                    let mut text = Vec::with_capacity(raw.len());
                    unescape.feed(&raw, &mut text)?;
                    text
                }
            };
            for byte in text {
                self.take(byte);
            }
        }
        Ok(&self.bytes[self.taken..])
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
        } else if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return;
        } else {
            self.in_string = byte == b'"';
        }
        self.bytes.push(byte);
    }
}

/// The kind of a large file.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "another variant would change every caller")]
pub enum LargeFile {
    /// Not a tool result: the whole file is the payload.
    Payload,
    /// A tool result with one payload.
    ToolResult(LargePayload),
    /// Ranges do not decide it.
    Undecided,
}

/// The payload of a large tool result.
#[derive(Debug)]
#[non_exhaustive]
pub struct LargePayload {
    main: Main,
    /// The number of images, audio, links and embedded resources beside the payload.
    pub other_blocks: usize,
}

impl LargeFile {
    /// Parses the outline of `file`.
    pub fn read(file: &dyn Payload) -> Result<Self, Unreadable> {
        if !begins_object(file)? {
            return Ok(Self::Payload);
        }
        let enter = |path: &[&str]| {
            matches!(
                path,
                [] | ["content" | "structuredContent"]
                    | ["content", ""]
                    | ["content", "", "resource"]
            )
        };
        let Some(root) = Node::parse(file, enter)? else { return Ok(Self::Payload) };
        let occurrences =
            |name: &str| root.children.iter().filter(|child| child.name == name).count();
        if !root.cut && occurrences("content") == 0 && occurrences("structuredContent") == 0 {
            return Ok(Self::Payload);
        }
        let once = ["content", "structuredContent", "isError", "resultType"]
            .into_iter()
            .all(|name| occurrences(name) <= 1);
        let failed = match root.get("isError") {
            None => false,
            Some(node) => payload::part(file, node.range.clone())? != b"false",
        };
        let plain = once && !root.cut && !failed;
        let complete = match root.get("resultType") {
            None => true,
            Some(_) => root.text("resultType") == Some("complete"),
        };
        let Some((texts, other_blocks)) = count_blocks(&root) else { return Ok(Self::Undecided) };
        let structured = root.get("structuredContent").is_some();
        let decided = match texts {
            0 => structured && other_blocks == 0,
            1 => !structured || other_blocks == 0,
            _ => false,
        };
        if !plain || !complete || !decided {
            return Ok(Self::Undecided);
        }
        match Parts::parse(file, &root) {
            Ok(Some(Parts { main, further_texts, needs_parsing: false, .. }))
                if further_texts.is_empty() =>
            {
                Ok(Self::ToolResult(LargePayload { main, other_blocks }))
            }
            Ok(_) | Err(PartError::LoneSurrogate) => Ok(Self::Undecided),
            Err(PartError::Unreadable(error)) => Err(error),
        }
    }
}

impl LargePayload {
    /// The range of the payload, if it is JSON in the file; otherwise it is the text of a string, which
    /// [`decode`](Self::decode) returns.
    pub fn range(&self) -> Option<Range<u64>> {
        match &self.main {
            Main::Json(range) => Some(range.clone()),
            Main::Text(_) => None,
        }
    }

    /// Calls `feed` with the payload, in pieces. Returns false if it is a string that is not text.
    pub fn decode(&self, file: &dyn Payload, feed: impl FnMut(&[u8])) -> Result<bool, Unreadable> {
        match self.main.each(file, feed) {
            Ok(()) => Ok(true),
            Err(PartError::LoneSurrogate) => Ok(false),
            Err(PartError::Unreadable(error)) => Err(error),
        }
    }
}

/// The numbers of text blocks and of other blocks; `None` if `content` is not a list of blocks.
fn count_blocks(root: &Node) -> Option<(usize, usize)> {
    let Some(content) = root.get("content") else { return Some((0, 0)) };
    let is_text = |block: &Node| {
        block.text("type") == Some("text")
            && block.get("text").is_some_and(|text| matches!(text.form, OutlineKind::String(_)))
    };
    let is_block = |block: &Node| {
        // A text block without a text, or with two, is not a block.
        let names = block.children.iter().filter(|child| ["type", "text"].contains(&&*child.name));
        let kind = block.text("type");
        kind.is_some() && (is_text(block) && names.count() == 2 || kind != Some("text"))
    };
    if content.form != OutlineKind::Array || content.cut || !content.children.iter().all(is_block) {
        return None;
    }
    if content.children.iter().any(|block| resource_text(block).is_some()) {
        return None;
    }
    let texts = content.children.iter().filter(|block| is_text(block)).count();
    Some((texts, content.children.len() - texts))
}

/// Whether the first significant byte begins an object.
fn begins_object(file: &dyn Payload) -> Result<bool, Unreadable> {
    let (mut at, mut space) = (0, Vec::new());
    loop {
        let chunk = file.chunk_at(at, &mut space)?;
        if chunk.is_empty() {
            return Ok(false);
        }
        let first = chunk.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        if let Some(first) = first {
            return Ok(*first == b'{');
        }
        at += chunk.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use lro_core::tool_result::ToolResult;

    use super::*;

    /// Whether the file is decided, and read as `ToolResult::read` does.
    fn same_as_whole(json: &str) -> bool {
        let whole = ToolResult::read(json);
        match LargeFile::read(&json.as_bytes()).unwrap() {
            LargeFile::Undecided => return false,
            LargeFile::Payload => assert!(whole.is_none(), "{json}"),
            LargeFile::ToolResult(large) => {
                let whole = whole.unwrap_or_else(|| panic!("{json}"));
                let mut payload = Vec::new();
                assert!(large.decode(&json.as_bytes(), |part| payload.extend(part)).unwrap());
                assert_eq!(String::from_utf8(payload).unwrap(), whole.parts[0].payload, "{json}");
                assert_eq!((whole.parts.len(), whole.other_blocks), (1, large.other_blocks));
                assert!(!whole.is_error && whole.complete, "{json}");
            }
        }
        true
    }

    #[test]
    fn g37_a_large_file_is_read_as_a_small_one_is() {
        for decided in [
            r#"[{"a":1}]"#,
            r#"{"a":1}"#,
            "{\"a\":1}\n{\"content\":[]}\n",
            "plain text",
            "",
            "{ no json",
            r#" {"content":[{"type":"text","text":"a\nb"}]}"#,
            r#"{"content":[{"type":"text","text":"[1, 2]"},{"type":"image","data":""}]}"#,
            r#"{"content":[{"type":"text","text":"{\"a\": [1]}"}],"structuredContent":{"a":[1]}}"#,
            r#"{"content":[{"type":"text","text":"all"}],"structuredContent":{"result":"all"}}"#,
            r#"{"content":[],"structuredContent":{"a":[1]},"resultType":"complete"}"#,
            r#"{"structuredContent":[1,2,3]}"#,
            r#"{"content":[{"type":"text","text":"a"}],"isError":false}"#,
            r#"{"_meta":{"content":1},"content":[{"text":"x","type":"text"}]}"#,
        ] {
            assert!(same_as_whole(decided), "{decided}");
        }
        for undecided in [
            r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
            r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{"a":1}}"#,
            r#"{"content":[{"type":"text","text":"a"}],"isError":true}"#,
            r#"{"content":[{"type":"text","text":"a"}],"resultType":"task"}"#,
            r#"{"content":[{"type":"text","text":"a"}],"content":[]}"#,
            r#"{"content":[{"type":"text","text":7}]}"#,
            r#"{"content":[{"text":"a"}]}"#,
            r#"{"content":"a"}"#,
            r#"{"content":[]}"#,
            r#"{"content":[{"type":"image","data":""}]}"#,
            r#"{"structuredContent":null}"#,
            r#"{"content":[{"type":"resource","resource":{"uri":"a:b","text":"x"}}]}"#,
            r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{"r":[{"type":"text","text":"a"}]}}"#,
        ] {
            assert!(!same_as_whole(undecided), "{undecided}");
        }
    }
}
