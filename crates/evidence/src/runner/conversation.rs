//! One conversation: the steps of an agent, and the replies of its world.

use std::time::Instant;

use anyhow::{Error, Result};

use crate::agent::{Agent, Step};
use crate::agents::endpoint::EndpointError;
use crate::task::Answer;
use crate::tokens;
use crate::transcript::{CallRecord, Ending, Usage};
use crate::world::{World, parse_answer};
use crate::worlds::definitions::ANSWER;

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

/// Has a conversation. Fails if the world or the agent fails for another reason than its endpoint.
pub(super) fn converse(
    world: &mut World,
    agent: &mut dyn Agent,
    bounds: ConversationBounds,
) -> Result<Conversation> {
    let started = Instant::now();
    world.begin_conversation()?;
    let mut talk = Talk { world, calls: Vec::new(), turn: 0 };
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
}

impl Talk<'_> {
    fn run(&mut self, agent: &mut dyn Agent, bounds: ConversationBounds) -> Result<Outcome> {
        let mut replies = Vec::new();
        loop {
            if self.turn >= bounds.max_turns || is_spent(agent.usage(), bounds.max_tokens) {
                return Ok(Outcome::Ended(Ending::Cap));
            }
            let step = match agent.step(&replies) {
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
                let reply = self.world.call(&call.name, &call.arguments)?;
                let answer = (call.name == ANSWER && !reply.is_error)
                    .then(|| parse_answer(&call.arguments).ok())
                    .flatten();
                self.calls.push(CallRecord {
                    turn,
                    tool: call.name,
                    arguments: call.arguments,
                    reply_tokens: tokens::count(&reply.text),
                    reply: reply.text.clone(),
                    is_error: reply.is_error,
                    records_given: reply.records_given,
                    write_micros: reply.write_micros,
                });
                if let Some(answer) = answer {
                    return Ok(Outcome::Answered(answer));
                }
                replies.push(reply);
            }
        }
    }
}

fn is_spent(usage: Usage, bound: Option<u64>) -> bool {
    bound.is_some_and(|bound| usage.fresh_input + usage.cached_input + usage.output >= bound)
}
