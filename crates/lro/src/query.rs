//! Queries of stored results, and replies as a model reads them, with "n of m" first.
//!
//! f31: a reply is truncated at a record within its token limit, and never offloaded.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use lro_core::{Measure, NoTokenizer, Preview, ResultId, Tokenizer, Tokens, tokens};
use lro_query::{Offset, Page, Total, read, search};
use lro_spool::{Address, Foreign, Spool, SpoolError, StoredResult};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A query of a stored result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Query {
    /// The result.
    pub address: Address,
    /// The kind of query.
    pub wanted: QueryKind,
    /// The requested answers; ignored by reads, which have their own bounds. A search has its own
    /// offset.
    pub page: Page,
    /// The part: 0 is the data, from 1 on the further texts of the same tool result. Without a part,
    /// a search covers all of them, and other queries read the data.
    pub part: Option<u64>,
    /// What is read of the data.
    pub target: QueryTarget,
}

/// What a query reads of the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a result is read as stored or as it arrived")]
pub enum QueryTarget {
    /// The records, the lines of a text, or the document.
    #[default]
    Records,
    /// The original payload: a JSON document for filters, a text of lines for everything else.
    Original,
}

impl Query {
    /// A query for all answers from the data.
    pub fn new(address: Address, wanted: QueryKind) -> Self {
        Self { address, wanted, page: Page::ALL, part: None, target: QueryTarget::Records }
    }

    /// Restricts the answers to one page.
    pub fn page(mut self, page: Page) -> Self {
        self.page = page;
        self
    }

    /// Selects a part.
    pub fn part(mut self, part: Option<u64>) -> Self {
        self.part = part;
        self
    }

    /// Selects what is read of the data.
    pub fn target(mut self, target: QueryTarget) -> Self {
        self.target = target;
        self
    }
}

/// Parameter values by name, as raw JSON: data, never program text (Spec N3).
pub type Values = BTreeMap<String, Box<RawValue>>;

/// The kind of a query.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum QueryKind {
    /// A recipe.
    Recipe {
        /// The number, from 1 to 10.
        number: u64,
        /// The parameters.
        params: Values,
    },
    /// A jq filter.
    Jq {
        /// The filter.
        filter: String,
        /// Whether it runs once on the array of all records instead of on each record.
        whole: bool,
        /// The variables.
        params: Values,
    },
    /// An SQL statement.
    Sql {
        /// The statement.
        statement: String,
        /// Further results, by alias.
        with: BTreeMap<String, Address>,
        /// The bound parameters.
        params: Values,
    },
    /// A search for lines that match a regular expression.
    Search {
        /// The expression.
        pattern: String,
        /// Whether case matters.
        case: search::Case,
        /// The maximum number of matching lines, or of groups.
        most: usize,
        /// The number of context lines around each match.
        context: usize,
        /// The first matching line, or the first group.
        offset: Offset,
        /// The capture group to count instead of returning lines; 0 is the whole match.
        group_by: Option<usize>,
    },
    /// A read of a range.
    Read {
        /// The unit of the range.
        unit: read::ReadUnit,
        /// The first unit.
        start: Offset,
        /// The end, exclusive.
        end: Option<u64>,
        /// The maximum number of units in the reply, within the range.
        most: u64,
    },
    /// A link to the whole result.
    Link,
}

impl QueryKind {
    /// The name of the kind, one word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Recipe { .. } => "recipe",
            Self::Jq { .. } => "jq",
            Self::Sql { .. } => "sql",
            Self::Search { .. } => "search",
            Self::Read { .. } => "read",
            Self::Link => "link",
        }
    }
}

/// The tokens reserved for the first line and the notes.
const RESERVED_TOKENS: u64 = 120;

/// The token budget of the body of a reply.
pub(crate) fn body_budget(limit: Tokens) -> u64 {
    limit.0.saturating_sub(RESERVED_TOKENS).max(1)
}

/// The reply to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The number of answers in the reply.
    pub given: u64,
    /// The total number of answers.
    pub total: Total,
    /// The unit of the answers.
    pub unit: ReplyUnit,
    /// The answers: data, one line each unless they are characters.
    pub body: String,
    /// The offset of the next answers.
    pub next: Option<u64>,
    /// Notes without text from the result, except for JSON-encoded names.
    pub notes: Vec<String>,
}

/// The unit of the answers in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyUnit {
    /// Answers of a recipe.
    Answers,
    /// Values of a jq filter.
    Values,
    /// Rows of an SQL statement.
    Rows,
    /// Matching lines.
    MatchingLines,
    /// Texts of a capture group.
    Groups,
    /// Characters of the file.
    Characters,
    /// Lines of the file.
    Lines,
    /// Records.
    Records,
    /// Links to the whole result.
    Links,
}

impl ReplyUnit {
    /// The name, in the plural.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answers => "answers",
            Self::Values => "values",
            Self::Rows => "rows",
            Self::MatchingLines => "matching lines",
            Self::Groups => "groups",
            Self::Characters => "characters",
            Self::Lines => "lines",
            Self::Records => "records",
            Self::Links => "links",
        }
    }

    /// The argument that requests the next answers.
    fn continuation(self, next: u64) -> Option<String> {
        match self {
            Self::Answers | Self::Values | Self::Rows | Self::MatchingLines | Self::Groups => {
                Some(format!("offset={next}"))
            }
            Self::Characters | Self::Lines | Self::Records => Some(format!("start={next}")),
            Self::Links => None,
        }
    }
}

impl Reply {
    /// The number of answers that are a record or a part of one.
    pub(crate) fn records(&self) -> u64 {
        match self.unit {
            // A record is a line: characters are as many records as the lines they touch.
            ReplyUnit::Characters => self.body.lines().count() as u64,
            // What the client downloads is unknown here, and a group is no record.
            ReplyUnit::Links | ReplyUnit::Groups => 0,
            _ => self.given,
        }
    }

    /// The text for the model.
    pub fn text(&self) -> String {
        let mut text = format!("{} of {} {}.", self.given, self.total, self.unit.as_str());
        if let Some(more) = self.next.and_then(|next| self.unit.continuation(next)) {
            // Writing to a String cannot fail.
            let _ = write!(text, " More: {more}.");
        }
        for note in &self.notes {
            // Notes quote names of fields and strings of queries.
            let _ = write!(text, "\nNote: {}", lro_core::escape_invisible(note));
        }
        text.push('\n');
        text.push_str(&self.body);
        text
    }
}

/// Shorter runs of equal answers are written out.
#[cfg(any(feature = "jq", feature = "sql"))]
const MIN_COLLAPSED: u64 = 4;

/// Collects answers until the token budget of a reply is used up.
pub(crate) struct ReplyBuilder<'t> {
    tokenizer: &'t dyn Tokenizer,
    left: u64,
    body: String,
    count: u64,
    /// Whether the only answer is truncated.
    truncated: bool,
    full: bool,
}

impl<'t> ReplyBuilder<'t> {
    pub(crate) fn new(limit: Tokens, tokenizer: &'t dyn Tokenizer) -> Self {
        Self {
            tokenizer,
            left: body_budget(limit),
            body: String::new(),
            count: 0,
            truncated: false,
            full: false,
        }
    }

    /// Adds an answer if it fits. The first answer is always added, truncated if necessary: a reply
    /// without any answer is useless. Returns false if the reply is full.
    pub(crate) fn add(&mut self, line: &[u8]) -> bool {
        if self.full {
            return false;
        }
        let line = String::from_utf8_lossy(line);
        if let Some(cost) = cost(&line, self.left, self.tokenizer) {
            self.push(&line, cost);
            return true;
        }
        self.full = true;
        if self.count > 0 {
            return false;
        }
        self.truncated = true;
        // The budget of a preview is measured by characters: unusual text may take more tokens.
        let mut budget = self.left;
        let mut text = truncate_answer(&line, budget);
        while budget > 0 && cost(&text, self.left, self.tokenizer).is_none() {
            budget = budget * 3 / 4;
            text = truncate_answer(&line, budget);
        }
        self.push(&text, 0);
        true
    }

    /// Adds an answer that comes `more` further times, as one line and a count.
    #[cfg(any(feature = "jq", feature = "sql"))]
    pub(crate) fn add_run(&mut self, line: &[u8], more: u64) -> bool {
        if more < MIN_COLLAPSED {
            return (0..=more).all(|_| self.add(line));
        }
        if !self.add(line) {
            return false;
        }
        let count = format!("\u{2026} and {more} more times the same");
        self.push(&count, count.len() as u64);
        // The line with the count stands for all of them.
        self.count += more - 1;
        !self.full
    }

    fn push(&mut self, line: &str, cost: u64) {
        // One more for the line break.
        self.left = self.left.saturating_sub(cost + 1);
        self.full = self.full || self.left == 0;
        self.body.push_str(line);
        self.body.push('\n');
        self.count += 1;
    }

    /// The reply with all added answers, the first of which is number `offset` of `total`.
    pub(crate) fn finish(self, unit: ReplyUnit, total: Total, offset: u64) -> Reply {
        let end = offset + self.count;
        let mut notes = Vec::new();
        if self.truncated {
            notes.push(
                "the value is larger than a reply, so its long texts are cut; select single \
                 fields, or read the record with read_large_output"
                    .to_owned(),
            );
        }
        let next = (self.count > 0 && end < total.number()).then_some(end);
        Reply { given: self.count, total, unit, body: self.body, next, notes }
    }
}

/// A matching line, as JSON.
pub(crate) fn match_to_json(matched: &search::SearchMatch) -> Value {
    let text = |excerpt: &search::Excerpt| excerpt.text.clone();
    let mut json =
        json!({"line": matched.line, "column": matched.column, "text": text(&matched.text)});
    let cut = matched.text.skipped > 0 || matched.text.end == search::LineEnd::Cut;
    if cut {
        json["cut"] = json!({"from": matched.text.skipped});
    }
    if matched.unescaped {
        json["unescaped"] = true.into();
    }
    for (name, lines) in [("before", &matched.before), ("after", &matched.after)] {
        if !lines.is_empty() {
            json[name] = lines.iter().map(text).collect();
        }
    }
    json
}

/// Truncates the long strings of an answer to about `budget` tokens; empty if that is too few.
fn truncate_answer(line: &str, budget: u64) -> String {
    let preview = Preview::from_records(line, Tokens(budget))
        .or_else(|| Preview::from_text(line, Tokens(budget)));
    match preview {
        Some((Preview::Records(records), _)) => {
            records.first().map(|record| record.get().to_owned()).unwrap_or_default()
        }
        Some((Preview::Text(text), _)) => text.replace('\n', " "),
        _ => String::new(),
    }
}

/// The tokens of `text`, or `None` if they exceed `limit`.
pub(crate) fn cost(text: &str, limit: u64, tokenizer: &dyn Tokenizer) -> Option<u64> {
    let max_len = usize::try_from(limit.saturating_mul(64)).unwrap_or(usize::MAX);
    if text.len() > max_len {
        return None;
    }
    if let Ok(counted) = tokenizer.count_till(text, limit) {
        return counted.map(|tokens| tokens.0);
    }
    // f36: text must never count as nothing if the tokenizer fails.
    let measure = Measure::from_bytes(text.as_bytes());
    let Tokens(estimate) = tokens::count(measure, text, &NoTokenizer).tokens;
    (estimate <= limit).then_some(estimate)
}

/// The spools that may contain a result, searched in order.
#[derive(Clone)]
pub struct Spools(Vec<Arc<dyn Spool>>);

impl Spools {
    /// Searches `spools` in order.
    pub fn new(spools: Vec<Arc<dyn Spool>>) -> Self {
        Self(spools)
    }

    /// Opens a result from the first spool that has it.
    pub fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError> {
        let mut missing = SpoolError::NotFound { asked: address.to_string() };
        for spool in &self.0 {
            match spool.open(address, now) {
                // A path in one directory is outside of the others.
                Err(
                    SpoolError::NotFound { .. }
                    | SpoolError::NotOurs { why: Foreign::Elsewhere, .. },
                ) => {}
                Err(
                    error @ (SpoolError::NotOurs { .. }
                    | SpoolError::Io { .. }
                    | SpoolError::Remote { .. }),
                ) => {
                    missing = error;
                }
                other => return other,
            }
        }
        Err(missing)
    }
}

/// Creates links to stored results. A link grants access to its result for a few minutes, without
/// other authentication.
pub trait LinkProvider: Send + Sync {
    /// A link to the result, valid from `now` on; `None` if no link can be created.
    fn link(&self, id: ResultId, now: DateTime<Utc>) -> Option<String>;
}
