//! Agents: what decides about the next tool calls of a conversation.

use std::error::Error;
use std::fmt;

use serde_json::Value;

use crate::task::Task;
use crate::transcript::{ModelSettings, Usage};
pub use crate::world::{ToolDefinition, ToolReply};

/// What an agent does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// It calls tools. `answer` is one of them.
    Calls(Vec<ToolCall>),
    /// It ends without a further call.
    End,
}

/// A tool call of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

impl ToolCall {
    /// A call of the tool `name`.
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        Self { name: name.into(), arguments }
    }
}

/// An agent in one conversation.
pub trait Agent {
    /// The next step, after the replies to the last calls. The first time there are none.
    fn step(&mut self, replies: &[ToolReply]) -> anyhow::Result<Step>;

    /// Adds a call to the conversation, before the first step, as if the agent had made it. Agents that
    /// make the call themselves ignore it.
    fn begin_with(&mut self, call: &ToolCall, reply: &ToolReply) -> anyhow::Result<()> {
        let _ = (call, reply);
        Ok(())
    }

    /// The next step after a message of the user. An agent that reads no messages has none.
    fn step_after(&mut self, message: &str) -> anyhow::Result<Option<Step>> {
        let _ = message;
        Ok(None)
    }

    /// Tokens so far, as the endpoint counts them.
    fn usage(&self) -> Usage {
        Usage::default()
    }
}

/// Creates the agent of a conversation.
///
/// # Contract
///
/// [`open`](Self::open) fails with [`UnsuitableCondition`] if the agent cannot take part in this
/// condition. The sample is then left out.
pub trait AgentFactory: Sync {
    /// The name in transcripts.
    fn name(&self) -> String;

    /// A bound of turns that the agent has in every suite.
    fn turn_cap(&self) -> Option<u32> {
        None
    }

    /// The settings of the model; none for a scripted agent.
    fn settings(&self) -> Option<ModelSettings> {
        None
    }

    /// Begins a conversation about a task.
    fn open(
        &self,
        task: &Task,
        system: &str,
        tools: &[ToolDefinition],
    ) -> anyhow::Result<Box<dyn Agent>>;
}

/// Why an agent takes no part in a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsuitableCondition(pub String);

impl fmt::Display for UnsuitableCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UnsuitableCondition {}
