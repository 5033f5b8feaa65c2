//! An agent that uses nothing but recipes with parameters.

use std::collections::VecDeque;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::pager::RecordCollection;
use super::query::combined;
use super::{Toolbox, answered, descriptor, one, only, values};
use crate::agent::{Agent, Step, ToolCall, ToolReply, UnsuitableCondition};
use crate::task::{Answer, CorpusKind, Parameters, Task};

/// What precedes the offset of the next part in a reply.
const MORE: &str = "More: offset=";

/// A recipe with its parameters.
#[derive(Debug, Clone, PartialEq)]
struct RecipeCall {
    number: u8,
    params: Value,
}

/// An agent that gets records by a recipe, reads all of them, and evaluates them exactly.
#[derive(Debug)]
pub(super) struct RecipeAgent {
    parameters: Parameters,
    tools: Toolbox,
    questions: VecDeque<Parameters>,
    reference: Option<String>,
    records: RecordCollection,
    answers: Vec<Answer>,
    is_started: bool,
}

impl RecipeAgent {
    pub(super) fn new(task: &Task, tools: Toolbox) -> Result<Self> {
        if task.corpus.kind != CorpusKind::Memories {
            return Err(UnsuitableCondition("only memories have recipes".to_owned()).into());
        }
        let questions: VecDeque<Parameters> = match &task.parameters {
            Parameters::Both { first, second } => [(**first).clone(), (**second).clone()].into(),
            single => [single.clone()].into(),
        };
        Ok(Self {
            parameters: task.parameters.clone(),
            tools,
            questions,
            reference: None,
            records: RecordCollection::new(CorpusKind::Memories),
            answers: Vec::new(),
            is_started: false,
        })
    }

    /// The call for the current question, or the answer.
    fn ask(&mut self, offset: u64) -> Result<Step> {
        let Some(question) = self.questions.front() else {
            let answer = combined(&self.parameters, std::mem::take(&mut self.answers));
            return Ok(answered(&answer.context("a task has a question")?));
        };
        let RecipeCall { number, params } = recipe(question);
        let reference = self.reference.as_deref().context("the tool has been called")?;
        let arguments =
            json!({"ref": reference, "recipe": number, "params": params, "offset": offset});
        Ok(one(ToolCall::new("lro_extract", arguments)))
    }
}

impl Agent for RecipeAgent {
    fn step(&mut self, replies: &[ToolReply]) -> Result<Step> {
        if !std::mem::replace(&mut self.is_started, true) {
            return Ok(one(self.tools.data(json!({}))));
        }
        let reply = only(replies)?;
        ensure!(!reply.is_error, "a recipe failed: {}", reply.text);
        if self.reference.is_none() {
            let descriptor = descriptor(reply)?;
            let reference = descriptor["lro"]["ref"].as_str().context("no reference")?;
            self.reference = Some(reference.to_owned());
            return self.ask(0);
        }
        self.records.extend(values(&reply.text));
        if let Some(offset) = next_offset(&reply.text) {
            return self.ask(offset);
        }
        let question = self.questions.pop_front().context("a reply without a question")?;
        let records =
            std::mem::replace(&mut self.records, RecordCollection::new(CorpusKind::Memories));
        self.answers.push(records.answer(&question)?);
        self.ask(0)
    }
}

/// The recipe that returns the fewest records which determine the answer.
fn recipe(question: &Parameters) -> RecipeCall {
    let (number, params) = match question {
        // Ids and titles only.
        Parameters::Ids { .. } => (4, json!({})),
        Parameters::Filter { word, .. } => (10, json!({"keyword": word})),
        Parameters::Top { tag, .. } | Parameters::Time { tag, .. } => (7, json!({"tag": tag})),
        // All records, by date.
        _ => (8, json!({})),
    };
    RecipeCall { number, params }
}

/// The offset of the next part, if the reply is not complete.
fn next_offset(text: &str) -> Option<u64> {
    let (_, rest) = text.lines().next()?.split_once(MORE)?;
    rest.trim_end_matches('.').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_not_complete_has_an_offset() {
        assert_eq!(next_offset("7 of 94 answers. More: offset=7.\n{}"), Some(7));
        assert_eq!(next_offset("7 of 7 answers.\n{}"), None);
        assert_eq!(next_offset(""), None);
    }

    #[test]
    fn the_recipe_narrows_the_records_where_it_can() {
        let number = |question: Parameters| recipe(&question).number;
        assert_eq!(number(Parameters::Ids { ids: vec![] }), 4);
        let filter = Parameters::Filter {
            namespace: "_semantic".to_owned(),
            min_priority: 1,
            word: "Falcon".to_owned(),
        };
        assert_eq!(recipe(&filter).params, json!({"keyword": "Falcon"}));
        let message = Parameters::Message { request: String::new() };
        assert_eq!(number(message), 8);
    }
}
