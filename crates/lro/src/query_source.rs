//! The sources of queries: stored records, the lines of a text, the original payload, the further
//! texts and the other tables of a document.

use lro_core::records::Envelope;
#[cfg(any(feature = "jq", feature = "sql"))]
use lro_query::{Bytes, QueryParams, Source};
use lro_spool::{
    PartNumber, PartRole, PositionedRead, SpoolError, StoredForm, StoredResult, open_text,
    records_offset,
};
#[cfg(any(feature = "jq", feature = "sql"))]
use lro_spool::{RestoreError, restore_payload};
#[cfg(any(feature = "jq", feature = "sql"))]
use serde_json::json;

use crate::extract_error::ExtractError;
#[cfg(any(feature = "jq", feature = "sql"))]
use crate::query::Values;
use crate::query::{Query, QueryTarget};

/// Larger texts and documents are not read into memory: a text is then searched and read, but is no
/// table.
const MAX_IN_MEMORY_BYTES: u64 = 64 << 20;

/// Whether a result is stored as record lines.
pub(crate) fn has_records(stored: &dyn StoredResult) -> bool {
    stored.listed().sidecar.content.has_records()
}

/// A byte source.
pub(crate) type Text<'a> = Box<dyn PositionedRead + 'a>;

/// The text that `query` selects instead of the data: a further text or the original payload.
pub(crate) fn selected_text<'a>(
    stored: &'a dyn StoredResult,
    query: &Query,
) -> Result<Option<Text<'a>>, ExtractError> {
    match (query.part, query.target) {
        (Some(number @ 1..), _) => Ok(Some(further_text(stored, number)?)),
        (_, QueryTarget::Original) => original_text(stored).map(Some),
        (None | Some(0), QueryTarget::Records) => Ok(None),
    }
}

/// The further text with this number, from 1. The original payload may be stored beside them; it has
/// no number, because it is the data once more.
fn further_text(stored: &dyn StoredResult, number: u64) -> Result<Text<'static>, ExtractError> {
    let further = stored.listed().sidecar.further_texts();
    open_text(stored, number)?.ok_or(ExtractError::NoPart { number, further })
}

/// The original payload.
pub(crate) fn original_text(stored: &dyn StoredResult) -> Result<Text<'_>, ExtractError> {
    if let Some(original) = original_part(stored)? {
        return Ok(original);
    }
    let sidecar = &stored.listed().sidecar;
    match (sidecar.content, &sidecar.envelope) {
        (StoredForm::Document | StoredForm::Text | StoredForm::Binary, _) => {
            Ok(Box::new(Restored::bytes(stored, 0)))
        }
        (StoredForm::Lines, _) => Ok(Box::new(Restored::bytes(stored, records_offset(stored)?))),
        (StoredForm::Array, Some(envelope)) => Ok(Box::new(Restored::array(stored, envelope)?)),
        #[cfg(any(feature = "jq", feature = "sql"))]
        (StoredForm::Map, Some(_)) => {
            let payload = restored(stored)?.ok_or(ExtractError::NoOriginal)?;
            Ok(Box::new(Owned(payload)))
        }
        _ => Err(ExtractError::NoOriginal),
    }
}

/// The original payload, if it is stored beside the records.
pub(crate) fn original_part(
    stored: &dyn StoredResult,
) -> Result<Option<Box<dyn PositionedRead>>, SpoolError> {
    let parts = &stored.listed().sidecar.parts;
    let Some(index) = parts.iter().position(|part| part.role == PartRole::Original) else {
        return Ok(None);
    };
    stored.part(PartNumber(u16::try_from(index + 1).unwrap_or(u16::MAX))).map(Some)
}

/// The original payload of records, rebuilt while it is read: the text before them, the record lines
/// with commas between them, and the text behind them.
struct Restored<'a> {
    stored: &'a dyn StoredResult,
    /// The offset and the length of the record lines.
    begin: u64,
    length: u64,
    before: &'a [u8],
    after: &'a [u8],
}

impl<'a> Restored<'a> {
    /// The bytes from `begin` on, unchanged.
    fn bytes(stored: &'a dyn StoredResult, begin: u64) -> Self {
        let length = stored.len().saturating_sub(begin);
        Self { stored, begin, length, before: &[], after: &[] }
    }

    fn array(stored: &'a dyn StoredResult, envelope: &'a Envelope) -> Result<Self, ExtractError> {
        let around = envelope.json.split_at_checked(envelope.at);
        let (before, after) = around.ok_or(ExtractError::NoOriginal)?;
        let begin = records_offset(stored)?;
        let mut last = [0];
        let mut length = stored.len().saturating_sub(begin);
        if length > 0 && stored.read_at(begin + length - 1, &mut last)? == 1 && last == *b"\n" {
            length -= 1;
        }
        Ok(Self { stored, begin, length, before: before.as_bytes(), after: after.as_bytes() })
    }
}

impl PositionedRead for Restored<'_> {
    fn len(&self) -> u64 {
        self.before.len() as u64 + self.length + self.after.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let copy = |from: &[u8], at: u64, buf: &mut [u8]| {
            let from = &from[usize::try_from(at).unwrap_or(usize::MAX).min(from.len())..];
            let length = from.len().min(buf.len());
            buf[..length].copy_from_slice(&from[..length]);
            length
        };
        let Some(in_records) = offset.checked_sub(self.before.len() as u64) else {
            return Ok(copy(self.before, offset, buf));
        };
        let Some(behind) = in_records.checked_sub(self.length) else {
            let left = usize::try_from(self.length - in_records).unwrap_or(usize::MAX);
            let length = left.min(buf.len());
            let read = self.stored.read_at(self.begin + in_records, &mut buf[..length])?;
            // Without text around them, the lines are the payload.
            if !self.before.is_empty() {
                for byte in buf[..read].iter_mut().filter(|byte| **byte == b'\n') {
                    *byte = b',';
                }
            }
            return Ok(read);
        };
        Ok(copy(self.after, behind, buf))
    }
}

/// Bytes in memory.
#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) struct Owned(pub(crate) Vec<u8>);

#[cfg(any(feature = "jq", feature = "sql"))]
impl PositionedRead for Owned {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        Bytes(&self.0).read_at(offset, buf)
    }
}

/// The source of the records of `stored`; `lines` are the records of a text.
#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) fn source<'a>(
    stored: &'a dyn StoredResult,
    lines: Option<&'a Bytes<'a>>,
) -> Result<Source<'a>, ExtractError> {
    match (stored.listed().sidecar.content, lines) {
        (_, Some(lines)) => Ok(Source::lines(lines, 0)),
        (StoredForm::Text | StoredForm::Binary, None) => Err(ExtractError::NoRecords),
        _ => Ok(Source::stored(stored)?),
    }
}

/// The lines of a text result as records with the fields `line`, from 0, and `text`. `None` for other
/// results, and for a text that is too large.
#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) fn text_records(stored: &dyn StoredResult) -> Result<Option<Vec<u8>>, ExtractError> {
    if stored.listed().sidecar.content != StoredForm::Text || stored.len() > MAX_IN_MEMORY_BYTES {
        return Ok(None);
    }
    Ok(restored(stored)?.map(|text| line_records(&text)))
}

/// The lines of `text` as records with the fields `line`, from 0, and `text`.
#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) fn line_records(text: &[u8]) -> Vec<u8> {
    let mut records = Vec::with_capacity(text.len() + text.len() / 4);
    for (number, line) in String::from_utf8_lossy(text).lines().enumerate() {
        records.extend_from_slice(format!("{{\"line\":{number},\"text\":").as_bytes());
        records.extend_from_slice(json!(line).to_string().as_bytes());
        records.extend_from_slice(b"}\n");
    }
    records
}

/// The elements of a JSON array, one per line. `None` if `text` is no JSON array.
#[cfg(feature = "sql")]
pub(crate) fn element_records(text: &[u8]) -> Option<Vec<u8>> {
    let elements = lro_json::Elements::new(text)?;
    let mut records = Vec::with_capacity(text.len());
    for element in elements {
        // Line breaks between the lexemes of an element are white space.
        let element = element.ok()?.iter().map(|byte| match byte {
            b'\n' | b'\r' => b' ',
            other => *other,
        });
        records.extend(element);
        records.push(b'\n');
    }
    Some(records)
}

/// Whether `text` is one JSON value.
pub(crate) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// Reads a text into memory.
pub(crate) fn read_all(text: &dyn PositionedRead) -> Result<Vec<u8>, ExtractError> {
    if text.len() > MAX_IN_MEMORY_BYTES {
        return Err(ExtractError::TooLarge { bytes: text.len(), limit: MAX_IN_MEMORY_BYTES });
    }
    let mut bytes = vec![0; usize::try_from(text.len()).unwrap_or_default()];
    let mut filled = 0;
    while filled < bytes.len() {
        match text.read_at(filled as u64, &mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The original JSON document of records that are a part of it. `None` if there is none, or if it is
/// too large.
#[cfg(feature = "jq")]
pub(crate) fn original_document(
    stored: &dyn StoredResult,
) -> Result<Option<Text<'_>>, ExtractError> {
    let sidecar = &stored.listed().sidecar;
    match (sidecar.content, &sidecar.envelope) {
        // The payload may have a text around its JSON: the document is without it.
        (StoredForm::Array, Some(envelope)) => {
            Ok(Some(Box::new(Restored::array(stored, envelope)?)))
        }
        (StoredForm::Array | StoredForm::Map, _) if sidecar.texts.is_empty() => {
            match original_text(stored) {
                Ok(text) => Ok(Some(text)),
                Err(ExtractError::NoOriginal) => Ok(None),
                Err(error) => Err(error),
            }
        }
        (StoredForm::Document, _) => Ok(Some(Box::new(Restored::bytes(stored, 0)))),
        _ => Ok(None),
    }
}

/// The names of the members of the original document that lead to the records.
#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) fn records_path(envelope: &Envelope) -> Vec<String> {
    let mut path = Vec::new();
    let (mut json, mut at) = (envelope.json.as_bytes(), envelope.at);
    loop {
        let members = lro_json::Members::new(json).into_iter().flatten().map_while(Result::ok);
        let base = json.as_ptr() as usize;
        let inner = members
            .map(|(name, value)| (name, value, value.as_ptr() as usize - base))
            .find(|(_, value, start)| *start < at && at < start + value.len());
        let Some((name, value, start)) = inner else { return path };
        let Some(name) = lro_json::decode(name) else { return path };
        path.push(name.into_owned());
        (json, at) = (value, at - start);
    }
}

/// The payload in memory; `None` if its original form is unknown or it is too large.
#[cfg(any(feature = "jq", feature = "sql"))]
fn restored(stored: &dyn StoredResult) -> Result<Option<Vec<u8>>, ExtractError> {
    if stored.len() > MAX_IN_MEMORY_BYTES {
        return Ok(None);
    }
    let mut payload = Vec::new();
    match restore_payload(stored, &mut payload) {
        Ok(()) => Ok(Some(payload)),
        Err(RestoreError::Spool(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Tables by name.
#[cfg(feature = "sql")]
pub(crate) type NamedTables = Vec<(String, Box<dyn PositionedRead>)>;

/// The other tables of the same document that `statement` may use: loading one takes time.
#[cfg(feature = "sql")]
pub(crate) fn sibling_tables(
    stored: &dyn StoredResult,
    statement: &str,
) -> Result<NamedTables, ExtractError> {
    let statement = statement.to_ascii_lowercase();
    let sidecar = &stored.listed().sidecar;
    let named = sidecar.table_parts().filter(|(table, _)| statement.contains(&table.name));
    named.map(|(table, part)| Ok((table.name.clone(), stored.part(part)?))).collect()
}

/// The parameters of a query.
#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) fn params(values: &Values) -> Result<QueryParams, ExtractError> {
    let mut params = QueryParams::default();
    for (name, value) in values {
        params.insert_raw(name.parse()?, value.clone());
    }
    Ok(params)
}
