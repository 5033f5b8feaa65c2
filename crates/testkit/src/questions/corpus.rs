//! A tool result with the answers to the questions about it, computed from the data before it is
//! serialized.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use crate::SplitMix64;

/// A tool result of one kind.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Corpus {
    /// The kind, which is also the name of its file in `bench/questions/`.
    pub kind: &'static str,
    /// The tool that returns it.
    pub tool: &'static str,
    /// The result of `tools/call`.
    pub result: Value,
    /// The answers by question.
    pub answers: BTreeMap<&'static str, Value>,
}

impl Corpus {
    pub(super) fn new(kind: &'static str, tool: &'static str, result: Value) -> Self {
        Self { kind, tool, result, answers: BTreeMap::new() }
    }

    pub(super) fn answer(mut self, question: &'static str, answer: Value) -> Self {
        self.answers.insert(question, answer);
        self
    }
}

/// The result of a tool that returns these text blocks.
pub(super) fn text_result(texts: &[&str]) -> Value {
    let blocks: Vec<Value> =
        texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    json!({"content": blocks})
}

/// Seconds since 1970 as RFC 3339.
pub(super) fn time(seconds: i64) -> String {
    DateTime::from_timestamp(seconds, 0)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Counts by value: rows of a value and its count.
pub(super) fn count_by<'a>(values: impl Iterator<Item = &'a str>) -> Value {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().map(|(value, count)| json!([value, count])).collect()
}

/// Sums by value: rows of a value and its sum.
pub(super) fn sum_by<'a>(values: impl Iterator<Item = (&'a str, i64)>) -> Value {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for (value, amount) in values {
        *sums.entry(value).or_default() += amount;
    }
    sums.into_iter().map(|(value, sum)| json!([value, sum])).collect()
}

/// The most frequent values with their counts, in alphabetical order if equally frequent.
pub(super) fn top<'a>(values: impl Iterator<Item = &'a str>, most: usize) -> Value {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut rows: Vec<(&str, u64)> = counts.into_iter().collect();
    rows.sort_by_key(|(value, count)| (std::cmp::Reverse(*count), *value));
    rows.into_iter().take(most).map(|(value, count)| json!([value, count])).collect()
}

/// A number below `bound`.
pub(super) fn int(random: &mut SplitMix64, bound: usize) -> i64 {
    i64::try_from(random.below(bound)).unwrap_or(0)
}

const WORDS: [&str; 48] = [
    "the",
    "request",
    "fails",
    "when",
    "a",
    "header",
    "is",
    "missing",
    "and",
    "retry",
    "does",
    "not",
    "respect",
    "its",
    "deadline",
    "after",
    "upgrade",
    "to",
    "new",
    "release",
    "of",
    "gateway",
    "pool",
    "keeps",
    "stale",
    "connections",
    "while",
    "router",
    "drops",
    "large",
    "bodies",
    "under",
    "load",
    "see",
    "attached",
    "trace",
    "for",
    "details",
    "timeout",
    "value",
    "should",
    "be",
    "configurable",
    "per",
    "route",
    "with",
    "sane",
    "default",
];

/// Words that look like a sentence.
pub(super) fn sentence(random: &mut SplitMix64, words: usize) -> String {
    let mut text: Vec<&str> = (0..words).map(|_| *random.pick(&WORDS)).collect();
    text.dedup();
    let mut text = text.join(" ");
    if let Some(first) = text.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    text
}
