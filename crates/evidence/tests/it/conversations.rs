//! How conversations with models begin and end.

use std::sync::{Arc, Mutex};

use evidence::agent::{Agent, AgentFactory, Step, ToolCall, ToolDefinition, ToolReply};
use evidence::runner::{self, RunOptions};
use evidence::task::{Answer, Family, Task};
use evidence::transcript::{Ending, Transcript};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::{Plan, read};

/// A model that takes these steps, and then ends. It notes what it gets to read.
#[derive(Default)]
struct FakeModel {
    steps: Vec<Step>,
    read: Arc<Mutex<Vec<String>>>,
}

struct FakeAgent {
    steps: Vec<Step>,
    read: Arc<Mutex<Vec<String>>>,
}

impl AgentFactory for FakeModel {
    fn name(&self) -> String {
        "fake-model".to_owned()
    }

    fn open(&self, _: &Task, _: &str, _: &[ToolDefinition]) -> anyhow::Result<Box<dyn Agent>> {
        let steps = self.steps.iter().rev().cloned().collect();
        Ok(Box::new(FakeAgent { steps, read: Arc::clone(&self.read) }))
    }
}

impl FakeAgent {
    fn next(&mut self) -> Step {
        self.steps.pop().unwrap_or(Step::End)
    }

    fn note(&self, text: &str) {
        self.read.lock().unwrap().push(text.to_owned());
    }
}

impl Agent for FakeAgent {
    fn step(&mut self, replies: &[ToolReply]) -> anyhow::Result<Step> {
        for reply in replies {
            self.note(&reply.text);
        }
        Ok(self.next())
    }

    fn begin_with(&mut self, call: &ToolCall, reply: &ToolReply) -> anyhow::Result<()> {
        self.note(&call.name);
        self.note(&reply.text);
        Ok(())
    }

    fn step_after(&mut self, message: &str) -> anyhow::Result<Option<Step>> {
        self.note(message);
        Ok(Some(self.next()))
    }
}

fn call(name: &str, arguments: serde_json::Value) -> Step {
    Step::Calls(vec![ToolCall::new(name, arguments)])
}

/// The transcript of one task, and what the model read.
fn converse(steps: Vec<Step>, opens_with_result: bool) -> (Transcript, Vec<String>) {
    let directory = TempDir::new().unwrap();
    let mut plan = Plan::new(&["s2-c1"], &[Family::IdLookup], 1);
    plan.sizes = &[50];
    let mut options: RunOptions = plan.options(directory.path());
    options.suite.opens_with_result = opens_with_result;
    let model = FakeModel { steps, ..FakeModel::default() };
    runner::run(&options, &model).unwrap();
    let transcript = read(&options.transcripts).remove(0);
    let read = model.read.lock().unwrap().clone();
    (transcript, read)
}

#[test]
fn a_conversation_can_begin_with_the_result() {
    let (transcript, read) = converse(vec![call("answer", json!({"value": 3}))], true);
    assert_eq!((transcript.ending, transcript.given), (Ending::Answered, Some(Answer::Count(3))));
    let tools: Vec<(&str, u32)> =
        transcript.calls.iter().map(|call| (call.tool.as_str(), call.turn)).collect();
    assert_eq!(tools, [("list_memories", 0), ("answer", 0)]);
    assert_eq!(read, ["list_memories", &transcript.calls[0].reply]);
    assert!(read[1].contains("\"offloaded\":true"), "{}", read[1]);
}

#[test]
fn a_model_that_ends_without_an_answer_is_asked_for_it_once() {
    let answer = call("answer", json!({"value": 3}));
    let (transcript, read) = converse(vec![Step::End, answer.clone()], false);
    assert_eq!((transcript.ending, transcript.turns), (Ending::Answered, 1));
    assert!(read[0].contains("call the tool `answer`"), "{read:?}");
    let (transcript, read) = converse(vec![Step::End, Step::End, answer], false);
    assert_eq!((transcript.ending, read.len()), (Ending::NoAnswer, 1));
}

#[test]
fn a_model_that_repeats_a_call_is_ended() {
    let same = || call("lro_extract", json!({"sql": "SELECT 1"}));
    let (transcript, _) = converse(vec![same(), same(), same(), same()], false);
    assert_eq!((transcript.ending, transcript.calls.len()), (Ending::Cap, 3));
    let other = call("lro_extract", json!({"sql": "SELECT 2"}));
    let (transcript, _) = converse(vec![same(), same(), other, same(), same()], false);
    assert_eq!((transcript.ending, transcript.calls.len()), (Ending::NoAnswer, 5));
}
