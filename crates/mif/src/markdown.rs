//! The Markdown form: YAML front matter, and the content as the body.
//!
//! The layout is exact, so that any content comes back byte for byte:
//!
//! ```text
//! ---            first line
//! …              front matter: the JSON form without `content`
//! ---            the first further line that is exactly this
//!                one line break, not part of the content
//! content        anything, `---` lines included
//!                one line break, not part of the content
//! ```
//!
//! Reading takes either of the two extra line breaks away if it is there, so a file that a person
//! wrote without them means what it seems to mean. They are `\n`, or `\r\n` in a file whose
//! closing `---` ends in `\r\n`. Spaces after a `---` do not matter.

use crate::{
    classification::MemoryType,
    error::{Form, MifError, Position, quoted},
    fields::{Key, Located, Part as _},
    id::MemoryId,
    memory::{CONTENT, CREATED, FRONT_MATTER_TYPE, ID, MEMORY_TYPE, Memory},
    node::{Kind, Node},
    timestamp::Timestamp,
    value::{Map, Value},
    yaml,
};

const FENCE: &str = "---";

impl Memory {
    /// Reads the Markdown form.
    ///
    /// Front matter must be plain data: anchors, aliases, tags and keys given twice are errors.
    pub fn from_markdown(text: &str) -> Result<Self, MifError> {
        let document = Document::split(text)?;
        let front = yaml::read(document.front, 2)?;
        let mut fields = Located { path: String::new(), node: front }.fields()?;
        let content = Kind::String(document.body.to_owned());
        fields.insert(CONTENT.json, Node::new(document.body_at, content))?;
        Self::read(fields, Form::Markdown)
    }

    /// Reads Markdown that need not be a memory yet: a note. What its front matter does not say is
    /// taken from the arguments; a text without front matter is all content, but for one line break
    /// at its end. Whatever else the front matter says is read, or kept, as in a memory.
    pub fn from_note(
        text: &str,
        id: &MemoryId,
        memory_type: MemoryType,
        created: &Timestamp,
    ) -> Result<Self, MifError> {
        let (front, body, body_at) = if let Ok(document) = Document::split(text) {
            (yaml::read(document.front, 2)?, document.body, document.body_at)
        } else {
            // None, or a rule at the top of a page that no second one follows.
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let body = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'));
            let start = Position { line: 1, column: 1 };
            (Node::from(&Value::Object(Map::new())), body.unwrap_or(text), start)
        };
        let mut fields = Located { path: String::new(), node: front }.fields()?;
        fields.insert(CONTENT.json, Node::new(body_at, Kind::String(body.to_owned())))?;
        let mut absent = |keys: &[Key], value: Value| match keys {
            [first, ..] if !keys.iter().any(|key| fields.has(key)) => {
                fields.insert(first.json, Node::from(&value))
            }
            _ => Ok(()),
        };
        absent(&[ID], id.write(Form::Markdown))?;
        absent(&[MEMORY_TYPE, FRONT_MATTER_TYPE], memory_type.write(Form::Markdown))?;
        absent(&[CREATED], created.write(Form::Markdown))?;
        Self::read(fields, Form::Markdown)
    }

    /// Writes the Markdown form.
    pub fn to_markdown(&self) -> String {
        let front = yaml::write(&self.write(Form::Markdown));
        format!("{FENCE}\n{front}{FENCE}\n\n{}\n", self.content)
    }
}

struct Document<'a> {
    front: &'a str,
    body: &'a str,
    body_at: Position,
}

impl<'a> Document<'a> {
    fn split(text: &'a str) -> Result<Self, MifError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let error = |line: usize, expected: &str, found: String| MifError::Syntax {
            form: Form::Markdown,
            at: Position { line, column: 1 },
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
                let body_at = Position { line: number + 1 + skipped, column: 1 };
                return Ok(Self { front, body, body_at });
            }
            end += line.len();
        }
        let lines = text.lines().count();
        Err(error(lines, "a closing '---' line", "the end of the text".to_owned()))
    }
}
