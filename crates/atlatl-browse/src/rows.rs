//! The rows of a source, with their columns.

use std::io;

use crate::columns::{Cells, Columns};
use crate::lines::{Line, Lines};
use crate::source::{Source, fill};

/// The most of a line that is ever held: of a longer one the beginning is shown, searched and
/// sorted by.
pub(crate) const MAX_LINE_LEN: usize = 4 << 20;
/// What is read of a line for the table.
const HEAD: usize = 64 << 10;
/// Records that decide how wide the columns are, and the most bytes that are read for that.
const SAMPLE: usize = 200;
const SAMPLE_BYTES: usize = 2 << 20;
/// What is read at once where lines are read one after the other.
const WINDOW: u64 = 256 << 10;

/// What the lines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "they are records or they are not")]
pub enum Content {
    /// A JSON value each.
    Records,
    /// Text.
    Text,
}

/// Lines and what is known of them.
pub(crate) struct Body {
    source: Box<dyn Source>,
    pub(crate) lines: Lines,
    pub(crate) columns: Columns,
    pub(crate) content: Content,
    sampled: bool,
}

/// A line of the table.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// From 0.
    pub(crate) number: usize,
    /// Of a record.
    pub(crate) cells: Cells,
    /// Of a text.
    pub(crate) text: String,
}

impl Body {
    pub(crate) fn new(source: Box<dyn Source>, begin: u64, content: Content) -> Self {
        let lines = Lines::new(&*source, begin);
        Self { source, lines, columns: Columns::default(), content, sampled: false }
    }

    /// Looks for further lines.
    pub(crate) fn index(&mut self) -> io::Result<()> {
        self.lines.more(&*self.source)?;
        if !self.sampled && self.content == Content::Records && self.lines.count() > 0 {
            self.sampled = true;
            let mut bytes = 0;
            for number in 0..self.lines.count().min(SAMPLE) {
                let line = self.lines.line(&*self.source, number, HEAD)?;
                self.columns.cells(&line.bytes, line.cut);
                bytes += line.bytes.len();
                if bytes > SAMPLE_BYTES {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn line(&self, number: usize, most: usize) -> io::Result<Line> {
        self.lines.line(&*self.source, number, most)
    }

    pub(crate) fn row(&mut self, number: usize) -> io::Result<Row> {
        let Line { bytes, cut } = self.line(number, HEAD)?;
        Ok(match self.content {
            Content::Records => {
                let cells = self.columns.cells(&bytes, cut);
                Row { number, cells, text: String::new() }
            }
            Content::Text => {
                let mut text = String::from_utf8_lossy(&bytes).replace('\t', "    ");
                if cut {
                    text.push_str(crate::text::CUT);
                }
                Row { number, cells: Vec::new(), text: crate::text::harmless(&text).into_owned() }
            }
        })
    }

    /// Calls `each` with the lines of these numbers and their place among them, until it says that
    /// it has enough.
    pub(crate) fn each(
        &self,
        numbers: &[usize],
        mut each: impl FnMut(usize, &[u8]) -> bool,
    ) -> io::Result<()> {
        let (mut at, mut window) = (0_u64, Vec::new());
        for (place, &number) in numbers.iter().enumerate() {
            let mut span = self.lines.span(number);
            span.end = span.end.min(span.start + MAX_LINE_LEN as u64);
            if span.start < at || span.end > at + window.len() as u64 {
                let next = numbers.get(place + 1).copied();
                let length = (span.end - span.start).max(WINDOW);
                let (from, length) = if next == Some(number + 1) {
                    (span.start, length)
                } else if next.is_some() && next == number.checked_sub(1) {
                    let from = span.end.saturating_sub(length);
                    (from, span.end - from)
                } else {
                    (span.start, span.end - span.start)
                };
                // Lossless: a window is smaller than the longest line.
                window.resize(usize::try_from(length).unwrap_or(MAX_LINE_LEN), 0);
                let read = fill(&*self.source, from, &mut window)?;
                window.truncate(read);
                at = from;
            }
            let cut = |to: u64| {
                usize::try_from(to.saturating_sub(at)).unwrap_or(usize::MAX).min(window.len())
            };
            let line = &window[cut(span.start)..cut(span.end)];
            if !each(place, line.strip_suffix(b"\r").unwrap_or(line)) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_come_in_whatever_order_they_are_wanted(
            wanted in proptest::collection::vec(0_usize..9, 0..20),
        ) {
            let source = b"0\n11\n222\n\n4\n5\n6\n7\n8".to_vec();
            let texts = ["0", "11", "222", "", "4", "5", "6", "7", "8"];
            let mut body = Body::new(Box::new(source), 0, Content::Text);
            body.index().unwrap();
            let mut seen = Vec::new();
            body.each(&wanted, |_, line| {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
                true
            }).unwrap();
            let expected: Vec<_> = wanted.iter().map(|&number| texts[number]).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
