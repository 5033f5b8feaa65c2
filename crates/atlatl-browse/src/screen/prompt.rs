//! Prompt: a line that a person types.

use super::{Mode, Screen};
use crate::command::Effect;
use crate::key::Key;
use crate::rows::Content;

/// More than a statement may have.
const MOST_BYTES: usize = 8 * 1024;

/// What is typed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Search,
    Filter,
}

/// A line that is being typed.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) purpose: Purpose,
    pub(crate) text: String,
    /// Where the cursor is, in bytes.
    pub(crate) at: usize,
}

impl Screen {
    pub(super) fn prompt(&mut self, purpose: Purpose) {
        if purpose == Purpose::Filter && self.stored.content == Content::Text {
            self.message = Some("SQL needs records, and this result has none".to_owned());
            return;
        }
        self.mode = Mode::Prompt(Prompt { purpose, text: String::new(), at: 0 });
    }

    pub(super) fn prompt_key(&mut self, key: Key) -> Option<Effect> {
        let Mode::Prompt(prompt) = &mut self.mode else { return None };
        match key {
            Key::Esc => self.mode = Mode::Table,
            Key::Backspace if prompt.text.is_empty() => self.mode = Mode::Table,
            Key::Enter => {
                let (purpose, text) = (prompt.purpose, std::mem::take(&mut prompt.text));
                self.mode = Mode::Table;
                return self.typed(purpose, text);
            }
            Key::Up => {
                prompt.text.clone_from(&self.typed[prompt.purpose as usize]);
                prompt.at = prompt.text.len();
            }
            key => prompt.edit(key),
        }
        None
    }

    fn typed(&mut self, purpose: Purpose, text: String) -> Option<Effect> {
        if text.trim().is_empty() {
            return None;
        }
        self.typed[purpose as usize].clone_from(&text);
        match purpose {
            Purpose::Search => {
                self.search(&text);
                None
            }
            Purpose::Filter => Some(self.ask(text)),
        }
    }
}

impl Prompt {
    fn edit(&mut self, key: Key) {
        let before = self.text[..self.at].chars().next_back().map_or(0, char::len_utf8);
        let behind = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        match key {
            Key::Char(c) if !c.is_control() && self.text.len() < MOST_BYTES => {
                self.text.insert(self.at, c);
                self.at += c.len_utf8();
            }
            Key::Backspace => {
                self.text.drain(self.at - before..self.at);
                self.at -= before;
            }
            Key::Delete => {
                self.text.drain(self.at..self.at + behind);
            }
            Key::Left => self.at -= before,
            Key::Right => self.at += behind,
            Key::Home | Key::Ctrl('a') => self.at = 0,
            Key::End | Key::Ctrl('e') => self.at = self.text.len(),
            Key::Ctrl('u') => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            Key::Ctrl('w') => {
                let head = self.text[..self.at].trim_end();
                let from = head.rfind(' ').map_or(0, |space| space + 1);
                self.text.drain(from..self.at);
                self.at = from;
            }
            _ => {}
        }
    }
}
