//! What can be wrong with a document, said so that a person can find and mend it.

use std::fmt;

/// The three written forms of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// One JSON object, `snake_case` keys.
    Json,
    /// A JSON-LD document, `camelCase` keys.
    JsonLd,
    /// Markdown with YAML front matter (`.memory.md`).
    Markdown,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::JsonLd => "JSON-LD",
            Self::Markdown => "Markdown",
        })
    }
}

/// A place in a text; both numbers begin at 1 and the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a document is not a memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MifError {
    /// The text breaks the grammar of its form: nothing can be said about its fields.
    #[error("{form}, {at}: expected {expected}, found {found}")]
    Syntax {
        /// The form the text was read as.
        form: Form,
        /// Where reading stopped.
        at: Position,
        /// What would have been right.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// One field has a wrong value, is missing, or is given twice.
    #[error("{}`{path}`: expected {expected}, found {found}", Place(*.at))]
    Field {
        /// Where the value stands; absent when the memory did not come from a text.
        at: Option<Position>,
        /// The field, as in `provenance.confidence` or `relationships[2].target`.
        path: String,
        /// What would have been right.
        expected: String,
        /// What stands there.
        found: String,
    },
}

impl MifError {
    /// Returns where in the text the problem is, if it came from a text.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Syntax { at, .. } => Some(*at),
            Self::Field { at, .. } => *at,
        }
    }

    /// Returns the path of the field concerned, if one is.
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

struct Place(Option<Position>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, "{at}, "))
    }
}

/// Quotes foreign text for a message: escaped, and cut so that a message stays one line.
pub(crate) fn quoted(text: &str) -> String {
    const MAX_QUOTE_LEN: usize = 60;
    match text.char_indices().nth(MAX_QUOTE_LEN) {
        None => format!("{text:?}"),
        Some((cut, _)) => {
            format!("{:?}… ({} characters)", &text[..cut], text.chars().count())
        }
    }
}
