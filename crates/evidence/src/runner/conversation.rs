//! One conversation: the steps of an agent, and the replies of its world.

use std::time::Instant;

use anyhow::{Error, Result};
use serde_json::json;

use crate::agent::{Agent, Step, ToolCall, ToolReply};
use crate::agents::endpoint::EndpointError;
use crate::task::Answer;
use crate::tokens;
use crate::transcript::{CallRecord, Ending, Usage};
use crate::world::{World, parse_answer};
use crate::worlds::definitions::ANSWER;

/// For an agent that ends without an answer.
const REMINDER: &str =
    "You have not answered yet. Call a tool, or call the tool `answer` with the answer.";

/// The same calls in a row. Another one ends the conversation.
const MAX_SAME_CALLS: usize = 3;

/// The bounds of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConversationBounds {
    pub(super) max_turns: u32,
    /// The tokens of all requests, as the endpoint counts them.
    pub(super) max_tokens: Option<u64>,
}

impl ConversationBounds {
    /// No bounds, for an agent that ends by itself.
    pub(super) const UNLIMITED: Self = Self { max_turns: u32::MAX, max_tokens: None };
}

/// What happened in a conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) given: Option<Answer>,
    pub(super) ending: Ending,
    pub(super) turns: u32,
    pub(super) calls: Vec<CallRecord>,
    pub(super) usage: Usage,
    pub(super) elapsed_millis: u64,
    /// Why the agent could not go on.
    pub(super) failure: Option<Error>,
}

/// Has a conversation. If it `opens_with_result`, the tool with the data is called before the agent's first
/// step. Fails if the world or the agent fails for another reason than its endpoint.
pub(super) fn converse(
    world: &mut World,
    agent: &mut dyn Agent,
    opens_with_result: bool,
    bounds: ConversationBounds,
) -> Result<Conversation> {
    let started = Instant::now();
    world.begin_conversation()?;
    let mut talk = Talk { world, calls: Vec::new(), turn: 0, is_reminded: false };
    if opens_with_result {
        talk.call_data_tool(agent)?;
    }
    let outcome = talk.run(agent, bounds)?;
    let (given, ending, failure) = match outcome {
        Outcome::Answered(answer) => (Some(answer), Ending::Answered, None),
        Outcome::Ended(ending) => (None, ending, None),
        Outcome::Stopped(ending, failure) => (None, ending, Some(failure)),
    };
    Ok(Conversation {
        given,
        ending,
        turns: talk.turn,
        calls: talk.calls,
        usage: agent.usage(),
        elapsed_millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        failure,
    })
}

enum Outcome {
    Answered(Answer),
    Ended(Ending),
    Stopped(Ending, Error),
}

struct Talk<'w> {
    world: &'w mut World,
    calls: Vec<CallRecord>,
    turn: u32,
    is_reminded: bool,
}

impl Talk<'_> {
    /// Whether the last calls were the same as `call`: the agent does not get out of it.
    fn is_repetition(&self, call: &ToolCall) -> bool {
        let is_same =
            |made: &CallRecord| made.tool == call.name && made.arguments == call.arguments;
        self.calls.iter().rev().take_while(|made| is_same(made)).count() >= MAX_SAME_CALLS
    }

    fn call_data_tool(&mut self, agent: &mut dyn Agent) -> Result<()> {
        let call = ToolCall::new(self.world.data_tool_name(), json!({}));
        let reply = self.world.call(&call.name, &call.arguments)?;
        agent.begin_with(&call, &reply)?;
        self.calls.push(call_record(self.turn, call, &reply));
        Ok(())
    }

    /// The agent's next step. An agent that ends without an answer is asked for it once.
    fn step(&mut self, agent: &mut dyn Agent, replies: &[ToolReply]) -> Result<Step> {
        let step = agent.step(replies)?;
        let is_end = !matches!(&step, Step::Calls(calls) if !calls.is_empty());
        if !is_end || std::mem::replace(&mut self.is_reminded, true) {
            return Ok(step);
        }
        Ok(agent.step_after(REMINDER)?.unwrap_or(step))
    }

    fn run(&mut self, agent: &mut dyn Agent, bounds: ConversationBounds) -> Result<Outcome> {
        let mut replies = Vec::new();
        loop {
            if self.turn >= bounds.max_turns || is_spent(agent.usage(), bounds.max_tokens) {
                return Ok(Outcome::Ended(Ending::Cap));
            }
            let step = match self.step(agent, &replies) {
                Ok(step) => step,
                Err(error) => {
                    return match error.downcast_ref().map(EndpointError::ending) {
                        Some(ending) => Ok(Outcome::Stopped(ending, error)),
                        None => Err(error),
                    };
                }
            };
            let turn = self.turn;
            self.turn += 1;
            let requested = match step {
                Step::Calls(calls) if !calls.is_empty() => calls,
                _ => return Ok(Outcome::Ended(Ending::NoAnswer)),
            };
            replies.clear();
            for call in requested {
                if self.is_repetition(&call) {
                    return Ok(Outcome::Ended(Ending::Cap));
                }
                let reply = self.world.call(&call.name, &call.arguments)?;
                let answer = (call.name == ANSWER && !reply.is_error)
                    .then(|| parse_answer(&call.arguments).ok())
                    .flatten();
                self.calls.push(call_record(turn, call, &reply));
                if let Some(answer) = answer {
                    return Ok(Outcome::Answered(answer));
                }
                replies.push(reply);
            }
        }
    }
}

fn call_record(turn: u32, call: ToolCall, reply: &ToolReply) -> CallRecord {
    CallRecord {
        turn,
        tool: call.name,
        arguments: call.arguments,
        reply_tokens: tokens::count_reply(&reply.text),
        reply: reply.text.clone(),
        is_error: reply.is_error,
        records_given: reply.records_given,
        write_micros: reply.write_micros,
    }
}

fn is_spent(usage: Usage, bound: Option<u64>) -> bool {
    bound.is_some_and(|bound| usage.fresh_input + usage.cached_input + usage.output >= bound)
}
