//! Large file: whether a file that does not fit into memory is a tool result, and which of its bytes
//! are the payload.
//!
//! Says the same as [`ToolResult::read`](lro_core::tool_result::ToolResult::read), from ranges. Where
//! ranges do not decide it (several texts, text beside other content, members that occur twice) it
//! says so, and the caller reads the file whole.

use std::ops::Range;

use lro_core::outline::{Form, Node};
use lro_core::payload::{self, Payload, Unreadable};

use super::streamed::{Lost, Main, Parts};

/// What a large file is.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a fourth answer would be a change for every caller")]
pub enum LargeFile {
    /// No tool result: all of it is the payload.
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
    /// Images, audio, links and embedded resources beside it.
    pub other_blocks: usize,
}

impl LargeFile {
    /// Reads the outline of `file`.
    pub fn read(file: &dyn Payload) -> Result<Self, Unreadable> {
        if !begins_object(file)? {
            return Ok(Self::Payload);
        }
        let enter = |path: &[&str]| {
            matches!(path, [] | ["content" | "structuredContent"] | ["content", ""])
        };
        let Some(root) = Node::parse(file, enter)? else { return Ok(Self::Payload) };
        let there = |name: &str| root.children.iter().filter(|child| child.name == name).count();
        if !root.cut && there("content") == 0 && there("structuredContent") == 0 {
            return Ok(Self::Payload);
        }
        let once = ["content", "structuredContent", "isError", "resultType"]
            .into_iter()
            .all(|name| there(name) <= 1);
        let failed = match root.get("isError") {
            None => false,
            Some(node) => payload::part(file, node.range.clone())? != b"false",
        };
        let plain = once && !root.cut && !failed;
        let complete = match root.get("resultType") {
            None => true,
            Some(_) => root.text("resultType") == Some("complete"),
        };
        let Some((texts, other_blocks)) = blocks(&root) else { return Ok(Self::Undecided) };
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
            Ok(Some(Parts { main, beside, .. })) if beside.is_empty() => {
                Ok(Self::ToolResult(LargePayload { main, other_blocks }))
            }
            Ok(_) | Err(Lost::NoText) => Ok(Self::Undecided),
            Err(Lost::Unreadable(error)) => Err(error),
        }
    }
}

impl LargePayload {
    /// Where the payload lies, where it is JSON that stands in the file as it is; otherwise it is
    /// the text of a string, which [`decode`](Self::decode) gives.
    pub fn range(&self) -> Option<Range<u64>> {
        match &self.main {
            Main::Json(range) => Some(range.clone()),
            Main::Text(_) => None,
        }
    }

    /// Gives the payload to `feed`, in pieces. False where it is a string that stands for no text.
    pub fn decode(&self, file: &dyn Payload, feed: impl FnMut(&[u8])) -> Result<bool, Unreadable> {
        match self.main.each(file, feed) {
            Ok(()) => Ok(true),
            Err(Lost::NoText) => Ok(false),
            Err(Lost::Unreadable(error)) => Err(error),
        }
    }
}

/// How many text blocks and other blocks there are; `None` where `content` is no list of blocks.
fn blocks(root: &Node) -> Option<(usize, usize)> {
    let Some(content) = root.get("content") else { return Some((0, 0)) };
    let is_text = |block: &Node| {
        block.text("type") == Some("text")
            && block.get("text").is_some_and(|text| matches!(text.form, Form::String(_)))
    };
    let is_block = |block: &Node| {
        // A text block without its text, or with two, is not counted here.
        let names = block.children.iter().filter(|child| ["type", "text"].contains(&&*child.name));
        let kind = block.text("type");
        kind.is_some() && (is_text(block) && names.count() == 2 || kind != Some("text"))
    };
    if content.form != Form::Array || content.cut || !content.children.iter().all(is_block) {
        return None;
    }
    let texts = content.children.iter().filter(|block| is_text(block)).count();
    Some((texts, content.children.len() - texts))
}

/// Whether the first significant byte opens an object.
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

    /// As the reader that holds all of it sees the same file.
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
        ] {
            assert!(!same_as_whole(undecided), "{undecided}");
        }
    }
}
