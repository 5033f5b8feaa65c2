//! The requests of the page, and their answers.

use atlatl_browse::{Deadline, TableFilter, TableOrder, TableRow};
use lro_spool::Address;
use serde::Deserialize;
use serde_json::{Value, json};

use super::tables::OpenTable;
use crate::output::indent;

/// The rows of a page, if it does not say how many.
const DEFAULT_ROWS: usize = 50;
/// The most rows of a page.
const MAX_ROWS: usize = 200;
/// The most values of a column that are counted one by one.
const MAX_VALUES: usize = 100;
/// The most bytes of a record that is shown.
const MAX_RECORD_BYTES: usize = 256 << 10;
/// The most bytes of a record that is spread over lines.
const MAX_INDENTED_BYTES: usize = 4 * MAX_RECORD_BYTES;
/// The most bytes of the records that the user gives to the model, as it reads them.
const MAX_GIVEN_BYTES: usize = 32 << 10;

/// The arguments of `lro_page`.
pub(super) struct PageArguments {
    pub(super) address: Address,
    pub(super) sql: Option<String>,
    pub(super) action: Action,
}

/// What is requested.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Rows for the table.
    Rows { filter: TableFilter, offset: u64, limit: usize },
    /// A whole record.
    Record(u64),
    /// Whole records for the model.
    Records(Vec<u64>),
    /// The values of a column.
    Counts { column: String, search: Option<String> },
}

/// The arguments as they are sent. A member that is `null` is absent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawArguments {
    r#ref: String,
    sql: Option<String>,
    offset: Option<u64>,
    limit: Option<usize>,
    order: Option<RawOrder>,
    search: Option<String>,
    record: Option<u64>,
    records: Option<Vec<u64>>,
    counts: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOrder {
    column: String,
    #[serde(default)]
    descending: bool,
}

impl PageArguments {
    pub(super) fn parse(arguments: &str) -> Result<Self, String> {
        let mut raw: RawArguments =
            serde_json::from_str(arguments).map_err(|error| error.to_string())?;
        // Some models set every argument.
        raw.sql = raw.sql.filter(|text| !text.trim().is_empty());
        raw.search = raw.search.filter(|text| !text.trim().is_empty());
        let address = raw.r#ref.parse().map_err(|error| format!("ref: {error}"))?;
        let action = match raw {
            RawArguments { record: Some(number), .. } => Action::Record(number),
            RawArguments { records: Some(numbers), .. } => Action::Records(numbers),
            RawArguments { counts: Some(column), search, .. } => Action::Counts { column, search },
            RawArguments { order, search, offset, limit, .. } => Action::Rows {
                filter: TableFilter {
                    order: order
                        .map(|RawOrder { column, descending }| TableOrder { column, descending }),
                    search,
                },
                offset: offset.unwrap_or(0),
                limit: limit.unwrap_or(DEFAULT_ROWS).clamp(1, MAX_ROWS),
            },
        };
        Ok(Self { address, sql: raw.sql, action })
    }
}

impl Action {
    /// Answers the request.
    pub(super) fn run(&self, open: &mut OpenTable, deadline: &Deadline) -> Result<Value, String> {
        match self {
            Self::Rows { filter, offset, limit } => rows(open, filter, *offset, *limit, deadline),
            Self::Record(number) => record(open, *number),
            Self::Records(numbers) => records(open, numbers),
            Self::Counts { column, search } => counts(open, column, search.as_deref(), deadline),
        }
    }
}

fn rows(
    open: &mut OpenTable,
    filter: &TableFilter,
    offset: u64,
    limit: usize,
    deadline: &Deadline,
) -> Result<Value, String> {
    let page =
        open.table.page(filter, offset, limit, deadline).map_err(|error| error.to_string())?;
    let columns: Vec<Value> = page
        .columns
        .iter()
        .map(|column| {
            let kind = if column.is_numeric { "number" } else { "text" };
            json!({"name": column.title, "kind": kind})
        })
        .collect();
    let order = filter
        .order
        .as_ref()
        .map(|order| json!({"column": order.column, "descending": order.descending}));
    Ok(json!({
        "ref": open.reference,
        "sql": open.sql,
        "title": open.title,
        "columns": columns,
        "total": open.table.total(),
        "matched": page.matched,
        "offset": offset,
        "order": order,
        "search": filter.search,
        "rows": page.rows.iter().map(row).collect::<Vec<_>>(),
        "notes": open.notes,
    }))
}

fn row(row: &TableRow) -> Value {
    let cells = row.cells.iter().map(|cell| match cell {
        Some(cell) => json!([cell.kind, cell.text]),
        None => Value::Null,
    });
    json!({"n": row.number, "cells": cells.collect::<Vec<_>>()})
}

fn record(open: &OpenTable, number: u64) -> Result<Value, String> {
    let (bytes, cut) = open
        .table
        .record(number, MAX_RECORD_BYTES)
        .map_err(|error| format!("cannot read the result: {error}"))?
        .ok_or_else(|| format!("there is no row {number}"))?;
    let line = String::from_utf8_lossy(&bytes);
    let text = if open.table.has_records() && !cut {
        let indented = indent(&line);
        // A line of nothing but brackets would become many times as long.
        let text = if indented.len() <= MAX_INDENTED_BYTES { &*indented } else { &*line };
        lro_core::escape_invisible_json(text).into_owned()
    } else {
        lro_core::escape_invisible(&line).into_owned()
    };
    Ok(json!({"record": number, "text": text, "cut": cut}))
}

/// Whole records, as many as fit.
fn records(open: &OpenTable, numbers: &[u64]) -> Result<Value, String> {
    let (mut text, mut given) = (String::new(), 0);
    for number in numbers {
        let room = MAX_GIVEN_BYTES - text.len();
        let (bytes, cut) = open
            .table
            .record(*number, room)
            .map_err(|error| format!("cannot read the result: {error}"))?
            .ok_or_else(|| format!("there is no row {number}"))?;
        let line = String::from_utf8_lossy(&bytes);
        // The model gets what the user sees, and nothing invisible: an escape is up to eight times as
        // long as what it stands for.
        let line = if open.table.has_records() {
            lro_core::escape_invisible_json(&line)
        } else {
            lro_core::escape_invisible(&line)
        };
        // With its line break.
        if cut || line.len() >= room {
            break;
        }
        text.push_str(&line);
        text.push('\n');
        given += 1;
    }
    Ok(json!({"text": text, "given": given, "wanted": numbers.len()}))
}

fn counts(
    open: &mut OpenTable,
    column: &str,
    search: Option<&str>,
    deadline: &Deadline,
) -> Result<Value, String> {
    let counts = open
        .table
        .counts(column, search, MAX_VALUES, deadline)
        .map_err(|error| error.to_string())?;
    Ok(json!({
        "counts": counts.values,
        "distinct": counts.distinct,
        "missing": counts.missing,
        "partial": counts.is_partial,
    }))
}

#[cfg(test)]
mod tests {
    use atlatl_browse::{ResultTable, RowContent};

    use super::*;

    const REF: &str = "lro:01K9ZQ4M7X2VBT8HW5RDN3FCEJ";

    fn action(members: &str) -> Result<Action, String> {
        let arguments = format!("{{\"ref\":\"{REF}\"{members}}}");
        PageArguments::parse(&arguments).map(|arguments| arguments.action)
    }

    #[test]
    fn a_request_is_one_of_four() {
        let rows = Action::Rows { filter: TableFilter::default(), offset: 0, limit: DEFAULT_ROWS };
        assert_eq!(action(""), Ok(rows));
        let Ok(Action::Rows { filter, offset, limit }) = action(
            r#","offset":50,"limit":9999,"search":"a","order":{"column":"b","descending":true},"record":null"#,
        ) else {
            panic!("rows")
        };
        assert_eq!((offset, limit, filter.search.as_deref()), (50, MAX_ROWS, Some("a")));
        assert_eq!(filter.order, Some(TableOrder { column: "b".to_owned(), descending: true }));
        assert_eq!(action(r#","record":7"#), Ok(Action::Record(7)));
        assert_eq!(action(r#","records":[7,8]"#), Ok(Action::Records(vec![7, 8])));
        let counts = Action::Counts { column: "b".to_owned(), search: None };
        assert_eq!(action(r#","counts":"b""#), Ok(counts));
    }

    #[test]
    fn a_blank_text_is_absent() {
        let rows = action("").unwrap();
        for blank in ["", " ", "\\n\\t"] {
            let members = format!(r#","sql":"{blank}","search":"{blank}""#);
            assert_eq!(action(&members).as_ref(), Ok(&rows), "{members}");
            let arguments = PageArguments::parse(&format!("{{\"ref\":\"{REF}\"{members}}}"));
            assert_eq!(arguments.unwrap().sql, None, "{members}");
            let counts = Action::Counts { column: "b".to_owned(), search: None };
            assert_eq!(action(&format!(r#"{members},"counts":"b""#)), Ok(counts));
        }
    }

    #[test]
    fn the_limit_of_given_records_is_one_of_what_the_model_reads() {
        // A delete character is one byte, and six as an escape.
        let hidden = "\u{7f}".repeat(4000);
        let lines = format!("{{\"a\":\"{hidden}\"}}\n{{\"a\":\"{hidden}{hidden}\"}}\n{{}}\n");
        let source = Box::new(lines.into_bytes());
        let table = ResultTable::open(source, 0, RowContent::Records, &Deadline::never()).unwrap();
        let (reference, title) = (String::new(), String::new());
        let open = OpenTable { table, reference, sql: None, title, notes: Vec::new() };
        let given = |numbers: &[u64]| {
            let records = records(&open, numbers).unwrap();
            (records["given"].clone(), records["text"].as_str().unwrap().len())
        };
        assert_eq!(given(&[1, 3]), (json!(2), 6 * 4000 + 9 + 3));
        assert_eq!(given(&[1, 1]), (json!(1), 6 * 4000 + 9));
        assert_eq!(given(&[2, 3]), (json!(0), 0));
    }

    #[test]
    fn other_requests_are_refused() {
        for members in [r#","path":"/etc/passwd""#, r#","offset":-1"#, r#","order":"b""#] {
            assert!(action(members).is_err(), "{members}");
        }
        assert!(PageArguments::parse("{}").is_err());
        assert!(PageArguments::parse(r#"{"ref":"../x"}"#).is_err());
    }
}
