//! Header: the first line of a stored file, and the record of what was stored.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use crate::detail::Detail;
use crate::operation::Operation;
use crate::tokens::Tokens;

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
    /// The query, where there was one.
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

    /// Whether it bears our mark.
    pub fn is_ours(&self) -> bool {
        self.header_type == HEADER_TYPE
    }
}

/// The specification counts in `usize`; on a small machine the largest one has to do.
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
    /// How long it lives; cleanup may delete it afterwards.
    pub ttl: Duration,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}
