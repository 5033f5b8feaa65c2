//! Tables and logs in text besides CSV and TSV: other delimiters, Markdown and other ruled tables,
//! aligned columns, `key=value` lines, and JSON after a log prefix.
//!
//! Prose, code and listings resemble each of them, so at least ten rows must agree, and the table must
//! make up most of the payload. The beginning of the payload decides about the layout; the rest is
//! read once. The first row that does not agree ends the table, and the text around it is a further
//! text, as for JSON.

mod aligned;
mod line_buffer;
mod logfmt;
mod prefixed;
mod ruled;
mod writer;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use memchr::memchr_iter;
use serde::Serialize;

use super::table::{Column, Delimiter, MAX_COLUMNS, MAX_ROW_BYTES, Rows, columns_from_header};
use super::{BYTE_ORDER_MARK, RecordForm};
use line_buffer::LineBuffer;
pub(super) use writer::TextTableLines;

/// The fewest rows of a table.
const MIN_ROWS: u64 = 10;
/// The number of lines at which a table may begin.
const MAX_START_LINES: usize = 32;
/// The lines after a possible header that are read to decide about it: two more of the header, and
/// the fewest rows.
const LOOKAHEAD_LINES: usize = 12;
/// The longest header line.
const MAX_HEADER_LINE_BYTES: usize = 8 * 1024;

/// The layout of a table or log in text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TextLayout {
    kind: LayoutKind,
    #[serde(skip)]
    header_lines: usize,
    /// The number of columns, if every row has the same.
    #[serde(skip)]
    width: usize,
    /// The offsets of aligned columns, in characters.
    #[serde(skip)]
    starts: Vec<usize>,
    /// The fewest spaces between aligned columns.
    #[serde(skip)]
    gap: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum LayoutKind {
    /// Semicolons between cells.
    Semicolon,
    /// Pipes between cells, without spaces around them.
    Pipe,
    Markdown,
    /// Pipes between cells and a rule below the header, as printed by psql.
    Ruled,
    /// Pipes between cells and borders around them, as printed by `MySQL`.
    Bordered,
    /// Cells that begin below their column name.
    Aligned,
    /// Words that begin or end where their column name does; the last column has the rest of the line.
    Spaced,
    /// `key=value` pairs on each line.
    Logfmt,
    /// A JSON object on each line after a prefix, which is the member `_prefix`.
    PrefixedJson,
}

impl LayoutKind {
    /// The delimiter of a layout that `csv-core` parses.
    fn delimiter(self) -> Option<Delimiter> {
        match self {
            Self::Semicolon => Some(Delimiter::Semicolon),
            Self::Pipe => Some(Delimiter::Pipe),
            _ => None,
        }
    }
}

impl TextLayout {
    fn new(kind: LayoutKind, header_lines: usize, width: usize) -> Self {
        Self { kind, header_lines, width, starts: Vec::new(), gap: 0 }
    }

    /// The name, as in a descriptor.
    pub fn as_str(&self) -> &'static str {
        match self.kind {
            LayoutKind::Semicolon => "semicolon-separated",
            LayoutKind::Pipe => "pipe-separated",
            LayoutKind::Markdown => "markdown table",
            LayoutKind::Ruled | LayoutKind::Bordered => "ruled table",
            LayoutKind::Aligned | LayoutKind::Spaced => "aligned columns",
            LayoutKind::Logfmt => "key=value lines",
            LayoutKind::PrefixedJson => "json after a prefix",
        }
    }

    /// The cells of a row of fixed width.
    fn split<'a>(&self, line: &'a str) -> Split<'a> {
        let cells = match self.kind {
            LayoutKind::Bordered if ruled::is_border(line) => return Split::Skip,
            LayoutKind::Aligned => aligned::cells(line, &self.starts, self.gap),
            LayoutKind::Spaced => aligned::words(line, self.width),
            kind => ruled::cells(line, kind),
        };
        match cells {
            Some(cells) if cells.len() == self.width => Split::Row(cells),
            _ => Split::End,
        }
    }
}

/// A line of a table of fixed width.
enum Split<'a> {
    Row(Vec<Cow<'a, str>>),
    /// A line without data.
    Skip,
    /// The line is no row.
    End,
}

/// A possible header: the layout, the columns and the evidence that it is one.
struct Header {
    layout: TextLayout,
    columns: Vec<Column>,
    evidence: Evidence,
}

/// What distinguishes a header from the rows below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// A rule below it, or the notation itself.
    Certain,
    /// The rows must not repeat a name.
    OtherWords,
    /// One column must consist of numbers or times as well.
    Figures,
}

/// Whether the first line of a payload belongs to one of these layouts rather than to a CSV file.
pub(super) fn is_another_format(line: &[u8]) -> bool {
    let count = |byte| memchr_iter(byte, line).count();
    let Ok(text) = std::str::from_utf8(line) else { return false };
    let text = text.trim_end_matches('\r');
    count(b';') > count(b',')
        || text.starts_with('|')
        || ruled::is_border(text)
        || logfmt::pairs(text).is_some()
        || prefixed::split(text).is_some()
}

/// Finds a table that begins within the first `max_lead` bytes of `head`, whose first byte has the
/// offset `base`. `whole` says whether the payload ends with `head`; `is_worth` gets the range of a
/// table in it.
pub(super) fn find(
    head: &[u8],
    base: u64,
    max_lead: usize,
    whole: bool,
    is_worth: impl Fn(&Range<u64>) -> bool,
) -> Option<Box<TextTableSniffer>> {
    let lines = first_lines(head, max_lead);
    let starts = lines
        .iter()
        .enumerate()
        .filter(|(_, (at, line))| *at < max_lead && !line.trim().is_empty());
    for (i, (at, line)) in starts.take(MAX_START_LINES) {
        if line.as_bytes().starts_with(BYTE_ORDER_MARK) {
            continue;
        }
        let ahead: Vec<&str> =
            lines[i..].iter().map(|(_, line)| *line).take(LOOKAHEAD_LINES + 1).collect();
        for header in headers(&ahead) {
            let mut sniffer = TextTableSniffer::new(header, &ahead, base + *at as u64);
            sniffer.feed(&head[*at..]);
            if !sniffer.holds(whole) {
                continue;
            }
            let end = if sniffer.ended { sniffer.end } else { base + head.len() as u64 };
            // A text with more than one table stays text.
            return is_worth(&(sniffer.start..end)).then(|| Box::new(sniffer));
        }
    }
    None
}

/// The lines that begin within `max_lead`, and as many more as a header needs.
fn first_lines(head: &[u8], max_lead: usize) -> Vec<(usize, &str)> {
    let (mut lines, mut at, mut more) = (Vec::new(), 0, 0);
    for line in head.split_inclusive(|b| *b == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let Ok(text) = std::str::from_utf8(text) else { break };
        lines.push((at, text));
        at += line.len();
        more += usize::from(at >= max_lead);
        if more > LOOKAHEAD_LINES || lines.len() > MAX_START_LINES * 4 {
            break;
        }
    }
    lines
}

/// The layouts that a text beginning with `lines` may have.
fn headers(lines: &[&str]) -> Vec<Header> {
    let Some(first) = lines.first().filter(|line| line.len() <= MAX_HEADER_LINE_BYTES) else {
        return Vec::new();
    };
    let without_header = |kind| Header {
        layout: TextLayout::new(kind, 0, 0),
        columns: Vec::new(),
        evidence: Evidence::Certain,
    };
    let mut headers = Vec::new();
    headers.extend(ruled::header(lines));
    if headers.is_empty() {
        headers.extend(prefixed::split(first).map(|_| without_header(LayoutKind::PrefixedJson)));
        headers.extend(logfmt::pairs(first).map(|_| without_header(LayoutKind::Logfmt)));
        headers.extend(
            [LayoutKind::Semicolon, LayoutKind::Pipe]
                .map(|kind| delimited(first, kind))
                .into_iter()
                .flatten(),
        );
        headers.extend(aligned::header(lines));
        headers.extend(aligned::header_of_words(lines));
    }
    headers
}

/// The header of a table with a delimiter, which has no spaces around it.
fn delimited(line: &str, kind: LayoutKind) -> Option<Header> {
    let delimiter = kind.delimiter()?;
    if !line.as_bytes().contains(&delimiter.byte()) {
        return None;
    }
    let mut columns = None;
    // The rows are parsed again with the rest of the table.
    let mut rows = Rows::new(delimiter);
    let mut first = |row: super::table::Row<'_>, _| {
        columns = columns_from_header(row.cells());
        false
    };
    rows.feed(line.as_bytes(), &mut first).ok()?;
    rows.feed(b"\n", &mut first).ok()?;
    let columns = columns?;
    let is_name = |name: &str| {
        name.trim() == name && !name.contains(['=', '<', '>', '{', '}', '"', '|', ';', '\\'])
    };
    columns.iter().all(|column| is_name(&column.name)).then(|| Header {
        layout: TextLayout::new(kind, 1, columns.len()),
        columns,
        evidence: Evidence::OtherWords,
    })
}

/// Reads a table in the first pass: counts its rows and finds its end.
pub(super) struct TextTableSniffer {
    start: u64,
    /// The offset after everything that was read.
    fed: u64,
    /// The offset after the last row.
    end: u64,
    /// The header lines that were skipped.
    skipped: usize,
    /// Whether a row disagreed.
    ended: bool,
    count: u64,
    layout: TextLayout,
    columns: Columns,
    evidence: Evidence,
    /// The columns whose first cells all begin with a digit.
    figures: Vec<bool>,
    /// Whether one of the first rows repeats a column name.
    repeats_name: bool,
    alignment: aligned::Alignment,
    source: RowSource,
}

enum RowSource {
    Delimited(Box<Rows>),
    Lines(LineBuffer),
}

impl RowSource {
    fn new(kind: LayoutKind) -> Self {
        match kind.delimiter() {
            Some(delimiter) => Self::Delimited(Box::new(Rows::new(delimiter))),
            None => Self::Lines(LineBuffer::default()),
        }
    }
}

/// Columns by name.
#[derive(Default)]
struct Columns {
    list: Vec<Column>,
    /// Only for lines with keys of their own.
    by_name: HashMap<String, usize>,
    /// The keys of the first line.
    first: usize,
}

impl TextTableSniffer {
    /// A sniffer for a table whose `header` begins at `start`; `lines` are its first lines.
    fn new(header: Header, lines: &[&str], start: u64) -> Self {
        let Header { layout, columns, evidence } = header;
        let alignment = match layout.kind {
            LayoutKind::Spaced => aligned::Alignment::new(lines[0], layout.width),
            _ => aligned::Alignment::default(),
        };
        Self {
            start,
            fed: start,
            end: start,
            skipped: 0,
            ended: false,
            count: 0,
            source: RowSource::new(layout.kind),
            figures: vec![true; columns.len()],
            repeats_name: false,
            alignment,
            layout,
            columns: Columns { list: columns, ..Columns::default() },
            evidence,
        }
    }

    /// Processes the next chunk.
    pub(super) fn feed(&mut self, chunk: &[u8]) {
        if self.ended || chunk.is_empty() {
            return;
        }
        let mut source =
            std::mem::replace(&mut self.source, RowSource::Lines(LineBuffer::default()));
        match &mut source {
            RowSource::Delimited(rows) => {
                let base = self.fed;
                let read = rows.feed(chunk, |row, consumed| {
                    let fits = self.add_delimited(row);
                    if fits {
                        self.end = base + consumed as u64;
                    }
                    fits
                });
                self.ended |= read.is_err();
            }
            RowSource::Lines(lines) => lines.feed(chunk, |line, bytes| self.add_line(line, bytes)),
        }
        self.source = source;
        self.fed += chunk.len() as u64;
    }

    fn add_delimited(&mut self, row: super::table::Row<'_>) -> bool {
        let fits =
            row.width() == self.layout.width && (self.skip_header() || self.add_cells(row.cells()));
        self.ended |= !fits;
        fits
    }

    /// Whether the current line belongs to the header, which is then skipped.
    fn skip_header(&mut self) -> bool {
        let skip = self.skipped < self.layout.header_lines;
        self.skipped += usize::from(skip);
        skip
    }

    /// Adds a line of `bytes` bytes. Returns false if it ends the table.
    fn add_line(&mut self, line: Option<&[u8]>, bytes: usize) -> bool {
        let fits = line.is_some_and(|line| self.add_text(line));
        if fits {
            self.end += bytes as u64;
        }
        self.ended |= !fits;
        fits
    }

    fn add_text(&mut self, line: &[u8]) -> bool {
        if self.skip_header() {
            return true;
        }
        let Ok(line) = std::str::from_utf8(line) else { return false };
        match self.layout.kind {
            LayoutKind::PrefixedJson => {
                let fits = prefixed::split(line).is_some();
                self.count += u64::from(fits);
                fits
            }
            LayoutKind::Logfmt => {
                let fits = logfmt::pairs(line)
                    .is_some_and(|pairs| self.columns.add_pairs(&pairs, self.count));
                self.count += u64::from(fits);
                fits
            }
            _ => match self.layout.split(line) {
                Split::Skip => true,
                Split::End => false,
                Split::Row(cells) => {
                    let exact = self.count < MIN_ROWS;
                    if self.layout.kind == LayoutKind::Spaced && !self.alignment.fits(line, exact) {
                        return false;
                    }
                    self.add_cells(cells.iter().map(|cell| cell.as_bytes()))
                }
            },
        }
    }

    /// Adds a row. Returns false if the first rows show that this is no table.
    fn add_cells<'a>(&mut self, cells: impl Iterator<Item = &'a [u8]>) -> bool {
        self.count += 1;
        let first = self.count <= MIN_ROWS;
        for (i, (column, cell)) in self.columns.list.iter_mut().zip(cells).enumerate() {
            column.add(cell);
            if first {
                self.repeats_name |= column.name.as_bytes() == cell;
                self.figures[i] &= cell.first().is_some_and(u8::is_ascii_digit);
            }
        }
        self.count != MIN_ROWS || self.is_evident()
    }

    fn is_evident(&self) -> bool {
        match self.evidence {
            Evidence::Certain => true,
            Evidence::OtherWords => !self.repeats_name,
            Evidence::Figures => !self.repeats_name && self.figures.contains(&true),
        }
    }

    /// Whether enough rows agree; `whole` says whether the payload ends here.
    fn holds(&self, whole: bool) -> bool {
        let pending = whole && !self.ended && self.fed > self.end;
        // The line at the end of the payload counts only if it agrees, which `finish` decides.
        self.is_evident() && self.count + u64::from(pending) >= MIN_ROWS
    }

    /// The form and the number of rows, if enough agree. `bytes` is the size of the payload.
    pub(super) fn finish(mut self, bytes: u64) -> Option<(RecordForm, u64)> {
        if !self.ended {
            let mut source =
                std::mem::replace(&mut self.source, RowSource::Lines(LineBuffer::default()));
            match &mut source {
                RowSource::Delimited(rows) => {
                    let read = rows.feed(&[], |row, _| self.add_delimited(row));
                    self.ended |= read.is_err();
                }
                RowSource::Lines(lines) => lines.finish(|line, bytes| self.add_line(line, bytes)),
            }
            if !self.ended {
                self.end = bytes;
            }
        }
        if !self.holds(false) {
            return None;
        }
        let form = RecordForm::TextTable {
            range: self.start..self.end,
            layout: self.layout,
            columns: self.columns.list,
        };
        Some((form, self.count))
    }
}

impl Columns {
    /// Adds the pairs of a line. Returns false if the line has too little in common with the first.
    fn add_pairs(&mut self, pairs: &[logfmt::Pair<'_>], lines: u64) -> bool {
        if lines > 0 {
            let known = |pair: &&logfmt::Pair<'_>| {
                self.by_name.get(pair.key.as_ref()).is_some_and(|i| *i < self.first)
            };
            if pairs.iter().filter(known).count() < logfmt::MIN_PAIRS {
                return false;
            }
        }
        for pair in pairs {
            let i = match self.by_name.get(pair.key.as_ref()) {
                Some(i) => *i,
                None if self.list.len() == MAX_COLUMNS => return false,
                None => {
                    self.by_name.insert(pair.key.clone().into_owned(), self.list.len());
                    self.list.push(Column::new(pair.key.clone().into_owned()));
                    self.list.len() - 1
                }
            };
            match pair.value {
                logfmt::Value::Bare(text) => self.list[i].add(text.as_bytes()),
                logfmt::Value::Quoted(_) => self.list[i].numeric = false,
            }
        }
        if lines == 0 {
            self.first = self.list.len();
        }
        true
    }
}
