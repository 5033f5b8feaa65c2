//! The rows of the table and their columns.

use std::collections::HashMap;
use std::io;

use crate::cell::{Cell, Kind};
use crate::fields::{fields, value_of};
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
/// The smallest width that a person can choose for a column.
const MIN_COLUMN_WIDTH: usize = 3;
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
    /// The number of records that were read for the columns.
    sampled: usize,
    /// Whether one of them was read only in part.
    is_sample_cut: bool,
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
        let columns = Columns::default();
        Self { source, lines, columns, content, sampled: 0, is_sample_cut: false }
    }

    /// Indexes more lines.
    pub(crate) fn index(&mut self) -> io::Result<()> {
        self.lines.more(&*self.source)?;
        if self.sampled == 0 && self.content == RowContent::Records && self.lines.count() > 0 {
            let mut bytes = 0;
            for number in 0..self.lines.count().min(SAMPLE_RECORDS) {
                // Counted before it is read: after an error the sample is not read again.
                self.sampled += 1;
                let line = self.lines.line(&*self.source, number, TABLE_LINE_BYTES)?;
                self.columns.cells(&line.bytes, line.cut);
                self.is_sample_cut |= line.cut;
                bytes += line.bytes.len();
                if bytes > SAMPLE_BYTES {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether the columns are known to be all columns.
    pub(crate) fn has_all_columns(&self) -> bool {
        self.content == RowContent::Text
            || (self.sampled >= self.lines.count()
                && !self.is_sample_cut
                && self.columns.len() < MAX_COLUMNS)
    }

    /// Adds the column `title` and the other new columns of the first record that has it, until
    /// `goes_on` returns false for a line.
    pub(crate) fn find_column(
        &mut self,
        title: &str,
        mut goes_on: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<()> {
        let mut found = None;
        self.each_of(0..self.lines.count(), |number, line| {
            let head = &line[..line.len().min(TABLE_LINE_BYTES)];
            let is_plain = title == VALUE_COLUMN && value_of(head, None).is_some();
            if is_plain || value_of(head, Some(title.as_bytes())).is_some() {
                found = Some(number);
            }
            found.is_none() && goes_on(line)
        })?;
        if let Some(number) = found {
            self.row(number)?;
        }
        Ok(())
    }

    pub(crate) fn source(&self) -> &dyn RowSource {
        &*self.source
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
        each: impl FnMut(usize, &[u8]) -> bool,
    ) -> io::Result<()> {
        self.each_of(numbers.iter().copied(), each)
    }

    /// As [`each`](Self::each), for numbers that need no list.
    pub(crate) fn each_of(
        &self,
        numbers: impl Iterator<Item = usize>,
        mut each: impl FnMut(usize, &[u8]) -> bool,
    ) -> io::Result<()> {
        let mut numbers = numbers.enumerate().peekable();
        let (mut at, mut window) = (0_u64, Vec::new());
        while let Some((index, number)) = numbers.next() {
            let mut span = self.lines.span(number);
            span.end = span.end.min(span.start + MAX_LINE_LEN as u64);
            if span.start < at || span.end > at + window.len() as u64 {
                let next = numbers.peek().map(|(_, next)| *next);
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
    /// The width that the person chose.
    chosen: Option<usize>,
    is_hidden: bool,
    numbers: usize,
    others: usize,
}

impl Column {
    /// The width that the column gets within `room`.
    fn preferred(&self, room: usize) -> usize {
        self.chosen.unwrap_or(self.wanted.min(PREFERRED_COLUMN_WIDTH)).min(room)
    }

    /// Whether it is truncated at this width without the person's choice.
    fn wants_more(&self, width: usize) -> bool {
        self.chosen.is_none() && self.wanted > width
    }

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

    /// The column with this title.
    pub(crate) fn find(&self, title: &str) -> Option<usize> {
        self.list.iter().position(|column| column.title == title)
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

    /// Hides a column. Returns whether it was hidden: the last visible one is not.
    pub(crate) fn hide(&mut self, column: usize) -> bool {
        let is_last = self.list.len() - self.hidden() < 2;
        match self.list.get_mut(column) {
            Some(column) if !is_last => column.is_hidden = true,
            _ => return false,
        }
        true
    }

    /// Shows all columns at the widths of their values.
    pub(crate) fn reset(&mut self) {
        for column in &mut self.list {
            (column.is_hidden, column.chosen) = (false, None);
        }
    }

    /// The number of hidden columns.
    pub(crate) fn hidden(&self) -> usize {
        self.list.iter().filter(|column| column.is_hidden).count()
    }

    /// Sets the width of a column to its width of `shown` columns plus `more`.
    pub(crate) fn resize(&mut self, column: usize, shown: usize, more: isize) {
        if let Some(column) = self.list.get_mut(column) {
            let width = shown.saturating_add_signed(more);
            column.chosen = Some(width.clamp(MIN_COLUMN_WIDTH, MAX_COLUMN_WIDTH));
        }
    }

    /// The next visible column after `column`.
    pub(crate) fn next(&self, column: usize) -> Option<usize> {
        (column + 1..self.list.len()).find(|column| !self.list[*column].is_hidden)
    }

    /// The last visible column before `column`.
    pub(crate) fn previous(&self, column: usize) -> Option<usize> {
        (0..column.min(self.list.len())).rev().find(|column| !self.list[*column].is_hidden)
    }

    /// `column`, or the nearest visible one.
    pub(crate) fn nearest(&self, column: usize) -> usize {
        match self.list.get(column) {
            Some(field) if !field.is_hidden => column,
            _ => self.next(column).or_else(|| self.previous(column)).unwrap_or(0),
        }
    }

    /// Lays out the visible columns from `first` within `room` screen columns.
    pub(crate) fn layout(&self, first: usize, room: usize) -> Vec<ColumnSpan> {
        let mut spans: Vec<ColumnSpan> = Vec::new();
        let mut x = 0;
        let visible = self.list.iter().enumerate().skip(first).filter(|(_, c)| !c.is_hidden);
        for (column, field) in visible {
            let width = field.preferred(room);
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
        let shown_all = spans.last().is_some_and(|span| self.next(span.column).is_none());
        let used = x.saturating_sub(COLUMN_GAP);
        if shown_all && used < room {
            self.widen(&mut spans, room - used);
        }
        spans
    }

    /// Distributes the remaining room to truncated columns.
    fn widen(&self, spans: &mut [ColumnSpan], mut spare: usize) {
        let mut moved = 0;
        let wants = spans.iter().filter(|p| self.list[p.column].wants_more(p.width)).count();
        let mut share = if wants == 0 { 0 } else { spare.div_ceil(wants) };
        for span in spans {
            span.x += moved;
            let column = &self.list[span.column];
            if !column.wants_more(span.width) {
                continue;
            }
            let more = (column.wanted - span.width).min(share).min(spare);
            span.width += more;
            moved += more;
            spare -= more;
            share = share.min(spare);
        }
    }

    /// The first column to show so that the visible column `cursor` is on the screen, starting from
    /// `first`.
    pub(crate) fn follow(&self, first: usize, cursor: usize, room: usize) -> usize {
        let mut first = first.min(cursor);
        loop {
            let spans = self.layout(first, room);
            let seen = spans.iter().find(|span| span.column == cursor);
            let whole = |span: &&ColumnSpan| span.width >= self.list[cursor].preferred(room);
            if first >= cursor || seen.as_ref().is_some_and(whole) {
                return first;
            }
            first = self.next(first).unwrap_or(cursor);
        }
    }
}

impl Column {
    fn new(name: &[u8]) -> Self {
        let title = harmless(&unescape(name, MAX_COLUMN_WIDTH)).into_owned();
        // With room for the sort arrow.
        let wanted = (width(&title) + 1).min(MAX_COLUMN_WIDTH);
        Self {
            name: name.into(),
            title,
            wanted,
            chosen: None,
            is_hidden: false,
            numbers: 0,
            others: 0,
        }
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
    fn hidden_columns_are_skipped_and_one_stays() {
        let mut columns = Columns::default();
        columns.cells(br#"{"a":1,"b":2,"c":3}"#, false);
        assert!(columns.hide(1) && columns.hide(2) && !columns.hide(0) && !columns.hide(9));
        assert_eq!((columns.next(0), columns.previous(2), columns.nearest(2)), (None, Some(0), 0));
        assert_eq!(columns.layout(0, 20).len(), 1);
        columns.resize(0, 4, 3);
        assert_eq!(columns.layout(0, 20)[0].width, 7);
        columns.resize(0, 4, -9);
        assert_eq!(columns.layout(0, 20)[0].width, MIN_COLUMN_WIDTH);
        columns.reset();
        assert_eq!((columns.hidden(), columns.layout(0, 20).len()), (0, 3));
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
            hidden in proptest::collection::vec(0_usize..8, 0..8),
            resized in proptest::collection::vec((0_usize..8, 0_usize..90, -9_isize..9), 0..4),
        ) {
            let mut columns = Columns::default();
            let fields: Vec<String> = lengths
                .iter()
                .enumerate()
                .map(|(i, length)| format!("\"c{i}\":\"{}\"", "x".repeat(*length)))
                .collect();
            columns.cells(format!("{{{}}}", fields.join(",")).as_bytes(), false);
            for column in hidden {
                columns.hide(column);
            }
            for (column, shown, more) in resized {
                columns.resize(column, shown, more);
            }
            prop_assert!(columns.hidden() < lengths.len());
            let spans = columns.layout(first, room);
            prop_assert!(spans.iter().all(|span| columns.nearest(span.column) == span.column));
            let mut x = 0;
            for span in &spans {
                prop_assert!(span.x >= x && span.x + span.width <= room);
                x = span.x + span.width;
            }
            let cursor = columns.nearest(first.min(lengths.len() - 1));
            let first = columns.follow(0, cursor, room);
            prop_assert!(first <= cursor);
            let seen = columns.layout(first, room).iter().any(|span| span.column == cursor);
            prop_assert!(seen || room == 0);
        }
    }
}
