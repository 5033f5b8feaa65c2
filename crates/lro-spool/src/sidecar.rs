//! The metadata of a new result, and the sidecar, the metadata of a stored result.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lro_core::records::{Content, Envelope, RecordForm};
use lro_core::{OffloadHeader, Operation, ResultId};
use serde::{Deserialize, Serialize};

use crate::address::{Extension, FileName};

/// A longer time to live is reduced to this, so that dates stay representable.
const MAX_TTL: Duration = Duration::from_hours(100 * 365 * 24);

/// The longest tool name that is stored.
const MAX_TOOL_CHARS: usize = 256;

/// The metadata of a new result.
#[derive(Debug, Clone)]
pub struct NewResult {
    /// The id.
    pub id: ResultId,
    /// The operation, part of the file name.
    pub operation: Operation,
    /// The name of the tool, as its server spells it.
    pub tool: String,
    /// The server that the tool belongs to, if there are several.
    pub server: Option<String>,
    /// The content type of the data file.
    pub extension: Extension,
    /// The header.
    pub header: OffloadHeader,
    /// The current time.
    pub created_at: DateTime<Utc>,
    /// The time to live.
    pub ttl: Duration,
}

impl NewResult {
    /// The name of the data file.
    pub fn name(&self) -> FileName {
        FileName::new(&self.operation, self.id, self.extension)
    }
}

/// The metadata of a stored result, in `<name>.meta.json` beside the data (companion specification
/// §12).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sidecar {
    /// The header. Only record files contain it as well.
    pub header: OffloadHeader,
    /// The name of the tool, as its server spells it: untrusted text.
    pub tool: String,
    /// The server that the tool belongs to, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The form of the payload.
    pub content: StoredForm,
    /// The size of the data file in bytes, including the header line.
    pub bytes: u64,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// When it expires.
    pub expires_at: DateTime<Utc>,
    /// The JSON around a record array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
    /// Additional parts; the first is number 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<FurtherPart>,
}

/// The form of a payload before it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoredForm {
    /// The elements of a JSON array.
    Array,
    /// JSON lines.
    Lines,
    /// Records of unknown original form: the sidecar is lost.
    Records,
    /// CSV or TSV.
    Table,
    /// One JSON document.
    Document,
    /// Text.
    Text,
    /// Bytes that are not text.
    Binary,
}

impl StoredForm {
    /// Whether the file consists of a header and record lines.
    pub fn has_records(self) -> bool {
        match self {
            Self::Array | Self::Lines | Self::Records | Self::Table => true,
            Self::Document | Self::Text | Self::Binary => false,
        }
    }

    /// The stored form of detected content; `None` for a content type that this version does not
    /// support.
    pub fn from_content(content: &Content) -> Option<Self> {
        match content {
            Content::Records(records) => match records.form {
                RecordForm::Array { .. } => Some(Self::Array),
                RecordForm::Lines { .. } => Some(Self::Lines),
                RecordForm::Table { .. } => Some(Self::Table),
                _ => None,
            },
            Content::Document => Some(Self::Document),
            Content::Text => Some(Self::Text),
            Content::Binary => Some(Self::Binary),
            _ => None,
        }
    }
}

/// An additional part of a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FurtherPart {
    /// The role of the part.
    pub role: PartRole,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The role of an additional part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartRole {
    /// The original payload, if the records alone cannot restore it.
    Original,
    /// Another text of the same tool result.
    Text,
}

impl FurtherPart {
    pub(crate) fn new(role: PartRole, bytes: u64) -> Self {
        Self { role, bytes }
    }
}

impl Sidecar {
    /// The metadata of a result at its commit.
    pub(crate) fn new(
        new: &NewResult,
        content: StoredForm,
        envelope: Option<Envelope>,
        bytes: u64,
        parts: Vec<FurtherPart>,
    ) -> Self {
        Self {
            header: new.header.clone(),
            tool: new.tool.chars().take(MAX_TOOL_CHARS).collect(),
            server: new.server.clone(),
            content,
            bytes,
            created_at: new.created_at,
            expires_at: end_of_life(new.created_at, new.ttl),
            envelope,
            parts,
        }
    }

    /// The metadata of a record file whose sidecar is lost: from its header, with the default time
    /// to live.
    pub(crate) fn from_header(
        header: OffloadHeader,
        id: ResultId,
        bytes: u64,
        ttl: Duration,
    ) -> Self {
        let named =
            DateTime::from_timestamp_millis(i64::try_from(id.unix_ms()).unwrap_or(i64::MAX));
        let written = DateTime::parse_from_rfc3339(&header.timestamp).map(|t| t.to_utc()).ok();
        // Decision 8: the later of the two dates wins, so that nothing expires too early. A result
        // with an unreadable date never expires.
        let created_at = written.max(named).unwrap_or(DateTime::<Utc>::MAX_UTC);
        Self {
            tool: header.operation.clone(),
            server: None,
            header,
            content: StoredForm::Records,
            bytes,
            created_at,
            expires_at: end_of_life(created_at, ttl),
            envelope: None,
            parts: Vec::new(),
        }
    }

    /// Whether the result has expired.
    ///
    /// If the clock was set back before the time in the name or the header, the age is unknown and
    /// nothing has expired.
    pub fn is_expired(&self, id: ResultId, now: DateTime<Utc>) -> bool {
        let named = i64::try_from(id.unix_ms()).unwrap_or(i64::MAX);
        now >= self.expires_at && now >= self.created_at && now.timestamp_millis() >= named
    }
}

/// Spec L1: creation time plus time to live, without extension.
fn end_of_life(created_at: DateTime<Utc>, ttl: Duration) -> DateTime<Utc> {
    let ttl = TimeDelta::from_std(ttl.min(MAX_TTL)).unwrap_or(TimeDelta::MAX);
    created_at.checked_add_signed(ttl).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use lro_core::{Detail, Operation, Tokens};

    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).unwrap()
    }

    #[test]
    fn l1_a_header_alone_gives_an_age_by_the_later_of_its_two_times() {
        let id = ResultId::new(1_800_000_000_000, 1);
        for (written, created) in
            [(1_700_000_000_000, 1_800_000_000_000), (1_900_000_000_000, 1_900_000_000_000)]
        {
            let header = OffloadHeader::new(
                &Operation::Recall,
                None,
                0,
                Tokens(0),
                Detail::Light,
                at(written),
            );
            let sidecar = Sidecar::from_header(header, id, 0, Duration::from_hours(1));
            assert_eq!(sidecar.created_at, at(created));
            assert!(!sidecar.is_expired(id, at(created + 3_599_999)));
            assert!(sidecar.is_expired(id, at(created + 3_600_000)));
            assert!(!sidecar.is_expired(id, at(0)), "a clock set back");
        }
    }

    #[test]
    fn a_life_without_end_ends_in_a_hundred_years() {
        let end = end_of_life(at(0), Duration::MAX);
        assert_eq!(end.to_rfc3339().parse::<DateTime<Utc>>(), Ok(end));
        assert_eq!(end_of_life(DateTime::<Utc>::MAX_UTC, Duration::MAX), DateTime::<Utc>::MAX_UTC);
    }
}
