//! Recipe: the ten ready-made questions, answered natively.
//!
//! The same answers as the commands of [`lro_core::recipes`] give with the real `jq`, from borrowed
//! fields: a record is never parsed into values, and one that is an answer comes out with the
//! lexemes it came in with. Where `jq` would print an array of everything (recipes 6, 8 and 9, and
//! 10 at the light level), each of its elements is an answer, so that a reply can be cut between them.
//!
//! A field that is absent or of another kind counts as empty text (an empty array, 0), as in the
//! recipes for such records; records that are no objects have no fields.

mod error;
mod group_by;
mod json_cursor;
mod json_string;
mod key;
mod keyword;
mod params;
mod random_access;
mod record;
mod scan;
mod sort_by;
mod window;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::Instant;

use lro_core::{Detail, RECIPES};
use lro_spool::PositionedRead;

pub use error::RecipeError;
pub use params::Params;

use self::group_by::Counted;
use self::keyword::Keyword;
use self::scan::Each;
use self::sort_by::Sorted;
use self::window::Outlet;
use crate::lines::{Chunk, Spans, available_threads};
use crate::page::{Page, Rest, Total};

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
