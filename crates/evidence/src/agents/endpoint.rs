//! An agent behind an HTTP endpoint: a model that is asked with the wire format of `OpenAI` or
//! Anthropic.
//!
//! The definitions of tools and the system text are the same to the byte in all conversations of a
//! run, so that endpoints can cache them. Tool calls are read in the form of the API, and as JSON in
//! the text of a message.

mod anthropic;
mod api;
mod budget;
mod client;
mod fenced;
mod openai;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

pub use self::api::{Api, CallForm};
use self::api::{Conversation, NativeCall, NativeResult, Parameters, Stop, Turn};
use self::budget::Budget;
use self::client::Client;
pub use self::client::RetryPolicy;
use crate::agent::{Agent, AgentFactory, Step, ToolCall, ToolDefinition, ToolReply};
use crate::prices::{PRICES_FILE, Price, PriceTable, Usd};
use crate::task::Task;
use crate::tokens;
use crate::transcript::{Ending, ModelSettings, Usage};

/// Why an endpoint did not continue a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The model or a filter before it refused.
    #[error("the model refused: {message}")]
    Refused {
        /// What the endpoint reports.
        message: String,
    },
    /// The conversation is longer than the context window.
    #[error("the context window is full: {message}")]
    ContextOverflow {
        /// What the endpoint reports.
        message: String,
    },
    /// A message reached its limit of tokens before a complete call.
    #[error("the message reached its limit: {message}")]
    OutputLimit {
        /// The limit.
        message: String,
    },
    /// The endpoint cannot parse what the model wrote. It would be the same after a retry.
    #[error("the endpoint cannot parse the message of the model: {message}")]
    InvalidOutput {
        /// What the endpoint reports.
        message: String,
    },
    /// The endpoint failed, also after retries.
    #[error("the endpoint failed: {message}")]
    Failed {
        /// What the endpoint reports, or how the connection ended.
        message: String,
    },
    /// The run could exceed its bound in tokens or money with another request. No request was sent.
    #[error("the run reached its limit: {message}")]
    SpendingLimit {
        /// What was spent, and the bound.
        message: String,
    },
}

impl EndpointError {
    /// How a conversation with this error ends.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Refused { .. } => Ending::Refused,
            Self::ContextOverflow { .. } => Ending::ContextOverflow,
            Self::OutputLimit { .. } => Ending::OutputLimit,
            Self::InvalidOutput { .. } => Ending::NoAnswer,
            Self::Failed { .. } | Self::SpendingLimit { .. } => Ending::Failed,
        }
    }
}

/// The endpoint of a run.
#[derive(Debug, Clone, clap::Args)]
pub struct EndpointArgs {
    /// URL of the endpoint, up to and including `/v1`
    #[arg(long, value_name = "URL")]
    pub endpoint: String,
    /// Wire format of the endpoint
    #[arg(long, value_enum, default_value_t = Api::Openai)]
    pub api: Api,
    /// Model to ask
    #[arg(long, value_name = "NAME")]
    pub model: String,
    /// How the model gets the definitions of tools
    #[arg(long, value_enum, default_value_t = CallForm::Native)]
    pub calls: CallForm,
    /// Read messages while the model writes them
    #[arg(long)]
    pub stream: bool,
    /// Stop before the run costs more
    #[arg(long, value_name = "USD")]
    pub max_usd: Option<f64>,
    /// Stop before the run uses more tokens, cached ones included
    #[arg(long, value_name = "TOKENS")]
    pub max_tokens: Option<u64>,
    /// Limit of one message of the model
    #[arg(long, value_name = "TOKENS", default_value_t = 8192)]
    pub max_output_tokens: u64,
    /// Time limit of one request
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    pub timeout: u64,
}

impl EndpointArgs {
    /// A factory of agents that ask this endpoint with `key`.
    pub fn factory(&self, key: Option<String>, prices: &PriceTable) -> Result<EndpointFactory> {
        let timeout = Duration::from_secs(self.timeout);
        self.factory_with(key, prices, RetryPolicy { timeout, ..RetryPolicy::default() })
    }

    fn factory_with(
        &self,
        key: Option<String>,
        prices: &PriceTable,
        policy: RetryPolicy,
    ) -> Result<EndpointFactory> {
        let price = prices.get(&self.model).cloned();
        let max_cost = self
            .max_usd
            .map(|usd| Usd::from_dollars(usd).with_context(|| format!("--max-usd {usd}")))
            .transpose()?;
        ensure!(
            max_cost.is_none() || price.is_some(),
            "--max-usd needs the price of {}: add it to {PRICES_FILE}",
            self.model
        );
        Ok(EndpointFactory {
            shared: Arc::new(Shared {
                client: Client::new(self.api, &self.endpoint, key, policy)?,
                budget: Budget::new(price.clone(), max_cost, self.max_tokens),
                model: self.model.clone(),
                max_output_tokens: self.max_output_tokens,
                stream: self.stream,
            }),
            calls: self.calls,
            price,
        })
    }
}

/// Creates agents that ask one endpoint and share its budget.
#[derive(Debug, Clone)]
pub struct EndpointFactory {
    shared: Arc<Shared>,
    calls: CallForm,
    price: Option<Price>,
}

/// What all conversations of a run share.
#[derive(Debug)]
struct Shared {
    client: Client,
    budget: Budget,
    model: String,
    max_output_tokens: u64,
    stream: bool,
}

impl EndpointFactory {
    /// The price of the model, if it is known.
    pub fn price(&self) -> Option<&Price> {
        self.price.as_ref()
    }

    /// The settings of all conversations, for transcripts. The bound of a conversation is not known
    /// here.
    pub fn model_settings(&self) -> ModelSettings {
        ModelSettings {
            calls: self.calls.name().to_owned(),
            stream: self.shared.stream,
            max_output_tokens: self.shared.max_output_tokens,
            max_sample_tokens: None,
            temperature: self.shared.client.takes_temperature(),
        }
    }

    /// The tokens of all conversations so far, and their cost. A request without a reply counts
    /// with the most that it can have used.
    pub fn spent(&self) -> (Usage, Usd) {
        self.shared.budget.spent_so_far()
    }

    /// The o200k tokens that every conversation begins with, for an estimate.
    pub fn prefix_tokens(&self, system: &str, tools: &[ToolDefinition]) -> u64 {
        let conversation = self.begin(system, tools, String::new());
        let definitions = conversation.tools.iter().map(|tool| {
            let schema = tool.input_schema.to_string();
            tokens::count(&tool.name) + tokens::count(&tool.description) + tokens::count(&schema)
        });
        tokens::count(&conversation.system) + definitions.sum::<u64>()
    }

    /// Opens a conversation that begins with `prompt`.
    pub fn converse(&self, system: &str, tools: &[ToolDefinition], prompt: &str) -> EndpointAgent {
        EndpointAgent {
            shared: Arc::clone(&self.shared),
            conversation: self.begin(system, tools, prompt.to_owned()),
            tool_names: tools.iter().map(|tool| tool.name.clone()).collect(),
            calls: self.calls,
            pending: Pending::None,
            last_text: String::new(),
            usage: Usage::default(),
        }
    }

    fn begin(&self, system: &str, tools: &[ToolDefinition], prompt: String) -> Conversation {
        let (system, tools) = match self.calls {
            CallForm::Native | CallForm::Text => (system.to_owned(), tools.to_vec()),
            CallForm::Fenced => {
                (format!("{system}\n\n{}", fenced::instructions(tools)), Vec::new())
            }
        };
        Conversation { system, tools, turns: vec![Turn::User(prompt)] }
    }
}

impl AgentFactory for EndpointFactory {
    fn name(&self) -> String {
        self.shared.model.clone()
    }

    fn settings(&self) -> Option<ModelSettings> {
        Some(self.model_settings())
    }

    fn open(&self, task: &Task, system: &str, tools: &[ToolDefinition]) -> Result<Box<dyn Agent>> {
        Ok(Box::new(self.converse(system, tools, &task.question)))
    }
}

/// A conversation with a model.
#[derive(Debug)]
pub struct EndpointAgent {
    shared: Arc<Shared>,
    conversation: Conversation,
    tool_names: Vec<String>,
    calls: CallForm,
    pending: Pending,
    last_text: String,
    usage: Usage,
}

/// The calls that wait for their replies.
#[derive(Debug)]
enum Pending {
    None,
    /// In the form of the API, by their ids.
    Native(Vec<String>),
    /// In the text of the message.
    InText(usize),
}

impl Pending {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Native(ids) => ids.len(),
            Self::InText(count) => *count,
        }
    }
}

impl EndpointAgent {
    /// The text of the last message of the model; empty if the last request failed.
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    /// Whether the last message, which has no call, seems to be meant as one.
    pub fn is_meant_as_call(&self) -> bool {
        fenced::is_meant_as_call(&self.last_text, &self.tool_names)
    }

    /// The next step after the replies to the last calls and a message of the user.
    pub fn step_with(&mut self, replies: &[ToolReply], message: &str) -> Result<Step> {
        self.add_replies(replies)?;
        match self.conversation.turns.last_mut() {
            // Some templates refuse two turns of the user.
            Some(Turn::User(text)) => {
                text.push_str("\n\n");
                text.push_str(message);
            }
            _ => self.conversation.turns.push(Turn::User(message.to_owned())),
        }
        self.request()
    }

    fn add_replies(&mut self, replies: &[ToolReply]) -> Result<()> {
        let pending = std::mem::replace(&mut self.pending, Pending::None);
        let (count, expected) = (replies.len(), pending.len());
        ensure!(count == expected, "{count} replies to {expected} calls");
        let turn = match pending {
            Pending::None => return Ok(()),
            Pending::InText(_) => Turn::User(fenced::results_text(replies.iter())),
            Pending::Native(ids) => {
                let results = ids.into_iter().zip(replies).map(|(id, reply)| NativeResult {
                    id,
                    text: reply.text.clone(),
                    is_error: reply.is_error,
                });
                Turn::Results(results.collect())
            }
        };
        self.conversation.turns.push(turn);
        Ok(())
    }

    /// Sends the conversation, and adds the message of the model to it.
    fn request(&mut self) -> Result<Step> {
        let shared = &self.shared;
        let parameters = Parameters {
            model: &shared.model,
            max_output_tokens: shared.max_output_tokens,
            temperature: Some(0.0),
            completion_limit: false,
            stream: shared.stream,
        };
        self.last_text.clear();
        let (mut reply, usage) =
            shared.client.complete(&self.conversation, parameters, &shared.budget)?;
        self.usage = budget::sum(self.usage, usage);
        self.last_text.clone_from(&reply.text);
        if reply.stop == Stop::OutputLimit {
            reply.calls.retain(is_complete);
        }
        let calls = if reply.calls.is_empty() {
            fenced::calls_in(&reply.text, &self.tool_names)
        } else {
            reply.calls.iter().map(native_call).collect()
        };
        let message = || reply.text.chars().take(200).collect();
        match reply.stop {
            Stop::Refusal => return Err(EndpointError::Refused { message: message() }.into()),
            Stop::ContextOverflow => {
                return Err(EndpointError::ContextOverflow { message: message() }.into());
            }
            Stop::OutputLimit if calls.is_empty() => {
                let message = format!("{} tokens", shared.max_output_tokens);
                return Err(EndpointError::OutputLimit { message }.into());
            }
            Stop::OutputLimit | Stop::Normal => {}
        }
        self.pending = match calls.len() {
            0 => Pending::None,
            count if reply.calls.is_empty() => Pending::InText(count),
            _ => Pending::Native(reply.calls.iter().map(|call| call.id.clone()).collect()),
        };
        // An API refuses a turn without content.
        if !reply.text.trim().is_empty() || !reply.calls.is_empty() {
            self.conversation.turns.push(Turn::Assistant { text: reply.text, calls: reply.calls });
        }
        Ok(if calls.is_empty() { Step::End } else { Step::Calls(calls) })
    }
}

impl Agent for EndpointAgent {
    fn step(&mut self, replies: &[ToolReply]) -> Result<Step> {
        self.add_replies(replies)?;
        self.request()
    }

    fn begin_with(&mut self, call: &ToolCall, reply: &ToolReply) -> Result<()> {
        let (turn, pending) = match self.calls {
            CallForm::Native => {
                let id = "call_0".to_owned();
                let arguments = call.arguments.to_string();
                let call = NativeCall { id: id.clone(), name: call.name.clone(), arguments };
                let turn = Turn::Assistant { text: String::new(), calls: vec![call] };
                (turn, Pending::Native(vec![id]))
            }
            CallForm::Text | CallForm::Fenced => {
                let turn = Turn::Assistant { text: fenced::call_text(call), calls: Vec::new() };
                (turn, Pending::InText(1))
            }
        };
        self.conversation.turns.push(turn);
        self.pending = pending;
        self.add_replies(std::slice::from_ref(reply))
    }

    fn step_after(&mut self, message: &str) -> Result<Option<Step>> {
        self.step_with(&[], message).map(Some)
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

/// Whether a call was not cut by the limit of the output.
fn is_complete(call: &NativeCall) -> bool {
    serde_json::from_str::<serde_json::Value>(&call.arguments).is_ok()
}

fn native_call(call: &NativeCall) -> ToolCall {
    ToolCall { name: call.name.clone(), arguments: fenced::parse_arguments(&call.arguments) }
}
