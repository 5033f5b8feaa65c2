//! Filter: some of the records, or the rows of a statement.

use super::Screen;
use crate::command::{Answer, Ask, Effect, Rows};
use crate::rows::{Body, Content};
use crate::text::harmless;

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
