//! The first pass: detects the format of a payload and its records, and validates UTF-8.

use std::ops::Range;

use lro_json::trim_start;
use memchr::memchr_iter;

use super::base64::Base64Check;
use super::first_pass::FirstPassStats;
use super::json::{DetectedJson, JsonDetector, Progress};
use super::table::TableSniffer;
use super::text_table::{self, TextTableSniffer};
use super::{BYTE_ORDER_MARK, Content, Detected, RecordForm, RecordSet, SiblingTable};
use crate::tokens::Measure;

/// The bytes processed at a time: small enough to stay in the cache for every scan.
const WINDOW_BYTES: usize = 16 * 1024;

/// The most text before JSON or a table, and after it.
const MAX_TEXT_AROUND: u64 = 4096;
/// The beginning of a payload that is kept, to look for JSON and tables in it. A CSV header is
/// recognized or refused before its end.
const HEAD_BYTES: usize = 96 * 1024;
/// The most spaces before the first column name of a table.
const MAX_INDENT: usize = 64;
/// Line breaks are counted up to this offset while the payload may be JSON.
const MAX_UNDECIDED_BYTES: u64 = 64 * 1024;
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
    /// The beginning of a payload, while it may be neither JSON nor CSV.
    head: Option<Vec<u8>>,
    /// The measure of everything before the first significant byte.
    head_start: Measure,
    /// The number of spaces between the head and the beginning of its line.
    indent: usize,
    /// Whether the payload begins as JSON does.
    starts_as_json: bool,
    base64: Option<Box<Base64Check>>,
    lines: LineCount,
    collect_stats: bool,
}

/// Counts the lines of a payload, unless it seems to be JSON for long.
#[derive(Default)]
struct LineCount {
    breaks: u64,
    /// Whether the last byte is part of a line without a break.
    open: bool,
    unknown: bool,
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
    /// A CSV or TSV table that ended.
    Detected(RecordSet),
    TextTable(Box<TextTableSniffer>),
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
            indent: 0,
            starts_as_json: false,
            base64: None,
            lines: LineCount::default(),
            collect_stats: false,
        }
    }

    /// A detector that also collects statistics about the records of an array or of JSON lines, for a
    /// payload that is likely to be stored.
    pub fn with_stats() -> Self {
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
        while !chunk.is_empty() {
            // One window ends where undecided lines are no longer counted, wherever chunks are cut.
            let undecided = MAX_UNDECIDED_BYTES.saturating_sub(self.measure.bytes);
            let undecided = usize::try_from(undecided).unwrap_or(usize::MAX);
            let max_len = if undecided == 0 { WINDOW_BYTES } else { undecided.min(WINDOW_BYTES) };
            let (window, rest) = chunk.split_at(max_len.min(chunk.len()));
            self.feed_window(window);
            chunk = rest;
        }
    }

    /// Whether the payload so far is JSON lines, exactly as [`RecordLines`](super::RecordLines) would
    /// write them: nothing before them, no white space within a record, and one line break between
    /// two records. It is false until the second record begins. The last record may be incomplete, so
    /// that the answer can change with the next chunk.
    ///
    /// A detector without statistics does not know this, and returns false; so does one whose first
    /// record is longer than 96 KiB.
    pub fn is_json_lines_so_far(&self) -> bool {
        matches!(&self.state, State::Json(json) if json.is_exact_lines())
    }

    fn feed_window(&mut self, window: &[u8]) {
        self.utf8.feed(window);
        let (skipped, rest) = window.split_at(self.choose_format(window));
        let mut before = self.measure;
        before += Measure::from_bytes(skipped);
        if self.base64.as_mut().is_some_and(|base64| !base64.feed(rest)) {
            self.base64 = None;
        }
        // The head has a fixed size, so that the outcome does not depend on the chunks.
        let room = self.head.as_ref().map_or(0, |head| HEAD_BYTES - head.len());
        let (in_head, rest) = rest.split_at(room.min(rest.len()));
        if let Some(head) = &mut self.head {
            head.extend_from_slice(in_head);
            let is_full = head.len() == HEAD_BYTES;
            self.feed_format(in_head, before);
            before += Measure::from_bytes(in_head);
            if is_full {
                self.search_head(HeadEnd::MoreFollows);
                self.head = None;
            }
        }
        self.feed_format(rest, before);
        if self.utf8.is_broken() {
            self.state = State::Text;
            self.head = None;
        }
        let is_json = matches!(self.state, State::Json(_));
        // The JSON scanner rejects NUL; other formats must be checked.
        if !is_json {
            self.nul |= window.contains(&0);
        }
        if !is_json || self.measure.bytes < MAX_UNDECIDED_BYTES {
            self.lines.add(window);
        }
        self.measure += Measure::from_bytes(window);
        self.lines.unknown |= is_json && self.measure.bytes >= MAX_UNDECIDED_BYTES;
    }

    /// Processes the next bytes of the format chosen; `before` is the measure of everything before
    /// them.
    fn feed_format(&mut self, bytes: &[u8], before: Measure) {
        if bytes.is_empty() {
            return;
        }
        match &mut self.state {
            State::Json(json) => {
                // As long as the head is kept, it begins where the JSON does.
                let head = self.head.as_deref().unwrap_or_default();
                let progress = json.feed(bytes, before, head);
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
            State::TextTable(table) => table.feed(bytes),
            State::AtStart { .. } | State::EndedJson(..) | State::Detected(_) | State::Text => {}
        }
    }

    /// Looks for a table or JSON in the beginning of a payload that is neither JSON nor CSV.
    fn search_head(&mut self, end: HeadEnd) {
        let Some(head) = self.head.take() else { return };
        let head_end = self.head_start.bytes + head.len() as u64;
        let is_open = match &self.state {
            State::Text => true,
            State::EndedJson(json, end) => !is_worth(json.start(), *end, head_end),
            _ => false,
        };
        if !is_open {
            return;
        }
        // The column names of aligned columns may be indented.
        let base = self.head_start.bytes - self.indent as u64;
        let head = [&b" ".repeat(self.indent), &head[..]].concat();
        let max_lead = usize::try_from(MAX_TEXT_AROUND).unwrap_or(usize::MAX);
        let whole = end == HeadEnd::EndOfPayload;
        let table = text_table::find(&head, base, max_lead, whole, |range| {
            is_worth(range.start, range.end, head_end)
        });
        if let Some(table) = table {
            self.state = State::TextTable(table);
        } else if !self.starts_as_json {
            self.find_json(&head[self.indent..]);
        }
    }

    /// Looks for JSON after a sentence or in a code fence.
    fn find_json(&mut self, head: &[u8]) {
        let start = self.head_start;
        let max_lead = usize::try_from(MAX_TEXT_AROUND).unwrap_or(usize::MAX);
        let starts = head.iter().take(max_lead).enumerate();
        let starts = starts.filter(|(_, byte)| matches!(byte, b'{' | b'[')).map(|(i, _)| i);
        for from in starts.take(MAX_JSON_STARTS) {
            let mut before = start;
            before += Measure::from_bytes(&head[..from]);
            let mut json = Box::new(JsonDetector::new(before, self.collect_stats));
            let mut progress = Progress::Open;
            for window in head[from..].chunks(WINDOW_BYTES) {
                progress = json.feed(window, before, &head[from..]);
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
        let space = &unmarked[..unmarked.len() - rest.len()];
        let spaces = space.iter().rev().take_while(|b| **b == b' ').count();
        self.indent = if spaces == space.len() { self.indent + spaces } else { spaces };
        if !rest.is_empty() && self.indent > MAX_INDENT {
            self.indent = 0;
        }
        match rest.first() {
            None => {}
            Some(b'{' | b'[') => {
                let mut lead = self.measure;
                lead += Measure::from_bytes(&window[..skipped]);
                self.head_start = lead;
                // A log may begin with a bracket as well.
                self.head = Some(Vec::new());
                self.starts_as_json = true;
                self.state = State::Json(Box::new(JsonDetector::new(lead, self.collect_stats)));
            }
            Some(_) => {
                let mut lead = self.measure;
                lead += Measure::from_bytes(&window[..skipped]);
                self.head_start = lead;
                self.head = Some(Vec::new());
                self.base64 = Some(Box::new(Base64Check::new()));
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
        self.finish_with_stats().0
    }

    /// Ends the payload and returns its format, with the statistics if they were collected.
    pub fn finish_with_stats(mut self) -> (Detected, Option<FirstPassStats>) {
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.feed_window(&pending);
        }
        if let State::Table(_) = &self.state {
            self.finish_table();
        }
        self.search_head(HeadEnd::EndOfPayload);
        let measure = self.measure;
        let outcome = match self.state {
            _ if self.nul || !self.utf8.finish() => Outcome::from(Content::Binary),
            State::Json(json) => {
                let start = json.start();
                let outcome = json.finish(measure).map(Outcome::from);
                let mut outcome = outcome.unwrap_or_else(|| Content::Text.into());
                // A byte order mark and white space are no text.
                if start > self.head_start.bytes && outcome.content != Content::Text {
                    if is_worth(start, measure.bytes, measure.bytes) {
                        outcome.main_range = Some(start..measure.bytes);
                    } else {
                        outcome = Content::Text.into();
                    }
                }
                outcome
            }
            State::EndedJson(json, end) if is_worth(json.start(), end, measure.bytes) => {
                let range = json.start()..end;
                let outcome = json.finish_ended(measure).map(Outcome::from);
                let mut outcome = outcome.unwrap_or_else(|| Content::Text.into());
                outcome.main_range = Some(range);
                outcome
            }
            State::Detected(records) => Content::Records(records).into(),
            State::TextTable(table) => {
                let line_start = self.head_start.bytes - self.indent as u64;
                text_table_outcome(*table, line_start, measure)
            }
            State::AtStart { .. } | State::EndedJson(..) | State::Table(_) | State::Text => {
                let base64 = self.base64.and_then(|base64| base64.finish());
                base64.map_or(Content::Text, Content::Base64).into()
            }
        };
        let Outcome { content, tables, stats, main_range } = outcome;
        let lines = self.lines.finish().filter(|_| content == Content::Text);
        (Detected { content, measure, tables, main_range, lines }, stats)
    }

    /// Ends a payload that may be a table.
    fn finish_table(&mut self) {
        let State::Table(table) = std::mem::replace(&mut self.state, State::Text) else { return };
        if let Some((form, count)) = table.finish() {
            self.state = State::Detected(RecordSet { form, count, measure: self.measure });
        }
    }
}

impl LineCount {
    fn add(&mut self, window: &[u8]) {
        self.breaks += memchr_iter(b'\n', window).count() as u64;
        self.open = window.last().map_or(self.open, |last| *last != b'\n');
    }

    fn finish(&self) -> Option<u64> {
        (!self.unknown).then(|| self.breaks + u64::from(self.open))
    }
}

/// The outcome of the first pass.
struct Outcome {
    content: Content,
    tables: Vec<SiblingTable>,
    stats: Option<FirstPassStats>,
    main_range: Option<Range<u64>>,
}

impl From<Content> for Outcome {
    fn from(content: Content) -> Self {
        Self { content, tables: Vec::new(), stats: None, main_range: None }
    }
}

impl From<DetectedJson> for Outcome {
    fn from(json: DetectedJson) -> Self {
        let DetectedJson { content, tables, stats } = json;
        Self { content, tables, stats, main_range: None }
    }
}

/// Whether the payload ends with its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadEnd {
    MoreFollows,
    EndOfPayload,
}

/// The outcome for a payload with a table; `line_start` is the offset of its first line.
fn text_table_outcome(table: TextTableSniffer, line_start: u64, measure: Measure) -> Outcome {
    let Some((form, count)) = table.finish(measure.bytes) else { return Content::Text.into() };
    let RecordForm::TextTable { range, .. } = &form else { return Content::Text.into() };
    if !is_worth(range.start, range.end, measure.bytes) {
        return Content::Text.into();
    }
    let range = range.clone();
    let mut outcome = Outcome::from(Content::Records(RecordSet { form, count, measure }));
    if range != (line_start..measure.bytes) {
        outcome.main_range = Some(range);
    }
    outcome
}

/// Whether JSON or a table from `start` to `end` is what a payload of `bytes` bytes is about: most of
/// it, with little text after it.
fn is_worth(start: u64, end: u64, bytes: u64) -> bool {
    bytes - end <= MAX_TEXT_AROUND && (end - start) * 2 >= bytes
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
