//! Envelope: what stands around the record array, and where in it the records belong.

use serde::{Deserialize, Serialize};

use super::detect::BYTE_ORDER_MARK;
use super::{RecordForm, RecordSet};
use lro_json::{Events, Scanner};

/// A payload without its records: valid JSON with an empty array at `at`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The payload's JSON, white space between lexemes left out, the records taken out. Raw bytes
    /// and not a value, so that every lexeme stays as it came.
    pub json: String,
    /// The byte offset in `json`, behind the opening bracket, at which the records belong.
    pub at: usize,
}

impl Envelope {
    /// Takes the records out of `payload`. `None` where there is nothing around them.
    pub fn parse(payload: &[u8], records: &RecordSet) -> Option<Self> {
        let RecordForm::Array { span, .. } = &records.form else { return None };
        let (start, end) = (usize::try_from(span.start).ok()?, usize::try_from(span.end).ok()?);
        let around = [payload.get(..start)?, payload.get(end..)?].concat();
        let unmarked = around.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&around);
        let lead = around.len() - unmarked.len();
        let mut compact =
            Compact { text: &around, kept: Vec::new(), from: lead, cut: start, at: 0 };
        let mut scanner = Scanner::new(lead as u64);
        scanner.feed(&around[lead..], &mut compact).ok()?;
        scanner.finish(&mut compact).ok()?;
        compact.copy_to(around.len());
        Some(Self { at: compact.at, json: String::from_utf8(compact.kept).ok()? })
    }

    /// Puts the payload's JSON together again from the record lines.
    pub fn reassemble<'a>(&self, lines: impl IntoIterator<Item = &'a str>) -> String {
        let mut json = self.json[..self.at].to_owned();
        for (i, line) in lines.into_iter().enumerate() {
            if i > 0 {
                json.push(',');
            }
            json.push_str(line);
        }
        json.push_str(&self.json[self.at..]);
        json
    }
}

/// Leaves white space out and finds where the cut has moved to.
struct Compact<'a> {
    text: &'a [u8],
    kept: Vec<u8>,
    from: usize,
    cut: usize,
    at: usize,
}

impl Compact<'_> {
    fn copy_to(&mut self, to: usize) {
        if self.from < self.cut && self.cut <= to {
            self.at = self.kept.len() + self.cut - self.from;
        }
        self.kept.extend_from_slice(&self.text[self.from..to]);
        self.from = to;
    }
}

impl Events for Compact<'_> {
    fn space(&mut self, start: u64, end: u64) {
        // The text lies in memory, so its offsets fit.
        let index = |offset| usize::try_from(offset).unwrap_or(usize::MAX);
        self.copy_to(index(start));
        self.from = index(end);
    }
}
