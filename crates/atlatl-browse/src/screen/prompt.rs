//! The prompt for search patterns and SQL filters.

use super::{Mode, Screen};
use crate::command::{Answer, Ask, Effect, Key, Rows};
use crate::rows::{Body, Content};
use crate::text::harmless;

/// More than a statement may have.
const MAX_PROMPT_BYTES: usize = 8 * 1024;

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
            Key::Char(c) if !c.is_control() && self.text.len() < MAX_PROMPT_BYTES => {
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

/// What is seen instead of all records.
pub(crate) enum Filter {
    /// Records that a condition holds for.
    Records { typed: String, numbers: Vec<u32>, more: Option<String> },
    /// Rows that a statement made.
    Answer { typed: String, body: Box<Body>, more: Option<String> },
}

impl Filter {
    pub(crate) fn typed(&self) -> &str {
        let (Self::Records { typed, .. } | Self::Answer { typed, .. }) = self;
        typed
    }

    /// How many there are in all, where more were found than can be seen.
    pub(crate) fn more(&self) -> Option<&str> {
        let (Self::Records { more, .. } | Self::Answer { more, .. }) = self;
        more.as_deref()
    }
}

impl Screen {
    pub(super) fn ask(&mut self, typed: String) -> Effect {
        let ask = Ask::parse(&typed);
        self.asking = Some((typed, ask.clone()));
        Effect::Ask(ask)
    }

    /// Whether an answer is being waited for.
    pub fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Takes the answer to what was asked, or why there is none. One that nobody waits for any more
    /// is passed over.
    pub fn answered(&mut self, answer: Result<Answer, String>) {
        let Some((typed, ask)) = self.asking.take() else { return };
        match answer {
            Ok(answer) => {
                self.filter = Some(match ask.rows {
                    Rows::Numbers => {
                        // A quick answer to a large result: all of its lines are needed now.
                        while !self.stored.lines.is_finished() && self.stored.index().is_ok() {}
                        let known = self.stored.lines.count();
                        let mut numbers = answer.numbers();
                        numbers.retain(|number| (*number as usize) < known);
                        Filter::Records { typed, numbers, more: answer.more }
                    }
                    Rows::Any => {
                        let mut body = Body::new(Box::new(answer.lines), 0, Content::Records);
                        // It lies in memory, where reading does not fail.
                        while !body.lines.is_finished() && body.index().is_ok() {}
                        Filter::Answer { typed, body: Box::new(body), more: answer.more }
                    }
                });
                self.restart();
            }
            Err(why) => self.message = Some(harmless(why.trim()).into_owned()),
        }
        self.settle();
    }
}
