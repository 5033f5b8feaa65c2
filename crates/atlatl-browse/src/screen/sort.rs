//! Sort: the records in the order of one column, read a piece at a time.

use super::{Job, Screen};
use crate::cell::Key;
use crate::fields::fields;
use crate::rows::Content;

/// What is read between two looks at the keyboard.
const PIECE_LINES: usize = 8192;
const PIECE_BYTES: usize = 4 << 20;
/// What the keys may take in memory.
const MOST_BYTES: usize = 256 << 20;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

/// An order of records.
pub(crate) struct Sorted {
    pub(crate) column: usize,
    pub(crate) direction: Direction,
    pub(crate) order: Vec<u32>,
    /// How many at the end have no value.
    missing: usize,
}

/// A sort that goes on.
pub(super) struct Sorting {
    column: usize,
    /// Nothing for the column of records that are no objects.
    name: Option<Box<[u8]>>,
    keys: Vec<(Key, u32)>,
    bytes: usize,
}

impl Sorting {
    pub(super) fn done(&self) -> usize {
        self.keys.len()
    }
}

impl Screen {
    /// Up, then down, then as it was.
    pub(super) fn sort(&mut self) {
        let column = self.column;
        if self.body().content == Content::Text {
            self.message = Some("sorting needs records, and this result has none".to_owned());
            return;
        }
        match &mut self.sorted {
            Some(sorted) if sorted.column == column && sorted.direction == Direction::Up => {
                let present = sorted.order.len() - sorted.missing;
                sorted.order[..present].reverse();
                sorted.direction = Direction::Down;
                self.begin_again();
            }
            Some(sorted) if sorted.column == column => {
                self.sorted = None;
                self.begin_again();
            }
            _ => {
                let columns = &self.body().columns;
                let Some(field) = columns.get(column) else { return };
                let name = (!columns.is_plain(column)).then(|| field.name.clone());
                let sorting = Sorting { column, name, keys: Vec::new(), bytes: 0 };
                self.job = Some(Job::Sort(sorting));
            }
        }
    }

    fn begin_again(&mut self) {
        // A search goes by positions, which are others now.
        self.job = None;
        (self.cursor, self.top) = (0, 0);
        self.version += 1;
    }

    pub(super) fn sort_on(&mut self, mut sort: Sorting) {
        let (from, all) = (sort.keys.len(), self.count());
        let to = all.min(from + PIECE_LINES);
        let numbers: Vec<usize> = (from..to).map(|position| self.stored_number(position)).collect();
        let mut bytes = 0;
        let read = self.body().each(&numbers, |place, line| {
            bytes += line.len();
            let key = key(line, sort.name.as_deref());
            sort.bytes += size_of::<(Key, u32)>() + key.heap();
            sort.keys.push((key, u32::try_from(numbers[place]).unwrap_or(u32::MAX)));
            bytes < PIECE_BYTES
        });
        if let Err(error) = read {
            return self.trouble(&error);
        }
        if sort.bytes > MOST_BYTES || u32::try_from(all).is_err() {
            let advice =
                "too many records to sort: type :select \u{2026} order by \u{2026} limit 1000";
            self.message = Some(advice.to_owned());
            return;
        }
        // Pieces in order make the last step a merge.
        sort.keys[from..].sort_by(|one, two| one.0.compare(&two.0, false));
        if sort.keys.len() < all {
            self.job = Some(Job::Sort(sort));
            return;
        }
        sort.keys.sort_by(|one, two| one.0.compare(&two.0, false));
        let missing = sort.keys.iter().rev().take_while(|(key, _)| *key == Key::Missing).count();
        let order = sort.keys.into_iter().map(|(_, number)| number).collect();
        self.sorted =
            Some(Sorted { column: sort.column, direction: Direction::Up, order, missing });
        self.begin_again();
    }
}

/// The key of a record in a column.
fn key(line: &[u8], name: Option<&[u8]>) -> Key {
    let mut found = None;
    let object = fields(line, |field, value| {
        if Some(field) == name {
            found = Some(value);
        }
        found.is_none()
    });
    if !object && name.is_none() {
        found = Some(line.trim_ascii());
    }
    Key::of_json(found)
}
