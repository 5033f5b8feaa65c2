//! Sidecar: what is known of a stored result besides its bytes.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lro_core::records::{Content, Envelope, RecordForm};
use lro_core::{OffloadHeader, ResultId};
use serde::{Deserialize, Serialize};

use crate::spool::NewResult;

/// A time to live beyond this is shortened to it: dates have an end.
const TTL_CAP: Duration = Duration::from_hours(100 * 365 * 24);

/// The longest tool name that is kept.
const TOOL_CAP: usize = 256;

/// Companion specification §12: lies beside the data as `<name>.meta.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sidecar {
    /// The header; for anything but records it stands here only.
    pub header: OffloadHeader,
    /// The tool as its server called it: text from outside.
    pub tool: String,
    /// The server whose tool it is, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What the payload was.
    pub content: StoredForm,
    /// The size of the data file, the header line included.
    pub bytes: u64,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// When its time is up.
    pub expires_at: DateTime<Utc>,
    /// What stood around a record array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
    /// Further parts; the first is number 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<FurtherPart>,
}

/// What a payload was before it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoredForm {
    /// The elements of a JSON array.
    Array,
    /// JSON lines.
    Lines,
    /// Records of which it is no longer known what they were: the sidecar is lost.
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
    /// Whether the file has a header and then a record per line.
    pub fn has_records(self) -> bool {
        match self {
            Self::Array | Self::Lines | Self::Records | Self::Table => true,
            Self::Document | Self::Text | Self::Binary => false,
        }
    }

    /// The form of what was found; `None` for a content this version does not know.
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

/// A further part of a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FurtherPart {
    /// Its place in a tool result.
    pub role: PartRole,
    /// Its size.
    pub bytes: u64,
}

/// Why a further part is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartRole {
    /// The payload as it came, where the records alone do not give it again.
    Original,
    /// Text of the same tool result that says something else.
    Text,
}

impl FurtherPart {
    pub(crate) fn new(role: PartRole, bytes: u64) -> Self {
        Self { role, bytes }
    }
}

impl Sidecar {
    /// What is known of a result when it is committed.
    pub(crate) fn new(
        new: &NewResult,
        content: StoredForm,
        envelope: Option<Envelope>,
        bytes: u64,
        parts: Vec<FurtherPart>,
    ) -> Self {
        Self {
            header: new.header.clone(),
            tool: new.tool.chars().take(TOOL_CAP).collect(),
            server: new.server.clone(),
            content,
            bytes,
            created_at: new.created_at,
            expires_at: end_of_life(new.created_at, new.ttl),
            envelope,
            parts,
        }
    }

    /// What is known of a file of records that lost its sidecar: what its header says, and that it
    /// lives as long as any other.
    pub(crate) fn of_header(
        header: OffloadHeader,
        id: ResultId,
        bytes: u64,
        ttl: Duration,
    ) -> Self {
        let named =
            DateTime::from_timestamp_millis(i64::try_from(id.unix_ms()).unwrap_or(i64::MAX));
        let written = DateTime::parse_from_rfc3339(&header.timestamp).map(|t| t.to_utc()).ok();
        // Decision 8: both speak of its age; the later one lets it live longer. A date that cannot
        // be read is as good as one that never comes.
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

    /// Whether the time of the result is up.
    ///
    /// A clock that was set back shows a time before the name's or the header's: then nothing is
    /// known about age, and nothing has expired.
    pub fn is_expired(&self, id: ResultId, now: DateTime<Utc>) -> bool {
        let named = i64::try_from(id.unix_ms()).unwrap_or(i64::MAX);
        now >= self.expires_at && now >= self.created_at && now.timestamp_millis() >= named
    }
}

/// Spec L1: creation and time to live, no extension.
fn end_of_life(created_at: DateTime<Utc>, ttl: Duration) -> DateTime<Utc> {
    let ttl = TimeDelta::from_std(ttl.min(TTL_CAP)).unwrap_or(TimeDelta::MAX);
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
            let sidecar = Sidecar::of_header(header, id, 0, Duration::from_hours(1));
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
