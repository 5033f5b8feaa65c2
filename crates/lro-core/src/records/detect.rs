//! The first pass: detects the format of a payload and its records, and validates UTF-8.

use std::ops::Range;

use lro_json::{Scanner, TokenKind, TokenVisitor, decode, trim_start};

use super::lines::FirstPassStats;
use super::table::TableSniffer;
use super::{BYTE_ORDER_MARK, Content, Detected, RecordForm, RecordSet};
use crate::tokens::Measure;

/// The bytes processed at a time: small enough to stay in the cache for every scan.
const WINDOW_BYTES: usize = 16 * 1024;

/// The maximum depth of the record array.
const MAX_PATH_DEPTH: usize = 32;

/// The bytes around an array of objects that makes up less than half of its document.
const MAX_ENVELOPE_BYTES: u64 = 1024;

/// Detects the format and the records of a payload that arrives in chunks.
pub struct Detector {
    /// The beginning of the payload while it may be part of a byte order mark.
    pending: Vec<u8>,
    utf8: Utf8Check,
    nul: bool,
    measure: Measure,
    state: State,
    collect_stats: bool,
}

/// The format that the payload may still have.
enum State {
    /// Only a byte order mark and white space so far.
    AtStart {
        mark: u64,
    },
    Json(Box<JsonDetector>),
    Table(Box<TableSniffer>),
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
        let still = match &mut self.state {
            State::Json(json) => json.feed(rest, before),
            State::Table(table) => table.feed(rest),
            State::AtStart { .. } | State::Text => true,
        };
        if !still || self.utf8.is_broken() {
            self.state = State::Text;
        }
        // The JSON scanner rejects NUL; other formats must be checked.
        if !matches!(self.state, State::Json(_)) {
            self.nul |= window.contains(&0);
        }
        self.measure += Measure::from_bytes(window);
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
                self.state = State::Json(Box::new(JsonDetector::new(lead, self.collect_stats)));
            }
            Some(_) if base + skipped as u64 == *mark => {
                self.state = State::Table(Box::new(TableSniffer::new(*mark)));
            }
            Some(_) => self.state = State::Text,
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
        let measure = self.measure;
        let mut stats = None;
        let content = match self.state {
            _ if self.nul || !self.utf8.finish() => Content::Binary,
            State::Json(json) => {
                let (content, json_stats) = json.finish(measure);
                stats = json_stats;
                content
            }
            State::Table(table) => match table.finish() {
                Some((form, count)) => Content::Records(RecordSet { form, count, measure }),
                None => Content::Text,
            },
            State::AtStart { .. } | State::Text => Content::Text,
        };
        (Detected { content, measure }, stats)
    }
}

/// Whether `start` is a proper prefix of a byte order mark.
fn may_be_mark(start: &[u8]) -> bool {
    !start.is_empty() && start.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(start)
}

/// Searches JSON for the record array, or for one record per line.
struct JsonDetector {
    scanner: Scanner,
    search: Search,
}

#[derive(Default)]
struct Search {
    /// The measure of everything before the first significant byte.
    lead: Measure,
    space: u64,
    unicode_escapes: u64,
    roots: u64,
    /// The name of the current member of each open object.
    path: Vec<Option<Vec<u8>>>,
    /// The number of open objects beyond [`MAX_PATH_DEPTH`].
    too_deep: usize,
    open: Option<OpenArray>,
    largest: Option<ArrayCandidate>,
    collect_stats: bool,
}

struct OpenArray {
    depth: usize,
    count: u64,
    all_objects: bool,
    before: Measure,
    space_before: u64,
    escapes_before: u64,
    stats: Option<Box<FirstPassStats>>,
}

struct ArrayCandidate {
    path: Vec<String>,
    span: Range<u64>,
    count: u64,
    all_objects: bool,
    measure: Measure,
    stats: Option<Box<FirstPassStats>>,
}

impl ArrayCandidate {
    /// Whether this is the record array of a document with `document` significant bytes.
    fn is_record_array(&self, document: u64) -> bool {
        self.path.is_empty()
            || self.measure.bytes * 2 >= document
            || (self.all_objects
                && self.count > 0
                && document - self.measure.bytes <= MAX_ENVELOPE_BYTES)
    }
}

impl JsonDetector {
    /// A detector for a payload with `lead` before its first significant byte.
    fn new(lead: Measure, collect_stats: bool) -> Self {
        let search = Search { lead, collect_stats, ..Search::default() };
        Self { scanner: Scanner::new(lead.bytes), search }
    }

    /// Processes the next window; `before` is the measure of everything before it. Returns false as
    /// soon as the payload cannot be JSON.
    fn feed(&mut self, window: &[u8], before: Measure) -> bool {
        // Two instances, so that a search without statistics does not pay for them.
        let scanned = if self.search.collect_stats {
            self.scanner.feed(window, &mut Visit::<true>::new(&mut self.search, window, before))
        } else {
            self.scanner.feed(window, &mut Visit::<false>::new(&mut self.search, window, before))
        };
        scanned.is_ok()
    }

    fn finish(mut self, measure: Measure) -> (Content, Option<FirstPassStats>) {
        let mut visit = Visit::<true>::new(&mut self.search, &[], measure);
        if self.scanner.finish(&mut visit).is_err() {
            return (Content::Text, None);
        }
        let Search { roots, space, unicode_escapes, lead, largest, .. } = self.search;
        let significant =
            measure.since(lead).without_ascii(space).with_unicode_escapes(unicode_escapes);
        if roots > 1 {
            let form = RecordForm::Lines { start: lead.bytes };
            let records = RecordSet { form, count: roots, measure: significant };
            return (Content::Records(records), None);
        }
        match largest {
            Some(array) if array.is_record_array(significant.bytes) => {
                let ArrayCandidate { path, span, count, measure, stats, .. } = array;
                let form = RecordForm::Array { path, span };
                let records = RecordSet { form, count, measure };
                (Content::Records(records), stats.map(|stats| *stats))
            }
            _ => (Content::Document, None),
        }
    }
}

/// The search within one window; `STATS` says whether statistics are collected.
struct Visit<'a, const STATS: bool> {
    search: &'a mut Search,
    window: &'a [u8],
    base: u64,
    /// The measure of everything before `window[measured]`.
    before: Measure,
    measured: usize,
}

impl<'a, const STATS: bool> Visit<'a, STATS> {
    /// Visits a window; `before` is the measure of everything before it.
    fn new(search: &'a mut Search, window: &'a [u8], before: Measure) -> Self {
        Self { search, window, base: before.bytes, before, measured: 0 }
    }

    /// The statistics of the open array.
    #[inline]
    fn stats(&mut self) -> Option<&mut FirstPassStats> {
        if !STATS {
            return None;
        }
        self.search.open.as_mut()?.stats.as_deref_mut()
    }

    /// The measure of everything before `at`. Each byte is measured at most once per window, and
    /// none in a window in which no array begins or ends.
    fn measure_to(&mut self, at: u64) -> Measure {
        // `at` is in the window, so the difference fits its length.
        let i = usize::try_from(at - self.base).unwrap_or(self.window.len());
        self.before += Measure::from_bytes(&self.window[self.measured..i]);
        self.measured = i;
        self.before
    }
}

impl<const STATS: bool> TokenVisitor for Visit<'_, STATS> {
    #[inline]
    fn begin(&mut self, kind: TokenKind, at: u64, depth: usize) {
        if let Some(open) = &mut self.search.open {
            if depth == open.depth + 1 {
                open.count += 1;
                open.all_objects &= kind == TokenKind::Object;
            }
            if let Some(stats) = self.stats() {
                stats.begin(kind, at, depth);
            }
            return;
        }
        if depth == 0 {
            self.search.roots += 1;
        }
        match kind {
            TokenKind::Array if self.search.too_deep == 0 => {
                let before = self.measure_to(at + 1);
                self.search.open = Some(OpenArray {
                    depth,
                    count: 0,
                    all_objects: true,
                    before,
                    space_before: self.search.space,
                    escapes_before: self.search.unicode_escapes,
                    stats: self
                        .search
                        .collect_stats
                        .then(|| Box::new(FirstPassStats::new(depth + 1))),
                });
            }
            TokenKind::Object if self.search.path.len() == MAX_PATH_DEPTH => {
                self.search.too_deep += 1;
            }
            TokenKind::Object => self.search.path.push(None),
            _ => {}
        }
    }

    #[inline]
    fn end(&mut self, kind: TokenKind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        match &self.search.open {
            Some(open) if depth == open.depth && kind == TokenKind::Array => self.close(end - 1),
            Some(_) => {
                if let Some(stats) = self.stats() {
                    stats.end(kind, end, depth, lexeme);
                }
            }
            None if kind == TokenKind::Object && self.search.too_deep > 0 => {
                self.search.too_deep -= 1;
            }
            None if kind == TokenKind::Object => {
                self.search.path.pop();
            }
            _ => {}
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        if let Some(stats) = self.stats() {
            stats.key(lexeme);
        } else if self.search.open.is_none()
            && self.search.too_deep == 0
            && let Some(name) = self.search.path.last_mut()
        {
            *name = lexeme.map(<[u8]>::to_vec);
        }
    }

    #[inline]
    fn space(&mut self, start: u64, end: u64) {
        self.search.space += end - start;
        if let Some(stats) = self.stats() {
            stats.space(start, end);
        }
    }

    fn unicode_escape(&mut self) {
        self.search.unicode_escapes += 1;
    }
}

impl<const STATS: bool> Visit<'_, STATS> {
    /// Ends the open array, whose closing bracket is at `end`.
    fn close(&mut self, end: u64) {
        let measure = self.measure_to(end);
        let Some(open) = self.search.open.take() else { return };
        let commas = open.count.saturating_sub(1);
        let space = self.search.space - open.space_before;
        let escapes = self.search.unicode_escapes - open.escapes_before;
        let measure =
            measure.since(open.before).without_ascii(space + commas).with_unicode_escapes(escapes);
        if self.search.largest.as_ref().is_some_and(|array| array.measure.bytes >= measure.bytes) {
            return;
        }
        // Without a name that is text, or if it was too long to keep, there is no path.
        let path: Option<Vec<String>> = self
            .search
            .path
            .iter()
            .map(|name| decode(name.as_deref()?).map(std::borrow::Cow::into_owned))
            .collect();
        if let Some(path) = path {
            let span = open.before.bytes..end;
            let OpenArray { count, all_objects, stats, .. } = open;
            self.search.largest =
                Some(ArrayCandidate { path, span, count, all_objects, measure, stats });
        }
    }
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
