//! Recipe: the ten ready-made questions, answered natively.
//!
//! The same answers as the commands of [`lro_core::recipes`] give with the real `jq`, from borrowed
//! fields: a record is never parsed into values, and one that is an answer comes out with the
//! lexemes it came in with. Where `jq` would print an array of everything (recipes 6, 8 and 9, and
//! 10 at the light level), each of its elements is an answer, so that a reply can be cut between them.
//!
//! A field that is absent or of another kind counts as empty text (an empty array, 0), as in the
//! recipes for such records; records that are no objects have no fields.

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

use self::by_key::{Counted, Sorted};
use self::scan::{Each, Keyword};
use super::lines::{Chunk, Spans, available_threads};
use super::page::{Page, Rest, Total};

/// What one thread looks at at a time.
const SPAN: usize = 1 << 20;

/// The number of a recipe, from 1 to 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u8);

impl Number {
    /// Checks a number from outside.
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

    /// The parameter that this recipe looks at, by its name in [`Params`].
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

/// What the answers of a recipe are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// Lines of plain text, fields separated by tabs (`jq -r` with `@tsv`).
    Text,
    /// JSON values.
    Json,
}

/// How a recipe went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// How many records were looked at.
    pub records: u64,
    /// How many answers there are.
    pub total: Total,
    /// How many were given.
    pub given: u64,
    /// What they are.
    pub form: Form,
}

/// A recipe with all it needs to be run on any number of results.
pub struct Question {
    plan: Plan,
    page: Page,
    threads: NonZeroUsize,
    deadline: Option<Instant>,
}

/// What a recipe does.
enum Plan {
    Each(Each),
    Sorted(Sorted),
    Counted(Counted),
}

/// What receives the answers, without line breaks, until it breaks.
pub type Sink<'k> = dyn FnMut(&[u8]) -> ControlFlow<Rest> + 'k;

impl Question {
    /// Prepares a recipe for records at this level.
    pub fn new(number: Number, detail: Detail, params: Params) -> Result<Self, RecipeError> {
        let Params { namespace, keyword, memory_type, tag } = params;
        let plan = match (number.0, detail) {
            (1, _) => Plan::Each(Each::Titles),
            (2, _) => Plan::Each(Each::Namespace(namespace)),
            (3, _) => Plan::Each(Each::Title(Box::new(Keyword::new(&keyword)?))),
            (4, _) => Plan::Each(Each::Brief),
            (5, _) => Plan::Each(Each::MemoryType(memory_type)),
            (6, _) => Plan::Counted(Counted::groups("namespace")),
            (7, _) => Plan::Each(Each::Tag(tag)),
            (8, _) => Plan::Sorted(Sorted::Created),
            (9, Detail::Light) => Plan::Counted(Counted::Unique("namespace")),
            (9, Detail::Medium) => Plan::Sorted(Sorted::Confidence),
            (9, Detail::Full) => Plan::Sorted(Sorted::ProvenanceConfidence),
            (_, Detail::Light) => Plan::Counted(Counted::groups("memory_type")),
            (_, Detail::Medium | Detail::Full) => {
                Plan::Each(Each::Content(Box::new(Keyword::new(&keyword)?)))
            }
        };
        Ok(Self { plan, page: Page::ALL, threads: available_threads(), deadline: None })
    }

    /// Asks for some of the answers only.
    pub fn page(mut self, page: Page) -> Self {
        self.page = page;
        self
    }

    /// Says how many threads may work on it; by default as many as there are processors.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Says when to give up, with [`RecipeError::Time`].
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Answers from the records of `source`, whose first line begins at `begin`.
    ///
    /// The answers go to `sink` in the order of `jq`. The records behind the page, and those after
    /// a [`Rest::Count`], are only counted.
    pub fn run(
        &self,
        source: &dyn PositionedRead,
        begin: u64,
        sink: &mut Sink<'_>,
    ) -> Result<Ran, RecipeError> {
        let mut outlet = Outlet::new(self.page, sink);
        let records = match &self.plan {
            Plan::Each(each) => each.run(&self.scan(source, begin), &mut outlet),
            Plan::Sorted(sorted) => sorted.run(source, &self.scan(source, begin), &mut outlet),
            Plan::Counted(counted) => counted.run(&self.scan(source, begin), &mut outlet),
        }?;
        let form = match self.plan {
            Plan::Each(Each::Titles) => Form::Text,
            _ => Form::Json,
        };
        Ok(Ran { records, total: outlet.total(), given: outlet.given(), form })
    }

    fn scan<'s>(&self, source: &'s dyn PositionedRead, begin: u64) -> Scan<'s> {
        let spans = Spans::new(source, begin, SPAN);
        Scan { spans, threads: self.threads, deadline: self.deadline }
    }
}

/// One walk over all records.
struct Scan<'s> {
    spans: Spans<'s>,
    threads: NonZeroUsize,
    deadline: Option<Instant>,
}

/// What a chunk of records came to, and the record it came no further than.
struct Worked<T> {
    result: T,
    records: u64,
    flaw: Option<error::Flaw>,
}

impl Scan<'_> {
    /// Lets `each` see every record with its place, chunk by chunk, and hands what it gathered to
    /// `take` in order. Says how many records there were.
    fn gather<S, T: Default + Send>(
        &self,
        state: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &mut T, u64, &[u8]) -> Result<(), error::Flaw> + Sync,
        finish: impl Fn(&mut T) + Sync,
        mut take: impl FnMut(T) -> Result<ControlFlow<()>, RecipeError>,
    ) -> Result<u64, RecipeError> {
        let mut total = 0;
        self.spans.in_order(
            self.threads,
            state,
            |state, chunk| {
                if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(RecipeError::Time);
                }
                let mut worked = Worked { result: T::default(), records: 0, flaw: None };
                for (at, record) in records(chunk) {
                    if let Err(flaw) = each(state, &mut worked.result, at, record) {
                        worked.flaw = Some(flaw);
                        break;
                    }
                    worked.records += 1;
                }
                finish(&mut worked.result);
                Ok(worked)
            },
            |worked| {
                total += worked.records;
                let flow = take(worked.result)?;
                match worked.flaw {
                    Some(flaw) if flow.is_continue() => Err(flaw.of_record(total)),
                    _ => Ok(flow),
                }
            },
        )?;
        Ok(total)
    }
}

/// The lines that are not blank.
fn records(chunk: Chunk<'_>) -> impl Iterator<Item = (u64, &[u8])> {
    chunk.lines().filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace))
}

// --- Params: what a recipe is told besides its number. Data, never program text (Spec N3).

/// The values for a recipe's placeholders.
///
/// The defaults are the placeholders of the specification's commands, so that a recipe without
/// parameters answers what its command would.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Params {
    /// How the namespaces wanted by recipe 2 begin.
    pub namespace: String,
    /// What titles (recipe 3) and contents (recipe 10) are searched for: a regular expression,
    /// upper and lower case alike. One difference from `jq` is known: `ss` does not find `ß`.
    pub keyword: String,
    /// The type of memory wanted by recipe 5.
    pub memory_type: String,
    /// The tag wanted by recipe 7.
    pub tag: String,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            namespace: "_semantic".to_owned(),
            keyword: "keyword".to_owned(),
            memory_type: "semantic".to_owned(),
            tag: "TAG".to_owned(),
        }
    }
}

impl Params {
    /// Their names.
    pub const NAMES: [&'static str; 4] = ["namespace", "keyword", "memory_type", "tag"];

    /// Sets the parameter of this name.
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

// --- Counts all values and passes on those of one page.

pub(super) struct Outlet<'a, 'k> {
    page: Page,
    sink: &'a mut Sink<'k>,
    seen: u64,
    given: u64,
    rest: Option<Rest>,
}

impl<'a, 'k> Outlet<'a, 'k> {
    pub(super) fn new(page: Page, sink: &'a mut Sink<'k>) -> Self {
        Self { page, sink, seen: 0, given: 0, rest: None }
    }

    /// Whether answers are only counted from now on.
    pub(super) fn only_counts(&self) -> bool {
        self.rest.is_some() || self.page.is_past(self.seen)
    }

    /// Which of the next `count` answers are wanted.
    pub(super) fn wanted(&self, count: usize) -> Range<usize> {
        let within = |number: u64| {
            usize::try_from(number.saturating_sub(self.seen)).unwrap_or(usize::MAX).min(count)
        };
        match self.rest {
            Some(_) => count..count,
            None => {
                within(self.page.offset)..within(self.page.offset.saturating_add(self.page.limit))
            }
        }
    }

    /// Whether the answer that comes next is wanted.
    fn wants_next(&self) -> bool {
        self.rest.is_none() && self.page.holds(self.seen)
    }

    /// Hands an answer on if it is wanted; breaks when none shall even be counted.
    pub(super) fn give(&mut self, answer: &[u8]) -> ControlFlow<()> {
        let wanted = self.wants_next();
        self.seen += 1;
        if wanted {
            self.given += 1;
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

    /// Counts answers that nobody looks at.
    pub(super) fn count(&mut self, answers: u64) {
        self.seen += answers;
    }

    pub(super) fn given(&self) -> u64 {
        self.given
    }

    pub(super) fn total(&self) -> Total {
        match self.rest {
            Some(Rest::Leave) => Total::AtLeast(self.seen),
            _ => Total::Exactly(self.seen),
        }
    }
}
