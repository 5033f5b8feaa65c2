//! Record: one of them, whole.

use super::{Mode, Screen};
use crate::command::Effect;
use crate::key::Key;
use crate::pretty;
use crate::rows::{Content, MAX_LINE_LEN};

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
