//! The recall service, and the rendering of recalled memories into a prompt.

use std::fmt::Write;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::embed::Embedder;
use super::listing::Filter;
use super::search::hybrid::{HybridQuery, HybridSearch, MAX_HITS, Mode};
use super::search::query::Need;
use super::search::{RankPosition, SearchHit, SearchResults};
use super::store::{MemoryStore, StoreError};

/// Marks the place where a memory was truncated.
const ELLIPSIS: &str = " […]";
/// The minimum length of a section, in tokens. A shorter one carries no information.
const MIN_SECTION_TOKENS: u64 = 12;

/// A recall: memories related to a query.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecallRequest {
    /// The query. An empty one returns all memories, newest first.
    pub query: String,
    /// Which memories to consider.
    pub filter: Filter,
    /// The maximum number of hits; `None` for all, up to [`MAX_HITS`].
    pub limit: Option<usize>,
    /// Return only hits after this position.
    pub after: Option<RankPosition>,
    /// The current time, which decides about decay and expiry.
    pub now: DateTime<Utc>,
}

impl RecallRequest {
    /// Creates a recall of everything related to `query`.
    pub fn new(query: impl Into<String>, now: DateTime<Utc>) -> Self {
        Self { query: query.into(), filter: Filter::default(), limit: None, after: None, now }
    }
}

/// Recalls memories related to a query.
#[derive(Clone)]
pub struct RecallService(pub(crate) HybridSearch);

impl RecallService {
    /// Creates a service over `store`. Without an embedder it ranks by words alone.
    pub fn new(store: Arc<dyn MemoryStore>, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self(HybridSearch { store, embedder })
    }

    /// Returns the memories related to the query, best first.
    pub async fn recall(&self, request: &RecallRequest) -> Result<Vec<SearchHit>, StoreError> {
        self.results(request).await.map(|results| results.hits)
    }

    /// Like [`recall`](Self::recall), and also returns the total, the ranking and a warning.
    pub async fn results(&self, request: &RecallRequest) -> Result<SearchResults, StoreError> {
        self.0
            .search(&HybridQuery {
                query: &request.query,
                need: Need::Any,
                mode: Mode::Hybrid,
                filter: &request.filter,
                limit: request.limit.unwrap_or(MAX_HITS).min(MAX_HITS),
                after: request.after.as_ref(),
                now: request.now,
            })
            .await
    }
}

/// A function that estimates the number of tokens of a text.
pub type TokenEstimator = Arc<dyn Fn(&str) -> u64 + Send + Sync>;

/// Renders recalled memories into a prompt.
#[derive(Clone)]
pub struct PromptIntegration {
    recall: RecallService,
    estimate: TokenEstimator,
}

/// Memories rendered for a prompt.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PromptContext {
    /// All hits, regardless of the budget.
    pub results: SearchResults,
    /// The hits that fit into the budget, as Markdown.
    pub text: String,
    /// The number of memories in the text, including a truncated one.
    pub included: usize,
}

impl PromptIntegration {
    /// Creates a renderer for the hits of `recall`, with `estimate` as its token counter.
    pub fn new(recall: RecallService, estimate: TokenEstimator) -> Self {
        Self { recall, estimate }
    }

    /// Recalls memories and returns them as Markdown of at most `budget` tokens.
    pub async fn inject_context(
        &self,
        request: &RecallRequest,
        budget: u64,
    ) -> Result<String, StoreError> {
        self.context(request, budget).await.map(|context| context.text)
    }

    /// Like [`inject_context`](Self::inject_context), and also returns the hits.
    pub async fn context(
        &self,
        request: &RecallRequest,
        budget: u64,
    ) -> Result<PromptContext, StoreError> {
        let results = self.recall.results(request).await?;
        let (text, included) = render(&results.hits, budget, &*self.estimate);
        Ok(PromptContext { results, text, included })
    }
}

/// Renders the hits in order, each whole. When no further hit fits, the best of those left out is
/// truncated at the end of a sentence. A first hit that is too long is truncated and stays the only
/// one.
fn render(
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
            // The best hit matters more than others that would fit whole.
            too_long = Some(hit);
            break;
        } else if too_long.is_none() {
            too_long = Some(hit);
        }
        if left < MIN_SECTION_TOKENS {
            break;
        }
    }
    if let Some(section) = too_long.and_then(|hit| truncate(hit, left, estimate)) {
        text.push_str(&section);
        included += 1;
    }
    (text, included)
}

fn section(hit: &SearchHit, content: &str) -> String {
    let memory = &hit.memory;
    let namespace = memory.namespace.as_ref().map_or("-", mif::Namespace::as_str);
    let mut section = String::new();
    // Writing to a string cannot fail. The title is put on one line, since its other lines could be
    // read as headings.
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

/// Returns the section with as many whole sentences as fit.
fn truncate(
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
        estimate(&section(hit, &format!("{}{ELLIPSIS}", content[..*end].trim_end()))) <= budget
    };
    let fitting = ends.partition_point(fits);
    let end = *ends.get(fitting.checked_sub(1)?)?;
    Some(section(hit, &format!("{}{ELLIPSIS}", content[..end].trim_end())))
}
