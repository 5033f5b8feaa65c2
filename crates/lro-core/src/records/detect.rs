//! The first pass: detects the format of a payload and its records, and validates UTF-8.

use std::ops::Range;

use lro_json::trim_start;

use super::json::{DetectedJson, JsonDetector, Progress};
use super::lines::FirstPassStats;
use super::table::TableSniffer;
use super::{BYTE_ORDER_MARK, Content, Detected, RecordSet, SiblingTable};
use crate::tokens::Measure;

/// The bytes processed at a time: small enough to stay in the cache for every scan.
const WINDOW_BYTES: usize = 16 * 1024;

/// The most text before JSON, and after it.
const MAX_TEXT_AROUND_JSON: u64 = 4096;
/// The beginning of a payload that is kept, to look for JSON in it. A table is recognized or refused
/// before its end.
const HEAD_BYTES: usize = 96 * 1024;
/// The number of brackets and braces at which JSON may begin.
const MAX_JSON_STARTS: usize = 16;

/// Detects the format and the records of a payload that arrives in chunks.
pub struct Detector {
    /// The beginning of the payload while it may be part of a byte order mark.
    pending: Vec<u8>,
    utf8: Utf8Check,
    nul: bool,
    measure: Measure,
    state: State,
    /// The beginning of a payload that is not JSON, while JSON may still begin in it.
    head: Option<Vec<u8>>,
    /// The measure of everything before the first significant byte.
    head_start: Measure,
    collect_stats: bool,
}

/// The format that the payload may still have.
enum State {
    /// Only a byte order mark and white space so far.
    AtStart {
        mark: u64,
    },
    Json(Box<JsonDetector>),
    /// JSON that ended at this offset, with text after it.
    EndedJson(Box<JsonDetector>, u64),
    Table(Box<TableSniffer>),
    /// A table that ended.
    Detected(RecordSet),
    Text,
}

impl Default for Detector {
    fn default() -> Self {
        Self::new()
    }
}

impl Detector {
    /// A detector without statistics.
    pub fn new() -> Self {
        Self {
            pending: Vec::new(),
            utf8: Utf8Check::default(),
            nul: false,
            measure: Measure::default(),
            state: State::AtStart { mark: 0 },
            head: None,
            head_start: Measure::default(),
            collect_stats: false,
        }
    }

    /// A detector that also collects statistics about the records of an array, for a payload that is
    /// likely to be stored.
    pub fn surveying() -> Self {
        Self { collect_stats: true, ..Self::new() }
    }

    /// Processes the next chunk.
    pub fn feed(&mut self, mut chunk: &[u8]) {
        if self.measure.bytes == 0 {
            // The first bytes are processed together: a mark must not be split.
            let missing = BYTE_ORDER_MARK.len() - self.pending.len();
            let (start, rest) = chunk.split_at(missing.min(chunk.len()));
            self.pending.extend_from_slice(start);
            if self.pending.is_empty() || may_be_mark(&self.pending) {
                return;
            }
            let pending = std::mem::take(&mut self.pending);
            self.feed_window(&pending);
            chunk = rest;
        }
        for window in chunk.chunks(WINDOW_BYTES) {
            self.feed_window(window);
        }
    }

    fn feed_window(&mut self, window: &[u8]) {
        self.utf8.feed(window);
        let (skipped, rest) = window.split_at(self.choose_format(window));
        let mut before = self.measure;
        before += Measure::from_bytes(skipped);
        // The head has a fixed size, so that the outcome does not depend on the chunks.
        let room = self.head.as_ref().map_or(0, |head| HEAD_BYTES - head.len());
        let (in_head, rest) = rest.split_at(room.min(rest.len()));
        if let Some(head) = &mut self.head {
            head.extend_from_slice(in_head);
            let is_full = head.len() == HEAD_BYTES;
            self.feed_format(in_head, before);
            before += Measure::from_bytes(in_head);
            if is_full {
                self.find_json();
                self.head = None;
            }
        }
        self.feed_format(rest, before);
        if self.utf8.is_broken() {
            self.state = State::Text;
            self.head = None;
        }
        // The JSON scanner rejects NUL; other formats must be checked.
        if !matches!(self.state, State::Json(_)) {
            self.nul |= window.contains(&0);
        }
        self.measure += Measure::from_bytes(window);
    }

    /// Processes the next bytes of the format chosen; `before` is the measure of everything before
    /// them.
    fn feed_format(&mut self, bytes: &[u8], before: Measure) {
        if bytes.is_empty() {
            return;
        }
        match &mut self.state {
            State::Json(json) => {
                let progress = json.feed(bytes, before);
                if progress != Progress::Open
                    && let State::Json(json) = std::mem::replace(&mut self.state, State::Text)
                    && let Progress::Ended(end) = progress
                {
                    self.state = State::EndedJson(json, end);
                }
            }
            State::Table(table) => {
                if !table.feed(bytes) {
                    self.state = State::Text;
                }
            }
            State::AtStart { .. } | State::EndedJson(..) | State::Detected(_) | State::Text => {}
        }
    }

    /// Looks for JSON in the beginning of a payload that is neither JSON nor a table: after a sentence
    /// or in a code fence.
    fn find_json(&mut self) {
        let Some(head) = self.head.take().filter(|_| matches!(self.state, State::Text)) else {
            return;
        };
        let start = self.head_start;
        let max_lead = usize::try_from(MAX_TEXT_AROUND_JSON).unwrap_or(usize::MAX);
        let starts = head.iter().take(max_lead).enumerate();
        let starts = starts.filter(|(_, byte)| matches!(byte, b'{' | b'[')).map(|(i, _)| i);
        for from in starts.take(MAX_JSON_STARTS) {
            let mut before = start;
            before += Measure::from_bytes(&head[..from]);
            let mut json = Box::new(JsonDetector::new(before, self.collect_stats));
            let mut progress = Progress::Open;
            for window in head[from..].chunks(WINDOW_BYTES) {
                progress = json.feed(window, before);
                before += Measure::from_bytes(window);
                if progress != Progress::Open {
                    break;
                }
            }
            let end = start.bytes + head.len() as u64;
            match progress {
                Progress::Open => {
                    self.state = State::Json(json);
                    return;
                }
                Progress::Ended(at) if is_worth(json.start(), at, end) => {
                    self.state = State::EndedJson(json, at);
                    return;
                }
                Progress::Ended(_) | Progress::Failed => {}
            }
        }
    }

    /// Chooses the format at the first significant byte. Returns the number of bytes before it in the
    /// window.
    fn choose_format(&mut self, window: &[u8]) -> usize {
        let State::AtStart { mark } = &mut self.state else { return 0 };
        let base = self.measure.bytes;
        let unmarked = match window.strip_prefix(BYTE_ORDER_MARK) {
            Some(unmarked) if base == 0 => {
                *mark = BYTE_ORDER_MARK.len() as u64;
                unmarked
            }
            _ => window,
        };
        let rest = trim_start(unmarked);
        let skipped = window.len() - rest.len();
        match rest.first() {
            None => {}
            Some(b'{' | b'[') => {
                let mut lead = self.measure;
                lead += Measure::from_bytes(&window[..skipped]);
                self.head_start = lead;
                self.state = State::Json(Box::new(JsonDetector::new(lead, self.collect_stats)));
            }
            Some(_) => {
                let mut lead = self.measure;
                lead += Measure::from_bytes(&window[..skipped]);
                self.head_start = lead;
                self.head = Some(Vec::new());
                self.state = if base + skipped as u64 == *mark {
                    State::Table(Box::new(TableSniffer::new(*mark)))
                } else {
                    State::Text
                };
            }
        }
        skipped
    }

    /// Ends the payload and returns its format.
    pub fn finish(self) -> Detected {
        self.finish_surveyed().0
    }

    /// Ends the payload and returns its format, with the statistics if they were collected.
    pub fn finish_surveyed(mut self) -> (Detected, Option<FirstPassStats>) {
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.feed_window(&pending);
        }
        if let State::Table(_) = &self.state {
            self.finish_table();
        }
        self.find_json();
        let measure = self.measure;
        let outcome = match self.state {
            _ if self.nul || !self.utf8.finish() => Outcome::from(Content::Binary),
            State::Json(json) => {
                let start = json.start();
                let outcome = json.finish(measure).map(Outcome::from);
                let mut outcome = outcome.unwrap_or_else(|| Content::Text.into());
                // A byte order mark and white space are no text.
                if start > self.head_start.bytes && outcome.content != Content::Text {
                    outcome.json_range = Some(start..measure.bytes);
                }
                outcome
            }
            State::EndedJson(json, end) if is_worth(json.start(), end, measure.bytes) => {
                let range = json.start()..end;
                let outcome = json.finish_ended(measure).map(Outcome::from);
                let mut outcome = outcome.unwrap_or_else(|| Content::Text.into());
                outcome.json_range = Some(range);
                outcome
            }
            State::Detected(records) => Content::Records(records).into(),
            State::AtStart { .. } | State::EndedJson(..) | State::Table(_) | State::Text => {
                Content::Text.into()
            }
        };
        let Outcome { content, tables, stats, json_range } = outcome;
        (Detected { content, measure, tables, json_range }, stats)
    }

    /// Ends a payload that may be a table.
    fn finish_table(&mut self) {
        let State::Table(table) = std::mem::replace(&mut self.state, State::Text) else { return };
        if let Some((form, count)) = table.finish() {
            self.state = State::Detected(RecordSet { form, count, measure: self.measure });
        }
    }
}

/// The outcome of the first pass.
struct Outcome {
    content: Content,
    tables: Vec<SiblingTable>,
    stats: Option<FirstPassStats>,
    json_range: Option<Range<u64>>,
}

impl From<Content> for Outcome {
    fn from(content: Content) -> Self {
        Self { content, tables: Vec::new(), stats: None, json_range: None }
    }
}

impl From<DetectedJson> for Outcome {
    fn from(json: DetectedJson) -> Self {
        let DetectedJson { content, tables, stats } = json;
        Self { content, tables, stats, json_range: None }
    }
}

/// Whether JSON from `start` to `end` is what a payload of `bytes` bytes is about: most of it, with
/// little text after it.
fn is_worth(start: u64, end: u64, bytes: u64) -> bool {
    bytes - end <= MAX_TEXT_AROUND_JSON && (end - start) * 2 >= bytes
}

/// Whether `start` is a proper prefix of a byte order mark.
fn may_be_mark(start: &[u8]) -> bool {
    !start.is_empty() && start.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(start)
}

/// Validates UTF-8 in chunks, which may split a character.
#[derive(Debug, Default)]
pub(super) struct Utf8Check {
    /// The first bytes of a split character.
    pending: [u8; 4],
    length: usize,
    broken: bool,
}

impl Utf8Check {
    pub(super) fn feed(&mut self, mut chunk: &[u8]) {
        while self.length > 0 && !self.broken {
            let Some((&byte, rest)) = chunk.split_first() else { return };
            self.pending[self.length] = byte;
            self.length += 1;
            chunk = rest;
            match std::str::from_utf8(&self.pending[..self.length]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_none() => {}
                Err(_) => self.broken = true,
            }
        }
        if self.broken {
            return;
        }
        let (whole, cut) = chunk.split_at(chunk.len() - split_character_len(chunk));
        self.broken = simdutf8::basic::from_utf8(whole).is_err();
        self.pending[..cut.len()].copy_from_slice(cut);
        self.length = cut.len();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether the whole input is UTF-8, including its end.
    pub(super) fn finish(&self) -> bool {
        !self.broken && self.length == 0
    }
}

/// The number of bytes at the end of `chunk` that begin a split character.
fn split_character_len(chunk: &[u8]) -> usize {
    for (bytes, byte) in (1..4).zip(chunk.iter().rev()) {
        let length = match byte {
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xFF => 4,
            _ => 1,
        };
        return if length > bytes { bytes } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], size: usize) -> bool {
        let mut check = Utf8Check::default();
        bytes.chunks(size).for_each(|chunk| check.feed(chunk));
        check.finish()
    }

    #[test]
    fn agrees_with_the_standard_library_wherever_it_is_cut() {
        let samples: &[&[u8]] = &[
            b"plain",
            "a\u{e9}\u{4e2d}\u{1F600}b".as_bytes(),
            b"\xff",
            b"a\xc3",
            b"\xe4\xb8",
            b"\xe4\xb8x",
            b"\xed\xa0\x80",
            b"\xf0\x9f\x98\x80\x80",
            b"",
        ];
        for sample in samples {
            for size in 1..=5 {
                assert_eq!(check(sample, size), std::str::from_utf8(sample).is_ok(), "{sample:?}");
            }
        }
    }
}
