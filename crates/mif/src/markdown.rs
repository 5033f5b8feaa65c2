//! The Markdown format.
//!
//! A document is YAML front matter with the content as the body.
//!
//! The layout is exact, so that any content comes back byte for byte:
//!
//! ```text
//! ---            first line
//! …              front matter: the JSON format without `content`
//! ---            the first further line that is exactly this
//!                one line break, not part of the content
//! content        anything, `---` lines included
//!                one line break, not part of the content
//! ```
//!
//! Reading removes each of the two extra line breaks if it is present, so a hand-written file without
//! them is read as expected. They are `\n`, or `\r\n` in a file whose
//! closing `---` ends in `\r\n`. Spaces after a `---` are ignored.

use crate::classification::MemoryType;
use crate::error::{MemoryFormat, MifError, TextPosition, quoted};
use crate::fields::{FieldKey, FieldValue as _, LocatedNode};
use crate::id::MemoryId;
use crate::memory::{CONTENT, CREATED, FRONT_MATTER_TYPE, ID, MEMORY_TYPE, Memory};
use crate::temporal::Timestamp;
use crate::value::{Map, Node, NodeKind, Value};
use crate::yaml;

const FENCE: &str = "---";

impl Memory {
    /// Reads the Markdown format.
    ///
    /// Front matter must be plain data: anchors, aliases, tags and duplicate keys are errors.
    pub fn from_markdown(text: &str) -> Result<Self, MifError> {
        let document = Document::split(text)?;
        let front = yaml::read(document.front, 2)?;
        let mut fields = LocatedNode { path: String::new(), node: front }.fields()?;
        let content = NodeKind::String(document.body.to_owned());
        fields.insert(CONTENT.json, Node::new(document.body_at, content))?;
        Self::read(fields, MemoryFormat::Markdown)
    }

    /// Reads a Markdown note that need not be a memory yet. The arguments provide required fields
    /// that its front matter lacks. A text without front matter is all content, except one line
    /// break at its end. All other front matter is read, or kept, as in a memory.
    pub fn from_note(
        text: &str,
        id: &MemoryId,
        memory_type: MemoryType,
        created: &Timestamp,
    ) -> Result<Self, MifError> {
        let (front, body, body_at) = if let Ok(document) = Document::split(text) {
            (yaml::read(document.front, 2)?, document.body, document.body_at)
        } else {
            // No front matter, or a thematic break at the top of a page.
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let body = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'));
            let start = TextPosition { line: 1, column: 1 };
            (Node::from(&Value::Object(Map::new())), body.unwrap_or(text), start)
        };
        let mut fields = LocatedNode { path: String::new(), node: front }.fields()?;
        fields.insert(CONTENT.json, Node::new(body_at, NodeKind::String(body.to_owned())))?;
        let mut absent = |keys: &[FieldKey], value: Value| match keys {
            [first, ..] if !keys.iter().any(|key| fields.has(key)) => {
                fields.insert(first.json, Node::from(&value))
            }
            _ => Ok(()),
        };
        absent(&[ID], id.write(MemoryFormat::Markdown))?;
        absent(&[MEMORY_TYPE, FRONT_MATTER_TYPE], memory_type.write(MemoryFormat::Markdown))?;
        absent(&[CREATED], created.write(MemoryFormat::Markdown))?;
        Self::read(fields, MemoryFormat::Markdown)
    }

    /// Writes the Markdown format.
    pub fn to_markdown(&self) -> String {
        let front = yaml::write(&self.write(MemoryFormat::Markdown));
        format!("{FENCE}\n{front}{FENCE}\n\n{}\n", self.content)
    }
}

struct Document<'a> {
    front: &'a str,
    body: &'a str,
    body_at: TextPosition,
}

impl<'a> Document<'a> {
    fn split(text: &'a str) -> Result<Self, MifError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let error = |line: usize, expected: &str, found: String| MifError::Syntax {
            form: MemoryFormat::Markdown,
            at: TextPosition { line, column: 1 },
            expected: expected.to_owned(),
            found,
        };
        let mut lines = text.split_inclusive('\n');
        let first = lines.next().unwrap_or_default();
        if first.trim_end() != FENCE {
            let found = if first.is_empty() { "an empty text".into() } else { quoted(first) };
            return Err(error(1, "'---' as the first line", found));
        }
        let mut end = first.len();
        for (line, number) in lines.zip(2..) {
            if line.trim_end() == FENCE {
                let front = &text[first.len()..end];
                let line_break = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
                let rest = &text[end + line.len()..];
                let (body, skipped) =
                    rest.strip_prefix(line_break).map_or((rest, 0), |body| (body, 1));
                let body = body.strip_suffix(line_break).unwrap_or(body);
                let body_at = TextPosition { line: number + 1 + skipped, column: 1 };
                return Ok(Self { front, body, body_at });
            }
            end += line.len();
        }
        let lines = text.lines().count();
        Err(error(lines, "a closing '---' line", "the end of the text".to_owned()))
    }
}
