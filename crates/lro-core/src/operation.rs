//! Metadata of a stored result: its operation, its detail level, and the header line of its file.
//!
//! Tool names come from servers. [`Operation`] reduces them to names that are safe in paths and in
//! trusted text.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use super::tokens::Tokens;

/// The maximum length of a slug.
const MAX_SLUG_LEN: usize = 40;

/// The operation that produced a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// `recall_memories`.
    Recall,
    /// `search_memories`.
    Search,
    /// `inject_context`.
    Inject,
    /// `list_memories`.
    List,
    /// Any other tool.
    Tool(Slug),
}

/// A tool name reduced to `[a-z0-9_-]{1,40}`. The original name comes from a server, so it never
/// appears in a path or in trusted text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slug(String);

impl Operation {
    /// The operation of the tool `name`.
    pub fn from_tool(name: &str) -> Self {
        match name {
            "recall_memories" => Self::Recall,
            "search_memories" => Self::Search,
            "inject_context" => Self::Inject,
            "list_memories" => Self::List,
            other => Self::Tool(Slug::new(other)),
        }
    }

    /// The name, as in file names, headers and summaries.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Recall => "recall",
            Self::Search => "search",
            Self::Inject => "inject",
            Self::List => "list",
            Self::Tool(slug) => &slug.0,
        }
    }

    /// Whether it is one of the four memory operations of the specification.
    pub fn is_memory(&self) -> bool {
        !matches!(self, Self::Tool(_))
    }

    /// Spec D1: the detail level if the caller requests none.
    pub fn default_detail(&self) -> Detail {
        match self {
            Self::Inject => Detail::Medium,
            _ => Detail::Light,
        }
    }
}

impl Slug {
    fn new(name: &str) -> Self {
        let slug: String = name
            .chars()
            .take(MAX_SLUG_LEN)
            .map(|c| match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9' | '-' | '_') => c,
                _ => '_',
            })
            .collect();
        Self(if slug.is_empty() { "tool".to_owned() } else { slug })
    }
}

/// The detail level of memory records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the specification fixes the three levels")]
pub enum Detail {
    /// Id, type, title, namespace, tags, dates and status: enough to choose by.
    Light,
    /// Light, plus content, summary and a flat confidence.
    Medium,
    /// The whole object.
    Full,
}

impl Detail {
    /// The name, as in headers, summaries and guidance.
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

/// The MIF version of memory records.
pub const MIF_SCHEMA_VERSION: &str = "0.1.0";

/// The schema version of records whose shape was inferred.
pub const INFERRED_SCHEMA_VERSION: &str = "inferred";

const HEADER_TYPE: &str = "lro_header";

/// Spec G1: metadata header, the first line of an offloaded JSONL file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadHeader {
    /// Always `"lro_header"`.
    #[serde(rename = "type")]
    pub header_type: String,
    /// The operation that produced the results.
    pub operation: String,
    /// The query, if there was one.
    pub query: Option<String>,
    /// The number of record lines that follow.
    pub count: usize,
    /// The MIF version of the records, or `"inferred"`.
    pub schema_version: String,
    /// When the file was written, ISO 8601.
    pub timestamp: String,
    /// The estimated tokens of the whole set.
    pub estimated_tokens: usize,
    /// The detail level of the records.
    pub detail: String,
}

impl OffloadHeader {
    /// The header for `count` records.
    pub fn new(
        operation: &Operation,
        query: Option<String>,
        count: u64,
        estimated: Tokens,
        detail: Detail,
        written_at: DateTime<Utc>,
    ) -> Self {
        let schema_version =
            if operation.is_memory() { MIF_SCHEMA_VERSION } else { INFERRED_SCHEMA_VERSION };
        Self {
            header_type: HEADER_TYPE.to_owned(),
            operation: operation.as_str().to_owned(),
            query,
            count: saturating(count),
            schema_version: schema_version.to_owned(),
            timestamp: written_at.to_rfc3339_opts(SecondsFormat::Millis, true),
            estimated_tokens: saturating(estimated.0),
            detail: detail.as_str().to_owned(),
        }
    }

    /// Whether the header type is `lro_header`.
    pub fn is_ours(&self) -> bool {
        self.header_type == HEADER_TYPE
    }
}

/// Converts a count to `usize`, which the specification uses; saturates on 32-bit machines.
pub(crate) fn saturating(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Spec G1: an offloaded result file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffloadedResult {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Its header.
    pub header: OffloadHeader,
    /// The time to live; afterwards cleanup may delete the file.
    pub ttl: Duration,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d1_the_default_detail_is_light_and_medium_for_inject_context() {
        for tool in ["recall_memories", "search_memories", "list_memories"] {
            assert_eq!(Operation::from_tool(tool).default_detail(), Detail::Light);
        }
        assert_eq!(Operation::from_tool("inject_context").default_detail(), Detail::Medium);
    }

    #[test]
    fn a_hostile_tool_name_becomes_a_harmless_slug() {
        for (name, slug) in [
            ("Read File", "read_file"),
            ("../../etc/passwd", "______etc_passwd"),
            ("", "tool"),
            ("\u{202e}x\n", "_x_"),
        ] {
            assert_eq!(Operation::from_tool(name).as_str(), slug);
        }
        assert_eq!(Operation::from_tool(&"x".repeat(500)).as_str().len(), MAX_SLUG_LEN);
    }
}
