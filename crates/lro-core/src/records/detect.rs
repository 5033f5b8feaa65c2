//! The first pass: detects the format of a payload and its records.

use std::ops::Range;

use super::first_pass_stats::Surveyed;
use super::table::TableSniffer;
use super::utf8::Utf8Check;
use super::{Content, Found, RecordForm, RecordSet};
use crate::tokens::Measure;
use lro_json::{Events, Kind, Scanner, decode, trim_start};

/// Small enough that one window is still in the cache for every look that is taken at it.
const WINDOW: usize = 16 * 1024;

/// How many members may lead to the record array.
const PATH_CAP: usize = 32;

/// What may surround an array of objects that makes up less than half of its document.
const ENVELOPE_CAP: u64 = 1024;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Finds the records of a payload that arrives in chunks.
pub struct Finder {
    /// The beginning of the payload as long as it may become a byte order mark.
    held: Vec<u8>,
    utf8: Utf8Check,
    nul: bool,
    measure: Measure,
    looking: Looking,
    survey: bool,
}

enum Looking {
    /// Only a byte order mark and white space so far.
    AtStart {
        mark: u64,
    },
    Json(Box<JsonFinder>),
    Table(Box<TableSniffer>),
    Text,
}

impl Default for Finder {
    fn default() -> Self {
        Self::new()
    }
}

impl Finder {
    /// A finder that has seen nothing yet.
    pub fn new() -> Self {
        Self {
            held: Vec::new(),
            utf8: Utf8Check::default(),
            nul: false,
            measure: Measure::default(),
            looking: Looking::AtStart { mark: 0 },
            survey: false,
        }
    }

    /// One that surveys the records of an array while it finds them: for a payload that is likely
    /// to be stored.
    pub fn surveying() -> Self {
        Self { survey: true, ..Self::new() }
    }

    /// Looks at the next chunk.
    pub fn feed(&mut self, mut chunk: &[u8]) {
        if self.measure.bytes == 0 {
            // The first bytes by themselves: a mark must be seen whole or not at all.
            let missing = BYTE_ORDER_MARK.len() - self.held.len();
            let (start, rest) = chunk.split_at(missing.min(chunk.len()));
            self.held.extend_from_slice(start);
            if self.held.is_empty() || may_be_mark(&self.held) {
                return;
            }
            let held = std::mem::take(&mut self.held);
            self.feed_window(&held);
            chunk = rest;
        }
        for window in chunk.chunks(WINDOW) {
            self.feed_window(window);
        }
    }

    fn feed_window(&mut self, window: &[u8]) {
        self.utf8.feed(window);
        let (skipped, rest) = window.split_at(self.settle(window));
        let mut before = self.measure;
        before += Measure::from_bytes(skipped);
        let still = match &mut self.looking {
            Looking::Json(json) => json.feed(rest, before),
            Looking::Table(table) => table.feed(rest),
            Looking::AtStart { .. } | Looking::Text => true,
        };
        if !still || self.utf8.is_broken() {
            self.looking = Looking::Text;
        }
        // JSON refuses a NUL by itself; whatever else the window is must be looked through.
        if !matches!(self.looking, Looking::Json(_)) {
            self.nul |= window.contains(&0);
        }
        self.measure += Measure::from_bytes(window);
    }

    /// Chooses what to look for at the first significant byte, and returns how many bytes of the
    /// window lie before it.
    fn settle(&mut self, window: &[u8]) -> usize {
        let Looking::AtStart { mark } = &mut self.looking else { return 0 };
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
                self.looking = Looking::Json(Box::new(JsonFinder::new(lead, self.survey)));
            }
            Some(_) if base + skipped as u64 == *mark => {
                self.looking = Looking::Table(Box::new(TableSniffer::new(*mark)));
            }
            Some(_) => self.looking = Looking::Text,
        }
        skipped
    }

    /// Ends the payload.
    pub fn finish(self) -> Found {
        self.finish_surveyed().0
    }

    /// Ends the payload, and says what else was learnt of its records.
    pub fn finish_surveyed(mut self) -> (Found, Option<Surveyed>) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.feed_window(&held);
        }
        let measure = self.measure;
        let mut surveyed = None;
        let content = match self.looking {
            _ if self.nul || !self.utf8.finish() => Content::Binary,
            Looking::Json(json) => {
                let (content, learnt) = json.finish(measure);
                surveyed = learnt;
                content
            }
            Looking::Table(table) => match table.finish() {
                Some((form, count)) => Content::Records(RecordSet { form, count, measure }),
                None => Content::Text,
            },
            Looking::AtStart { .. } | Looking::Text => Content::Text,
        };
        (Found { content, measure }, surveyed)
    }
}

/// Whether the beginning of a payload is that of a byte order mark, and not yet all of it.
fn may_be_mark(start: &[u8]) -> bool {
    !start.is_empty() && start.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(start)
}

/// Looks for the record array, or for records line by line, in what seems to be JSON.
struct JsonFinder {
    scanner: Scanner,
    search: Search,
}

#[derive(Default)]
struct Search {
    /// The counts of what lies before the first significant byte.
    lead: Measure,
    space: u64,
    unicode_escapes: u64,
    roots: u64,
    /// The name of the member being read, per open object around the point of reading.
    path: Vec<Option<Vec<u8>>>,
    /// Objects open beyond [`PATH_CAP`].
    too_deep: usize,
    open: Option<OpenArray>,
    largest: Option<FoundArray>,
    survey: bool,
}

struct OpenArray {
    depth: usize,
    count: u64,
    all_objects: bool,
    before: Measure,
    space_before: u64,
    escapes_before: u64,
    surveyed: Option<Box<Surveyed>>,
}

struct FoundArray {
    path: Vec<String>,
    span: Range<u64>,
    count: u64,
    all_objects: bool,
    measure: Measure,
    surveyed: Option<Box<Surveyed>>,
}

impl FoundArray {
    /// Whether these are the records of a document with so many significant bytes.
    fn is_the_record_array(&self, document: u64) -> bool {
        self.path.is_empty()
            || self.measure.bytes * 2 >= document
            || (self.all_objects && self.count > 0 && document - self.measure.bytes <= ENVELOPE_CAP)
    }
}

impl JsonFinder {
    /// For a payload with `lead` before its first significant byte.
    fn new(lead: Measure, survey: bool) -> Self {
        let search = Search { lead, survey, ..Search::default() };
        Self { scanner: Scanner::new(lead.bytes), search }
    }

    /// Looks at the next window, `before` being the counts of all that came before it. False as
    /// soon as it cannot be JSON.
    fn feed(&mut self, window: &[u8], before: Measure) -> bool {
        // Two ways, so that a search without a survey pays nothing for the other kind.
        let scanned = if self.search.survey {
            self.scanner.feed(window, &mut Visit::<true>::new(&mut self.search, window, before))
        } else {
            self.scanner.feed(window, &mut Visit::<false>::new(&mut self.search, window, before))
        };
        scanned.is_ok()
    }

    fn finish(mut self, measure: Measure) -> (Content, Option<Surveyed>) {
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
            Some(found) if found.is_the_record_array(significant.bytes) => {
                let FoundArray { path, span, count, measure, surveyed, .. } = found;
                let form = RecordForm::Array { path, span };
                let records = RecordSet { form, count, measure };
                (Content::Records(records), surveyed.map(|surveyed| *surveyed))
            }
            _ => (Content::Document, None),
        }
    }
}

/// The search with the window it is in, and whether arrays are surveyed on the way.
struct Visit<'a, const SURVEY: bool> {
    search: &'a mut Search,
    window: &'a [u8],
    base: u64,
    /// The counts of all that lies before `window[measured]`.
    before: Measure,
    measured: usize,
}

impl<'a, const SURVEY: bool> Visit<'a, SURVEY> {
    /// For a window, `before` being the counts of all that came before it.
    fn new(search: &'a mut Search, window: &'a [u8], before: Measure) -> Self {
        Self { search, window, base: before.bytes, before, measured: 0 }
    }

    /// What is learnt of the array that is open.
    #[inline]
    fn surveyed(&mut self) -> Option<&mut Surveyed> {
        if !SURVEY {
            return None;
        }
        self.search.open.as_mut()?.surveyed.as_deref_mut()
    }

    /// The counts of all that lies before `at`. Each byte is counted at most once a window, and
    /// none in a window where no array begins or ends.
    fn measure_to(&mut self, at: u64) -> Measure {
        // `at` lies in the window, so the difference fits its length.
        let i = usize::try_from(at - self.base).unwrap_or(self.window.len());
        self.before += Measure::from_bytes(&self.window[self.measured..i]);
        self.measured = i;
        self.before
    }
}

impl<const SURVEY: bool> Events for Visit<'_, SURVEY> {
    #[inline]
    fn begin(&mut self, kind: Kind, at: u64, depth: usize) {
        if let Some(open) = &mut self.search.open {
            if depth == open.depth + 1 {
                open.count += 1;
                open.all_objects &= kind == Kind::Object;
            }
            if let Some(surveyed) = self.surveyed() {
                surveyed.begin(kind, at, depth);
            }
            return;
        }
        if depth == 0 {
            self.search.roots += 1;
        }
        match kind {
            Kind::Array if self.search.too_deep == 0 => {
                let before = self.measure_to(at + 1);
                self.search.open = Some(OpenArray {
                    depth,
                    count: 0,
                    all_objects: true,
                    before,
                    space_before: self.search.space,
                    escapes_before: self.search.unicode_escapes,
                    surveyed: self.search.survey.then(|| Box::new(Surveyed::new(depth + 1))),
                });
            }
            Kind::Object if self.search.path.len() == PATH_CAP => self.search.too_deep += 1,
            Kind::Object => self.search.path.push(None),
            _ => {}
        }
    }

    #[inline]
    fn end(&mut self, kind: Kind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        match &self.search.open {
            Some(open) if depth == open.depth && kind == Kind::Array => self.close(end - 1),
            Some(_) => {
                if let Some(surveyed) = self.surveyed() {
                    surveyed.end(kind, end, depth, lexeme);
                }
            }
            None if kind == Kind::Object && self.search.too_deep > 0 => self.search.too_deep -= 1,
            None if kind == Kind::Object => {
                self.search.path.pop();
            }
            _ => {}
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        if let Some(surveyed) = self.surveyed() {
            surveyed.key(lexeme);
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
        if let Some(surveyed) = self.surveyed() {
            surveyed.space(start, end);
        }
    }

    fn unicode_escape(&mut self) {
        self.search.unicode_escapes += 1;
    }
}

impl<const SURVEY: bool> Visit<'_, SURVEY> {
    /// Ends the open array, whose closing bracket lies at `end`.
    fn close(&mut self, end: u64) {
        let measure = self.measure_to(end);
        let Some(open) = self.search.open.take() else { return };
        let commas = open.count.saturating_sub(1);
        let space = self.search.space - open.space_before;
        let escapes = self.search.unicode_escapes - open.escapes_before;
        let measure =
            measure.since(open.before).without_ascii(space + commas).with_unicode_escapes(escapes);
        if self.search.largest.as_ref().is_some_and(|found| found.measure.bytes >= measure.bytes) {
            return;
        }
        // A name that cannot be text, or is too long to have been kept, leads nowhere.
        let path: Option<Vec<String>> = self
            .search
            .path
            .iter()
            .map(|name| decode(name.as_deref()?).map(std::borrow::Cow::into_owned))
            .collect();
        if let Some(path) = path {
            let span = open.before.bytes..end;
            let OpenArray { count, all_objects, surveyed, .. } = open;
            self.search.largest =
                Some(FoundArray { path, span, count, all_objects, measure, surveyed });
        }
    }
}
