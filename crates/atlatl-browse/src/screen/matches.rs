//! The number of matches of the search pattern, counted after the first one was found.

use super::Screen;
use super::jobs::{SEARCH_STEP_BYTES, SEARCH_STEP_LINES};

/// The most matches that are counted.
const MAX_MATCHES: usize = 1_000_000;

/// The positions of matches among the first `examined` rows.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    positions: Vec<u32>,
    examined: usize,
    /// Whether there are too many, or the result cannot be read.
    is_stopped: bool,
}

impl Matches {
    /// Describes the matches of `all` rows, with the number of the match at `cursor`.
    fn describe(&self, cursor: usize, all: usize) -> Option<String> {
        let total = crate::text::grouped(self.positions.len() as u64);
        let total = match (self.examined < all, self.is_stopped) {
            (true, true) => format!("more than {total}"),
            (true, false) => return None,
            (false, _) => total,
        };
        let at = u32::try_from(cursor).ok().and_then(|at| self.positions.binary_search(&at).ok());
        Some(match at {
            Some(index) => format!("match {} of {total}", crate::text::grouped(index as u64 + 1)),
            None if self.positions.len() == 1 => "1 match".to_owned(),
            None => format!("{total} matches"),
        })
    }
}

impl Screen {
    /// Forgets the matches: the pattern or the rows have changed.
    pub(super) fn reset_matches(&mut self) {
        self.matches = None;
    }

    /// Begins to count, unless the matches are known.
    pub(super) fn begin_matches(&mut self) {
        self.matches.get_or_insert_default();
    }

    /// Whether matches are being counted.
    pub(super) fn is_counting(&self) -> bool {
        let count = self.count();
        self.matches.as_ref().is_some_and(|found| !found.is_stopped && found.examined < count)
    }

    /// Counts the matches of some more rows.
    pub(super) fn continue_matches(&mut self) {
        let (Some(pattern), Some(mut matches)) = (self.pattern.clone(), self.matches.take()) else {
            return;
        };
        let from = matches.examined;
        let to = self.count().min(from + SEARCH_STEP_LINES);
        let numbers: Vec<usize> = (from..to).map(|position| self.number(position)).collect();
        let (row_set, mut bytes) = (self.row_set(), 0);
        let read = row_set.each(&numbers, |place, line| {
            matches.examined = from + place + 1;
            bytes += line.len();
            if pattern.matches_line(line, row_set.content) {
                matches.positions.push(u32::try_from(from + place).unwrap_or(u32::MAX));
            }
            matches.is_stopped = matches.positions.len() >= MAX_MATCHES;
            !matches.is_stopped && bytes < SEARCH_STEP_BYTES
        });
        if let Err(error) = read {
            matches.is_stopped = true;
            self.show_read_error(&error);
        }
        self.matches = Some(matches);
    }

    /// What the footer says about the matches.
    pub(crate) fn matches_summary(&self) -> Option<String> {
        self.matches.as_ref()?.describe(self.cursor, self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_described_by_their_number() {
        let found = |positions: &[u32], examined| Matches {
            positions: positions.to_vec(),
            examined,
            is_stopped: examined < 10,
        };
        let describe = |matches: Matches, cursor| matches.describe(cursor, 10);
        assert_eq!(describe(found(&[1, 4], 10), 4), Some("match 2 of 2".to_owned()));
        assert_eq!(describe(found(&[1, 4], 10), 5), Some("2 matches".to_owned()));
        assert_eq!(describe(found(&[1], 10), 5), Some("1 match".to_owned()));
        assert_eq!(describe(found(&[1, 4], 5), 1), Some("match 1 of more than 2".to_owned()));
        let running = Matches { positions: vec![1], examined: 5, is_stopped: false };
        assert_eq!(describe(running, 1), None);
    }
}
