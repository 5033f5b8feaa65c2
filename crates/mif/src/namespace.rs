//! Where a memory belongs: a path of segments.

use std::{fmt, str::FromStr};

use crate::{
    classification::MemoryType,
    error::{Form, MifError, quoted},
    fields::{Located, Part},
    value::Value,
};

const EXPECTED: &str = "segments of letters, digits, '_' and '-' separated by '/'";

/// A namespace: `seg(/seg)*` where a segment is made of ASCII letters, digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(String);

impl Namespace {
    /// The namespaces the specification names. Others are legal.
    pub const WELL_KNOWN: [&str; 17] = [
        "_semantic",
        "_semantic/decisions",
        "_semantic/knowledge",
        "_semantic/entities",
        "_semantic/preferences",
        "_episodic",
        "_episodic/incidents",
        "_episodic/sessions",
        "_episodic/blockers",
        "_procedural",
        "_procedural/runbooks",
        "_procedural/patterns",
        "_procedural/migrations",
        "_public",
        "_shared",
        "_local",
        "_system",
    ];

    /// Returns the namespace of a captured memory that named none: the root of its type.
    pub fn default_for(memory_type: MemoryType) -> Self {
        Self(format!("_{memory_type}"))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the segments, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Tells whether this namespace is `ancestor` or lies below it; whole segments count, so
    /// `_semantic/decisions-old` is not within `_semantic/decisions`.
    pub fn is_within(&self, ancestor: &Self) -> bool {
        self.0
            .strip_prefix(&ancestor.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl FromStr for Namespace {
    type Err = MifError;

    fn from_str(text: &str) -> Result<Self, MifError> {
        let segment = |s: &str| {
            !s.is_empty()
                && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        };
        if text.split('/').all(segment) {
            Ok(Self(text.to_owned()))
        } else {
            Err(MifError::field("namespace", EXPECTED, quoted(text)))
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Part for Namespace {
    fn read(source: Located) -> Result<Self, MifError> {
        let text = source.text()?;
        text.parse().map_err(|_| source.error(EXPECTED, quoted(text)))
    }

    fn write(&self, _: Form) -> Value {
        Value::String(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        for text in Namespace::WELL_KNOWN {
            assert!(text.parse::<Namespace>().is_ok(), "{text}");
        }
        for text in ["", "/", "a/", "/a", "a//b", "a b", "é", "a.b", "../x"] {
            assert!(text.parse::<Namespace>().is_err(), "{text}");
        }
    }

    #[test]
    fn within_counts_whole_segments() {
        let ns = |s: &str| s.parse::<Namespace>().unwrap();
        assert!(ns("_semantic/decisions").is_within(&ns("_semantic")));
        assert!(ns("_semantic").is_within(&ns("_semantic")));
        assert!(!ns("_semantic/decisions-old").is_within(&ns("_semantic/decisions")));
    }
}
