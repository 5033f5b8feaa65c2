//! The transcript of a sample: one conversation about one task. Scores and the report read nothing
//! else.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::task::{Answer, CorpusId, Family};

/// What identifies a sample. A run resumes by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SampleId {
    /// The suite, for example `paper-fair`.
    pub suite: String,
    /// The condition: strategy and ablation, for example `s2-c6`.
    pub condition: String,
    /// The scripted agent, or the model of the endpoint.
    pub agent: String,
    /// The task.
    pub task: String,
    /// The repeat, from 0.
    pub repeat: u32,
}

/// How a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// The agent called `answer`.
    Answered,
    /// The agent ended without an answer.
    NoAnswer,
    /// The turns or tokens reached their bound.
    Cap,
    /// The context window was full.
    ContextOverflow,
    /// The model refused.
    Refused,
    /// A message of the model reached its limit of tokens before a complete call.
    OutputLimit,
    /// The endpoint failed. The sample is not scored, and is repeated when a run resumes.
    Failed,
}

/// Tokens, as the endpoint counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were not cached.
    pub fresh_input: u64,
    /// Input tokens from the endpoint's cache.
    pub cached_input: u64,
    /// Output tokens.
    pub output: u64,
}

/// A tool call with its reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The turn that it belongs to, from 0.
    pub turn: u32,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// The text that the agent received.
    pub reply: String,
    /// The number of o200k tokens of `reply`.
    pub reply_tokens: u64,
    /// Whether the tool reported an error.
    pub is_error: bool,
    /// The records in the reply, as the ledger of the program counts them.
    pub records_given: u64,
    /// The microseconds that writing an offloaded result took, if one was written.
    pub write_micros: Option<u64>,
}

/// What a sample was produced with. Samples with different settings are not comparable: a run with
/// other settings than those of its file is refused, and so is a report about both.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunSettings {
    /// The SHA-256 of the program that served the world.
    pub program: String,
    /// The SHA-256 of the lines of the task's family and corpus.
    pub tasks: String,
    /// The context window that conditions are chosen for, in tokens.
    pub window_tokens: u64,
    /// The settings of the model; `None` for a scripted agent.
    pub model: Option<ModelSettings>,
}

/// The settings of a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ModelSettings {
    /// How tool calls were made: `native`, `text` or `fenced`.
    pub calls: String,
    /// Whether messages were streamed.
    pub stream: bool,
    /// The limit of one message, in tokens.
    pub max_output_tokens: u64,
    /// The bound of the tokens of a conversation.
    pub max_sample_tokens: Option<u64>,
    /// Whether the endpoint accepted the temperature 0.
    pub temperature: bool,
}

/// A transcript. A line of `transcripts-SUITE.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transcript {
    /// The sample.
    pub sample: SampleId,
    /// What it was produced with.
    pub settings: RunSettings,
    /// The family of the task.
    pub family: Family,
    /// The corpus of the task.
    pub corpus: CorpusId,
    /// The right answer.
    pub expected: Answer,
    /// The given answer.
    pub given: Option<Answer>,
    /// How the conversation ended.
    pub ending: Ending,
    /// The turns of the agent.
    pub turns: u32,
    /// The bound of turns.
    pub max_turns: u32,
    /// The tool calls in order.
    pub calls: Vec<CallRecord>,
    /// The tokens of all requests. Empty for scripted agents.
    pub usage: Usage,
    /// The milliseconds of the conversation.
    pub elapsed_millis: u64,
}
