//! Recall: what is remembered about something.

use std::fmt::Write;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::embed::Embedder;
use super::listing::Filter;
use super::search::fusion::{Finder, MOST_HITS, Mode, Question};
use super::search::query::Need;
use super::search::{Found, RankPosition, SearchHit};
use super::store::{MemoryStore, StoreError};

/// A wish to remember.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecallRequest {
    /// About what; nothing for everything, the newest first.
    pub query: String,
    /// Among which memories.
    pub filter: Filter,
    /// At most so many; `None` for all, up to [`MOST_HITS`].
    pub limit: Option<usize>,
    /// Behind this answer.
    pub after: Option<RankPosition>,
    /// The time it is, which decides what has faded or is gone.
    pub now: DateTime<Utc>,
}

impl RecallRequest {
    /// All that is remembered about `query`.
    pub fn new(query: impl Into<String>, now: DateTime<Utc>) -> Self {
        Self { query: query.into(), filter: Filter::default(), limit: None, after: None, now }
    }
}

/// Remembers.
#[derive(Clone)]
pub struct RecallService(pub(crate) Finder);

impl RecallService {
    /// Recalls from `store`, by words, and with an embedder by vectors too.
    pub fn new(store: Arc<dyn MemoryStore>, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self(Finder { store, embedder })
    }

    /// The memories that have to do with what is asked, the best first.
    pub fn recall(&self, request: &RecallRequest) -> Result<Vec<SearchHit>, StoreError> {
        self.found(request).map(|found| found.hits)
    }

    /// The same, with what is known about the answers as a whole.
    pub fn found(&self, request: &RecallRequest) -> Result<Found, StoreError> {
        self.0.find(&Question {
            query: &request.query,
            need: Need::Any,
            mode: Mode::Hybrid,
            filter: &request.filter,
            limit: request.limit.unwrap_or(MOST_HITS).min(MOST_HITS),
            after: request.after.as_ref(),
            now: request.now,
        })
    }
}

// --- Prompt: what is remembered, written for a model to read.

/// How many tokens a text takes.
pub type Estimate = Arc<dyn Fn(&str) -> u64 + Send + Sync>;

/// Stands where a memory was cut.
const CUT: &str = " […]";
/// What is written of a memory at the least, in tokens; less says nothing.
const LEAST: u64 = 12;

/// Writes memories into a prompt.
#[derive(Clone)]
pub struct PromptIntegration {
    recall: RecallService,
    estimate: Estimate,
}

/// Memories for a prompt.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Context {
    /// All that was found, whatever the budget.
    pub found: Found,
    /// What the budget has room for, as Markdown.
    pub text: String,
    /// How many memories are in it, a cut one included.
    pub included: usize,
}

impl PromptIntegration {
    /// Writes what `recall` finds; `estimate` says how long it is.
    pub fn new(recall: RecallService, estimate: Estimate) -> Self {
        Self { recall, estimate }
    }

    /// What is remembered about something, as Markdown of at most `budget` tokens.
    pub fn inject_context(
        &self,
        request: &RecallRequest,
        budget: u64,
    ) -> Result<String, StoreError> {
        self.context(request, budget).map(|context| context.text)
    }

    /// The same, with what it was made from.
    pub fn context(&self, request: &RecallRequest, budget: u64) -> Result<Context, StoreError> {
        let found = self.recall.found(request)?;
        let (text, included) = rendered(&found.hits, budget, &*self.estimate);
        Ok(Context { found, text, included })
    }
}

/// The best first, each whole; where no further one fits, the best of those left out is cut at the
/// end of a sentence. A best one that is too long is cut and stands alone.
fn rendered(
    hits: &[SearchHit],
    budget: u64,
    estimate: &(dyn Fn(&str) -> u64 + Send + Sync),
) -> (String, usize) {
    let mut text = String::new();
    let mut included = 0;
    let mut left = budget;
    let mut too_long = None;
    for hit in hits {
        let section = section(hit, &hit.memory.content);
        let tokens = estimate(&section);
        if tokens <= left {
            text.push_str(&section);
            left -= tokens;
            included += 1;
        } else if included == 0 {
            // Nothing is better than the best, not even what fits whole.
            too_long = Some(hit);
            break;
        } else if too_long.is_none() {
            too_long = Some(hit);
        }
        if left < LEAST {
            break;
        }
    }
    if let Some(cut) = too_long.and_then(|hit| cut(hit, left, estimate)) {
        text.push_str(&cut);
        included += 1;
    }
    (text, included)
}

fn section(hit: &SearchHit, content: &str) -> String {
    let memory = &hit.memory;
    let namespace = memory.namespace.as_ref().map_or("-", mif::Namespace::as_str);
    let mut section = String::new();
    // Writing to a string cannot fail. A title of several lines would make headings of its own.
    let _ = write!(
        section,
        "## {}\n{namespace} · {} · score {:.2}\n\n{}\n\n",
        memory.called().split_whitespace().collect::<Vec<_>>().join(" "),
        memory.id,
        hit.score,
        content.trim_end(),
    );
    section
}

/// As many whole sentences as fit.
fn cut(
    hit: &SearchHit,
    budget: u64,
    estimate: &(dyn Fn(&str) -> u64 + Send + Sync),
) -> Option<String> {
    let content = &hit.memory.content;
    let ends = content.char_indices().filter_map(|(at, c)| {
        let end = at + c.len_utf8();
        let after = content[end..].chars().next();
        let ends = match c {
            '.' | '!' | '?' => after.is_none_or(char::is_whitespace),
            '。' | '！' | '？' | '\n' => true,
            _ => false,
        };
        ends.then_some(end)
    });
    let ends: Vec<usize> = ends.collect();
    let fits = |end: &usize| {
        estimate(&section(hit, &format!("{}{CUT}", content[..*end].trim_end()))) <= budget
    };
    let fitting = ends.partition_point(fits);
    let end = *ends.get(fitting.checked_sub(1)?)?;
    Some(section(hit, &format!("{}{CUT}", content[..end].trim_end())))
}
