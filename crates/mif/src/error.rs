//! Errors about documents, with the position, the field, and what is expected there.

use std::fmt;

/// A document format of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryFormat {
    /// One JSON object, `snake_case` keys.
    Json,
    /// A JSON-LD document, `camelCase` keys.
    JsonLd,
    /// Markdown with YAML front matter (`.memory.md`).
    Markdown,
}

impl fmt::Display for MemoryFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::JsonLd => "JSON-LD",
            Self::Markdown => "Markdown",
        })
    }
}

/// A position in a text. Both numbers begin at 1, and the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TextPosition {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a document is not a memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MifError {
    /// The text violates the grammar of its format, so its fields are unknown.
    #[error("{form}, {at}: expected {expected}, found {found}")]
    Syntax {
        /// The format that the text was read as.
        form: MemoryFormat,
        /// Where parsing stopped.
        at: TextPosition,
        /// What is valid there.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A field is invalid, missing, or duplicated.
    #[error("{}`{path}`: expected {expected}, found {found}", PositionPrefix(*.at))]
    Field {
        /// The position of the value; absent if the memory was not read from a text.
        at: Option<TextPosition>,
        /// The field, as in `provenance.confidence` or `relationships[2].target`.
        path: String,
        /// What is valid there.
        expected: String,
        /// What was found.
        found: String,
    },
}

impl MifError {
    /// Returns the position of the problem, if the memory was read from a text.
    pub fn position(&self) -> Option<TextPosition> {
        match self {
            Self::Syntax { at, .. } => Some(*at),
            Self::Field { at, .. } => *at,
        }
    }

    /// Returns the path of the field, if the error concerns one.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Syntax { .. } => None,
            Self::Field { path, .. } => Some(path),
        }
    }

    pub(crate) fn field(path: &str, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Field {
            at: None,
            path: path.to_owned(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

struct PositionPrefix(Option<TextPosition>);

impl fmt::Display for PositionPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, "{at}, "))
    }
}

/// Quotes untrusted text for a message: escaped, and truncated so that the message stays on one
/// line.
pub(crate) fn quoted(text: &str) -> String {
    const MAX_QUOTE_LEN: usize = 60;
    match text.char_indices().nth(MAX_QUOTE_LEN) {
        None => format!("{text:?}"),
        Some((cut, _)) => {
            format!("{:?}… ({} characters)", &text[..cut], text.chars().count())
        }
    }
}
