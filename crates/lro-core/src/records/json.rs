//! Detects tables in JSON: record arrays, maps of records, and one record per line.
//!
//! Only object members lead to a table: arrays in arrays and in records are part of a record. A map
//! of records is an object with at least ten members that are all objects of similar shape, such as
//! `{"id-1": {…}, "id-2": {…}}`.

use std::ops::Range;

use lro_json::{Scanner, TokenKind, TokenVisitor, decode};

use super::first_pass::FirstPassStats;
use super::{Content, RecordForm, RecordSet, SiblingTable, sibling_tables};
use crate::hash::fnv1a;
use crate::tokens::Measure;

/// The maximum depth of a table.
const MAX_PATH_DEPTH: usize = 32;
/// The bytes around an array of objects that makes up less than half of its document.
const MAX_ENVELOPE_BYTES: u64 = 1024;
/// The number of arrays and of maps that are tracked: the largest ones.
const MAX_CANDIDATES: usize = 8;
/// The fewest members of a map of records.
const MIN_MAP_MEMBERS: u64 = 10;
/// The number of names of the first member of a map that are compared with those of the others.
const MAX_COMPARED_NAMES: usize = 32;
/// The member that holds the key of a record of a map.
pub(crate) const MAP_KEY: &str = "_key";

/// Searches JSON for tables.
pub(super) struct JsonDetector {
    scanner: Scanner,
    search: Search,
}

/// What a [`JsonDetector`] knows after a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The payload may be JSON.
    Open,
    /// Text follows the first value, which ends at this offset.
    Ended(u64),
    /// The payload is not JSON.
    Failed,
}

/// The outcome of the first pass over JSON.
pub(super) struct DetectedJson {
    pub(super) content: Content,
    pub(super) tables: Vec<SiblingTable>,
    pub(super) stats: Option<FirstPassStats>,
}

#[derive(Default)]
struct Search {
    /// The measure of everything before the first significant byte.
    lead: Measure,
    space: u64,
    unicode_escapes: u64,
    roots: u64,
    /// The end of the first root value, and the space before it.
    root_end: Option<(u64, u64)>,
    /// The open objects.
    path: Vec<OpenObject>,
    /// The number of open objects beyond [`MAX_PATH_DEPTH`].
    too_deep: usize,
    open: Option<OpenArray>,
    arrays: Vec<ArrayCandidate>,
    maps: Vec<MapCandidate>,
    /// The statistics of several root values; `None` if the first one was too long to keep.
    lines: Option<Box<FirstPassStats>>,
    collect_stats: bool,
}

/// An object that is not in an array.
struct OpenObject {
    /// The offset after the opening brace.
    start: u64,
    /// The name of the current member; `None` if it was too long to keep.
    name: Option<Vec<u8>>,
    members: u64,
    /// Whether this can be a map of records: every member is an object with a short name.
    all_objects: bool,
    /// The hashes of the names in the first member.
    first_names: Vec<u64>,
    /// The number of names in all members, and how many of them are among `first_names`.
    names: u64,
    same_names: u64,
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
    /// Only of the largest array.
    stats: Option<Box<FirstPassStats>>,
}

struct MapCandidate {
    path: Vec<String>,
    span: Range<u64>,
    count: u64,
}

impl MapCandidate {
    fn bytes(&self) -> u64 {
        self.span.end - self.span.start
    }
}

impl OpenObject {
    fn new(start: u64) -> Self {
        Self {
            start,
            name: None,
            members: 0,
            all_objects: true,
            first_names: Vec::new(),
            names: 0,
            same_names: 0,
        }
    }

    /// Whether its members are records.
    fn is_map(&self) -> bool {
        self.all_objects && self.members >= MIN_MAP_MEMBERS && self.same_names * 2 >= self.names
    }

    /// Adds a name of the current member, which is an object.
    fn add_inner_name(&mut self, lexeme: Option<&[u8]>) {
        self.names += 1;
        let Some(lexeme) = lexeme else { return };
        if lexeme == MAP_KEY.as_bytes() {
            // Two members of that name in a record could not be told apart.
            self.all_objects = false;
        }
        let hash = fnv1a(lexeme);
        if self.members == 1 && self.first_names.len() < MAX_COMPARED_NAMES {
            self.first_names.push(hash);
            self.same_names += 1;
        } else if self.first_names.contains(&hash) {
            self.same_names += 1;
        }
    }
}

impl ArrayCandidate {
    /// Whether this is the record array of a document with `document` significant bytes.
    fn is_record_array(&self, document: u64) -> bool {
        self.path.is_empty()
            || self.measure.bytes * 2 >= document
            || (self.is_table() && document - self.measure.bytes <= MAX_ENVELOPE_BYTES)
    }

    fn is_table(&self) -> bool {
        self.all_objects && self.count > 0
    }

    fn record_set(&self) -> RecordSet {
        let form = RecordForm::Array { path: self.path.clone(), span: self.span.clone() };
        RecordSet { form, count: self.count, measure: self.measure }
    }
}

impl JsonDetector {
    /// A detector for JSON with `lead` before its first significant byte.
    pub(super) fn new(lead: Measure, collect_stats: bool) -> Self {
        let search = Search { lead, collect_stats, ..Search::default() };
        Self { scanner: Scanner::new(lead.bytes), search }
    }

    /// The offset of the first significant byte.
    pub(super) fn start(&self) -> u64 {
        self.search.lead.bytes
    }

    /// Whether the payload so far is record lines as they are written, and the second one began.
    pub(super) fn is_exact_lines(&self) -> bool {
        let lines = self.search.lines.as_deref();
        self.start() == 0 && lines.is_some_and(FirstPassStats::are_lines)
    }

    /// Processes the next window; `before` is the measure of everything before it. `head` is the
    /// payload from the [start](Self::start) on, at least to the end of the window; empty if it is too
    /// long to keep.
    pub(super) fn feed(&mut self, window: &[u8], before: Measure, head: &[u8]) -> Progress {
        let search = &mut self.search;
        // Two instances, so that a search without statistics does not pay for them.
        let scanned = if search.collect_stats {
            self.scanner.feed(window, &mut Visit::<true>::new(search, window, before, head))
        } else {
            self.scanner.feed(window, &mut Visit::<false>::new(search, window, before, head))
        };
        match (scanned, self.search.root_end) {
            (Ok(()), _) => Progress::Open,
            // Several values were one record per line so far.
            (Err(_), Some((end, _))) if self.search.roots == 1 => Progress::Ended(end),
            (Err(_), _) => Progress::Failed,
        }
    }

    /// Ends JSON that is the whole payload; `None` if it is incomplete.
    pub(super) fn finish(mut self, measure: Measure) -> Option<DetectedJson> {
        let mut visit = Visit::<true>::new(&mut self.search, &[], measure, &[]);
        self.scanner.finish(&mut visit).ok()?;
        let Search { roots, space, unicode_escapes, lead, .. } = self.search;
        let significant =
            measure.since(lead).without_ascii(space).with_unicode_escapes(unicode_escapes);
        if roots > 1 {
            let form = RecordForm::Lines { start: lead.bytes };
            let records = RecordSet { form, count: roots, measure: significant };
            let content = Content::Records(records);
            let stats = self.search.lines.take().map(|stats| *stats);
            return Some(DetectedJson { content, tables: Vec::new(), stats });
        }
        Some(self.search.choose(significant.bytes, measure))
    }

    /// Ends JSON that text follows; `measure` is that of the payload.
    pub(super) fn finish_ended(self, measure: Measure) -> Option<DetectedJson> {
        let (end, space) = self.search.root_end?;
        let significant = end - self.search.lead.bytes - space;
        Some(self.search.choose(significant, measure))
    }
}

impl Search {
    /// Chooses the main table of a document with `document` significant bytes.
    fn choose(mut self, document: u64, measure: Measure) -> DetectedJson {
        let largest = (0..self.arrays.len())
            .rev()
            .max_by_key(|i| self.arrays[*i].measure.bytes)
            .map(|i| &self.arrays[i]);
        let map = self.maps.iter().max_by_key(|map| map.bytes());
        let map = map.filter(|map| {
            map.bytes() * 2 >= document
                || document - map.bytes().min(document) <= MAX_ENVELOPE_BYTES
        });
        let array = largest.filter(|array| array.is_record_array(document));
        // An array in one record of a map is not the table.
        let array = array.filter(|array| {
            map.is_none_or(|map| {
                !contains(&map.span, &array.span) || array.measure.bytes * 2 >= map.bytes()
            })
        });
        let several = || {
            // Several tables that make up the document together: the largest one is the main table.
            let tables = self.arrays.iter().rev().filter(|array| array.is_table());
            let bytes: u64 = tables.clone().map(|array| array.measure.bytes).sum();
            tables.max_by_key(|array| array.measure.bytes).filter(|_| bytes * 2 >= document)
        };
        let main = match (array, map) {
            (Some(array), _) => Some(array.record_set()),
            (None, Some(map)) => Some(map.record_set(measure)),
            (None, None) => several().map(ArrayCandidate::record_set),
        };
        let main_span = main.as_ref().and_then(|main| main.form.span().cloned());
        let mut others: Vec<RecordSet> =
            self.maps.iter().map(|map| map.record_set(measure)).collect();
        let arrays = self.arrays.iter().filter(|array| array.is_table());
        others.extend(arrays.map(ArrayCandidate::record_set));
        let tables = sibling_tables(main_span.as_ref(), others);
        let stats = main_span.and_then(|span| {
            let array = self.arrays.iter_mut().find(|array| array.span == span)?;
            array.stats.take().map(|stats| *stats)
        });
        let content = main.map_or(Content::Document, Content::Records);
        DetectedJson { content, tables, stats }
    }

    fn path_names(&self) -> Option<Vec<String>> {
        // Without a name that is text, or if it was too long to keep, there is no path.
        self.path
            .iter()
            .map(|object| decode(object.name.as_deref()?).map(std::borrow::Cow::into_owned))
            .collect()
    }

    /// Ends the innermost open object, whose closing brace is at `end`.
    fn close_object(&mut self, end: u64) {
        let Some(object) = self.path.pop() else { return };
        if !object.is_map() {
            return;
        }
        if let Some(path) = self.path_names() {
            let span = object.start..end;
            keep_largest(
                &mut self.maps,
                MapCandidate { path, span, count: object.members },
                MapCandidate::bytes,
            );
        }
    }
}

impl MapCandidate {
    fn record_set(&self, measure: Measure) -> RecordSet {
        let form = RecordForm::Map { path: self.path.clone(), span: self.span.clone() };
        RecordSet { form, count: self.count, measure }
    }
}

/// Whether `outer` contains `inner`.
pub(super) fn contains(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Adds a candidate, and drops the smallest if there are too many. Returns its index.
fn keep_largest<T>(candidates: &mut Vec<T>, new: T, bytes: impl Fn(&T) -> u64) -> Option<usize> {
    if candidates.len() < MAX_CANDIDATES {
        candidates.push(new);
        return Some(candidates.len() - 1);
    }
    let smallest = (0..candidates.len()).min_by_key(|i| bytes(&candidates[*i]))?;
    if bytes(&candidates[smallest]) >= bytes(&new) {
        return None;
    }
    candidates[smallest] = new;
    Some(smallest)
}

/// The search within one window; `STATS` says whether statistics are collected.
struct Visit<'a, const STATS: bool> {
    search: &'a mut Search,
    window: &'a [u8],
    base: u64,
    /// The payload from the first root value on, at least to the end of the window; empty if it was
    /// too long to keep.
    head: &'a [u8],
    /// The measure of everything before `window[measured]`.
    before: Measure,
    measured: usize,
}

impl<'a, const STATS: bool> Visit<'a, STATS> {
    /// Visits a window; `before` is the measure of everything before it.
    fn new(search: &'a mut Search, window: &'a [u8], before: Measure, head: &'a [u8]) -> Self {
        Self { search, window, base: before.bytes, head, before, measured: 0 }
    }

    /// The statistics of the open array, or of the root values if there are several.
    #[inline]
    fn stats(&mut self) -> Option<&mut FirstPassStats> {
        if !STATS {
            return None;
        }
        match &mut self.search.open {
            Some(open) => open.stats.as_deref_mut(),
            None => self.search.lines.as_deref_mut(),
        }
    }

    /// Counts a root value, which begins at `at`. Several root values are the records: nothing in
    /// them is a table, so their names and arrays are not tracked.
    fn begin_root(&mut self, at: u64) {
        self.search.roots += 1;
        if self.search.roots == 2 {
            self.search.arrays = Vec::new();
            self.search.maps = Vec::new();
            if STATS {
                self.search.lines = self.first_root_stats(at).map(Box::new);
            }
        }
    }

    /// The statistics of the first root value; the second one begins at `second`.
    fn first_root_stats(&self, second: u64) -> Option<FirstPassStats> {
        let start = self.search.lead.bytes;
        let first = self.head.get(..usize::try_from(second - start).ok()?)?;
        FirstPassStats::after_first_root(first, start)
    }

    fn is_line_break(&self, at: u64) -> bool {
        usize::try_from(at - self.base).is_ok_and(|i| self.window.get(i) == Some(&b'\n'))
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

    fn open_array(&mut self, at: u64, depth: usize) {
        let before = self.measure_to(at + 1);
        let stats = self.search.collect_stats.then(|| Box::new(FirstPassStats::new(depth + 1)));
        self.search.open = Some(OpenArray {
            depth,
            count: 0,
            all_objects: true,
            before,
            space_before: self.search.space,
            escapes_before: self.search.unicode_escapes,
            stats,
        });
    }

    /// Ends the open array, whose closing bracket is at `end`.
    fn close_array(&mut self, end: u64) {
        let measure = self.measure_to(end);
        let Some(open) = self.search.open.take() else { return };
        let commas = open.count.saturating_sub(1);
        let space = self.search.space - open.space_before;
        let escapes = self.search.unicode_escapes - open.escapes_before;
        let measure =
            measure.since(open.before).without_ascii(space + commas).with_unicode_escapes(escapes);
        let Some(path) = self.search.path_names() else { return };
        let span = open.before.bytes..end;
        let OpenArray { count, all_objects, mut stats, .. } = open;
        // Statistics take memory: only the largest array keeps them.
        if self.search.arrays.iter().any(|array| array.measure.bytes >= measure.bytes) {
            stats = None;
        } else {
            self.search.arrays.iter_mut().for_each(|array| array.stats = None);
        }
        let array = ArrayCandidate { path, span, count, all_objects, measure, stats };
        keep_largest(&mut self.search.arrays, array, |array| array.measure.bytes);
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
            self.begin_root(at);
        }
        if self.search.roots > 1 {
            if let Some(stats) = self.stats() {
                stats.begin(kind, at, depth);
            }
            return;
        }
        if self.search.too_deep > 0 {
            self.search.too_deep += usize::from(kind == TokenKind::Object);
            return;
        }
        if let Some(object) = self.search.path.last_mut() {
            object.members += 1;
            object.all_objects &= kind == TokenKind::Object && object.name.is_some();
        }
        match kind {
            TokenKind::Array => self.open_array(at, depth),
            TokenKind::Object if self.search.path.len() == MAX_PATH_DEPTH => {
                self.search.too_deep += 1;
            }
            TokenKind::Object => self.search.path.push(OpenObject::new(at + 1)),
            _ => {}
        }
    }

    #[inline]
    fn end(&mut self, kind: TokenKind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        match &self.search.open {
            Some(open) if depth == open.depth && kind == TokenKind::Array => {
                self.close_array(end - 1);
            }
            open if open.is_some() || self.search.roots > 1 => {
                if let Some(stats) = self.stats() {
                    stats.end(kind, end, depth, lexeme);
                }
                return;
            }
            _ if kind == TokenKind::Object && self.search.too_deep > 0 => {
                self.search.too_deep -= 1;
            }
            _ if kind == TokenKind::Object => self.search.close_object(end - 1),
            _ => {}
        }
        if depth == 0 && self.search.root_end.is_none() {
            self.search.root_end = Some((end, self.search.space));
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        if self.search.open.is_some() || self.search.roots > 1 {
            if let Some(stats) = self.stats() {
                stats.key(lexeme);
            }
            return;
        }
        if self.search.too_deep > 0 {
            return;
        }
        if let [.., parent, object] = self.search.path.as_mut_slice() {
            if parent.all_objects {
                parent.add_inner_name(lexeme);
            }
            object.name = lexeme.map(<[u8]>::to_vec);
        } else if let Some(object) = self.search.path.last_mut() {
            object.name = lexeme.map(<[u8]>::to_vec);
        }
    }

    #[inline]
    fn space(&mut self, start: u64, end: u64) {
        self.search.space += end - start;
        let blank = STATS && self.search.roots > 1 && !self.is_line_break(start);
        if let Some(stats) = self.stats() {
            stats.space(start, end);
            if blank {
                stats.reject_lines();
            }
        }
    }

    fn unicode_escape(&mut self) {
        self.search.unicode_escapes += 1;
    }
}
