//! The two closed lists a memory is classified by: its type and its status.

use std::{fmt, str::FromStr};

use crate::{
    error::{Form, MifError, quoted},
    fields::{Located, Part},
    value::Value,
};

/// What kind of memory it is. A closed list: an unknown value is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MemoryType {
    /// Facts, decisions, preferences.
    Semantic,
    /// Things that happened.
    Episodic,
    /// How to do something.
    Procedural,
}

/// Where a memory is in its life. A closed list: an unknown value is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Status {
    /// In use.
    Active,
    /// Kept, no longer offered.
    Archived,
    /// Replaced by another memory.
    Superseded,
    /// Marked as deleted.
    Deleted,
}

macro_rules! closed_list {
    ($type:ident, $path:literal, $expected:literal, $($variant:ident = $name:literal),+) => {
        impl $type {
            /// Every value, in the specification's order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the word used in every form.
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

        impl Part for $type {
            fn read(source: Located) -> Result<Self, MifError> {
                let text = source.text()?;
                text.parse().map_err(|_| source.error($expected, quoted(text)))
            }

            fn write(&self, _: Form) -> Value {
                Value::String(self.as_str().to_owned())
            }
        }
    };
}

closed_list!(
    MemoryType,
    "memory_type",
    "semantic, episodic or procedural",
    Semantic = "semantic",
    Episodic = "episodic",
    Procedural = "procedural"
);

closed_list!(
    Status,
    "status",
    "active, archived, superseded or deleted",
    Active = "active",
    Archived = "archived",
    Superseded = "superseded",
    Deleted = "deleted"
);
