//! The ten predefined queries over memories, executed natively.
//!
//! The answers are the same as from the commands of [`lro_core::recipes`] with the real `jq`. Records
//! are never parsed into values: fields are borrowed slices, and a record in an answer keeps its exact
//! lexemes. Where `jq` prints one array (recipes 6, 8 and 9, and 10 at the light level), each of its
//! elements is an answer, so that a reply can be cut between them.
//!
//! A field that is absent or of another type counts as empty text (an empty array, 0), as in the
//! recipes. Records that are not objects have no fields.

mod by_key;
mod error;
mod json_cursor;
mod json_string;
mod key;
mod random_access;
mod record;
mod scan;

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::time::Instant;

pub use error::RecipeError;
use lro_core::{Detail, RECIPES};
use lro_spool::PositionedRead;

use self::by_key::{GroupRecipe, SortRecipe};
use self::scan::{Keyword, ScanRecipe};
use super::lines::{Chunk, Spans, available_threads};
use super::page::{Page, Rest, Total};

/// The number of bytes a thread scans at a time.
const SPAN_LEN: usize = 1 << 20;

/// The number of a recipe, from 1 to 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecipeNumber(u8);

impl RecipeNumber {
    /// Validates a number.
    pub fn new(number: u64) -> Result<Self, RecipeError> {
        match u8::try_from(number) {
            Ok(small @ 1..) if usize::from(small) <= RECIPES => Ok(Self(small)),
            _ => Err(RecipeError::UnknownNumber { number }),
        }
    }

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }

    /// The name in [`RecipeParams`] of the parameter that this recipe uses.
    pub fn param(self, detail: Detail) -> Option<&'static str> {
        match (self.0, detail) {
            (2, _) => Some("namespace"),
            (3, _) | (10, Detail::Medium | Detail::Full) => Some("keyword"),
            (5, _) => Some("memory_type"),
            (7, _) => Some("tag"),
            _ => None,
        }
    }
}

/// The format of the answers of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerFormat {
    /// Plain text with tab-separated fields (`jq -r` with `@tsv`).
    Text,
    /// JSON values.
    Json,
}

/// The outcome of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecipeOutcome {
    /// The number of records scanned.
    pub records: u64,
    /// The number of all answers.
    pub total: Total,
    /// The number of answers passed to the sink.
    pub returned: u64,
    /// The format of the answers.
    pub format: AnswerFormat,
}

/// A prepared recipe, for any number of results.
pub struct RecipeQuery {
    plan: Plan,
    page: Page,
    threads: NonZeroUsize,
    deadline: Option<Instant>,
}

/// The execution plan of a recipe.
enum Plan {
    Scan(ScanRecipe),
    Sort(SortRecipe),
    Group(GroupRecipe),
}

/// The receiver of the answers, which come without line breaks until it breaks.
pub type Sink<'k> = dyn FnMut(&[u8]) -> ControlFlow<Rest> + 'k;

impl RecipeQuery {
    /// Prepares a recipe for records at this level of detail.
    pub fn new(
        number: RecipeNumber,
        detail: Detail,
        params: RecipeParams,
    ) -> Result<Self, RecipeError> {
        let RecipeParams { namespace, keyword, memory_type, tag } = params;
        let plan = match (number.0, detail) {
            (1, _) => Plan::Scan(ScanRecipe::Titles),
            (2, _) => Plan::Scan(ScanRecipe::Namespace(namespace)),
            (3, _) => Plan::Scan(ScanRecipe::Title(Box::new(Keyword::new(&keyword)?))),
            (4, _) => Plan::Scan(ScanRecipe::Brief),
            (5, _) => Plan::Scan(ScanRecipe::MemoryType(memory_type)),
            (6, _) => Plan::Group(GroupRecipe::Groups("namespace")),
            (7, _) => Plan::Scan(ScanRecipe::Tag(tag)),
            (8, _) => Plan::Sort(SortRecipe::Created),
            (9, Detail::Light) => Plan::Group(GroupRecipe::Unique("namespace")),
            (9, Detail::Medium) => Plan::Sort(SortRecipe::Confidence),
            (9, Detail::Full) => Plan::Sort(SortRecipe::ProvenanceConfidence),
            (_, Detail::Light) => Plan::Group(GroupRecipe::Groups("memory_type")),
            (_, Detail::Medium | Detail::Full) => {
                Plan::Scan(ScanRecipe::Content(Box::new(Keyword::new(&keyword)?)))
            }
        };
        Ok(Self { plan, page: Page::ALL, threads: available_threads(), deadline: None })
    }

    /// Restricts the answers to one page.
    pub fn page(mut self, page: Page) -> Self {
        self.page = page;
        self
    }

    /// Sets the number of threads; the default is the number of processors.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the deadline, after which the recipe fails with [`RecipeError::Time`].
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Runs the recipe on the records of `source`, the first of which begins at offset `begin`.
    ///
    /// The answers go to `sink` in the order of `jq`. Answers after the page, and after `sink`
    /// returned [`Rest::Count`], are only counted.
    pub fn run(
        &self,
        source: &dyn PositionedRead,
        begin: u64,
        sink: &mut Sink<'_>,
    ) -> Result<RecipeOutcome, RecipeError> {
        let mut page_writer = PageWriter::new(self.page, sink);
        let records = match &self.plan {
            Plan::Scan(each) => each.run(&self.scan(source, begin), &mut page_writer),
            Plan::Sort(sorted) => sorted.run(source, &self.scan(source, begin), &mut page_writer),
            Plan::Group(counted) => counted.run(&self.scan(source, begin), &mut page_writer),
        }?;
        let format = match self.plan {
            Plan::Scan(ScanRecipe::Titles) => AnswerFormat::Text,
            _ => AnswerFormat::Json,
        };
        Ok(RecipeOutcome {
            records,
            total: page_writer.total(),
            returned: page_writer.returned,
            format,
        })
    }

    fn scan<'s>(&self, source: &'s dyn PositionedRead, begin: u64) -> RecordScan<'s> {
        let spans = Spans::new(source, begin, SPAN_LEN);
        RecordScan { spans, threads: self.threads, deadline: self.deadline }
    }
}

/// A parallel scan of all records.
struct RecordScan<'s> {
    spans: Spans<'s>,
    threads: NonZeroUsize,
    deadline: Option<Instant>,
}

/// The result of one chunk, up to its first invalid record.
struct ChunkResult<T> {
    result: T,
    records: u64,
    flaw: Option<error::Flaw>,
}

impl RecordScan<'_> {
    /// Passes every record with its offset to `each`, chunk by chunk, and the result of each chunk to
    /// `take` in order. Returns the number of records.
    fn map_records<S, T: Default + Send>(
        &self,
        state: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &mut T, u64, &[u8]) -> Result<(), error::Flaw> + Sync,
        finish: impl Fn(&mut T) + Sync,
        mut take: impl FnMut(T) -> Result<ControlFlow<()>, RecipeError>,
    ) -> Result<u64, RecipeError> {
        let mut total = 0;
        self.spans.map_chunks(
            self.threads,
            state,
            |state, lines| {
                if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(RecipeError::Time);
                }
                let mut chunk = ChunkResult { result: T::default(), records: 0, flaw: None };
                for (at, record) in records(lines) {
                    if let Err(flaw) = each(state, &mut chunk.result, at, record) {
                        chunk.flaw = Some(flaw);
                        break;
                    }
                    chunk.records += 1;
                }
                finish(&mut chunk.result);
                Ok(chunk)
            },
            |chunk| {
                total += chunk.records;
                let flow = take(chunk.result)?;
                match chunk.flaw {
                    Some(flaw) if flow.is_continue() => Err(flaw.at_record(total)),
                    _ => Ok(flow),
                }
            },
        )?;
        Ok(total)
    }
}

/// The lines of a chunk that are not blank.
fn records(chunk: Chunk<'_>) -> impl Iterator<Item = (u64, &[u8])> {
    chunk.lines().filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace))
}

/// The parameters of a recipe: data, never program text (Spec N3).
///
/// The defaults are the placeholders of the specification's commands, so that a recipe without
/// parameters gives the same answer as its command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecipeParams {
    /// The prefix of the namespaces that recipe 2 selects.
    pub namespace: String,
    /// The regular expression, ignoring case, that titles (recipe 3) and contents (recipe 10) must
    /// match. One difference from `jq` is known: `ss` does not match `ß`.
    pub keyword: String,
    /// The memory type that recipe 5 selects.
    pub memory_type: String,
    /// The tag that recipe 7 selects.
    pub tag: String,
}

impl Default for RecipeParams {
    fn default() -> Self {
        Self {
            namespace: "_semantic".to_owned(),
            keyword: "keyword".to_owned(),
            memory_type: "semantic".to_owned(),
            tag: "TAG".to_owned(),
        }
    }
}

impl RecipeParams {
    /// The names of all parameters.
    pub const NAMES: [&'static str; 4] = ["namespace", "keyword", "memory_type", "tag"];

    /// Sets a parameter by name.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<(), RecipeError> {
        let field = match name {
            "namespace" => &mut self.namespace,
            "keyword" => &mut self.keyword,
            "memory_type" => &mut self.memory_type,
            "tag" => &mut self.tag,
            _ => return Err(RecipeError::UnknownParam { name: name.to_owned() }),
        };
        *field = value.into();
        Ok(())
    }
}

/// Counts all answers and passes those of one page to a sink.
struct PageWriter<'a, 'k> {
    page: Page,
    sink: &'a mut Sink<'k>,
    /// The number of answers so far.
    count: u64,
    /// The number of answers passed to the sink.
    returned: u64,
    rest: Option<Rest>,
}

impl<'a, 'k> PageWriter<'a, 'k> {
    fn new(page: Page, sink: &'a mut Sink<'k>) -> Self {
        Self { page, sink, count: 0, returned: 0, rest: None }
    }

    /// Whether all further answers are only counted.
    fn only_counts(&self) -> bool {
        self.rest.is_some() || self.page.is_past(self.count)
    }

    /// The range of the next `count` answers that are on the page.
    fn page_range(&self, count: usize) -> Range<usize> {
        let within = |number: u64| {
            usize::try_from(number.saturating_sub(self.count)).unwrap_or(usize::MAX).min(count)
        };
        match self.rest {
            Some(_) => count..count,
            None => {
                within(self.page.offset)..within(self.page.offset.saturating_add(self.page.limit))
            }
        }
    }

    /// Whether the next answer is on the page.
    fn wants_next(&self) -> bool {
        self.rest.is_none() && self.page.contains(self.count)
    }

    /// Passes an answer to the sink if it is on the page. Breaks if further answers are not counted.
    fn write(&mut self, answer: &[u8]) -> ControlFlow<()> {
        let wanted = self.wants_next();
        self.count += 1;
        if wanted {
            self.returned += 1;
            if let ControlFlow::Break(rest) = (self.sink)(answer) {
                self.rest = Some(rest);
            }
        }
        if self.rest == Some(Rest::Leave) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Counts answers that are not on the page.
    fn skip(&mut self, answers: u64) {
        self.count += answers;
    }

    fn total(&self) -> Total {
        match self.rest {
            Some(Rest::Leave) => Total::AtLeast(self.count),
            _ => Total::Exactly(self.count),
        }
    }
}
