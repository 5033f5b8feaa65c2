//! The prompt for search patterns and SQL filters.

use super::{Mode, Screen};
use crate::command::{KeyPress, RowKind, ScreenCommand, SqlRequest, SqlRows};
use crate::lines::RowContent;
use crate::rows::RowSet;
use crate::text::harmless;

/// The longest input.
const MAX_PROMPT_BYTES: usize = 8 * 1024;

/// The purpose of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Search,
    Filter,
    Export,
}

impl Purpose {
    /// The number of purposes.
    pub(crate) const COUNT: usize = 3;
}

/// A line of input.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) purpose: Purpose,
    pub(crate) text: String,
    /// The cursor position, in bytes.
    pub(crate) at: usize,
}

impl Screen {
    pub(super) fn prompt(&mut self, purpose: Purpose) {
        if purpose == Purpose::Filter && self.stored.content == RowContent::Text {
            self.message = Some("SQL needs records, and this result has none".to_owned());
            return;
        }
        let text = if purpose == Purpose::Export { self.export_name() } else { String::new() };
        self.mode = Mode::Prompt(Prompt { purpose, at: text.len(), text });
    }

    pub(super) fn prompt_key(&mut self, key: KeyPress) -> Option<ScreenCommand> {
        let Mode::Prompt(prompt) = &mut self.mode else { return None };
        match key {
            KeyPress::Esc => self.mode = Mode::Table,
            KeyPress::Backspace if prompt.text.is_empty() => self.mode = Mode::Table,
            KeyPress::Enter => {
                let (purpose, text) = (prompt.purpose, std::mem::take(&mut prompt.text));
                self.mode = Mode::Table;
                return self.submit(purpose, text);
            }
            KeyPress::Up => {
                prompt.text.clone_from(&self.history[prompt.purpose as usize]);
                prompt.at = prompt.text.len();
            }
            key => prompt.edit(key),
        }
        None
    }

    fn submit(&mut self, purpose: Purpose, text: String) -> Option<ScreenCommand> {
        if text.trim().is_empty() {
            return None;
        }
        self.history[purpose as usize].clone_from(&text);
        match purpose {
            Purpose::Search => {
                self.search(&text);
                None
            }
            Purpose::Filter => Some(self.ask(text)),
            Purpose::Export => {
                self.message = self.export_refusal();
                self.message.is_none().then_some(ScreenCommand::Export(text))
            }
        }
    }
}

impl Prompt {
    fn edit(&mut self, key: KeyPress) {
        let before = self.text[..self.at].chars().next_back().map_or(0, char::len_utf8);
        let behind = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        match key {
            KeyPress::Char(c) if !c.is_control() && self.text.len() < MAX_PROMPT_BYTES => {
                self.text.insert(self.at, c);
                self.at += c.len_utf8();
            }
            KeyPress::Backspace => {
                self.text.drain(self.at - before..self.at);
                self.at -= before;
            }
            KeyPress::Delete => {
                self.text.drain(self.at..self.at + behind);
            }
            KeyPress::Left => self.at -= before,
            KeyPress::Right => self.at += behind,
            KeyPress::Home | KeyPress::Ctrl('a') => self.at = 0,
            KeyPress::End | KeyPress::Ctrl('e') => self.at = self.text.len(),
            KeyPress::Ctrl('u') => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            KeyPress::Ctrl('w') => {
                let head = self.text[..self.at].trim_end();
                let from = head.rfind(' ').map_or(0, |space| space + 1);
                self.text.drain(from..self.at);
                self.at = from;
            }
            _ => {}
        }
    }
}

/// What is shown instead of all records.
pub(crate) enum Filter {
    /// Records that match a condition.
    Records { query: String, numbers: Vec<u32>, more: Option<String> },
    /// Rows of a statement.
    Query { query: String, row_set: Box<RowSet>, more: Option<String> },
}

impl Filter {
    pub(crate) fn query(&self) -> &str {
        let (Self::Records { query, .. } | Self::Query { query, .. }) = self;
        query
    }

    /// The total number, if not all are included.
    pub(crate) fn more(&self) -> Option<&str> {
        let (Self::Records { more, .. } | Self::Query { more, .. }) = self;
        more.as_deref()
    }
}

impl Screen {
    pub(super) fn ask(&mut self, query: String) -> ScreenCommand {
        let ask = SqlRequest::parse(&query);
        self.pending_query = Some((query, ask.clone()));
        ScreenCommand::Ask(ask)
    }

    /// Whether a statement is running.
    pub fn is_asking(&self) -> bool {
        self.pending_query.is_some()
    }

    /// Shows the result of the running statement, or its error. Ignored if it was cancelled.
    pub fn answered(&mut self, answer: Result<SqlRows, String>) {
        let Some((query, ask)) = self.pending_query.take() else { return };
        match answer {
            Ok(answer) => {
                self.filter = Some(match ask.rows {
                    RowKind::Numbers => {
                        // The result may arrive before indexing has finished: all lines are needed
                        // now.
                        while !self.stored.lines.is_finished() && self.stored.index().is_ok() {}
                        let known = self.stored.lines.count();
                        let mut numbers = answer.numbers();
                        numbers.retain(|number| (*number as usize) < known);
                        Filter::Records { query, numbers, more: answer.more }
                    }
                    RowKind::Any => {
                        let mut row_set =
                            RowSet::new(Box::new(answer.lines), 0, RowContent::Records);
                        // Reading from memory does not fail.
                        while !row_set.lines.is_finished() && row_set.index().is_ok() {}
                        Filter::Query { query, row_set: Box::new(row_set), more: answer.more }
                    }
                });
                self.restart();
            }
            Err(why) => self.message = Some(harmless(why.trim()).into_owned()),
        }
        self.settle();
    }
}
