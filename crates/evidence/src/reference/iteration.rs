//! The first reference: iteration over the parsed records.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use chrono::{DateTime, FixedOffset};
use serde_json::Value;

use super::no_match;
use crate::corpora::Corpus;
use crate::task::{Answer, Comparison, CorpusId, CorpusKind, Parameters, Predicate};

/// The field with the priority of a memory.
pub const PRIORITY_FIELD: &str = "extensions.bench.priority";

const URN: &str = "urn:mif:";

/// The parsed records of a corpus.
#[derive(Debug)]
pub struct ParsedRecords<'a> {
    /// The corpus.
    pub id: CorpusId,
    records: Vec<ParsedRecord<'a>>,
}

/// A parsed record.
#[derive(Debug)]
pub struct ParsedRecord<'a> {
    id: String,
    content: RecordContent<'a>,
}

#[derive(Debug)]
enum RecordContent<'a> {
    Object(Value),
    Line(LogLine<'a>),
}

#[derive(Debug, Clone, Copy)]
struct LogLine<'a> {
    text: &'a str,
    level: &'a str,
    service: &'a str,
    host: &'a str,
    request: &'a str,
    message: &'a str,
}

/// A value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FieldValue<'r> {
    Text(&'r str),
    Number(u64),
}

impl<'r> FieldValue<'r> {
    fn from_json(value: &'r Value) -> Option<Self> {
        value.as_str().map(Self::Text).or_else(|| value.as_u64().map(Self::Number))
    }

    fn meets(self, comparison: &Comparison) -> bool {
        match (self, comparison) {
            (Self::Text(text), Comparison::Equals(wanted)) => text == wanted,
            (Self::Text(text), Comparison::Word(word)) => has_word(text, word),
            (Self::Text(text), Comparison::Within(namespace)) => is_within(text, namespace),
            (Self::Number(number), Comparison::AtLeast(least)) => number >= *least,
            _ => false,
        }
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_separator = |c: char| !(c.is_alphanumeric() || c == '_');
    text.split(is_separator).any(|part| part.eq_ignore_ascii_case(word))
}

fn is_within(namespace: &str, ancestor: &str) -> bool {
    namespace.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The sentences of a text, without the space between them.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('.').map(str::trim).filter(|sentence| !sentence.is_empty())
}

impl<'a> LogLine<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let parts: Vec<&str> = text.splitn(6, ' ').collect();
        let [_, level, service, host, request, message] = parts[..] else {
            bail!("not a line of a log: {text}");
        };
        let request = request.strip_prefix("req=").context("a line without a request id")?;
        Ok(Self { text, level, service, host, request, message })
    }

    fn field(self, name: &str) -> Option<&'a str> {
        match name {
            "level" => Some(self.level),
            "service" => Some(self.service),
            "host" => Some(self.host),
            "request" => Some(self.request),
            "message" => Some(self.message),
            _ => None,
        }
    }
}

impl ParsedRecord<'_> {
    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The record as text: JSON, or the line.
    pub fn to_text(&self) -> String {
        match &self.content {
            RecordContent::Object(value) => value.to_string(),
            RecordContent::Line(line) => line.text.to_owned(),
        }
    }

    /// The texts of a field, which are several if it is in an array.
    pub fn texts(&self, field: &str) -> Vec<&str> {
        let text = |value| match value {
            FieldValue::Text(text) => Some(text),
            FieldValue::Number(_) => None,
        };
        self.values(field).into_iter().filter_map(text).collect()
    }

    fn values(&self, field: &str) -> Vec<FieldValue<'_>> {
        match &self.content {
            RecordContent::Object(value) => {
                let mut found = Vec::new();
                collect(value, field, &mut found);
                found.into_iter().filter_map(FieldValue::from_json).collect()
            }
            RecordContent::Line(line) => {
                line.field(field).map(FieldValue::Text).into_iter().collect()
            }
        }
    }

    fn meets(&self, predicate: &Predicate) -> bool {
        let Predicate { field, comparison } = predicate;
        match &self.content {
            RecordContent::Object(_) => {
                self.values(field).iter().any(|value| value.meets(comparison))
            }
            // A log has many lines: nothing is allocated for one.
            RecordContent::Line(line) => {
                line.field(field).is_some_and(|text| FieldValue::Text(text).meets(comparison))
            }
        }
    }

    fn has_priority(&self, least: u8) -> bool {
        let least = Comparison::AtLeast(u64::from(least));
        self.values(PRIORITY_FIELD).iter().any(|value| value.meets(&least))
    }

    fn has_tag(&self, tag: &str) -> bool {
        self.texts("tags").contains(&tag)
    }

    fn created(&self) -> Result<DateTime<FixedOffset>> {
        let text = self.texts("created").first().copied().context("a memory without `created`")?;
        DateTime::parse_from_rfc3339(text).with_context(|| format!("the time {text}"))
    }

    /// The confidence of a memory; 0 without one.
    fn confidence(&self) -> f64 {
        let RecordContent::Object(value) = &self.content else { return 0.0 };
        value["provenance"]["confidence"].as_f64().unwrap_or_default()
    }
}

/// Collects the values at a path. An array on the way means all of its elements.
fn collect<'v>(value: &'v Value, path: &str, found: &mut Vec<&'v Value>) {
    if let Value::Array(elements) = value {
        for element in elements {
            collect(element, path, found);
        }
    } else if path.is_empty() {
        found.push(value);
    } else {
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        if let Some(inner) = value.get(name) {
            collect(inner, rest, found);
        }
    }
}

impl<'a> ParsedRecords<'a> {
    /// Parses the records of a corpus.
    pub fn parse(corpus: &'a Corpus) -> Result<Self> {
        let records = match corpus.id.kind {
            CorpusKind::Log => corpus
                .text()?
                .lines()
                .map(|line| -> Result<ParsedRecord<'a>> {
                    let line = LogLine::parse(line)?;
                    let id = line.request.to_owned();
                    Ok(ParsedRecord { id, content: RecordContent::Line(line) })
                })
                .collect::<Result<Vec<_>>>()?,
            CorpusKind::Memories => objects(corpus, "id")?,
            CorpusKind::Issues | CorpusKind::Map => objects(corpus, "key")?,
        };
        Ok(Self { id: corpus.id, records })
    }

    /// The records, in the order of the corpus.
    pub fn records(&self) -> &[ParsedRecord<'a>] {
        &self.records
    }

    /// The distinct texts of a field, sorted.
    pub fn distinct(&self, field: &str) -> BTreeSet<String> {
        self.records.iter().flat_map(|record| record.texts(field)).map(str::to_owned).collect()
    }

    /// The records that meet all predicates, counted by the values of a field. The largest group is
    /// first, and equal ones are in alphabetical order.
    pub fn groups(&self, by: &str, predicates: &[Predicate]) -> Vec<(String, u64)> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for record in self.matching(predicates) {
            let values: BTreeSet<&str> = record.texts(by).into_iter().collect();
            for value in values {
                *counts.entry(value).or_default() += 1;
            }
        }
        let mut groups: Vec<(String, u64)> =
            counts.into_iter().map(|(value, count)| (value.to_owned(), count)).collect();
        groups.sort_by_key(|(_, count)| Reverse(*count));
        groups
    }

    /// The answer to a question.
    pub fn answer(&self, parameters: &Parameters) -> Result<Answer> {
        Ok(match parameters {
            Parameters::Ids { ids } => {
                let wanted: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
                count(self.records.iter().filter(|record| wanted.contains(record.id())))
            }
            Parameters::Filter { namespace, min_priority, word } => {
                let within = Comparison::Within(namespace.clone());
                let word = Comparison::Word(word.clone());
                count(self.records.iter().filter(|record| {
                    let has = |field: &str, comparison: &Comparison| {
                        record.values(field).iter().any(|value| value.meets(comparison))
                    };
                    has("namespace", &within)
                        && record.has_priority(*min_priority)
                        && has("content", &word)
                }))
            }
            Parameters::Matching { predicates } => count(self.matching(predicates)),
            Parameters::Group { by, predicates } => {
                let largest = self.groups(by, predicates).into_iter().next();
                largest.map_or_else(no_match, |(name, _)| Answer::Text(name))
            }
            Parameters::Top { tag, min_priority, n } => self.top(tag, *min_priority, *n),
            Parameters::Time { after, tag, last } => self.in_time(after, tag, *last)?,
            Parameters::Related { namespace, min_priority, min_source_priority } => {
                self.related(namespace, *min_priority, *min_source_priority)
            }
            Parameters::Sentence { id, after } => self.sentence(id, after),
            Parameters::Message { request } => {
                let record = self.records.iter().find(|record| record.id() == request);
                let message = record.and_then(|record| record.texts("message").first().copied());
                text_or_none(message)
            }
            Parameters::Both { first, second } => {
                Answer::List(vec![self.answer(first)?, self.answer(second)?])
            }
        })
    }

    fn matching<'s>(
        &'s self,
        predicates: &'s [Predicate],
    ) -> impl Iterator<Item = &'s ParsedRecord<'a>> {
        self.records
            .iter()
            .filter(move |record| predicates.iter().all(|predicate| record.meets(predicate)))
    }

    fn top(&self, tag: &str, min_priority: u8, n: usize) -> Answer {
        let admitted =
            |record: &&ParsedRecord<'_>| record.has_tag(tag) && record.has_priority(min_priority);
        let mut records: Vec<&ParsedRecord<'_>> = self.records.iter().filter(admitted).collect();
        records.sort_by(|left, right| {
            let by_confidence = right.confidence().total_cmp(&left.confidence());
            by_confidence.then_with(|| left.id().cmp(right.id()))
        });
        let title = |record: &ParsedRecord<'_>| {
            Answer::Text(record.texts("title").first().copied().unwrap_or_default().to_owned())
        };
        let titles: Vec<Answer> = records.into_iter().take(n).map(title).collect();
        if titles.is_empty() { no_match() } else { Answer::List(titles) }
    }

    fn in_time(&self, after: &str, tag: &str, last: bool) -> Result<Answer> {
        let after = DateTime::parse_from_rfc3339(after).context("the date of a question")?;
        let mut best: Option<(DateTime<FixedOffset>, &str)> = None;
        for record in self.records.iter().filter(|record| record.has_tag(tag)) {
            let created = record.created()?;
            let is_better = best.is_none_or(|(time, id)| {
                let is_nearer = if last { created > time } else { created < time };
                is_nearer || (created == time && record.id() < id)
            });
            if created > after && is_better {
                best = Some((created, record.id()));
            }
        }
        Ok(text_or_none(best.map(|(_, id)| id)))
    }

    fn related(&self, namespace: &str, min_priority: u8, min_source_priority: u8) -> Answer {
        let targets: BTreeSet<&str> = self
            .records
            .iter()
            .filter(|record| {
                record.has_priority(min_priority)
                    && record.texts("namespace").iter().any(|text| is_within(text, namespace))
            })
            .map(ParsedRecord::id)
            .collect();
        let is_target = |text: &&str| text.strip_prefix(URN).is_some_and(|id| targets.contains(id));
        count(self.records.iter().filter(|record| {
            record.has_priority(min_source_priority)
                && record.texts("relationships.target").iter().any(is_target)
        }))
    }

    fn sentence(&self, id: &str, after: &str) -> Answer {
        let field = self.id.kind.text_field().unwrap_or_default();
        let record = self.records.iter().find(|record| record.id() == id);
        let text = record.and_then(|record| record.texts(field).first().copied());
        let mut rest =
            sentences(text.unwrap_or_default()).skip_while(|sentence| *sentence != after);
        text_or_none(rest.nth(1))
    }
}

fn objects(corpus: &Corpus, id: &str) -> Result<Vec<ParsedRecord<'static>>> {
    let object = |value: Value| -> Result<ParsedRecord<'static>> {
        let id = value[id].as_str().with_context(|| format!("{}: no `{id}`", corpus.id))?;
        Ok(ParsedRecord { id: id.to_owned(), content: RecordContent::Object(value) })
    };
    corpus.records()?.into_iter().map(object).collect()
}

fn count<T>(records: impl Iterator<Item = T>) -> Answer {
    Answer::Count(records.count() as u64)
}

fn text_or_none(text: Option<&str>) -> Answer {
    text.map_or_else(no_match, |text| Answer::Text(text.to_owned()))
}
