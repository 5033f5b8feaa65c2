//! `atlatl memory search` and `atlatl memory list`: filters, limits, and rendering of memories.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use atlatl_memory::{
    Correction, EmptyAnswer, Filter, Highlighter, MatchedBy, Order, RankedBy, RecallRequest,
    RecallService, SearchHit, SearchRequest, SearchResults, SearchService, Snippet, TotalAccuracy,
};
use chrono::{DateTime, NaiveDate, Utc};
use mif::{Memory, MemoryType, Namespace, Status as MemoryStatus, UnitInterval};
use serde::{Serialize, Serializer};

use super::vectors;
use crate::error::{Error, Status};
use crate::memory_config;
use crate::output::{
    Facts, Mode, Output, Table, counted, distance, emphasized, grouped, printable,
};
use crate::settings::Settings;

/// Examples for `atlatl memory search --help`.
pub(crate) const SEARCH_EXAMPLES: &str = "\
Examples:
  atlatl memory search 'when do we deploy'
  atlatl memory search --all-words '\"feature flag\" rollout' --tag release
  atlatl memory search --explain 'when do we deploy'
  atlatl memory search deploy --since 2026-01-01 --json";

/// Arguments of `atlatl memory search`.
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// Words to find; "" finds everything, newest first
    #[arg(value_name = "QUERY")]
    query: String,
    /// Require all words; words in double quotes must be
    /// consecutive
    #[arg(long, verbatim_doc_comment)]
    all_words: bool,
    /// Show why each memory matches, with a snippet
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    selection: FilterArgs,
    /// Maximum number [default: 20; 1000 with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: Option<u16>,
}

/// Runs `atlatl memory search`.
pub(super) async fn search(
    args: &SearchArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let now = memory_config::moment().now;
    let results = args.results(settings, page_limit(args.limit, output), now).await?;
    let hits = results.as_ref().map_or(&[][..], |results| &results.hits[..]);
    let memories: Vec<&Memory> = hits.iter().map(|hit| &hit.memory).collect();
    let ranked_by = results.as_ref().map_or(RankedBy::Lexical, |results| results.ranked_by);
    let ranking = match &results {
        Some(results) => Ranking::new(results, args.explain),
        None => Ranking { scores: Some(Vec::new()), ..Ranking::default() },
    };
    let total = results.as_ref().map_or(0, |results| results.total_matches);
    let accuracy = results.as_ref().map_or(TotalAccuracy::Exact, |results| results.accuracy);
    let corrections = results.as_ref().map_or(&[][..], |results| &results.corrections[..]);
    let empty = match &results {
        Some(results) => results.empty.as_ref(),
        None => Some(&EmptyAnswer::NothingStored),
    };
    let hint = empty.and_then(hint);
    match output.mode() {
        Mode::Json => {
            let list = MemoryList {
                count: memories.len(),
                total_matches: total,
                total_is_lower_bound: accuracy == TotalAccuracy::AtLeast,
                total_is_estimate: accuracy == TotalAccuracy::Estimated,
                detail: "full",
                ranked_by: Some(ranked_by.as_str()),
                corrected: corrected(corrections),
                hint: hint.as_deref(),
                memories: memories.clone(),
                ranking,
            };
            output.lexemes(&serde_json::to_string(&list).map_err(std::io::Error::from)?)?;
        }
        Mode::Human if memories.is_empty() => {}
        Mode::Human => output.table(&render_table(&memories, &ranking, now))?,
    }
    note_total(memories.len(), total, accuracy, output);
    for Correction { written, used, .. } in corrections {
        let used = quoted(used);
        output.note(format_args!("no memory contains \"{written}\"; searched for {used}"));
    }
    if let Some(warning) = results.as_ref().and_then(|results| results.warning.as_ref()) {
        output.note(warning);
    }
    if let Some(hint) = hint {
        output.hint(hint);
    }
    Ok(Status::Success)
}

/// Says why nothing matches, and which command helps.
fn hint(empty: &EmptyAnswer) -> Option<String> {
    Some(match empty {
        EmptyAnswer::NothingStored => {
            "no memories are stored yet: atlatl memory add, or atlatl memory import".to_owned()
        }
        EmptyAnswer::Filtered { matches, accuracy, filters } => {
            let (filters, bound) = (filters.join(", "), accuracy.qualifier());
            let matches = counted(*matches, "memory matches", "memories match");
            format!("{bound}{matches} without the filters ({filters})")
        }
        EmptyAnswer::UnknownWords(words) => {
            let words = quoted(words);
            format!(
                "no memory contains {words} or a word of similar spelling: use other words, or \
                 atlatl memory list"
            )
        }
        EmptyAnswer::NotTogether { some, accuracy } => {
            let bound = accuracy.qualifier();
            let some = counted(*some, "memory contains", "memories contain");
            format!("{bound}{some} some of these words: search without --all-words")
        }
        _ => return None,
    })
}

/// Words in quotes, for a sentence.
fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    words.join(", ")
}

/// Misspelt words with the words that were searched instead.
fn corrected(corrections: &[Correction]) -> BTreeMap<&str, &[String]> {
    corrections.iter().map(|one| (one.written.as_str(), one.used.as_slice())).collect()
}

impl SearchArgs {
    /// Runs the search; `None` if there is no store.
    async fn results(
        &self,
        settings: &Settings,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Option<SearchResults>, Error> {
        let Some(store) = memory_config::open_existing(settings).await? else { return Ok(None) };
        let embedder = memory_config::embedder(settings)?;
        if let Some(embedder) = embedder.as_ref().filter(|_| !self.query.trim().is_empty()) {
            vectors::embed_some(&*store, embedder, settings).await;
        }
        let filter = self.selection.filter(Some(MemoryStatus::Active));
        let results = if self.all_words {
            let mut request = SearchRequest::new(&*self.query, now);
            (request.filter, request.limit) = (filter, Some(limit));
            SearchService::new(store, embedder).results(&request).await?
        } else {
            let mut request = RecallRequest::new(&*self.query, now);
            (request.filter, request.limit) = (filter, Some(limit));
            RecallService::new(store, embedder).results(&request).await?
        };
        Ok(Some(results))
    }
}

/// The default number of memories on a terminal.
const DEFAULT_LIMIT_HUMAN: usize = 20;
/// The default number of memories in JSON.
const DEFAULT_LIMIT_JSON: usize = 1000;

/// Arguments of `atlatl memory list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    selection: FilterArgs,
    /// Order: newest, oldest or changed
    #[arg(long, value_name = "ORDER", default_value = "newest")]
    order: Order,
    /// Maximum number [default: 20; 1000 with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: Option<u16>,
}

/// Runs `atlatl memory list`.
pub(super) async fn list(
    args: &ListArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let now = memory_config::moment().now;
    let filter = args.selection.filter(Some(MemoryStatus::Active));
    let (memories, total) = match memory_config::open_existing(settings).await? {
        None => (Vec::new(), 0),
        Some(store) => {
            let listed = store
                .list(&filter, args.order, None, page_limit(args.limit, output), now)
                .await?
                .memories;
            (listed, store.count(&filter, now).await?)
        }
    };
    let memories: Vec<&Memory> = memories.iter().collect();
    match output.mode() {
        Mode::Json => {
            let list = MemoryList {
                count: memories.len(),
                total_matches: total,
                total_is_lower_bound: false,
                total_is_estimate: false,
                detail: "full",
                ranked_by: None,
                corrected: BTreeMap::new(),
                hint: None,
                memories: memories.clone(),
                ranking: Ranking::default(),
            };
            output.lexemes(&serde_json::to_string(&list).map_err(std::io::Error::from)?)?;
        }
        Mode::Human if memories.is_empty() => {}
        Mode::Human => output.table(&render_table(&memories, &Ranking::default(), now))?,
    }
    note_total(memories.len(), total, TotalAccuracy::Exact, output);
    Ok(Status::Success)
}

/// The requested limit, or the default for the output mode.
fn page_limit(requested: Option<u16>, output: &Output) -> usize {
    let fitting =
        if output.mode() == Mode::Human { DEFAULT_LIMIT_HUMAN } else { DEFAULT_LIMIT_JSON };
    requested.map_or(fitting, usize::from)
}

/// Notes how many of the matching memories are shown.
fn note_total(count: usize, total: u64, accuracy: TotalAccuracy, output: &mut Output) {
    let all = counted(total, "memory", "memories");
    let bound = accuracy.qualifier();
    output.note(format_args!("{} of {bound}{all}", grouped(count as u64)));
}

/// Flags that filter memories.
#[derive(Debug, clap::Args)]
pub(super) struct FilterArgs {
    /// Only this namespace and those below it
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// Only this type: semantic, episodic or procedural
    #[arg(long = "type", value_name = "TYPE")]
    memory_type: Option<MemoryType>,
    /// With this tag; repeat it to require several tags
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Created at this time or later, such as 2026-01-31
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<DateTime<Utc>>,
    /// Created before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<DateTime<Utc>>,
    /// Minimum confidence, from 0 to 1
    #[arg(long, value_name = "N", value_parser = parse_confidence)]
    min_confidence: Option<f64>,
    /// Status: active, archived, superseded, deleted or any
    #[arg(long, value_name = "STATUS")]
    status: Option<StatusFilter>,
}

impl FilterArgs {
    /// The filter of the flags; `status` applies without `--status`.
    pub(super) fn filter(&self, status: Option<MemoryStatus>) -> Filter {
        let mut filter = Filter::default();
        filter.namespace.clone_from(&self.namespace);
        filter.memory_type = self.memory_type;
        filter.tags.clone_from(&self.tags);
        filter.since = self.since;
        filter.until = self.until;
        filter.min_confidence = self.min_confidence;
        filter.status = self.status.map_or(status, |StatusFilter(status)| status);
        filter
    }
}

/// A memory status; `None` means any.
#[derive(Debug, Clone, Copy)]
struct StatusFilter(Option<MemoryStatus>);

impl FromStr for StatusFilter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "any" {
            return Ok(Self(None));
        }
        let status = text.parse();
        status
            .map(|status| Self(Some(status)))
            .map_err(|_| "expected active, archived, superseded, deleted or any")
    }
}

/// Parses an RFC 3339 time, or a date as midnight UTC.
fn parse_time(text: &str) -> Result<DateTime<Utc>, &'static str> {
    let day = || Some(text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0)?.and_utc());
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|time| time.to_utc())
        .or_else(day)
        .ok_or("expected a day such as 2026-01-31 or a time such as 2026-01-31T08:00:00Z")
}

fn parse_confidence(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or("expected a number from 0 to 1")
}

/// The minimum length of the prefix of an id in a table. Ids of the same minute share 8 digits, ids
/// of the same millisecond share this prefix.
const MIN_ID_CHARS: usize = 13;

/// Memories in JSON, as the memory server returns them.
#[derive(Serialize)]
struct MemoryList<'a> {
    count: usize,
    total_matches: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    total_is_lower_bound: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    total_is_estimate: bool,
    detail: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranked_by: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    corrected: BTreeMap<&'a str, &'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    memories: Vec<&'a Memory>,
    #[serde(flatten)]
    ranking: Ranking,
}

/// What a search says about each memory.
#[derive(Default, Serialize)]
struct Ranking {
    /// An empty query has none: it lists all memories by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<Vec<f64>>,
    /// Only a hybrid ranking has different reasons; others are shown on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched_by: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snippets: Option<Vec<SnippetCell>>,
}

/// The snippet of one memory.
struct SnippetCell(Snippet);

impl SnippetCell {
    /// The text for a terminal, with the matching words emphasized.
    fn styled(&self) -> String {
        self.0.render(emphasized, |text| printable(text).into_owned())
    }
}

impl Serialize for SnippetCell {
    /// As the memory server returns it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        BTreeMap::from([("text", self.0.to_markdown())]).serialize(serializer)
    }
}

impl Ranking {
    fn new(results: &SearchResults, explain: bool) -> Self {
        let SearchResults { hits, ranked_by, .. } = results;
        if *ranked_by == RankedBy::Time {
            return Self::default();
        }
        let reason = |hit: &SearchHit| hit.matched_by.map_or("", MatchedBy::as_str);
        let snippets = || {
            let highlighter = Highlighter::new(&results.terms);
            hits.iter().map(|hit| SnippetCell(highlighter.snippet(hit))).collect()
        };
        Self {
            scores: Some(hits.iter().map(|hit| hit.score).collect()),
            matched_by: Some(hits.iter().map(reason).collect()),
            snippets: explain.then(snippets),
        }
    }
}

/// A table of memories, with what a search says about them.
fn render_table(memories: &[&Memory], ranking: &Ranking, now: DateTime<Utc>) -> Table {
    let Ranking { scores, matched_by, snippets } = ranking;
    let mut headings = Vec::new();
    headings.extend(scores.is_some().then_some("SCORE"));
    headings.extend(matched_by.is_some().then_some("MATCH"));
    headings.extend(["TITLE", "NAMESPACE", "CREATED", "ID"]);
    let mut table = Table::new(headings).cut(&["TITLE", "NAMESPACE"]).omit(&["CREATED"]);
    let length = id_chars(memories);
    for (row, memory) in memories.iter().enumerate() {
        let mut cells = Vec::new();
        cells.extend(scores.iter().filter_map(|scores| Some(format!("{:.2}", scores.get(row)?))));
        cells.extend(matched_by.iter().filter_map(|reasons| Some((*reasons.get(row)?).to_owned())));
        cells.extend([
            memory.called().into_owned(),
            memory.namespace.as_ref().map_or("", Namespace::as_str).to_owned(),
            distance(memory.created.instant().to_utc(), now),
            memory.id.as_str()[..length].to_owned(),
        ]);
        table.row(cells);
        if let Some(snippet) = snippets.as_ref().and_then(|snippets| snippets.get(row)) {
            table.detail(snippet.styled());
        }
    }
    table
}

/// The length of the shortest prefixes that distinguish these ids.
fn id_chars(memories: &[&Memory]) -> usize {
    let distinguishes = |length: &usize| {
        let mut prefixes = BTreeSet::new();
        memories.iter().all(|memory| prefixes.insert(memory.id.as_str()[..*length].to_lowercase()))
    };
    (MIN_ID_CHARS..36).find(distinguishes).unwrap_or(36)
}

/// The fields of a memory that are shown above its content.
pub(super) fn memory_facts(memory: &Memory, now: DateTime<Utc>) -> Facts {
    let mut facts = Facts::default();
    facts.list("id", &[memory.id.to_string()]);
    facts.text("title", &memory.called());
    facts.text("type", memory.memory_type.as_str());
    if let Some(namespace) = &memory.namespace {
        facts.text("namespace", namespace.as_str());
    }
    if !memory.tags().is_empty() {
        facts.list("tags", memory.tags());
    }
    if let Some(status) = memory.status {
        facts.text("status", status.as_str());
    }
    if let Some(summary) = &memory.summary {
        facts.text("summary", summary);
    }
    if let Some(confidence) = memory.confidence().map(UnitInterval::get) {
        facts.text("confidence", &confidence.to_string());
    }
    let times = [("created", Some(&memory.created)), ("modified", memory.modified.as_ref())];
    for (label, time) in times {
        if let Some(time) = time {
            let ago = distance(time.instant().to_utc(), now);
            facts.text(label, &format!("{time} ({ago})"));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_says_how_accurate_its_number_is() {
        let accuracy = TotalAccuracy::Estimated;
        let filtered = EmptyAnswer::Filtered { matches: 700, accuracy, filters: vec!["tags"] };
        let said = hint(&filtered).unwrap();
        assert_eq!(said, "about 700 memories match without the filters (tags)");
        let accuracy = TotalAccuracy::AtLeast;
        let said = hint(&EmptyAnswer::NotTogether { some: 1, accuracy }).unwrap();
        assert_eq!(
            said,
            "at least 1 memory contains some of these words: search without --all-words"
        );
        let accuracy = TotalAccuracy::Exact;
        let said = hint(&EmptyAnswer::NotTogether { some: 2, accuracy }).unwrap();
        assert_eq!(said, "2 memories contain some of these words: search without --all-words");
    }
}
