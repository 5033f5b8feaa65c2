//! An agent that reads everything, page by page, and evaluates it exactly.

use std::fmt::{Display, Write as _};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use super::{Toolbox, answered, one, only};
use crate::ablation::descriptor_in;
use crate::agent::{Agent, Step, ToolCall, ToolReply};
use crate::corpora::Corpus;
use crate::reference::iteration::ParsedRecords;
use crate::task::{Answer, CorpusId, CorpusKind, Parameters, Task};
use crate::world::next_file_offset;
use crate::worlds::definitions::READ_FILE;

/// The lines of a file that the agent asks for; the tool returns fewer.
const FILE_LINES: usize = 10_000;

/// An agent that reads everything.
#[derive(Debug)]
pub(super) struct PagerAgent {
    parameters: Parameters,
    tools: Toolbox,
    records: RecordCollection,
    state: PagerState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PagerState {
    Start,
    Pages,
    File(String),
}

impl PagerAgent {
    pub(super) fn new(task: &Task, tools: Toolbox) -> Self {
        let records = RecordCollection::new(task.corpus.kind);
        let parameters = task.parameters.clone();
        Self { parameters, tools, records, state: PagerState::Start }
    }

    /// The next page of the tool, if there is one.
    fn next_page(&mut self, text: &str) -> Result<Option<ToolCall>> {
        let arguments = self.records.add_page(text)?;
        Ok(arguments.map(|arguments| self.tools.data(arguments)))
    }

    /// The answer from all records. Without one if the records have not enough fields.
    fn finish(&self) -> Result<Step> {
        let is_summary = self.records.kind == CorpusKind::Memories
            && self.records.values.iter().any(|record| record.get("content").is_none());
        if is_summary && !matches!(self.parameters, Parameters::Ids { .. }) {
            return Ok(Step::End);
        }
        Ok(answered(&self.records.answer(&self.parameters)?))
    }
}

impl Agent for PagerAgent {
    fn step(&mut self, replies: &[ToolReply]) -> Result<Step> {
        if self.state == PagerState::Start {
            self.state = PagerState::Pages;
            return Ok(one(self.tools.data(json!({}))));
        }
        let reply = only(replies)?;
        ensure!(!reply.is_error, "a page could not be read: {}", reply.text);
        let next = match &self.state {
            PagerState::File(path) => {
                let path = path.clone();
                let (lines, offset) = next_file_offset(&reply.text);
                self.records.add_lines(lines);
                offset.map(|offset| read(&path, offset))
            }
            _ => match stored_file(&reply.text) {
                Some(path) => {
                    let call = read(&path, 1);
                    self.state = PagerState::File(path);
                    Some(call)
                }
                None => self.next_page(&reply.text)?,
            },
        };
        next.map_or_else(|| self.finish(), |call| Ok(one(call)))
    }
}

/// The path of the file, if the text is a descriptor.
fn stored_file(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    descriptor_in(&value)?["file_path"].as_str().map(str::to_owned)
}

fn read(path: &str, offset: usize) -> ToolCall {
    ToolCall::new(READ_FILE, json!({"path": path, "offset": offset, "limit": FILE_LINES}))
}

/// The records that an agent has read: objects, or the lines of a log. The members of a map have
/// their names in `_key`.
#[derive(Debug)]
pub(super) struct RecordCollection {
    kind: CorpusKind,
    values: Vec<Value>,
}

impl RecordCollection {
    pub(super) fn new(kind: CorpusKind) -> Self {
        Self { kind, values: Vec::new() }
    }

    /// Adds records.
    pub(super) fn extend(&mut self, records: impl IntoIterator<Item = Value>) {
        self.values.extend(records);
    }

    /// Adds a page, or the whole corpus. Returns the arguments for the next page.
    fn add_page(&mut self, text: &str) -> Result<Option<Value>> {
        let mut page = match serde_json::from_str::<Value>(text) {
            Ok(page) => page,
            Err(_) if self.kind == CorpusKind::Log => {
                self.add_lines(text);
                return Ok(None);
            }
            Err(error) => return Err(error).context("a page that is not JSON"),
        };
        let cursor = match self.kind {
            CorpusKind::Memories => ("cursor", page["next_cursor"].take()),
            _ => ("offset", page.get_mut("next_offset").map_or(Value::Null, Value::take)),
        };
        let items = match self.kind {
            CorpusKind::Memories => page["memories"].take(),
            CorpusKind::Issues => page["items"].take(),
            // A whole map has the services as its members.
            _ if page.get("total").is_some() => page["items"].take(),
            _ => page,
        };
        match items {
            Value::Array(items) => self.extend(items),
            Value::Object(members) => self.extend(members.into_iter().map(with_key)),
            other => bail!("a page without records: {other}"),
        }
        let (name, value) = cursor;
        Ok((!value.is_null()).then(|| json!({name: value})))
    }

    /// Adds the lines of a stored file, without its header.
    fn add_lines(&mut self, text: &str) {
        for line in text.lines() {
            let record = match self.kind {
                CorpusKind::Log => Some(Value::from(line)),
                _ => serde_json::from_str::<Value>(line).ok(),
            };
            self.extend(
                record.filter(|record| record.get("type").is_none_or(|kind| kind != "lro_header")),
            );
        }
    }

    /// The answer to a question about these records.
    pub(super) fn answer(&self, parameters: &Parameters) -> Result<Answer> {
        let corpus = self.corpus();
        ParsedRecords::parse(&corpus)?.answer(parameters)
    }

    /// The records in the form of a corpus.
    fn corpus(&self) -> Corpus {
        let text = match self.kind {
            CorpusKind::Memories => lines(self.values.iter()),
            CorpusKind::Issues => json!({"items": self.values}).to_string(),
            CorpusKind::Log => lines(self.values.iter().filter_map(Value::as_str)),
            CorpusKind::Map => {
                let members = self.values.iter().filter_map(|record| {
                    let mut members = record.as_object()?.clone();
                    let key = members.shift_remove("_key")?.as_str()?.to_owned();
                    Some((key, Value::Object(members)))
                });
                Value::Object(members.collect::<Map<String, Value>>()).to_string()
            }
        };
        let id = CorpusId { kind: self.kind, size: self.values.len() };
        Corpus { id, bytes: text.into_bytes() }
    }
}

fn lines(records: impl Iterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for record in records {
        let _ = writeln!(text, "{record}");
    }
    text
}

fn with_key((key, value): (String, Value)) -> Value {
    let mut record = Map::new();
    record.insert("_key".to_owned(), key.into());
    if let Value::Object(members) = value {
        record.extend(members);
    }
    Value::Object(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_every_kind_are_collected() {
        let mut memories = RecordCollection::new(CorpusKind::Memories);
        let page = r#"{"memories":[{"id":"a"}],"next_cursor":"c"}"#;
        assert_eq!(memories.add_page(page).unwrap(), Some(json!({"cursor": "c"})));
        let last = r#"{"memories":[{"id":"b"}],"next_cursor":null}"#;
        assert_eq!(memories.add_page(last).unwrap(), None);
        assert_eq!(memories.corpus().bytes, b"{\"id\":\"a\"}\n{\"id\":\"b\"}\n");

        let mut issues = RecordCollection::new(CorpusKind::Issues);
        let page = r#"{"total":2,"next_offset":1,"items":[{"key":"a"}]}"#;
        assert_eq!(issues.add_page(page).unwrap(), Some(json!({"offset": 1})));
        assert_eq!(issues.add_page(r#"{"total_count":1,"items":[{"key":"b"}]}"#).unwrap(), None);
        assert_eq!(issues.values.len(), 2);

        let mut map = RecordCollection::new(CorpusKind::Map);
        let page = r#"{"total":2,"next_offset":null,"items":{"x":{"n":1}}}"#;
        assert_eq!(map.add_page(page).unwrap(), None);
        assert_eq!(map.add_page(r#"{"y":{"n":2}}"#).unwrap(), None);
        assert_eq!(map.corpus().bytes, br#"{"x":{"n":1},"y":{"n":2}}"#);

        let mut log = RecordCollection::new(CorpusKind::Log);
        let page = r#"{"total":3,"next_offset":1,"items":["line 1"]}"#;
        assert_eq!(log.add_page(page).unwrap(), Some(json!({"offset": 1})));
        assert_eq!(log.add_page("line 2\nline 3\n").unwrap(), None);
        assert_eq!(log.corpus().bytes, b"line 1\nline 2\nline 3\n");
    }

    #[test]
    fn the_header_of_a_stored_file_is_no_record() {
        let mut memories = RecordCollection::new(CorpusKind::Memories);
        memories.add_lines("{\"type\":\"lro_header\",\"count\":1}\n{\"id\":\"a\"}\n");
        assert_eq!(memories.values, [json!({"id": "a"})]);
    }
}
