//! The tables of a document with several, as a descriptor shows them.

use serde::Serialize;

use crate::around::MAX_PATH_CHARS;
use crate::records::RecordSet;
use crate::sanitize::label;
use crate::stats::{RecordStats, TableStats};
use crate::tokens::Measure;

/// A table of a document with several, as a descriptor shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TableNote {
    /// The table name in SQL.
    pub table: String,
    /// The names of the members that lead to the table, if they differ from its name: untrusted text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The number of records.
    pub records: u64,
    /// The size of the records.
    pub bytes: u64,
    /// The first of its fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// The token budget for all tables: those that do not fit are counted.
const TABLES_TOKENS: u64 = 130;
/// The token budget for the fields of all tables.
const TABLE_FIELDS_TOKENS: u64 = 60;
/// The most fields of one table.
const MAX_TABLE_FIELDS: usize = 8;

/// The tables of a document: the records, of which only the origin is not shown elsewhere, and the others.
/// Empty if there are no others.
pub(crate) fn tables(records: Option<&RecordSet>, tables: &[TableStats]) -> Vec<TableNote> {
    let main = records.filter(|_| !tables.is_empty()).map(|records| TableNote {
        table: "results".to_owned(),
        from: Some(label(&records.form.path().join("."), MAX_PATH_CHARS)),
        records: records.count,
        bytes: records.measure.bytes,
        fields: Vec::new(),
    });
    let mut left = TABLES_TOKENS;
    let mut notes: Vec<TableNote> = main.into_iter().chain(sibling_tables(tables)).collect();
    let mut fits = |note: &TableNote| {
        let json = serde_json::to_string(note).unwrap_or_default();
        let cost = Measure::from_bytes(json.as_bytes()).cost();
        let fits = cost <= left;
        left = left.saturating_sub(cost);
        fits
    };
    let shown = notes.iter().take_while(|note| fits(note)).count();
    let rest = notes.split_off(shown);
    if !rest.is_empty() {
        notes.push(TableNote {
            table: format!("\u{2026} {} more", rest.len()),
            from: None,
            records: rest.iter().map(|note| note.records).sum(),
            bytes: rest.iter().map(|note| note.bytes).sum(),
            fields: Vec::new(),
        });
    }
    notes
}

fn sibling_tables(tables: &[TableStats]) -> Vec<TableNote> {
    let mut left = TABLE_FIELDS_TOKENS;
    let fields = |stats: &RecordStats, left: &mut u64| {
        let names = stats.shape.fields().into_iter().map(|(name, _)| name);
        names
            .take(MAX_TABLE_FIELDS)
            .take_while(|name| {
                let cost = Measure::from_bytes(name.as_bytes()).cost() + 2;
                let fits = cost <= *left;
                *left -= cost.min(*left);
                fits
            })
            .collect()
    };
    tables
        .iter()
        .map(|table| TableNote {
            table: table.name.clone(),
            from: (table.path != table.name).then(|| label(&table.path, MAX_PATH_CHARS)),
            records: table.stats.count,
            bytes: table.bytes,
            fields: fields(&table.stats, &mut left),
        })
        .collect()
}
