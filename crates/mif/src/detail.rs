//! How much of a memory is shown.

use std::{fmt, str::FromStr};

use crate::{
    error::{Form, MifError, quoted},
    fields::Key,
    memory::{
        CONTENT, CREATED, ID, MEMORY_TYPE, MODIFIED, Memory, NAMESPACE, STATUS, SUMMARY, TAGS,
        TITLE,
    },
    object::ObjectWriter,
    value::{Map, Value},
};

const CONFIDENCE: Key = Key::same("confidence");

/// How much of a memory is shown.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Detail {
    /// Enough to choose: `id`, `memory_type`, `title`, `namespace`, `tags`, `created`,
    /// `modified`, `status`.
    Light,
    /// Enough to use: light, and `content` (uncut), `summary`, `confidence` (flat).
    Medium,
    /// The whole object, unknown keys included; confidence is in `provenance.confidence`.
    Full,
}

impl Detail {
    /// Every level, from least to most.
    pub const ALL: [Self; 3] = [Self::Light, Self::Medium, Self::Full];

    /// Returns the word used in requests, headers and summaries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Medium => "medium",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Detail {
    type Err = MifError;

    fn from_str(text: &str) -> Result<Self, MifError> {
        Self::ALL
            .into_iter()
            .find(|detail| detail.as_str() == text)
            .ok_or_else(|| MifError::field("detail", "light, medium or full", quoted(text)))
    }
}

impl Memory {
    /// Returns the memory's JSON object at a level. A field the memory lacks is absent: nothing is
    /// made up to fill it.
    pub fn at(&self, detail: Detail) -> Map {
        if detail == Detail::Full {
            return self.write(Form::Json);
        }
        let mut object = ObjectWriter::new(Form::Json);
        object.put(&ID, &self.id);
        object.put(&MEMORY_TYPE, &self.memory_type);
        object.optional(&TITLE, self.title.as_ref());
        object.optional(&NAMESPACE, self.namespace.as_ref());
        object.list(&TAGS, self.tags.as_ref());
        object.put(&CREATED, &self.created);
        object.optional(&MODIFIED, self.modified.as_ref());
        object.optional(&STATUS, self.status.as_ref());
        if detail == Detail::Medium {
            object.put(&CONTENT, &self.content);
            object.optional(&SUMMARY, self.summary.as_ref());
            object.optional(&CONFIDENCE, self.confidence());
        }
        object.rest(&Map::new())
    }

    /// Returns the memory at a level as one line of compact JSON, without the line break.
    pub fn to_line(&self, detail: Detail) -> String {
        Value::Object(self.at(detail)).to_string()
    }
}
