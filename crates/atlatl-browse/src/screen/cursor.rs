//! Cursor movement, the visible part of the table, and the record view.

use super::{Mode, Screen};
use crate::command::{KeyPress, ScreenCommand};
use crate::lines::{MAX_LINE_LEN, RowContent};
use crate::pretty;
use crate::rows::{COLUMN_GAP, Row};

/// The scroll step of text, in columns.
const SCROLL_STEP_COLUMNS: usize = 8;
/// The maximum scroll offset of text.
const MAX_SCROLL_COLUMNS: usize = 100_000;

/// The bars around the table, if there is room for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bars {
    pub(crate) title: bool,
    pub(crate) heading: bool,
    pub(crate) status: bool,
}

impl Bars {
    /// The bars of a screen of this height.
    pub(crate) fn new(height: u16, content: RowContent) -> Self {
        let heading = height >= 3 && content == RowContent::Records;
        Self { title: height >= 5, heading, status: height >= 2 }
    }

    pub(crate) fn above(self) -> u16 {
        u16::from(self.title) + u16::from(self.heading)
    }
}

impl Screen {
    pub(crate) fn bars(&self) -> Bars {
        Bars::new(self.size.1, self.row_set().content)
    }

    /// The number of table rows.
    pub(crate) fn height(&self) -> usize {
        let bars = self.bars();
        usize::from(self.size.1.saturating_sub(bars.above() + u16::from(bars.status)))
    }

    /// The width of the number column, including the gap after it.
    pub(crate) fn margin(&self) -> usize {
        let digits = self.row_set().lines.count().max(1).ilog10() as usize + 1;
        (digits + COLUMN_GAP).min(usize::from(self.size.0) / 2)
    }

    /// The room for the columns.
    pub(crate) fn table_room(&self) -> usize {
        usize::from(self.size.0).saturating_sub(self.margin())
    }

    pub(super) fn move_by(&mut self, key: KeyPress) {
        let page = self.height().max(1);
        let last = self.count().saturating_sub(1);
        match key {
            KeyPress::Up | KeyPress::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            KeyPress::Down | KeyPress::Char('j') => self.cursor = (self.cursor + 1).min(last),
            KeyPress::PageUp | KeyPress::Char('b') | KeyPress::Ctrl('b') => {
                self.cursor = self.cursor.saturating_sub(page);
                self.top = self.top.saturating_sub(page);
            }
            KeyPress::PageDown | KeyPress::Char(' ') | KeyPress::Ctrl('f') => {
                self.cursor = (self.cursor + page).min(last);
                self.top = (self.top + page).min(last);
            }
            KeyPress::Home | KeyPress::Char('g') => self.cursor = 0,
            KeyPress::End | KeyPress::Char('G') => self.cursor = last,
            KeyPress::Left | KeyPress::Char('h') => match self.row_set().content {
                RowContent::Records => self.column_left(),
                RowContent::Text => self.shift = self.shift.saturating_sub(SCROLL_STEP_COLUMNS),
            },
            KeyPress::Right | KeyPress::Char('l') => match self.row_set().content {
                RowContent::Records => self.column_right(),
                RowContent::Text => {
                    self.shift = (self.shift + SCROLL_STEP_COLUMNS).min(MAX_SCROLL_COLUMNS);
                }
            },
            _ => {}
        }
    }

    /// The width of the screen.
    pub(super) fn width(&self) -> usize {
        usize::from(self.size.0)
    }

    /// Updates the visible part to include the cursor.
    pub(super) fn settle(&mut self) {
        let (count, height) = (self.count(), self.height());
        self.cursor = self.cursor.min(count.saturating_sub(1));
        let last_top = self.cursor.saturating_sub(height.saturating_sub(1));
        self.top = self.top.min(self.cursor).max(last_top);
        // No empty rows at the end while there are rows above.
        self.top = self.top.min(count.saturating_sub(height));
        self.load(count.min(self.top + height));
        let room = self.table_room();
        let columns = &self.row_set().columns;
        let column = columns.nearest(self.column);
        let first = columns.follow(self.first_column, column, room);
        (self.column, self.first_column) = (column, first);
        self.settle_record();
        self.settle_values();
    }

    fn load(&mut self, end: usize) {
        let made_from = Some((self.top, end, self.version));
        if self.page_key == made_from {
            return;
        }
        self.page_key = made_from;
        self.page.clear();
        for position in self.top..end {
            let number = self.number(position);
            match self.row_set_mut().row(number) {
                Ok(row) => self.page.push(row),
                Err(error) => {
                    self.page.push(Row { number, ..Row::default() });
                    self.show_read_error(&error);
                }
            }
        }
    }
}

/// A record formatted over several rows.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) rows: Vec<String>,
    pub(crate) top: usize,
    /// Whether the record is truncated.
    pub(crate) cut: bool,
    /// What the rows were formatted for: the record number, the width, and the record set.
    made_from: Option<(usize, usize, u64)>,
}

impl Screen {
    pub(super) fn open_record(&mut self) {
        if self.count() > 0 {
            self.mode = Mode::Record(Record::default());
        }
    }

    pub(super) fn record_key(&mut self, key: KeyPress) -> Option<ScreenCommand> {
        let page = self.record_height().max(1);
        let last = self.count().saturating_sub(1);
        let Mode::Record(record) = &mut self.mode else { return None };
        let top = record.top;
        record.top = match key {
            KeyPress::Up | KeyPress::Char('k') => top.saturating_sub(1),
            // `settle` limits the position.
            KeyPress::Down | KeyPress::Char('j') => top + 1,
            KeyPress::PageUp | KeyPress::Char('b') | KeyPress::Ctrl('b') => {
                top.saturating_sub(page)
            }
            KeyPress::PageDown | KeyPress::Char(' ') | KeyPress::Ctrl('f') => top + page,
            KeyPress::Home | KeyPress::Char('g') => 0,
            KeyPress::End | KeyPress::Char('G') => record.rows.len(),
            _ => top,
        };
        match key {
            KeyPress::Char('q') => return Some(ScreenCommand::Quit),
            KeyPress::Char('?') => self.help = true,
            KeyPress::Char('y' | 'Y') => return self.copy_row(),
            KeyPress::Esc | KeyPress::Enter | KeyPress::Backspace => self.mode = Mode::Table,
            KeyPress::Right | KeyPress::Char('l' | 'n') => {
                self.cursor = (self.cursor + 1).min(last);
            }
            KeyPress::Left | KeyPress::Char('h' | 'p') => {
                self.cursor = self.cursor.saturating_sub(1);
            }
            _ => {}
        }
        None
    }

    /// The number of visible rows of a record.
    pub(crate) fn record_height(&self) -> usize {
        let bars = self.bars();
        let others = u16::from(bars.title) + u16::from(bars.status);
        usize::from(self.size.1.saturating_sub(others))
    }

    /// Formats the record under the cursor, if it or the width changed.
    pub(super) fn settle_record(&mut self) {
        let (number, width, height) =
            (self.number(self.cursor), self.width(), self.record_height());
        let Mode::Record(record) = &mut self.mode else { return };
        let made_from = Some((number, width, self.records));
        if record.made_from != made_from {
            let same = record.made_from.is_some_and(|(n, _, r)| (n, r) == (number, self.records));
            let top = if same { record.top } else { 0 };
            let line = self.row_set().line(number, MAX_LINE_LEN).unwrap_or_else(|error| {
                self.show_read_error(&error);
                crate::lines::Line::default()
            });
            let text = String::from_utf8_lossy(&line.bytes);
            let rows = match self.row_set().content {
                RowContent::Records => pretty::rows(&text, width),
                RowContent::Text => pretty::wrapped(&text, width),
            };
            self.mode = Mode::Record(Record { rows, top, cut: line.cut, made_from });
        }
        if let Mode::Record(record) = &mut self.mode {
            record.top = record.top.min(record.rows.len().saturating_sub(height));
        }
    }
}
