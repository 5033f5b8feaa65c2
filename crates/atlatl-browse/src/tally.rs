//! How often each value occurs.

use std::collections::HashMap;

use crate::cell::{Cell, Kind};
use crate::lines::RowContent;
use crate::text::{CUT, harmless};

/// The memory limit of different values.
const MAX_VALUE_BYTES: usize = 32 << 20;
/// The longest beginning of a value that is counted as the value.
const MAX_PREFIX_BYTES: usize = 256;
/// The overhead of an entry.
const ENTRY_BYTES: usize = 64;

/// Counts values.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: HashMap<Box<[u8]>, u64>,
    bytes: usize,
    missing: u64,
    is_partial: bool,
}

/// How often a value occurs. The value is as it is written, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueCount {
    pub(crate) value: Box<[u8]>,
    pub(crate) count: u64,
}

/// The result of a tally.
#[derive(Debug, Default)]
pub(crate) struct TallySummary {
    /// The most frequent first.
    pub(crate) values: Vec<ValueCount>,
    /// The number of different values; a lower bound if `is_partial`.
    pub(crate) distinct: u64,
    /// The number of values that are absent, empty or `null`.
    pub(crate) missing: u64,
    /// Whether there are more different values than fit into memory.
    pub(crate) is_partial: bool,
}

impl ValueCount {
    /// Whether `value` is the beginning only.
    pub(crate) fn is_cut(&self) -> bool {
        self.value.len() > MAX_PREFIX_BYTES
    }

    /// The value for display. One that is cut ends with its last whole character and a mark, so that
    /// it is found by its text without the mark.
    pub(crate) fn cell(&self, content: RowContent) -> Cell {
        let head = if self.is_cut() { whole_characters(&self.value) } else { &*self.value };
        let mut cell = match content {
            RowContent::Text => {
                let text = harmless(&String::from_utf8_lossy(head)).into_owned();
                Cell { kind: Kind::Text, text }
            }
            RowContent::Records if self.is_cut() && head.starts_with(b"\"") => {
                // Its closing quote is beyond the beginning.
                Cell::from_json(&[whole_escapes(head), &b"\""[..]].concat())
            }
            RowContent::Records => Cell::from_json(head),
        };
        if self.is_cut() {
            cell.text.push_str(CUT);
        }
        cell
    }
}

/// The beginning of a value, without the bytes of a character that is not whole.
fn whole_characters(value: &[u8]) -> &[u8] {
    let head = &value[..value.len().min(MAX_PREFIX_BYTES)];
    match str::from_utf8(head) {
        Err(error) if error.error_len().is_none() => &head[..error.valid_up_to()],
        _ => head,
    }
}

/// The beginning of a JSON string, without an escape at its end that is not whole.
fn whole_escapes(mut head: &[u8]) -> &[u8] {
    let (mut at, mut last) = (0, 0);
    while let Some(next) = memchr::memchr(b'\\', &head[at..]) {
        let begin = at + next;
        at = begin + if head.get(begin + 1) == Some(&b'u') { 6 } else { 2 };
        if at > head.len() {
            head = &head[..begin];
            break;
        }
        last = begin;
    }
    // The first half of a character of two escapes.
    match &head[last..] {
        [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', _, _] => &head[..last],
        _ => head,
    }
}

impl Tally {
    /// Counts a value.
    pub(crate) fn add(&mut self, value: Option<&[u8]>) {
        let Some(value) = value.filter(|value| !matches!(*value, b"null" | b"")) else {
            self.missing += 1;
            return;
        };
        // One byte more than is shown, which tells a value that is cut from one of just this length.
        let value = &value[..value.len().min(MAX_PREFIX_BYTES + 1)];
        if let Some(count) = self.counts.get_mut(value) {
            *count += 1;
        } else if self.bytes < MAX_VALUE_BYTES {
            self.bytes += value.len() + ENTRY_BYTES;
            self.counts.insert(value.into(), 1);
        } else {
            self.is_partial = true;
        }
    }

    /// The `most` frequent values.
    pub(crate) fn finish(self, most: usize) -> TallySummary {
        let distinct = self.counts.len() as u64;
        let mut values: Vec<ValueCount> =
            self.counts.into_iter().map(|(value, count)| ValueCount { value, count }).collect();
        values
            .sort_by(|one, two| two.count.cmp(&one.count).then_with(|| one.value.cmp(&two.value)));
        values.truncate(most);
        TallySummary { values, distinct, missing: self.missing, is_partial: self.is_partial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_values_are_first_and_long_ones_are_counted_by_their_beginning() {
        let mut tally = Tally::default();
        let long = "x".repeat(MAX_PREFIX_BYTES + 1);
        for value in ["2", "1", "\"a\"", "1", "null", "", &long] {
            tally.add(Some(value.as_bytes()));
        }
        tally.add(None);
        let summary = tally.finish(3);
        let values: Vec<_> =
            summary.values.iter().map(|value| (value.value.len(), value.count)).collect();
        assert_eq!(values, [(1, 2), (3, 1), (1, 1)]);
        assert_eq!((summary.distinct, summary.missing, summary.is_partial), (4, 3, false));
        assert!(!summary.values[0].is_cut());
        let mut tally = Tally::default();
        tally.add(Some(long.as_bytes()));
        assert!(tally.finish(1).values[0].is_cut());
    }

    #[test]
    fn a_value_that_is_cut_ends_with_a_whole_character_and_a_mark() {
        let shown = |value: &str, content| {
            let mut tally = Tally::default();
            tally.add(Some(value.as_bytes()));
            tally.finish(1).values[0].cell(content).text
        };
        let x = |count| "x".repeat(count);
        let records = |value: &str| shown(value, RowContent::Records);
        // The quotes are part of the value.
        assert_eq!(records(&format!("\"{}\"", x(254))), x(254));
        assert_eq!(records(&format!("\"{}\"", x(255))), x(255) + "…");
        assert_eq!(records(&format!("\"{}é{}\"", x(254), x(9))), x(254) + "…");
        assert_eq!(records(&format!("\"{}\\n{}\"", x(254), x(9))), x(254) + "…");
        assert_eq!(records(&format!("\"{}\\\"{}\"", x(253), x(9))), x(253) + "\"…");
        assert_eq!(records(&format!("\"{}\\u00e9{}\"", x(250), x(9))), x(250) + "…");
        assert_eq!(records(&format!("\"{}\\ud83e\\udd80{}\"", x(245), x(9))), x(245) + "…");
        assert_eq!(records(&format!("\"{}\\ud83e\\udd80{}\"", x(243), x(9))), x(243) + "🦀…");
        assert_eq!(records(&format!("[{}]", "1,".repeat(200))), format!("[{}1…", "1,".repeat(127)));
        assert_eq!(shown(&(x(255) + "éx"), RowContent::Text), x(255) + "…");
        assert_eq!(shown(&x(256), RowContent::Text), x(256));
    }

    #[test]
    fn memory_is_bounded() {
        let mut tally = Tally::default();
        for number in 0..MAX_VALUE_BYTES / ENTRY_BYTES {
            tally.add(Some(number.to_string().as_bytes()));
        }
        tally.add(Some(b"1"));
        let summary = tally.finish(1);
        assert!(summary.is_partial);
        assert_eq!((&*summary.values[0].value, summary.values[0].count), (&b"1"[..], 2));
    }
}
