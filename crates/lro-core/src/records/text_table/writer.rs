//! Writes the rows of a table as record lines.

use std::collections::HashMap;

use lro_json::encode;

use super::{LayoutKind, RowSource, Split, TextLayout, logfmt, prefixed};
use crate::records::PayloadChanged;
use crate::records::table::{Column, Labels, Overflow, labels, write_cell, write_row};

/// Writes the rows of a table as record lines, in the second pass.
pub(in crate::records) struct TextTableLines {
    layout: TextLayout,
    skipped: usize,
    labels: Labels,
    /// Whether a column is numeric, for lines with keys of their own.
    numeric: HashMap<String, bool>,
    source: RowSource,
}

impl TextTableLines {
    pub(in crate::records) fn new(layout: &TextLayout, columns: &[Column]) -> Self {
        let by_name = columns.iter().map(|column| (column.name.clone(), column.numeric));
        Self {
            layout: layout.clone(),
            skipped: 0,
            labels: labels(columns),
            numeric: by_name.collect(),
            source: RowSource::new(layout.kind),
        }
    }

    /// Appends the lines of the rows that end in `chunk`; an empty chunk ends the table.
    pub(in crate::records) fn feed(
        &mut self,
        chunk: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), PayloadChanged> {
        let mut written = Ok(());
        let Self { layout, skipped, labels, numeric, source } = self;
        let mut is_header = || {
            let header = *skipped < layout.header_lines;
            *skipped += usize::from(header);
            header
        };
        match source {
            RowSource::Delimited(rows) => {
                let read = rows.feed(chunk, |row, _| {
                    if !is_header() {
                        written = write_row(row.cells(), labels, out);
                    }
                    written.is_ok()
                });
                read.map_err(|Overflow| PayloadChanged)?;
            }
            RowSource::Lines(lines) => {
                let mut each = |line: Option<&[u8]>, _| {
                    written = match line.and_then(|line| std::str::from_utf8(line).ok()) {
                        None => Err(PayloadChanged),
                        Some(_) if is_header() => Ok(()),
                        Some(line) => write_line(line, layout, labels, numeric, out),
                    };
                    written.is_ok()
                };
                if chunk.is_empty() {
                    lines.finish(&mut each);
                } else {
                    lines.feed(chunk, &mut each);
                }
            }
        }
        written
    }
}

fn write_line(
    line: &str,
    layout: &TextLayout,
    labels: &Labels,
    numeric: &HashMap<String, bool>,
    out: &mut Vec<u8>,
) -> Result<(), PayloadChanged> {
    match layout.kind {
        LayoutKind::PrefixedJson => {
            let (prefix, json) = prefixed::split(line).ok_or(PayloadChanged)?;
            prefixed::write(prefix, json, out);
        }
        LayoutKind::Logfmt => {
            for (i, pair) in logfmt::pairs(line).ok_or(PayloadChanged)?.iter().enumerate() {
                out.push(if i == 0 { b'{' } else { b',' });
                out.extend_from_slice(encode(&pair.key).as_bytes());
                out.push(b':');
                let numeric = *numeric.get(pair.key.as_ref()).ok_or(PayloadChanged)?;
                match pair.value {
                    logfmt::Value::Quoted(inside) => logfmt::write_quoted(inside, out),
                    logfmt::Value::Bare(text) => write_cell(text.as_bytes(), numeric, out)?,
                }
            }
            out.extend_from_slice(b"}\n");
        }
        _ => match layout.split(line) {
            Split::Skip => {}
            Split::End => return Err(PayloadChanged),
            Split::Row(cells) => {
                write_row(cells.iter().map(|cell| cell.as_bytes()), labels, out)?;
            }
        },
    }
    Ok(())
}
