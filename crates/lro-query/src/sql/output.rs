//! Writes a result row as one line of JSON.

use std::collections::HashSet;
use std::io::Write as _;

use rusqlite::Statement;
use rusqlite::types::ValueRef;

use super::cell::Kinds;
use super::error;
use super::ingest::Facts;
use crate::worker::{Emit, Fault};

/// A column of the answer.
struct Column {
    /// `"name":`
    label: Vec<u8>,
    /// What its values were, where it is a column of a table as it is.
    kinds: Kinds,
}

/// Emits every row; whether all were counted.
pub(super) fn emit(
    statement: &mut Statement<'_>,
    facts: &Facts,
    emit: &mut Emit,
) -> Result<bool, Fault> {
    let columns = columns(statement, facts);
    let mut rows = statement.raw_query();
    let mut line = Vec::new();
    while let Some(row) = rows.next().map_err(|error| error::running(&error))? {
        line.clear();
        line.push(b'{');
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                line.push(b',');
            }
            line.extend_from_slice(&column.label);
            let value = row.get_ref(i).map_err(|error| error::running(&error))?;
            write(&mut line, value, column.kinds);
        }
        line.push(b'}');
        if emit.value(&line).map_err(|error| Fault::reading(&error))?.is_break() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn columns(statement: &Statement<'_>, facts: &Facts) -> Vec<Column> {
    let mut taken = HashSet::new();
    let described = statement.columns_with_metadata();
    let columns = described.map(|column| {
        // An object with a name twice loses a value: the second `id` is `id_2`.
        let mut name = column.name().to_owned();
        let mut n = 1;
        while !taken.insert(name.clone()) {
            n += 1;
            name = format!("{}_{n}", column.name());
        }
        let mut label = Vec::new();
        string(&mut label, name.as_bytes());
        label.push(b':');
        let origin = column.table_name().zip(column.origin_name());
        let kinds = origin.map(|(table, field)| facts.kinds(table, field));
        Column { label, kinds: kinds.unwrap_or_default() }
    });
    columns.collect()
}

fn write(out: &mut Vec<u8>, value: ValueRef<'_>, kinds: Kinds) {
    // Writing to memory cannot fail.
    let _ = match value {
        ValueRef::Null => out.write_all(b"null"),
        ValueRef::Integer(int) if kinds.integers_are_booleans() => write!(out, "{}", int != 0),
        ValueRef::Integer(int) => write!(out, "{int}"),
        // Infinity, as SQLite's own JSON has it.
        ValueRef::Real(real) if real.is_infinite() => {
            write!(out, "{}9e999", if real < 0.0 { "-" } else { "" })
        }
        ValueRef::Real(real) => write!(out, "{real:?}"),
        ValueRef::Text(text) if kinds.text_is_json() => out.write_all(&one_line(text)),
        ValueRef::Text(text) => {
            string(out, text);
            Ok(())
        }
        ValueRef::Blob(bytes) => {
            out.push(b'"');
            let written = bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"));
            out.push(b'"');
            written
        }
    };
}

/// A document may have line breaks between its lexemes; within strings they are escaped.
fn one_line(json: &[u8]) -> Vec<u8> {
    json.iter().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b }).collect()
}

fn string(out: &mut Vec<u8>, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    // A string has a JSON form, and memory takes it.
    let _ = serde_json::to_writer(out, text.as_ref());
}
