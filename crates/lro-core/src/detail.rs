//! Detail: how much of a memory its record shows.

use serde::{Deserialize, Serialize};

/// The detail level of memory records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the specification fixes the three levels")]
pub enum Detail {
    /// Enough to choose by: id, type, title, namespace, tags, dates, status.
    Light,
    /// Light and the content, the summary and a flat confidence.
    Medium,
    /// The whole object.
    Full,
}

impl Detail {
    /// The name that stands in headers, summaries and guidance.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Medium => "medium",
            Self::Full => "full",
        }
    }
}

impl std::fmt::Display for Detail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
