//! Search and sort, in steps short enough to keep the screen responsive.

use super::{Job, Screen};
use crate::cell::Key;
use crate::fields::value_of;
use crate::lines::{Pattern, RowContent};

/// The most lines and bytes searched per step.
pub(super) const SEARCH_STEP_LINES: usize = 4096;
pub(super) const SEARCH_STEP_BYTES: usize = 2 << 20;
/// The most lines and bytes read per sort step.
const SORT_STEP_LINES: usize = 8192;
const SORT_STEP_BYTES: usize = 4 << 20;
/// The memory limit of sort keys.
const MAX_SORT_KEY_BYTES: usize = 256 << 20;

/// A search in progress.
pub(super) struct SearchJob {
    pattern: Pattern,
    forward: bool,
    /// The next position to examine.
    at: usize,
    /// The number of positions left, and in total.
    left: usize,
    pub(super) all: usize,
    wrapped: bool,
}

impl SearchJob {
    pub(super) fn done(&self) -> usize {
        self.all - self.left
    }

    /// Advances by `done` positions.
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
    /// Starts a search at the cursor.
    pub(super) fn search(&mut self, typed: &str) {
        match Pattern::new(typed) {
            Some(pattern) => {
                self.pattern = Some(pattern);
                self.reset_matches();
                self.search_from(true, 0);
            }
            None => self.message = Some("the search text is too long".to_owned()),
        }
    }

    pub(super) fn search_again(&mut self, forward: bool) {
        if self.pattern.is_some() {
            self.search_from(forward, 1);
        } else {
            self.message = Some("no search yet: press /".to_owned());
        }
    }

    fn search_from(&mut self, forward: bool, skip: usize) {
        let (Some(pattern), all) = (self.pattern.clone(), self.count()) else { return };
        if all == 0 {
            let begun = !self.stored.lines.is_finished();
            let why =
                if begun { "the result is not indexed yet" } else { "there is nothing to search" };
            self.message = Some(why.to_owned());
            return;
        }
        let at = self.cursor;
        let mut search = SearchJob { pattern, forward, at, left: all, all, wrapped: false };
        if skip > 0 {
            // The line under the cursor is examined last.
            search.advance(skip);
            search.left = all;
        }
        self.job = Some(Job::Search(search));
    }

    pub(super) fn continue_search(&mut self, mut search: SearchJob) {
        if search.all != self.count() {
            // The search began while the lines were still being indexed.
            search.left += self.count().saturating_sub(search.all);
            search.all = self.count();
        }
        let until_turn = if search.forward { search.all - search.at } else { search.at + 1 };
        let piece = search.left.min(until_turn).min(SEARCH_STEP_LINES);
        let position = |place: usize| {
            if search.forward { search.at + place } else { search.at - place }
        };
        let numbers: Vec<usize> = (0..piece).map(|place| self.number(position(place))).collect();
        let (mut found, mut done, mut bytes) = (None, 0, 0);
        let row_set = self.row_set();
        let looked = row_set.each(&numbers, |place, line| {
            done = place + 1;
            bytes += line.len();
            if search.pattern.matches_line(line, row_set.content) {
                found = Some(position(place));
            }
            found.is_none() && bytes < SEARCH_STEP_BYTES
        });
        if let Err(error) = looked {
            return self.show_read_error(&error);
        }
        if let Some(position) = found {
            self.cursor = position;
            if search.wrapped {
                let end = if search.forward { "top" } else { "end" };
                self.message = Some(format!("the search continued from the {end}"));
            }
            self.begin_matches();
            return;
        }
        search.advance(done);
        if search.left == 0 {
            let typed = crate::text::harmless(&search.pattern.text).into_owned();
            self.message = Some(format!("no match for {typed}"));
        } else {
            self.job = Some(Job::Search(search));
        }
    }
}

/// The sort direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

/// A sort order of records.
pub(crate) struct SortOrder {
    pub(crate) column: usize,
    pub(crate) direction: Direction,
    pub(crate) order: Vec<u32>,
    /// The number of records without a value, at the end.
    missing: usize,
}

/// A sort in progress.
pub(super) struct SortJob {
    column: usize,
    /// `None` for the column of records that are not objects.
    name: Option<Box<[u8]>>,
    keys: Vec<(Key, u32)>,
    bytes: usize,
}

impl SortJob {
    pub(super) fn done(&self) -> usize {
        self.keys.len()
    }
}

impl Screen {
    /// Cycles through ascending, descending and stored order.
    pub(super) fn sort(&mut self) {
        let column = self.column;
        if self.row_set().content == RowContent::Text {
            self.message = Some("sorting needs records, and this result has none".to_owned());
            return;
        }
        match &mut self.sort_order {
            Some(sort_order)
                if sort_order.column == column && sort_order.direction == Direction::Up =>
            {
                let present = sort_order.order.len() - sort_order.missing;
                sort_order.order[..present].reverse();
                sort_order.direction = Direction::Down;
                self.reset_view();
            }
            Some(sort_order) if sort_order.column == column => {
                self.sort_order = None;
                self.reset_view();
            }
            _ => {
                let columns = &self.row_set().columns;
                let Some(field) = columns.get(column) else { return };
                let name = (!columns.is_plain(column)).then(|| field.name.clone());
                let sorting = SortJob { column, name, keys: Vec::new(), bytes: 0 };
                self.job = Some(Job::Sort(sorting));
            }
        }
    }

    fn reset_view(&mut self) {
        // A search depends on positions, which have changed.
        self.job = None;
        if self.matches.is_some() {
            self.reset_matches();
            self.begin_matches();
        }
        (self.cursor, self.top) = (0, 0);
        self.version += 1;
    }

    pub(super) fn continue_sort(&mut self, mut sort: SortJob) {
        let (from, all) = (sort.keys.len(), self.count());
        let to = all.min(from + SORT_STEP_LINES);
        let numbers: Vec<usize> = (from..to).map(|position| self.stored_number(position)).collect();
        let mut bytes = 0;
        let read = self.row_set().each(&numbers, |place, line| {
            bytes += line.len();
            let key = Key::from_json(value_of(line, sort.name.as_deref()));
            sort.bytes += size_of::<(Key, u32)>() + key.heap();
            sort.keys.push((key, u32::try_from(numbers[place]).unwrap_or(u32::MAX)));
            bytes < SORT_STEP_BYTES
        });
        if let Err(error) = read {
            return self.show_read_error(&error);
        }
        if sort.bytes > MAX_SORT_KEY_BYTES || u32::try_from(all).is_err() {
            let advice =
                "too many records to sort: type :select \u{2026} order by \u{2026} limit 1000";
            self.message = Some(advice.to_owned());
            return;
        }
        // Sorted steps make the final sort a merge.
        sort.keys[from..].sort_by(|one, two| one.0.compare(&two.0, false));
        if sort.keys.len() < all {
            self.job = Some(Job::Sort(sort));
            return;
        }
        sort.keys.sort_by(|one, two| one.0.compare(&two.0, false));
        let missing = sort.keys.iter().rev().take_while(|(key, _)| *key == Key::Missing).count();
        let order = sort.keys.into_iter().map(|(_, number)| number).collect();
        self.sort_order =
            Some(SortOrder { column: sort.column, direction: Direction::Up, order, missing });
        self.reset_view();
    }
}
