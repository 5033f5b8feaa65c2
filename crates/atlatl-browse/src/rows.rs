//! The rows of the table and their columns.

use std::collections::HashMap;
use std::io;

use crate::cell::{Cell, Kind};
use crate::fields::fields;
use crate::lines::{Line, Lines, MAX_LINE_LEN, RowContent, RowSource, fill};
use crate::text::{harmless, unescape, width};

/// The number of bytes of a line that are read for the table.
const TABLE_LINE_BYTES: usize = 64 << 10;
/// The number of records that determine the column widths, and the most bytes read for that.
const SAMPLE_RECORDS: usize = 200;
const SAMPLE_BYTES: usize = 2 << 20;
/// The read size for consecutive lines.
const READ_WINDOW_BYTES: u64 = 256 << 10;
/// The most columns; the record view shows all fields.
const MAX_COLUMNS: usize = 1000;
/// The maximum width of a column while others need room.
const PREFERRED_COLUMN_WIDTH: usize = 32;
/// The maximum width of a column.
const MAX_COLUMN_WIDTH: usize = 400;
/// The gap between two columns.
pub(crate) const COLUMN_GAP: usize = 2;
/// The title of the column for records that are not objects.
const VALUE_COLUMN: &str = "value";

/// The lines of a source with their columns.
pub(crate) struct RowSet {
    source: Box<dyn RowSource>,
    pub(crate) lines: Lines,
    pub(crate) columns: Columns,
    pub(crate) content: RowContent,
    sampled: bool,
}

/// A row of the table.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The line number, from 0.
    pub(crate) number: usize,
    /// The cells of a record.
    pub(crate) cells: Cells,
    /// The text of a line that is not a record.
    pub(crate) text: String,
}

impl RowSet {
    pub(crate) fn new(source: Box<dyn RowSource>, begin: u64, content: RowContent) -> Self {
        let lines = Lines::new(&*source, begin);
        Self { source, lines, columns: Columns::default(), content, sampled: false }
    }

    /// Indexes more lines.
    pub(crate) fn index(&mut self) -> io::Result<()> {
        self.lines.more(&*self.source)?;
        if !self.sampled && self.content == RowContent::Records && self.lines.count() > 0 {
            self.sampled = true;
            let mut bytes = 0;
            for number in 0..self.lines.count().min(SAMPLE_RECORDS) {
                let line = self.lines.line(&*self.source, number, TABLE_LINE_BYTES)?;
                self.columns.cells(&line.bytes, line.cut);
                bytes += line.bytes.len();
                if bytes > SAMPLE_BYTES {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn line(&self, number: usize, most: usize) -> io::Result<Line> {
        self.lines.line(&*self.source, number, most)
    }

    pub(crate) fn row(&mut self, number: usize) -> io::Result<Row> {
        let Line { bytes, cut } = self.line(number, TABLE_LINE_BYTES)?;
        Ok(match self.content {
            RowContent::Records => {
                let cells = self.columns.cells(&bytes, cut);
                Row { number, cells, text: String::new() }
            }
            RowContent::Text => {
                let mut text = String::from_utf8_lossy(&bytes).replace('\t', "    ");
                if cut {
                    text.push_str(crate::text::CUT);
                }
                Row { number, cells: Vec::new(), text: harmless(&text).into_owned() }
            }
        })
    }

    /// Calls `each` with the index and content of these lines, until it returns false.
    pub(crate) fn each(
        &self,
        numbers: &[usize],
        mut each: impl FnMut(usize, &[u8]) -> bool,
    ) -> io::Result<()> {
        let (mut at, mut window) = (0_u64, Vec::new());
        for (index, &number) in numbers.iter().enumerate() {
            let mut span = self.lines.span(number);
            span.end = span.end.min(span.start + MAX_LINE_LEN as u64);
            if span.start < at || span.end > at + window.len() as u64 {
                let next = numbers.get(index + 1).copied();
                let length = (span.end - span.start).max(READ_WINDOW_BYTES);
                let (from, length) = if next == Some(number + 1) {
                    (span.start, length)
                } else if next.is_some() && next == number.checked_sub(1) {
                    let from = span.end.saturating_sub(length);
                    (from, span.end - from)
                } else {
                    (span.start, span.end - span.start)
                };
                // Lossless: a window is smaller than the longest line.
                window.resize(usize::try_from(length).unwrap_or(MAX_LINE_LEN), 0);
                let read = fill(&*self.source, from, &mut window)?;
                window.truncate(read);
                at = from;
            }
            let cut = |to: u64| {
                usize::try_from(to.saturating_sub(at)).unwrap_or(usize::MAX).min(window.len())
            };
            let line = &window[cut(span.start)..cut(span.end)];
            if !each(index, line.strip_suffix(b"\r").unwrap_or(line)) {
                break;
            }
        }
        Ok(())
    }
}

/// A column: a field of the records.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The name as written in the records.
    pub(crate) name: Box<[u8]>,
    /// The title for display.
    pub(crate) title: String,
    wanted: usize,
    numbers: usize,
    others: usize,
}

impl Column {
    /// Whether it holds mostly numbers.
    pub(crate) fn is_numeric(&self) -> bool {
        self.numbers > self.others
    }
}

/// The fields seen so far, in order.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    list: Vec<Column>,
    by_name: HashMap<Box<[u8]>, usize>,
    /// The column of records that are not objects.
    value: Option<usize>,
}

/// The position of a column on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnSpan {
    pub(crate) column: usize,
    /// From the left edge of the table.
    pub(crate) x: usize,
    pub(crate) width: usize,
}

/// The cells of a record, by column.
pub(crate) type Cells = Vec<Option<Cell>>;

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, column: usize) -> Option<&Column> {
        self.list.get(column)
    }

    /// Whether this is the column for records that are not objects.
    pub(crate) fn is_plain(&self, column: usize) -> bool {
        self.value == Some(column)
    }

    /// Returns the cells of a record, and adds new fields. Columns grow with their values and never
    /// shrink, so that the screen moves little.
    pub(crate) fn cells(&mut self, record: &[u8], cut: bool) -> Cells {
        let mut cells: Cells = vec![None; self.list.len()];
        let object = fields(record, |name, value| {
            let Some(column) = self.column(name) else { return true };
            let cell = Cell::from_json(value);
            self.measure(column, &cell);
            cells.resize(self.list.len(), None);
            // Of several members with the same name, shows the first.
            cells[column].get_or_insert(cell);
            true
        });
        if !object {
            let value = *self.value.get_or_insert_with(|| {
                self.list.push(Column::new(VALUE_COLUMN.as_bytes()));
                self.list.len() - 1
            });
            let cell = Cell::from_json(record.trim_ascii());
            self.measure(value, &cell);
            cells.resize(self.list.len(), None);
            cells[value] = Some(cell);
        } else if cut {
            let beyond = Cell { kind: Kind::Word, text: crate::text::CUT.to_owned() };
            for cell in &mut cells {
                cell.get_or_insert_with(|| beyond.clone());
            }
        }
        cells
    }

    fn column(&mut self, name: &[u8]) -> Option<usize> {
        if let Some(&column) = self.by_name.get(name) {
            return Some(column);
        }
        if self.list.len() >= MAX_COLUMNS {
            return None;
        }
        self.by_name.insert(name.into(), self.list.len());
        self.list.push(Column::new(name));
        Some(self.list.len() - 1)
    }

    fn measure(&mut self, column: usize, cell: &Cell) {
        let column = &mut self.list[column];
        column.wanted = column.wanted.max(width(&cell.text).min(MAX_COLUMN_WIDTH));
        match cell.kind {
            Kind::Number => column.numbers += 1,
            Kind::Word => {}
            _ => column.others += 1,
        }
    }

    /// Lays out the columns from `first` within `room` screen columns.
    pub(crate) fn layout(&self, first: usize, room: usize) -> Vec<ColumnSpan> {
        let mut spans = Vec::new();
        let mut x = 0;
        for (column, field) in self.list.iter().enumerate().skip(first) {
            let width = field.wanted.min(PREFERRED_COLUMN_WIDTH).min(room);
            // The last column may be truncated if enough of it is visible.
            if x > 0 && x + width.min(PREFERRED_COLUMN_WIDTH / 4) > room {
                break;
            }
            spans.push(ColumnSpan { column, x, width: width.min(room - x) });
            x += width + COLUMN_GAP;
            if x >= room {
                break;
            }
        }
        let shown_all = spans.last().is_some_and(|span| span.column + 1 == self.list.len());
        let used = x.saturating_sub(COLUMN_GAP);
        if shown_all && used < room {
            self.widen(&mut spans, room - used);
        }
        spans
    }

    /// Distributes the remaining room to truncated columns.
    fn widen(&self, spans: &mut [ColumnSpan], mut spare: usize) {
        let mut moved = 0;
        let wants = spans.iter().filter(|p| self.list[p.column].wanted > p.width).count();
        let mut share = if wants == 0 { 0 } else { spare.div_ceil(wants) };
        for span in spans {
            span.x += moved;
            let wanted = self.list[span.column].wanted;
            let more = wanted.saturating_sub(span.width).min(share).min(spare);
            span.width += more;
            moved += more;
            spare -= more;
            share = share.min(spare);
        }
    }

    /// The first column to show so that `cursor` is visible, starting from `first`.
    pub(crate) fn follow(&self, first: usize, cursor: usize, room: usize) -> usize {
        let mut first = first.min(cursor);
        loop {
            let spans = self.layout(first, room);
            let seen = spans.iter().find(|span| span.column == cursor);
            let whole = |span: &&ColumnSpan| {
                span.width >= self.list[cursor].wanted.min(PREFERRED_COLUMN_WIDTH).min(room)
            };
            if first >= cursor || seen.as_ref().is_some_and(whole) {
                return first;
            }
            first += 1;
        }
    }
}

impl Column {
    fn new(name: &[u8]) -> Self {
        let title = harmless(&unescape(name, MAX_COLUMN_WIDTH)).into_owned();
        // With room for the sort arrow.
        let wanted = (width(&title) + 1).min(MAX_COLUMN_WIDTH);
        Self { name: name.into(), title, wanted, numbers: 0, others: 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_come_in_whatever_order_they_are_wanted(
            wanted in proptest::collection::vec(0_usize..9, 0..20),
        ) {
            let source = b"0\n11\n222\n\n4\n5\n6\n7\n8".to_vec();
            let texts = ["0", "11", "222", "", "4", "5", "6", "7", "8"];
            let mut row_set = RowSet::new(Box::new(source), 0, RowContent::Text);
            row_set.index().unwrap();
            let mut seen = Vec::new();
            row_set.each(&wanted, |_, line| {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
                true
            }).unwrap();
            let expected: Vec<_> = wanted.iter().map(|&number| texts[number]).collect();
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn fields_come_in_the_order_they_are_first_seen() {
        let mut columns = Columns::default();
        columns.cells(br#"{"a":1,"b":"x"}"#, false);
        let cells = columns.cells(br#"{"c":2,"a":"y","a":3}"#, false);
        let text = |cell: &Option<Cell>| cell.as_ref().map(|cell| cell.text.clone());
        let texts: Vec<_> = cells.iter().map(text).collect();
        assert_eq!(texts, [Some("y".to_owned()), None, Some("2".to_owned())]);
        assert_eq!(text(&columns.cells(b"7", false)[3]), Some("7".to_owned()));
        assert_eq!(columns.get(3).unwrap().title, "value");
    }

    #[test]
    fn a_record_that_is_cut_says_that_more_may_come() {
        let mut columns = Columns::default();
        columns.cells(br#"{"a":1,"b":2}"#, false);
        let cells = columns.cells(br#"{"a":"#, true);
        assert!(cells.iter().all(|cell| cell.as_ref().unwrap().text == "…"));
    }

    proptest! {
        #[test]
        fn columns_stay_within_their_room(
            lengths in proptest::collection::vec(0_usize..90, 1..8),
            first in 0_usize..8,
            room in 0_usize..120,
        ) {
            let mut columns = Columns::default();
            let fields: Vec<String> = lengths
                .iter()
                .enumerate()
                .map(|(i, length)| format!("\"c{i}\":\"{}\"", "x".repeat(*length)))
                .collect();
            columns.cells(format!("{{{}}}", fields.join(",")).as_bytes(), false);
            let spans = columns.layout(first, room);
            let mut x = 0;
            for span in &spans {
                prop_assert!(span.x >= x && span.x + span.width <= room);
                x = span.x + span.width;
            }
            let cursor = first.min(lengths.len() - 1);
            let first = columns.follow(0, cursor, room);
            prop_assert!(first <= cursor);
            let seen = columns.layout(first, room).iter().any(|span| span.column == cursor);
            prop_assert!(seen || room == 0);
        }
    }
}
