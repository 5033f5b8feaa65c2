//! Tool responses, their serialization, and tool errors.

use std::fmt::Write;

use atlatl_memory::{
    Correction, EmptyAnswer, Highlighter, MatchedBy, RankedBy, SearchHit, SearchResults,
    StoreError, TotalAccuracy,
};
use lro::mcp::ToolOutput;
use mif::{DetailLevel, Memory, MemoryId};
use serde_json::{Map, Value, json};

use super::arguments::ArgumentError;
use crate::cursor::CursorPosition;

/// How much a response says about why its memories match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explain {
    /// The reason of each memory, where reasons differ.
    Reasons,
    /// The reason of each memory, and a snippet with the matching words.
    Snippets,
}

/// The result of a tool.
#[derive(Debug)]
pub(crate) enum ToolResponse {
    /// One memory, as JSON.
    Single(String),
    /// The outcome of a write, as JSON below the response limit.
    WriteResult(String),
    /// Memories.
    Memories(MemorySet),
    /// Memories, and a text rendered from some of them.
    Context { set: MemorySet, text: String, included: usize },
}

/// Memories with totals, ranking and pagination.
#[derive(Debug)]
pub(crate) struct MemorySet {
    pub(crate) total_matches: u64,
    /// How accurate `total_matches` is.
    pub(crate) accuracy: TotalAccuracy,
    pub(crate) detail: DetailLevel,
    pub(crate) lines: Vec<String>,
    /// Empty if there was no query.
    pub(crate) scores: Vec<f64>,
    pub(crate) ranked_by: Option<RankedBy>,
    /// Empty if the set is not explained.
    pub(crate) matched_by: Vec<MatchedBy>,
    /// As Markdown. Empty if no snippets were requested.
    pub(crate) snippets: Vec<String>,
    pub(crate) warning: Option<String>,
    pub(crate) corrections: Vec<Correction>,
    /// Why the set is empty, and what to do.
    pub(crate) hint: Option<String>,
    /// The position of the next page, if there is one.
    pub(crate) next: Option<CursorPosition>,
}

impl MemorySet {
    /// Creates a set from a listing.
    pub(crate) fn from_listing(
        memories: &[Memory],
        total_matches: u64,
        detail: DetailLevel,
    ) -> Self {
        Self {
            total_matches,
            accuracy: TotalAccuracy::Exact,
            detail,
            lines: memories.iter().map(|memory| memory.to_line(detail)).collect(),
            scores: Vec::new(),
            ranked_by: None,
            matched_by: Vec::new(),
            snippets: Vec::new(),
            warning: None,
            corrections: Vec::new(),
            hint: None,
            next: None,
        }
    }

    /// Creates a set from search results.
    pub(crate) fn from_results(results: &SearchResults, detail: DetailLevel) -> Self {
        let line = |hit: &SearchHit| hit.memory.to_line(detail);
        let ranked = results.ranked_by != RankedBy::Time;
        let scores = || results.hits.iter().map(|hit| hit.score).collect();
        Self {
            total_matches: results.total_matches,
            accuracy: results.accuracy,
            detail,
            lines: results.hits.iter().map(line).collect(),
            scores: if ranked { scores() } else { Vec::new() },
            ranked_by: Some(results.ranked_by),
            matched_by: Vec::new(),
            snippets: Vec::new(),
            warning: results.warning.clone(),
            corrections: results.corrections.clone(),
            hint: results.empty.as_ref().and_then(hint),
            next: None,
        }
    }

    /// Adds why the memories of `results` match. Only a hybrid ranking has different reasons; without
    /// snippets, other rankings are left as they are.
    pub(crate) fn explain(&mut self, results: &SearchResults, explain: Explain) {
        if results.ranked_by == RankedBy::Time {
            return;
        }
        if explain == Explain::Snippets {
            let highlighter = Highlighter::new(&results.terms);
            let snippet = |hit: &SearchHit| highlighter.snippet(hit).to_markdown();
            self.snippets = results.hits.iter().map(snippet).collect();
        }
        if explain == Explain::Snippets || results.ranked_by == RankedBy::Hybrid {
            self.matched_by = results.hits.iter().filter_map(|hit| hit.matched_by).collect();
        }
    }

    /// Returns whether [`explained_json`](Self::explained_json) has more than [`json`](Self::json).
    pub(crate) fn is_explained(&self) -> bool {
        !self.matched_by.is_empty() || !self.snippets.is_empty()
    }

    /// Serializes as `structuredContent`, without explanations. Memories are raw JSON whose numbers
    /// must not be rounded, so the text is assembled by hand.
    pub(crate) fn json(&self, next_cursor: Option<&str>) -> String {
        self.json_with("", next_cursor)
    }

    /// Like [`json`](Self::json), with explanations. A snippet is an object, so that a proxy takes
    /// the snippets for a further table beside the memories.
    pub(crate) fn explained_json(&self, next_cursor: Option<&str>) -> String {
        let mut explanations = String::new();
        if !self.matched_by.is_empty() {
            let reasons: Value = self.matched_by.iter().copied().map(MatchedBy::as_str).collect();
            let _ = write!(explanations, r#","matched_by":{reasons}"#);
        }
        if !self.snippets.is_empty() {
            let snippet = |text: &String| json!({ "text": text });
            let snippets: Value = self.snippets.iter().map(snippet).collect();
            let _ = write!(explanations, r#","snippets":{snippets}"#);
        }
        self.json_with(&explanations, next_cursor)
    }

    /// Serializes with these members after the scores.
    fn json_with(&self, explanations: &str, next_cursor: Option<&str>) -> String {
        let mut json = self.head();
        json.push_str(r#","memories":["#);
        for (n, line) in self.lines.iter().enumerate() {
            if n > 0 {
                json.push(',');
            }
            json.push_str(line);
        }
        json.push(']');
        if !self.scores.is_empty() {
            json.push_str(r#","scores":["#);
            for (n, score) in self.scores.iter().enumerate() {
                let comma = if n > 0 { "," } else { "" };
                let _ = write!(json, "{comma}{}", Value::from(round_score(*score)));
            }
            json.push(']');
        }
        json.push_str(explanations);
        let _ = write!(json, r#","next_cursor":{}}}"#, Value::from(next_cursor));
        json
    }

    /// Like [`json`](Self::json), with a text instead of the memories.
    pub(crate) fn context_json(&self, text: &str, included: usize) -> String {
        let mut json = self.head();
        let context = Value::from(text);
        let _ = write!(json, r#","included":{included},"context":{context}}}"#);
        json
    }

    /// Returns the totals, which come first so that a truncated read has them (f03).
    fn head(&self) -> String {
        let mut json = format!(
            r#"{{"count":{},"total_matches":{},"detail":"{}""#,
            self.lines.len(),
            self.total_matches,
            self.detail
        );
        match self.accuracy {
            TotalAccuracy::AtLeast => json.push_str(r#","total_is_lower_bound":true"#),
            TotalAccuracy::Estimated => json.push_str(r#","total_is_estimate":true"#),
            _ => {}
        }
        if let Some(ranked_by) = self.ranked_by {
            let _ = write!(json, r#","ranked_by":"{}""#, ranked_by.as_str());
        }
        if let Some(warning) = &self.warning {
            let _ = write!(json, r#","warning":{}"#, Value::from(warning.as_str()));
        }
        if !self.corrections.is_empty() {
            let corrected = self.corrections.iter();
            let corrected: Map<String, Value> = corrected
                .map(|correction| (correction.written.clone(), correction.used.clone().into()))
                .collect();
            let _ = write!(json, r#","corrected":{}"#, Value::Object(corrected));
        }
        if let Some(hint) = &self.hint {
            let _ = write!(json, r#","hint":{}"#, Value::from(hint.as_str()));
        }
        json
    }
}

/// Says why nothing matches, and which call helps.
fn hint(empty: &EmptyAnswer) -> Option<String> {
    Some(match empty {
        EmptyAnswer::NothingStored => "no memories are stored yet".to_owned(),
        EmptyAnswer::Filtered { matches, accuracy, filters } => {
            let (filters, bound) = (filters.join(", "), accuracy.qualifier());
            let matches = if *matches == 1 {
                "1 memory matches".to_owned()
            } else {
                format!("{matches} memories match")
            };
            format!("{bound}{matches} without the filters ({filters}): relax them")
        }
        EmptyAnswer::UnknownWords(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            format!(
                "no memory contains {} or a word of similar spelling: use other words, or list \
                 memories",
                words.join(", ")
            )
        }
        EmptyAnswer::NotTogether { .. } => {
            "no memory contains all of these words: a recall (recall_memories) finds those with some"
                .to_owned()
        }
        _ => return None,
    })
}

/// Rounds a score to its significant digits.
fn round_score(score: f64) -> f64 {
    (score * 10_000.0).round() / 10_000.0
}

/// Returns the `result` of `tools/call` with this `structuredContent`. The text is the same unless
/// one is given.
pub(crate) fn tool_result(structured: &str, text: Option<&str>) -> String {
    let text = Value::from(text.unwrap_or(structured));
    format!(r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{structured}}}"#)
}

/// Why a tool call failed.
pub(crate) enum ToolError {
    Arguments(ArgumentError),
    NotFound(MemoryId),
    /// The quota of memories is used up.
    QuotaExceeded(u64),
    /// The quota of bytes is used up.
    ByteQuotaExceeded(u64),
    Store(StoreError),
}

impl ToolError {
    /// Returns the error class, which is part of the response.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Arguments(_) => "arguments",
            Self::NotFound(_) => "not_found",
            Self::QuotaExceeded(_) | Self::ByteQuotaExceeded(_) => "quota",
            Self::Store(StoreError::Busy | StoreError::Unavailable(_)) => "unavailable",
            Self::Store(_) => "storage",
        }
    }

    /// Converts to an MCP tool result.
    pub(crate) fn to_result(&self) -> ToolOutput {
        let class = self.class();
        match self {
            Self::Arguments(error) => ToolOutput::error(class, &error.message, &error.hint),
            Self::NotFound(id) => ToolOutput::error(
                class,
                &format!("there is no memory {id}"),
                "recall_memories and list_memories return ids.",
            ),
            Self::QuotaExceeded(most) => ToolOutput::error(
                class,
                &format!("quota exceeded: at most {most} memories"),
                "Delete some, or ask the server's administrator for a larger quota.",
            ),
            Self::ByteQuotaExceeded(most) => ToolOutput::error(
                class,
                &format!("quota exceeded: at most {most} bytes of memories"),
                "Delete some, or ask the server's administrator for a larger quota.",
            ),
            Self::Store(error @ (StoreError::Busy | StoreError::Unavailable(_))) => {
                ToolOutput::error(class, &error.to_string(), "Retry in a moment.")
            }
            Self::Store(error @ StoreError::Unsure(_)) => ToolOutput::error(
                class,
                &error.to_string(),
                "Check whether it was stored before you retry.",
            ),
            // The error of an engine may contain paths, so only the top-level message is sent.
            Self::Store(error) => ToolOutput::error(
                class,
                &error.to_string(),
                "Nothing was stored. See the server's log.",
            ),
        }
    }
}

impl From<ArgumentError> for ToolError {
    fn from(error: ArgumentError) -> Self {
        Self::Arguments(error)
    }
}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(error) => Self::Arguments(ArgumentError::new(
                error.to_string(),
                "Correct that field and call again; nothing was stored.",
            )),
            other => Self::Store(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_says_how_accurate_its_number_is() {
        let filtered = |matches, accuracy| {
            let filters = vec!["tags", "since"];
            hint(&EmptyAnswer::Filtered { matches, accuracy, filters }).unwrap()
        };
        assert_eq!(
            filtered(1, TotalAccuracy::Exact),
            "1 memory matches without the filters (tags, since): relax them"
        );
        assert_eq!(
            filtered(700, TotalAccuracy::Estimated),
            "about 700 memories match without the filters (tags, since): relax them"
        );
        assert_eq!(
            filtered(1, TotalAccuracy::AtLeast),
            "at least 1 memory matches without the filters (tags, since): relax them"
        );
    }
}
