//! The sources of jq and SQL queries: stored records, the lines of a text, the original document and
//! the other tables of a document.

use lro_query::{Bytes, QueryParams, Source, Window};
#[cfg(feature = "sql")]
use lro_spool::PositionedRead;
use lro_spool::{RestoreError, StoredForm, StoredResult, restore_payload};
use serde_json::json;

use crate::extract_error::ExtractError;
use crate::query::Values;

/// Larger texts and documents are not read into memory: a text is then searched and read, but is no
/// table.
const MAX_IN_MEMORY_BYTES: u64 = 64 << 20;

/// The source of the records of `stored`; `lines` are the records of a text.
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
pub(crate) fn text_records(stored: &dyn StoredResult) -> Result<Option<Vec<u8>>, ExtractError> {
    if stored.listed().sidecar.content != StoredForm::Text || stored.len() > MAX_IN_MEMORY_BYTES {
        return Ok(None);
    }
    let Some(text) = restored(stored)? else { return Ok(None) };
    let mut records = Vec::with_capacity(text.len() + text.len() / 4);
    for (number, line) in String::from_utf8_lossy(&text).lines().enumerate() {
        records.extend_from_slice(format!("{{\"line\":{number},\"text\":").as_bytes());
        records.extend_from_slice(json!(line).to_string().as_bytes());
        records.extend_from_slice(b"}\n");
    }
    Ok(Some(records))
}

/// The original document of records that are a part of it. `None` if there is none, or if it is too
/// large.
#[cfg(feature = "jq")]
pub(crate) fn original_document(
    stored: &dyn StoredResult,
) -> Result<Option<Vec<u8>>, ExtractError> {
    let sidecar = &stored.listed().sidecar;
    let is_document = matches!(sidecar.content, StoredForm::Array | StoredForm::Map)
        && sidecar.envelope.is_some()
        && sidecar.texts.is_empty();
    if !is_document || stored.len() > MAX_IN_MEMORY_BYTES {
        return Ok(None);
    }
    restored(stored)
}

/// The payload in memory; `None` if its original form is unknown.
fn restored(stored: &dyn StoredResult) -> Result<Option<Vec<u8>>, ExtractError> {
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
pub(crate) fn params(values: &Values) -> Result<QueryParams, ExtractError> {
    let mut params = QueryParams::default();
    for (name, value) in values {
        params.insert_raw(name.parse()?, value.clone());
    }
    Ok(params)
}

/// The requested page of a query.
pub(crate) fn window(page: lro_query::Page) -> Window {
    let limit = (page.limit != u64::MAX).then_some(page.limit);
    Window { offset: page.offset, limit }
}
