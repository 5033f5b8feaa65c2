//! Agents that know the right query.

use std::collections::VecDeque;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::query::{AnswerForm, Query, combined, queries};
use super::{Toolbox, answered, descriptor, one, only, values};
use crate::agent::{Agent, Step, ToolCall, ToolReply};
use crate::task::{Answer, CorpusKind, Parameters, Task};
use crate::worlds::data_tool::spilled_path;
use crate::worlds::definitions::BASH;

/// How an oracle queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// With jq in a shell.
    Shell,
    /// With jq in `lro_extract`.
    Jq,
    /// With SQL in `lro_extract`.
    Sql,
}

/// Where the data is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A stored result.
    Reference(String),
    /// The file of a stored result: a header and records, or the lines of a text.
    StoredFile(String),
    /// The file in which a host wrote the reply of the tool.
    SpilledFile(String),
}

/// An agent that knows the right query: it calls the tool, sends the query, and answers.
#[derive(Debug)]
pub(super) struct OracleAgent {
    kind: CorpusKind,
    parameters: Parameters,
    tools: Toolbox,
    dialect: Dialect,
    queries: VecDeque<Query>,
    source: Option<Source>,
    /// The form of the answer that the next reply contains.
    pending: Option<AnswerForm>,
    answers: Vec<Answer>,
    is_started: bool,
}

impl OracleAgent {
    pub(super) fn new(task: &Task, tools: Toolbox, dialect: Dialect) -> Result<Self> {
        Ok(Self {
            kind: task.corpus.kind,
            parameters: task.parameters.clone(),
            tools,
            dialect,
            queries: queries(task.corpus.kind, &task.parameters)?.into(),
            source: None,
            pending: None,
            answers: Vec::new(),
            is_started: false,
        })
    }

    fn source(&self, reply: &ToolReply) -> Result<Source> {
        if let Some(path) = spilled_path(&reply.text) {
            return Ok(Source::SpilledFile(path.to_owned()));
        }
        let descriptor = descriptor(reply)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let source = match self.dialect {
            Dialect::Shell => text(&descriptor["file_path"]).map(Source::StoredFile),
            Dialect::Jq | Dialect::Sql => text(&descriptor["lro"]["ref"]).map(Source::Reference),
        };
        source.with_context(|| format!("no reference in {descriptor}"))
    }

    /// The next query, or the answer.
    fn advance(&mut self) -> Result<Step> {
        let Some(query) = self.queries.pop_front() else {
            let answer = combined(&self.parameters, std::mem::take(&mut self.answers));
            return Ok(answered(&answer.context("a task has a question")?));
        };
        let source = self.source.as_ref().context("the tool has been called")?;
        let call = match source {
            Source::Reference(reference) if self.dialect == Dialect::Sql => {
                ToolCall::new("lro_extract", json!({"ref": reference, "sql": query.sql}))
            }
            Source::Reference(reference) => {
                let filter = match self.kind {
                    CorpusKind::Log => format!("map(.text) | {}", query.jq),
                    _ => query.jq,
                };
                let arguments = json!({"ref": reference, "query": filter, "whole": true});
                ToolCall::new("lro_extract", arguments)
            }
            Source::StoredFile(path) => {
                ToolCall::new(BASH, json!({"command": stored_command(self.kind, &query.jq, path)}))
            }
            Source::SpilledFile(path) => {
                ToolCall::new(BASH, json!({"command": spilled_command(self.kind, &query.jq, path)}))
            }
        };
        self.pending = Some(query.form);
        Ok(one(call))
    }
}

impl Agent for OracleAgent {
    fn step(&mut self, replies: &[ToolReply]) -> Result<Step> {
        if !std::mem::replace(&mut self.is_started, true) {
            return Ok(one(self.tools.data(json!({}))));
        }
        let reply = only(replies)?;
        ensure!(!reply.is_error, "the right query failed: {}", reply.text);
        match self.pending.take() {
            None => self.source = Some(self.source(reply)?),
            Some(form) => {
                let mut values = values(&reply.text);
                if self.dialect == Dialect::Sql {
                    values = values.into_iter().filter_map(first_column).collect();
                }
                let answer = form.answer(&values);
                self.answers.push(answer.with_context(|| reply.text.clone())?);
            }
        }
        self.advance()
    }
}

/// The first column of a row.
fn first_column(row: Value) -> Option<Value> {
    match row {
        Value::Object(columns) => columns.into_iter().next().map(|(_, value)| value),
        _ => None,
    }
}

/// The command that runs a filter on all records of a stored file.
fn stored_command(kind: CorpusKind, filter: &str, path: &str) -> String {
    match kind {
        CorpusKind::Log => lines_command(filter, path),
        _ => format!("tail -n +2 {} | jq -c -s {}", shell_word(path), shell_word(filter)),
    }
}

/// The command that runs a filter on all records of a reply in a file.
fn spilled_command(kind: CorpusKind, filter: &str, path: &str) -> String {
    let records = match kind {
        CorpusKind::Log => return lines_command(filter, path),
        CorpusKind::Memories => ".memories",
        CorpusKind::Issues => ".items",
        CorpusKind::Map => "to_entries | map({_key: .key} + .value)",
    };
    format!("jq -c {} {}", shell_word(&format!("{records} | {filter}")), shell_word(path))
}

fn lines_command(filter: &str, path: &str) -> String {
    format!("jq -R -n -c {} {}", shell_word(&format!("[inputs] | {filter}")), shell_word(path))
}

/// A word of a shell.
fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_read_every_form_of_file() {
        assert_eq!(
            stored_command(CorpusKind::Memories, "length", "/a b"),
            "tail -n +2 '/a b' | jq -c -s 'length'"
        );
        assert_eq!(
            spilled_command(CorpusKind::Issues, ". == \"it's\"", "/x"),
            r#"jq -c '.items | . == "it'\''s"' '/x'"#
        );
        assert_eq!(
            stored_command(CorpusKind::Log, "length", "/x"),
            "jq -R -n -c '[inputs] | length' '/x'"
        );
    }

    #[test]
    fn rows_are_their_first_columns() {
        assert_eq!(first_column(json!({"n": 8, "m": 9})), Some(json!(8)));
        assert_eq!(first_column(json!(8)), None);
    }
}
