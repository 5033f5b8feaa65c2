//! Formats answers as a table, as a JSON array or as CSV. Values keep their spelling, so that no number is
//! rounded.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use csv_core::{Terminator, WriteResult, WriterBuilder};
use lro_wire::Object;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::output::Table;

/// The heading of answers that are not objects.
const VALUE_HEADING: &str = "value";

/// Formats answers, one per line, as one JSON array.
pub(super) fn json(lines: &str) -> String {
    let elements: Vec<String> = lines
        .lines()
        .map(|line| {
            // The text of a recipe is not JSON.
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

/// Formats answers as CSV (RFC 4180), with a line of headings.
pub(super) fn csv(lines: &str) -> Vec<u8> {
    let (headings, rows) = cells(lines);
    if headings.is_empty() {
        return b"\r\n".to_vec();
    }
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).build();
    let mut text = Vec::new();
    for row in std::iter::once(&headings).chain(&rows) {
        for (column, cell) in row.iter().enumerate() {
            if column > 0 {
                append_output(&mut text, |space| writer.delimiter(space));
            }
            let mut rest = cell.as_bytes();
            append_output(&mut text, |space| {
                let (result, read, written) = writer.field(rest, space);
                rest = &rest[read..];
                (result, written)
            });
        }
        append_output(&mut text, |space| writer.terminator(space));
    }
    text
}

/// Calls a step of the CSV writer until its output is complete, and appends that output.
fn append_output(text: &mut Vec<u8>, mut step: impl FnMut(&mut [u8]) -> (WriteResult, usize)) {
    let mut space = [0; 256];
    loop {
        let (result, written) = step(&mut space);
        text.extend_from_slice(&space[..written]);
        if matches!(result, WriteResult::InputEmpty) {
            return;
        }
    }
}

/// Formats answers as a table.
pub(super) fn table(lines: &str) -> Table {
    let (headings, rows) = cells(lines);
    let mut table = Table::new(headings).cut_any();
    for row in rows {
        table.row(row);
    }
    table
}

/// One answer, with every value in its original spelling.
enum AnswerCells<'a> {
    /// The members of an object; a name can occur more than once.
    Fields(Vec<(Cow<'a, str>, &'a str)>),
    /// The columns of an answer that is not an object.
    Values(Vec<Cow<'a, str>>),
}

/// The headings and rows. There is a column for each field of any answer, in the order of first
/// occurrence, and a further one for each repetition of a name within an answer.
fn cells(lines: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let answers: Vec<AnswerCells<'_>> = lines.lines().map(parse_answer).collect();
    let mut fields: Vec<(&str, usize)> = Vec::new();
    let mut columns: HashMap<(&str, usize), usize> = HashMap::new();
    let mut values = 0;
    for answer in &answers {
        match answer {
            AnswerCells::Fields(members) => {
                for field in numbered(members) {
                    columns.entry(field).or_insert_with(|| {
                        fields.push(field);
                        fields.len() - 1
                    });
                }
            }
            AnswerCells::Values(cells) => values = values.max(cells.len()),
        }
    }
    let headings = headings(&fields, values);
    let rows = answers
        .iter()
        .map(|answer| {
            let mut row = vec![String::new(); headings.len()];
            match answer {
                AnswerCells::Fields(members) => {
                    for (field, (_, value)) in numbered(members).zip(members) {
                        row[columns[&field]] = cell_text(value).into_owned();
                    }
                }
                AnswerCells::Values(cells) => {
                    for (cell, value) in row[fields.len()..].iter_mut().zip(cells) {
                        value.as_ref().clone_into(cell);
                    }
                }
            }
            row
        })
        .collect();
    (headings, rows)
}

/// The names of an object's members, each with the number of earlier members of that name.
fn numbered<'m>(
    members: &'m [(Cow<'_, str>, &str)],
) -> impl Iterator<Item = (&'m str, usize)> + use<'m> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    members.iter().map(move |(name, _)| {
        let count = counts.entry(name).or_default();
        *count += 1;
        (&**name, *count - 1)
    })
}

/// A unique heading for each field and plain value.
fn headings(fields: &[(&str, usize)], values: usize) -> Vec<String> {
    let mut used: HashSet<String> =
        fields.iter().filter(|(_, nth)| *nth == 0).map(|(name, _)| (*name).to_owned()).collect();
    let mut unused = |name: &str, nth: usize| {
        let mut candidates = (nth..).map(|nth| match nth {
            0 => name.to_owned(),
            nth => format!("{name}_{}", nth + 1),
        });
        candidates.find(|heading| used.insert(heading.clone())).unwrap_or_default()
    };
    let mut headings: Vec<String> = Vec::with_capacity(fields.len() + values);
    for (name, nth) in fields {
        headings.push(if *nth == 0 { (*name).to_owned() } else { unused(name, *nth) });
    }
    headings.extend((0..values).map(|nth| unused(VALUE_HEADING, nth)));
    headings
}

/// The fields of an answer, or its plain values.
fn parse_answer(line: &str) -> AnswerCells<'_> {
    if let Some(object) = Object::read(line) {
        let members = object.members.into_iter().map(|(name, value)| (name, value.get()));
        return AnswerCells::Fields(members.collect());
    }
    match serde_json::from_str::<&RawValue>(line) {
        Ok(value) => AnswerCells::Values(vec![cell_text(value.get())]),
        // A recipe answers with text in tab-separated columns.
        Err(_) => AnswerCells::Values(line.split('\t').map(Cow::Borrowed).collect()),
    }
}

/// The text of a string, nothing for `null`, and any other value in its original spelling.
fn cell_text(json: &str) -> Cow<'_, str> {
    match json.as_bytes().first() {
        // A lone surrogate has no text: such a string stays JSON.
        Some(b'"') => serde_json::from_str(json).map_or(Cow::Borrowed(json), Cow::Owned),
        Some(b'n') => Cow::Borrowed(""),
        _ => Cow::Borrowed(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "{\"a\":1,\"b\":\"x, y\"}\n{\"b\":null,\"c\":[1.50]}\n7\n";

    #[test]
    fn every_field_has_a_column() {
        assert_eq!(csv_text(LINES), "a,b,c,value\r\n1,\"x, y\",,\r\n,,[1.50],\r\n,,,7\r\n");
        assert_eq!(csv_text("one\ttwo\n"), "value,value_2\r\none,two\r\n");
        assert_eq!(csv_text(""), "\r\n");
    }

    #[test]
    fn g33_csv_and_table_keep_every_digit() {
        let number = "123456789012345678901234567893";
        let line = format!(
            r#"{{"n":{number},"p":1.50,"e":1e400,"z":-0.0,"o":{{"n":{number},"x": [1.50, 2E+3]}}}}"#
        );
        let nested = format!(r#"{{""n"":{number},""x"": [1.50, 2E+3]}}"#);
        assert_eq!(
            csv_text(&line),
            format!("n,p,e,z,o\r\n{number},1.50,1e400,-0.0,\"{nested}\"\r\n")
        );
        assert_eq!(
            csv_text(&format!("{number}\n1.50\n")),
            format!("value\r\n{number}\r\n1.50\r\n")
        );
        let printed = anstream::adapter::strip_str(&table(&line).render(None)).to_string();
        assert!(printed.contains(number) && printed.contains(" 1.50 "), "{printed}");
    }

    #[test]
    fn g33_a_repeated_name_has_a_column_of_its_own() {
        assert_eq!(csv_text(r#"{"a":1,"a":2,"a_2":3}"#), "a,a_3,a_2\r\n1,2,3\r\n");
        assert_eq!(csv_text("{\"value\":1}\n2\n"), "value,value_2\r\n1,\r\n,2\r\n");
    }

    #[test]
    fn g33_a_cell_that_has_no_text_stays_json() {
        assert_eq!(
            csv_text(r#"{"a":"\ud800","b":"\u00e9"}"#),
            "a,b\r\n\"\"\"\\ud800\"\"\",\u{e9}\r\n"
        );
        // A row with nothing in its only column is still a row.
        assert_eq!(csv_text("{\"a\":null}\n"), "a\r\n\"\"\r\n");
    }

    #[test]
    fn g33_long_cells_are_quoted_and_whole() {
        let long = "x,\"y\"".repeat(1000);
        let line = serde_json::json!({ "a": long }).to_string();
        assert_eq!(csv_text(&line), format!("a\r\n\"{}\"\r\n", long.replace('"', "\"\"")));
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
