//! The metadata of a new result, and the sidecar, the metadata of a stored result.

use std::ops::Range;
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
    /// A digest of the arguments, without values that may be secret.
    pub arguments: Option<String>,
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
    /// A digest of the arguments, without values that may be secret: untrusted text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
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
    /// The range of the records in the original payload, if that is a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_range: Option<Range<u64>>,
    /// The lengths of the further texts, which are one after the other in the part for
    /// [`PartRole::Texts`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<u64>,
    /// The other tables of the document, in the order of the parts for [`PartRole::Table`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<StoredTable>,
    /// Additional parts; the first is number 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<FurtherPart>,
}

/// A table of a document besides the main one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredTable {
    /// The table name in SQL.
    pub name: String,
    /// The number of records.
    pub count: u64,
}

/// The layout of a payload in its stored form, as written by a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// The form of the payload.
    pub form: StoredForm,
    /// The JSON around a record array.
    pub envelope: Option<Envelope>,
    /// The range of the records in the original payload, if that is a part.
    pub records_range: Option<Range<u64>>,
    /// The lengths of the further texts.
    pub texts: Vec<u64>,
    /// The other tables of the document.
    pub tables: Vec<StoredTable>,
}

impl From<StoredForm> for Layout {
    fn from(form: StoredForm) -> Self {
        Self { form, envelope: None, records_range: None, texts: Vec::new(), tables: Vec::new() }
    }
}

/// The form of a payload before it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoredForm {
    /// The elements of a JSON array.
    Array,
    /// The members of a JSON object.
    Map,
    /// JSON lines.
    Lines,
    /// Records of unknown original form: the sidecar is lost.
    Records,
    /// A table or log in text, such as CSV. The original is a part.
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
            Self::Array | Self::Map | Self::Lines | Self::Records | Self::Table => true,
            Self::Document | Self::Text | Self::Binary => false,
        }
    }

    /// The stored form of detected content; `None` for a content type that this version does not
    /// support.
    pub fn from_content(content: &Content) -> Option<Self> {
        match content {
            Content::Records(records) => match records.form {
                RecordForm::Array { .. } => Some(Self::Array),
                RecordForm::Map { .. } => Some(Self::Map),
                RecordForm::Lines { .. } => Some(Self::Lines),
                RecordForm::Table { .. } | RecordForm::TextTable { .. } => Some(Self::Table),
                _ => None,
            },
            Content::Document => Some(Self::Document),
            Content::Text | Content::Base64(_) => Some(Self::Text),
            Content::Binary => Some(Self::Binary),
            _ => None,
        }
    }
}

/// The number of an additional part, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartNumber(pub u16);

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
    /// All other texts of the same tool result, one after the other.
    Texts,
    /// The record lines of another table of the same document.
    Table,
    /// The output of a command, both streams in the order in which they were read, if the payload is
    /// standard output alone.
    Output,
    /// The offsets at which the output of a command changes from one stream to the other.
    Order,
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
        layout: Layout,
        bytes: u64,
        parts: Vec<FurtherPart>,
    ) -> Self {
        let Layout { form, envelope, records_range, texts, tables } = layout;
        Self {
            header: new.header.clone(),
            tool: new.tool.chars().take(MAX_TOOL_CHARS).collect(),
            server: new.server.clone(),
            arguments: new.arguments.clone(),
            content: form,
            bytes,
            created_at: new.created_at,
            expires_at: end_of_life(new.created_at, new.ttl),
            envelope,
            records_range,
            texts,
            tables,
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
            arguments: None,
            header,
            content: StoredForm::Records,
            bytes,
            created_at,
            expires_at: end_of_life(created_at, ttl),
            envelope: None,
            records_range: None,
            texts: Vec::new(),
            tables: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// The other tables of the document, each with the part that contains its record lines.
    pub fn table_parts(&self) -> impl Iterator<Item = (&StoredTable, PartNumber)> {
        let parts = (1..).zip(&self.parts).filter(|(_, part)| part.role == PartRole::Table);
        self.tables.iter().zip(parts.map(|(number, _)| PartNumber(number)))
    }

    /// The number of further texts of the same tool result.
    pub fn further_texts(&self) -> usize {
        let single = self.parts.iter().filter(|part| part.role == PartRole::Text).count();
        single + self.texts.len()
    }

    /// The part that contains the further text with this number, from 1, and its range in it.
    pub(crate) fn text_location(&self, number: u64) -> Option<(PartNumber, Range<u64>)> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let with_role = |role| {
            (1..)
                .zip(&self.parts)
                .filter(move |(_, part)| part.role == role)
                .map(|(n, part)| (PartNumber(n), part))
        };
        if let Some((part, text)) = with_role(PartRole::Text).nth(index) {
            return Some((part, 0..text.bytes));
        }
        let length = *self.texts.get(index)?;
        let start = self.texts[..index].iter().sum::<u64>();
        with_role(PartRole::Texts).next().map(|(part, _)| (part, start..start + length))
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
