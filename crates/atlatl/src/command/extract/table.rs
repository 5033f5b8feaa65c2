//! Answers as a table, as a JSON array or as CSV.

use serde_json::{Map, Value};

use crate::output::Table;

/// The widest cell of a table on a terminal.
const CELL: usize = 48;
/// The heading of answers that are no objects.
const VALUE: &str = "value";

/// Answers, a line each, as one JSON array with every lexeme as it is.
pub(super) fn json(lines: &str) -> String {
    let elements: Vec<String> = lines
        .lines()
        .map(|line| {
            // Text of a recipe is no JSON by itself.
            match serde_json::from_str::<serde::de::IgnoredAny>(line) {
                Ok(_) => line.to_owned(),
                Err(_) => Value::from(line).to_string(),
            }
        })
        .collect();
    if elements.is_empty() {
        return "[]\n".to_owned();
    }
    format!("[\n{}\n]\n", elements.join(",\n"))
}

/// Answers as CSV, with a line of headings.
pub(super) fn csv(lines: &str) -> Vec<u8> {
    let (headings, rows) = cells(lines);
    let mut text = String::new();
    for row in std::iter::once(&headings).chain(&rows) {
        let fields: Vec<String> = row.iter().map(|cell| field(cell)).collect();
        text.push_str(&fields.join(","));
        text.push_str("\r\n");
    }
    text.into_bytes()
}

/// RFC 4180: quoted where it has to be.
fn field(cell: &str) -> String {
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Answers in columns.
pub(super) fn table(lines: &str) -> Table {
    let (headings, rows) = cells(lines);
    let mut table = Table::new(headings);
    for row in rows {
        table.row(row.iter().map(|cell| short(cell)).collect::<Vec<_>>());
    }
    table
}

fn short(cell: &str) -> String {
    match cell.char_indices().nth(CELL) {
        Some((end, _)) => format!("{}\u{2026}", &cell[..end]),
        None => cell.to_owned(),
    }
}

/// The headings, which are the fields of all answers in the order they first come, and the rows.
fn cells(lines: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let answers: Vec<Result<Map<String, Value>, Vec<String>>> = lines.lines().map(answer).collect();
    let mut headings: Vec<String> = Vec::new();
    for answer in answers.iter().flatten() {
        for name in answer.keys() {
            if !headings.contains(name) {
                headings.push(name.clone());
            }
        }
    }
    let plain = answers.iter().filter_map(|answer| answer.as_ref().err()).map(Vec::len).max();
    let before = headings.len();
    for number in 0..plain.unwrap_or(0) {
        headings.push(if number == 0 {
            VALUE.to_owned()
        } else {
            format!("{VALUE}_{}", number + 1)
        });
    }
    let rows = answers
        .into_iter()
        .map(|answer| {
            let mut row = vec![String::new(); headings.len()];
            match answer {
                Ok(fields) => {
                    for (cell, name) in row.iter_mut().zip(&headings[..before]) {
                        *cell = fields.get(name).map(text).unwrap_or_default();
                    }
                }
                Err(values) => {
                    for (cell, value) in row[before..].iter_mut().zip(values) {
                        *cell = value;
                    }
                }
            }
            row
        })
        .collect();
    (headings, rows)
}

/// The fields of an answer, or its plain values.
fn answer(line: &str) -> Result<Map<String, Value>, Vec<String>> {
    match serde_json::from_str(line) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(value) => Err(vec![text(&value)]),
        Err(_) => Err(line.split('\t').map(str::to_owned).collect()),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "{\"a\":1,\"b\":\"x, y\"}\n{\"b\":null,\"c\":[1.50]}\n7\n";

    #[test]
    fn every_field_has_a_column() {
        assert_eq!(csv_text(LINES), "a,b,c,value\r\n1,\"x, y\",,\r\n,,[1.5],\r\n,,,7\r\n");
        assert_eq!(csv_text("one\ttwo\n"), "value,value_2\r\none,two\r\n");
        assert_eq!(csv_text(""), "\r\n");
    }

    fn csv_text(lines: &str) -> String {
        String::from_utf8(csv(lines)).unwrap()
    }

    #[test]
    fn an_array_keeps_every_lexeme() {
        assert_eq!(
            json(LINES).replace('\n', ""),
            "[{\"a\":1,\"b\":\"x, y\"},{\"b\":null,\"c\":[1.50]},7]"
        );
        assert_eq!(json("a\tb\n"), "[\n\"a\\tb\"\n]\n");
        assert_eq!(json(""), "[]\n");
    }
}
