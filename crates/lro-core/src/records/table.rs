//! Tables: CSV and TSV with a header of column names.
//!
//! Detection is strict, because prose has commas too: at least two rows besides the header, every
//! row as wide as the header, and short, distinct column names that are not numbers. `csv-core`
//! parses the rows; a row becomes an object with one member per column. A column of JSON numbers (or
//! empty cells, which become `null`) stays numeric, lexeme by lexeme; any other cell becomes a
//! string. The payload itself is stored as the original, so nothing is lost.
//!
//! Other tables in text, which need more rows, are in [`text_table`](super::text_table).

use std::collections::HashSet;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use serde::Serialize;

use super::text_table::is_another_format;
use super::{BYTE_ORDER_MARK, PayloadChanged, RecordForm};
use lro_json::encode;

/// The maximum size of the header.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// The maximum size of a row.
pub(super) const MAX_ROW_BYTES: usize = 1024 * 1024;
/// The maximum number of columns.
pub(super) const MAX_COLUMNS: usize = 1000;
/// The maximum length of a column name.
const MAX_NAME_CHARS: usize = 64;

/// The delimiter between cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delimiter {
    /// CSV.
    Comma,
    /// TSV.
    Tab,
    /// CSV of languages with a decimal comma.
    Semicolon,
    /// For example `psql -A`.
    Pipe,
}

impl Delimiter {
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Tab => b'\t',
            Self::Semicolon => b';',
            Self::Pipe => b'|',
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Column {
    /// The name in the header.
    pub name: String,
    /// Whether every non-empty cell is a JSON number.
    pub numeric: bool,
    /// Whether some cells are empty.
    pub gaps: bool,
}

impl Column {
    /// A column before its first cell.
    pub(super) fn new(name: String) -> Self {
        Self { name, numeric: true, gaps: false }
    }

    /// Accounts for a cell.
    pub(super) fn add(&mut self, cell: &[u8]) {
        self.gaps |= cell.is_empty();
        self.numeric &= cell.is_empty() || is_number(cell);
    }
}

/// Parses rows from chunks.
pub(super) struct Rows {
    reader: Reader,
    cells: Vec<u8>,
    filled: usize,
    ends: Vec<usize>,
    ended: usize,
}

/// A row exceeds [`MAX_ROW_BYTES`] or [`MAX_COLUMNS`].
pub(super) struct Overflow;

impl Rows {
    pub(super) fn new(delimiter: Delimiter) -> Self {
        Self {
            reader: ReaderBuilder::new().delimiter(delimiter.byte()).build(),
            cells: vec![0; 8 * 1024],
            filled: 0,
            ends: vec![0; MAX_COLUMNS + 1],
            ended: 0,
        }
    }

    /// Calls `row` for every row that ends in `chunk`, with the number of bytes of the chunk up to its
    /// end, until `row` returns false; an empty chunk ends the table.
    pub(super) fn feed(
        &mut self,
        mut chunk: &[u8],
        mut row: impl FnMut(Row<'_>, usize) -> bool,
    ) -> Result<(), Overflow> {
        let mut consumed = 0;
        loop {
            let (result, read, written, ended) = self.reader.read_record(
                chunk,
                &mut self.cells[self.filled..],
                &mut self.ends[self.ended..],
            );
            chunk = &chunk[read..];
            consumed += read;
            self.filled += written;
            self.ended += ended;
            match result {
                ReadRecordResult::InputEmpty | ReadRecordResult::End => return Ok(()),
                ReadRecordResult::OutputFull if self.cells.len() < MAX_ROW_BYTES => {
                    self.cells.resize(self.cells.len() * 2, 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(Overflow);
                }
                ReadRecordResult::Record => {
                    let more =
                        row(Row { cells: &self.cells, ends: &self.ends[..self.ended] }, consumed);
                    self.filled = 0;
                    self.ended = 0;
                    if !more {
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    cells: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Row<'a> {
    pub(super) fn width(self) -> usize {
        self.ends.len()
    }

    pub(super) fn cells(self) -> impl Iterator<Item = &'a [u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends).map(move |(start, &end)| &self.cells[start..end])
    }
}

/// Detects whether a payload is a table.
#[derive(Default)]
pub(super) struct TableSniffer {
    start: u64,
    header: Vec<u8>,
    rows: Option<Rows>,
    delimiter: Option<Delimiter>,
    columns: Vec<Column>,
    count: u64,
}

impl TableSniffer {
    /// A sniffer for a payload whose header begins at `start`.
    pub(super) fn new(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// Processes the next chunk. Returns false as soon as the payload cannot be a table.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> bool {
        if self.rows.is_some() {
            return chunk.is_empty() || self.read(chunk);
        }
        // Search only the new bytes for the end: chunks may be as small as one byte.
        let searched = self.header.len();
        self.header.extend_from_slice(chunk);
        let Some(end) = chunk.iter().position(|b| *b == b'\n') else {
            return self.header.len() <= MAX_HEADER_BYTES;
        };
        let end = searched + end;
        // The reader skips a mark only if one chunk contains all of it: after a second mark, the rows
        // would depend on the chunks.
        if self.header.starts_with(BYTE_ORDER_MARK) {
            return false;
        }
        let line = &self.header[..end];
        let tab = line.contains(&b'\t');
        if !tab && is_another_format(line) {
            return false;
        }
        let delimiter = if tab { Delimiter::Tab } else { Delimiter::Comma };
        self.delimiter = Some(delimiter);
        self.rows = Some(Rows::new(delimiter));
        let header = std::mem::take(&mut self.header);
        self.read(&header)
    }

    fn read(&mut self, chunk: &[u8]) -> bool {
        let Some(rows) = &mut self.rows else { return false };
        let (columns, count) = (&mut self.columns, &mut self.count);
        let mut fits = true;
        let read = rows.feed(chunk, |row, _| {
            if columns.is_empty() {
                match columns_from_header(row.cells()) {
                    Some(names) if is_convincing(&names) => *columns = names,
                    _ => fits = false,
                }
            } else if row.width() == columns.len() {
                *count += 1;
                columns.iter_mut().zip(row.cells()).for_each(|(column, cell)| column.add(cell));
            } else {
                fits = false;
            }
            fits
        });
        read.is_ok() && fits
    }

    /// The form and the number of rows, if the payload is a table.
    pub(super) fn finish(mut self) -> Option<(RecordForm, u64)> {
        let whole = self.rows.is_some() && self.read(&[]);
        let delimiter = self.delimiter.filter(|_| whole && self.count >= 2)?;
        Some((
            RecordForm::Table { start: self.start, delimiter, columns: self.columns },
            self.count,
        ))
    }
}

/// The columns, if the cells can be a header.
pub(super) fn columns_from_header<'a>(
    cells: impl Iterator<Item = &'a [u8]>,
) -> Option<Vec<Column>> {
    let mut names = HashSet::new();
    let columns: Option<Vec<Column>> = cells
        .map(|cell| {
            let name = std::str::from_utf8(cell).ok()?;
            let fits = !name.trim().is_empty()
                && name.chars().count() <= MAX_NAME_CHARS
                && name.parse::<f64>().is_err()
                && names.insert(name);
            fits.then(|| Column::new(name.to_owned()))
        })
        .collect();
    columns.filter(|columns| (2..=MAX_COLUMNS).contains(&columns.len()))
}

/// Whether columns are a header rather than a line with one comma, such as prose, `f(a=1, b=2)` or
/// `10:00:00,123 INFO …`: two columns must have plain names.
fn is_convincing(columns: &[Column]) -> bool {
    let is_plain = |name: &str| {
        name.starts_with(|c: char| c.is_alphabetic() || "_#\"".contains(c))
            && !name.contains(['=', '(', '{', '<', '?', '!'])
            && !name.ends_with([':', '.', ' '])
    };
    columns.len() > 2 || columns.iter().all(|column| is_plain(&column.name))
}

/// Whether a cell is a JSON number that every parser reads alike: many would round an identifier of
/// more than fifteen digits.
pub(super) fn is_number(cell: &[u8]) -> bool {
    cell.last().is_some_and(u8::is_ascii_digit)
        && cell.iter().filter(|b| b.is_ascii_digit()).count() <= 15
        && cell.iter().all(|b| b.is_ascii_digit() || b"+-.eE".contains(b))
        && serde_json::from_slice::<&serde_json::value::RawValue>(cell).is_ok()
}

/// Writes the rows of a table as record lines.
pub(super) struct TableLines {
    rows: Rows,
    labels: Labels,
    past_header: bool,
}

/// The label of each column and whether the column is numeric.
pub(super) type Labels = Vec<(String, bool)>;

/// `{"name":` of the first column, `,"name":` of the others.
pub(super) fn labels(columns: &[Column]) -> Labels {
    let label = |(i, column): (usize, &Column)| {
        let open = if i == 0 { '{' } else { ',' };
        (format!("{open}{}:", encode(&column.name)), column.numeric)
    };
    columns.iter().enumerate().map(label).collect()
}

impl TableLines {
    pub(super) fn new(delimiter: Delimiter, columns: &[Column]) -> Self {
        Self { rows: Rows::new(delimiter), labels: labels(columns), past_header: false }
    }

    /// Appends the lines of the rows that end in `chunk`, and returns their number; an empty chunk
    /// ends the table.
    pub(super) fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<u64, PayloadChanged> {
        let (labels, past_header) = (&self.labels, &mut self.past_header);
        let mut written = Ok(0);
        let read = self.rows.feed(chunk, |row, _| {
            if !std::mem::replace(past_header, true) {
                return true;
            }
            written = match (written, write_row(row.cells(), labels, out)) {
                (Ok(count), Ok(())) => Ok(count + 1),
                _ => Err(PayloadChanged),
            };
            written.is_ok()
        });
        read.map_err(|Overflow| PayloadChanged).and(written)
    }
}

/// Appends a row as an object.
pub(super) fn write_row<'a>(
    mut cells: impl Iterator<Item = &'a [u8]>,
    labels: &Labels,
    out: &mut Vec<u8>,
) -> Result<(), PayloadChanged> {
    for (label, numeric) in labels {
        let cell = cells.next().ok_or(PayloadChanged)?;
        out.extend_from_slice(label.as_bytes());
        write_cell(cell, *numeric, out)?;
    }
    out.extend_from_slice(b"}\n");
    if cells.next().is_none() { Ok(()) } else { Err(PayloadChanged) }
}

/// Appends a cell as a number, `null` or a string.
pub(super) fn write_cell(
    cell: &[u8],
    numeric: bool,
    out: &mut Vec<u8>,
) -> Result<(), PayloadChanged> {
    match (numeric, cell) {
        (true, []) => out.extend_from_slice(b"null"),
        (true, number) if is_number(number) => out.extend_from_slice(number),
        (true, _) => return Err(PayloadChanged),
        (false, text) => {
            let text = std::str::from_utf8(text).map_err(|_| PayloadChanged)?;
            out.extend_from_slice(encode(text).as_bytes());
        }
    }
    Ok(())
}
