//! Counts all values and passes on those of one page.

use std::ops::{ControlFlow, Range};

use super::Sink;
use crate::page::{Page, Rest, Total};

pub(super) struct Outlet<'a, 'k> {
    page: Page,
    sink: &'a mut Sink<'k>,
    seen: u64,
    given: u64,
    rest: Option<Rest>,
}

impl<'a, 'k> Outlet<'a, 'k> {
    pub(super) fn new(page: Page, sink: &'a mut Sink<'k>) -> Self {
        Self { page, sink, seen: 0, given: 0, rest: None }
    }

    /// Whether answers are only counted from now on.
    pub(super) fn only_counts(&self) -> bool {
        self.rest.is_some() || self.page.is_past(self.seen)
    }

    /// Which of the next `count` answers are wanted.
    pub(super) fn wanted(&self, count: usize) -> Range<usize> {
        let within = |number: u64| {
            usize::try_from(number.saturating_sub(self.seen)).unwrap_or(usize::MAX).min(count)
        };
        match self.rest {
            Some(_) => count..count,
            None => {
                within(self.page.offset)..within(self.page.offset.saturating_add(self.page.limit))
            }
        }
    }

    /// Whether the answer that comes next is wanted.
    fn wants_next(&self) -> bool {
        self.rest.is_none() && self.page.holds(self.seen)
    }

    /// Hands an answer on if it is wanted; breaks when none shall even be counted.
    pub(super) fn give(&mut self, answer: &[u8]) -> ControlFlow<()> {
        let wanted = self.wants_next();
        self.seen += 1;
        if wanted {
            self.given += 1;
            if let ControlFlow::Break(rest) = (self.sink)(answer) {
                self.rest = Some(rest);
            }
        }
        if self.rest == Some(Rest::Leave) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Counts answers that nobody looks at.
    pub(super) fn count(&mut self, answers: u64) {
        self.seen += answers;
    }

    pub(super) fn given(&self) -> u64 {
        self.given
    }

    pub(super) fn total(&self) -> Total {
        match self.rest {
            Some(Rest::Leave) => Total::AtLeast(self.seen),
            _ => Total::Exactly(self.seen),
        }
    }
}
