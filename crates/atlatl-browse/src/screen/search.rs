//! Search: the next line with what was typed, looked for a piece at a time.

use super::{Job, Screen};
use crate::pattern::Pattern;

/// What is looked at between two looks at the keyboard.
const PIECE_LINES: usize = 4096;
const PIECE_BYTES: usize = 2 << 20;

/// A search that goes on.
pub(super) struct Searching {
    pattern: Pattern,
    forward: bool,
    /// The next position to look at.
    at: usize,
    /// How many positions are left, and how many there were.
    left: usize,
    pub(super) all: usize,
    wrapped: bool,
}

impl Searching {
    pub(super) fn done(&self) -> usize {
        self.all - self.left
    }

    /// Goes on behind `done` positions.
    fn advance(&mut self, done: usize) {
        self.left -= done;
        for _ in 0..done {
            self.at = match (self.forward, self.at) {
                (true, at) if at + 1 < self.all => at + 1,
                (false, at) if at > 0 => at - 1,
                (forward, _) => {
                    self.wrapped = true;
                    if forward { 0 } else { self.all - 1 }
                }
            };
        }
    }
}

impl Screen {
    /// Looks for what was typed, from the line under the cursor on.
    pub(super) fn search(&mut self, typed: &str) {
        match Pattern::new(typed) {
            Some(pattern) => {
                self.pattern = Some(pattern);
                self.search_from(true, 0);
            }
            None => self.message = Some("that is too long to search for".to_owned()),
        }
    }

    pub(super) fn search_again(&mut self, forward: bool) {
        if self.pattern.is_some() {
            self.search_from(forward, 1);
        } else {
            self.message = Some("nothing was searched for yet: / begins".to_owned());
        }
    }

    fn search_from(&mut self, forward: bool, skip: usize) {
        let (Some(pattern), all) = (self.pattern.clone(), self.count()) else { return };
        if all == 0 {
            let begun = !self.stored.lines.is_finished();
            let why = if begun { "it is not indexed yet" } else { "there is nothing to search" };
            self.message = Some(why.to_owned());
            return;
        }
        let at = self.cursor;
        let mut search = Searching { pattern, forward, at, left: all, all, wrapped: false };
        if skip > 0 {
            // The line under the cursor comes last.
            search.advance(skip);
            search.left = all;
        }
        self.job = Some(Job::Search(search));
    }

    pub(super) fn search_on(&mut self, mut search: Searching) {
        if search.all != self.count() {
            // Begun while the lines were still being counted.
            search.left += self.count().saturating_sub(search.all);
            search.all = self.count();
        }
        let until_turn = if search.forward { search.all - search.at } else { search.at + 1 };
        let piece = search.left.min(until_turn).min(PIECE_LINES);
        let position = |place: usize| {
            if search.forward { search.at + place } else { search.at - place }
        };
        let numbers: Vec<usize> = (0..piece).map(|place| self.number(position(place))).collect();
        let (mut found, mut done, mut bytes) = (None, 0, 0);
        let body = self.body();
        let looked = body.each(&numbers, |place, line| {
            done = place + 1;
            bytes += line.len();
            if search.pattern.is_in(line, body.content) {
                found = Some(position(place));
            }
            found.is_none() && bytes < PIECE_BYTES
        });
        if let Err(error) = looked {
            return self.trouble(&error);
        }
        if let Some(position) = found {
            self.cursor = position;
            if search.wrapped {
                let end = if search.forward { "top" } else { "end" };
                self.message = Some(format!("the search went on from the {end}"));
            }
            return;
        }
        search.advance(done);
        if search.left == 0 {
            let typed = crate::text::harmless(&search.pattern.typed).into_owned();
            self.message = Some(format!("nothing matches {typed}"));
        } else {
            self.job = Some(Job::Search(search));
        }
    }
}
