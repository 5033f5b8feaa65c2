//! Cursor movement, the visible part of the table, and the record view.

use super::{Mode, Screen};
use crate::command::{Effect, Key};
use crate::pretty;
use crate::rows::{Content, GAP, MAX_LINE_LEN, Row};

/// How far one key moves a text.
const STEP: usize = 8;
/// How far a text can be moved at most.
const FARTHEST: usize = 100_000;

/// The lines of the screen that are not the table's own, as far as there is room for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bars {
    pub(crate) title: bool,
    pub(crate) heading: bool,
    pub(crate) status: bool,
}

impl Bars {
    /// What a screen of this height has.
    pub(crate) fn new(height: u16, content: Content) -> Self {
        let heading = height >= 3 && content == Content::Records;
        Self { title: height >= 5, heading, status: height >= 2 }
    }

    pub(crate) fn above(self) -> u16 {
        u16::from(self.title) + u16::from(self.heading)
    }
}

impl Screen {
    pub(crate) fn bars(&self) -> Bars {
        Bars::new(self.size.1, self.body().content)
    }

    /// How many rows the table has.
    pub(crate) fn height(&self) -> usize {
        let bars = self.bars();
        usize::from(self.size.1.saturating_sub(bars.above() + u16::from(bars.status)))
    }

    /// How wide the column of numbers is, the gap behind it included.
    pub(crate) fn margin(&self) -> usize {
        let digits = self.body().lines.count().max(1).ilog10() as usize + 1;
        (digits + GAP).min(usize::from(self.size.0) / 2)
    }

    /// The room for the columns.
    pub(crate) fn table_room(&self) -> usize {
        usize::from(self.size.0).saturating_sub(self.margin())
    }

    pub(super) fn move_by(&mut self, key: Key) {
        let page = self.height().max(1);
        let last = self.count().saturating_sub(1);
        match key {
            Key::Up | Key::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            Key::Down | Key::Char('j') => self.cursor = (self.cursor + 1).min(last),
            Key::PageUp | Key::Char('b') | Key::Ctrl('b') => {
                self.cursor = self.cursor.saturating_sub(page);
                self.top = self.top.saturating_sub(page);
            }
            Key::PageDown | Key::Char(' ') | Key::Ctrl('f') => {
                self.cursor = (self.cursor + page).min(last);
                self.top = (self.top + page).min(last);
            }
            Key::Home | Key::Char('g') => self.cursor = 0,
            Key::End | Key::Char('G') => self.cursor = last,
            Key::Left | Key::Char('h') => match self.body().content {
                Content::Records => self.column = self.column.saturating_sub(1),
                Content::Text => self.shift = self.shift.saturating_sub(STEP),
            },
            Key::Right | Key::Char('l') => match self.body().content {
                // The end is seen to when all is settled.
                Content::Records => self.column += 1,
                Content::Text => self.shift = (self.shift + STEP).min(FARTHEST),
            },
            _ => {}
        }
    }

    /// The size of the screen.
    pub(super) fn width(&self) -> usize {
        usize::from(self.size.0)
    }

    /// Brings what is seen in line with where the cursor is.
    pub(super) fn settle(&mut self) {
        let (count, height) = (self.count(), self.height());
        self.cursor = self.cursor.min(count.saturating_sub(1));
        let last_top = self.cursor.saturating_sub(height.saturating_sub(1));
        self.top = self.top.min(self.cursor).max(last_top);
        // No empty rows below the last one while there are rows above.
        self.top = self.top.min(count.saturating_sub(height));
        self.load(count.min(self.top + height));
        let room = self.table_room();
        let columns = &self.body().columns;
        let column = self.column.min(columns.len().saturating_sub(1));
        let first = columns.follow(self.first_column, column, room);
        (self.column, self.first_column) = (column, first);
        self.settle_record();
    }

    fn load(&mut self, end: usize) {
        let made_from = Some((self.top, end, self.version));
        if self.seen == made_from {
            return;
        }
        self.seen = made_from;
        self.page.clear();
        for position in self.top..end {
            let number = self.number(position);
            match self.body_mut().row(number) {
                Ok(row) => self.page.push(row),
                Err(error) => {
                    self.page.push(Row { number, ..Row::default() });
                    self.trouble(&error);
                }
            }
        }
    }
}

/// A record spread over rows.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) rows: Vec<String>,
    pub(crate) top: usize,
    /// Whether it is so long that only its beginning is there.
    pub(crate) cut: bool,
    /// What the rows were made from: the number of the record, the width, and which records.
    made_from: Option<(usize, usize, u64)>,
}

impl Screen {
    pub(super) fn open_record(&mut self) {
        if self.count() > 0 {
            self.mode = Mode::Record(Record::default());
        }
    }

    pub(super) fn record_key(&mut self, key: Key) -> Option<Effect> {
        let page = self.record_height().max(1);
        let last = self.count().saturating_sub(1);
        let Mode::Record(record) = &mut self.mode else { return None };
        let top = record.top;
        record.top = match key {
            Key::Up | Key::Char('k') => top.saturating_sub(1),
            // The end is seen to when all is settled.
            Key::Down | Key::Char('j') => top + 1,
            Key::PageUp | Key::Char('b') | Key::Ctrl('b') => top.saturating_sub(page),
            Key::PageDown | Key::Char(' ') | Key::Ctrl('f') => top + page,
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => record.rows.len(),
            _ => top,
        };
        match key {
            Key::Char('q') => return Some(Effect::Quit),
            Key::Char('?') => self.help = true,
            Key::Esc | Key::Enter | Key::Backspace => self.mode = Mode::Table,
            Key::Right | Key::Char('l' | 'n') => self.cursor = (self.cursor + 1).min(last),
            Key::Left | Key::Char('h' | 'p') => self.cursor = self.cursor.saturating_sub(1),
            _ => {}
        }
        None
    }

    /// How many rows of a record are seen.
    pub(crate) fn record_height(&self) -> usize {
        let bars = self.bars();
        let others = u16::from(bars.title) + u16::from(bars.status);
        usize::from(self.size.1.saturating_sub(others))
    }

    /// Spreads the record under the cursor, where it or the width is another.
    pub(super) fn settle_record(&mut self) {
        let (number, width, height) =
            (self.number(self.cursor), self.width(), self.record_height());
        let Mode::Record(record) = &mut self.mode else { return };
        let made_from = Some((number, width, self.records));
        if record.made_from != made_from {
            let same = record.made_from.is_some_and(|(n, _, r)| (n, r) == (number, self.records));
            let top = if same { record.top } else { 0 };
            let line = self.body().line(number, MAX_LINE_LEN).unwrap_or_else(|error| {
                self.trouble(&error);
                crate::lines::Line::default()
            });
            let text = String::from_utf8_lossy(&line.bytes);
            let rows = match self.body().content {
                Content::Records => pretty::rows(&text, width),
                Content::Text => pretty::wrapped(&text, width),
            };
            self.mode = Mode::Record(Record { rows, top, cut: line.cut, made_from });
        }
        if let Mode::Record(record) = &mut self.mode {
            record.top = record.top.min(record.rows.len().saturating_sub(height));
        }
    }
}
