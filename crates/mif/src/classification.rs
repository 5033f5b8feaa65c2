//! How a memory is classified: its type, its status, its namespace.

use std::fmt;
use std::str::FromStr;

use crate::error::{MemoryFormat, MifError, quoted};
use crate::fields::{FieldValue, LocatedNode};
use crate::value::Value;

/// The type of a memory. A closed list: an unknown value is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MemoryType {
    /// Facts, decisions, preferences.
    Semantic,
    /// Events.
    Episodic,
    /// Instructions.
    Procedural,
}

/// The lifecycle status of a memory. A closed list: an unknown value is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Status {
    /// In use.
    Active,
    /// Kept, but no longer offered.
    Archived,
    /// Replaced by another memory.
    Superseded,
    /// Marked as deleted.
    Deleted,
}

macro_rules! closed_enum {
    ($type:ident, $path:literal, $expected:literal, $($variant:ident = $name:literal),+) => {
        impl $type {
            /// Every value, in the specification's order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the name used in every format.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl FromStr for $type {
            type Err = MifError;

            fn from_str(text: &str) -> Result<Self, MifError> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(MifError::field($path, $expected, quoted(text))),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FieldValue for $type {
            fn read(source: LocatedNode) -> Result<Self, MifError> {
                let text = source.text()?;
                text.parse().map_err(|_| source.error($expected, quoted(text)))
            }

            fn write(&self, _: MemoryFormat) -> Value {
                Value::String(self.as_str().to_owned())
            }
        }
    };
}

closed_enum!(
    MemoryType,
    "memory_type",
    "semantic, episodic or procedural",
    Semantic = "semantic",
    Episodic = "episodic",
    Procedural = "procedural"
);

closed_enum!(
    Status,
    "status",
    "active, archived, superseded or deleted",
    Active = "active",
    Archived = "archived",
    Superseded = "superseded",
    Deleted = "deleted"
);

const EXPECTED_NAMESPACE: &str = "segments of letters, digits, '_' and '-' separated by '/'";

/// A namespace: `seg(/seg)*`, where a segment consists of ASCII letters, digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(String);

impl Namespace {
    /// The namespaces that the specification defines. Others are legal.
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

    /// Returns the default namespace of a captured memory: the root of its type.
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

    /// Tells whether this namespace is `ancestor` or below it. Whole segments are compared, so
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
            Err(MifError::field("namespace", EXPECTED_NAMESPACE, quoted(text)))
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FieldValue for Namespace {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let text = source.text()?;
        text.parse().map_err(|_| source.error(EXPECTED_NAMESPACE, quoted(text)))
    }

    fn write(&self, _: MemoryFormat) -> Value {
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
