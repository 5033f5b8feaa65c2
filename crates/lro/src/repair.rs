//! Corrects typical mistakes in filters, statements and patterns.
//!
//! A model that guesses a name or mixes up two languages should not need a second call. Text is changed
//! only outside of its strings, and the reply says what was changed.

#[cfg(any(feature = "jq", feature = "sql"))]
mod fields;
#[cfg(feature = "jq")]
pub(crate) mod jq;
pub(crate) mod pattern;
#[cfg(feature = "sql")]
pub(crate) mod sql;

#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) use fields::{FieldPaths, Kinds};

/// A corrected text, and what was changed.
#[cfg(any(feature = "jq", feature = "sql"))]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    /// The text without the mistake.
    pub(crate) text: String,
    /// The text before and after: both are from the query and from field names.
    pub(crate) change: (String, String),
}

#[cfg(any(feature = "jq", feature = "sql"))]
impl Repair {
    /// The change in words, with the texts as JSON.
    pub(crate) fn note(&self) -> String {
        let (old, new) = &self.change;
        format!("{} is read as {}", serde_json::json!(old), serde_json::json!(new))
    }
}

/// A name without case and underscores.
#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) fn normalized(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The end of the string or quoted name at the beginning of `text`, where a doubled quote stands for
/// one.
#[cfg(feature = "sql")]
pub(crate) fn quoted_end(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return at + c.len_utf8();
        }
    }
    text.len()
}
