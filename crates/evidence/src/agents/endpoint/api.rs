//! The wire formats of endpoints, reduced to what a conversation with tools needs.

use serde_json::Value;
use ureq::http::HeaderValue;
use ureq::http::header::{AUTHORIZATION, HeaderName, InvalidHeaderValue};

use super::{anthropic, openai};
use crate::agent::ToolDefinition;
use crate::transcript::Usage;

/// The wire format of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum Api {
    /// Chat completions, which llama.cpp, vLLM and most gateways have as well
    Openai,
    /// Messages
    Anthropic,
}

/// How the model gets the definitions of tools. Calls are read in all forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum CallForm {
    /// As the API defines tools
    Native,
    /// As the API defines tools, with calls as JSON in a code fence, as small models write them
    Text,
    /// In the system text, with calls as JSON in a code fence
    Fenced,
}

impl CallForm {
    /// The name on the command line and in transcripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Text => "text",
            Self::Fenced => "fenced",
        }
    }
}

/// A conversation.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    pub(super) system: String,
    /// The definitions that the request contains; none if the system text has them.
    pub(super) tools: Vec<ToolDefinition>,
    pub(super) turns: Vec<Turn>,
}

/// A turn of a conversation.
#[derive(Debug, Clone)]
pub(super) enum Turn {
    User(String),
    Assistant {
        text: String,
        calls: Vec<NativeCall>,
    },
    /// The results of the calls in the turn before.
    Results(Vec<NativeResult>),
}

/// A call in the form of the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NativeCall {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON, as the model wrote it.
    pub(super) arguments: String,
}

/// The result of a call in the form of the API.
#[derive(Debug, Clone)]
pub(super) struct NativeResult {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// The parameters of a request beside the conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters<'a> {
    pub(super) model: &'a str,
    pub(super) max_output_tokens: u64,
    /// `None` if the model does not take one.
    pub(super) temperature: Option<f64>,
    /// Whether the limit of the output has the name that newer models of `OpenAI` require.
    pub(super) completion_limit: bool,
    pub(super) stream: bool,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stop {
    /// It is done, or wants results.
    #[default]
    Normal,
    /// Its message reached the limit of the output.
    OutputLimit,
    Refusal,
    ContextOverflow,
}

/// A message of the model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ModelReply {
    pub(super) text: String,
    pub(super) calls: Vec<NativeCall>,
    pub(super) stop: Stop,
    /// `None` if the endpoint does not count.
    pub(super) usage: Option<Usage>,
}

/// A response or an event that does not have the form of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InvalidEvent {
    /// An error that the endpoint reports in place of a message.
    Error(Value),
    Malformed,
}

/// Collects the events of a stream.
#[derive(Debug)]
pub(super) enum Events {
    Openai(openai::Chunks),
    Anthropic(anthropic::MessageEvents),
}

impl Events {
    /// Adds the data of an event. Returns whether the message is complete.
    pub(super) fn feed(&mut self, data: &[u8]) -> Result<bool, InvalidEvent> {
        match self {
            Self::Openai(chunks) => chunks.feed(data),
            Self::Anthropic(events) => events.feed(data),
        }
    }

    /// The message; `None` if the stream ended before it.
    pub(super) fn finish(self) -> Option<ModelReply> {
        match self {
            Self::Openai(chunks) => chunks.finish(),
            Self::Anthropic(events) => events.finish(),
        }
    }
}

impl Api {
    /// The path of a request, after the URL of the endpoint.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Openai => "chat/completions",
            Self::Anthropic => "messages",
        }
    }

    /// The headers of a request. The key is marked as sensitive.
    pub(super) fn headers(
        self,
        key: Option<&str>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidHeaderValue> {
        let mut headers = Vec::new();
        if self == Self::Anthropic {
            let version = HeaderName::from_static("anthropic-version");
            headers.push((version, HeaderValue::from_static(anthropic::VERSION)));
        }
        if let Some(key) = key {
            let (name, value) = match self {
                Self::Openai => (AUTHORIZATION, format!("Bearer {key}")),
                Self::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
            };
            let mut value = HeaderValue::try_from(value)?;
            value.set_sensitive(true);
            headers.push((name, value));
        }
        Ok(headers)
    }

    /// The body of a request. What all conversations have in common comes first and is the same to
    /// the byte, so that endpoints can cache it.
    pub(super) fn body(self, conversation: &Conversation, parameters: Parameters<'_>) -> Value {
        match self {
            Self::Openai => openai::body(conversation, parameters),
            Self::Anthropic => anthropic::body(conversation, parameters),
        }
    }

    /// Reads a response that is not a stream.
    pub(super) fn reply(self, body: &Value) -> Result<ModelReply, InvalidEvent> {
        if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
            return Err(InvalidEvent::Error(error.clone()));
        }
        match self {
            Self::Openai => openai::reply(body),
            Self::Anthropic => anthropic::reply(body),
        }
    }

    /// A collector for the events of a stream.
    pub(super) fn events(self) -> Events {
        match self {
            Self::Openai => Events::Openai(openai::Chunks::default()),
            Self::Anthropic => Events::Anthropic(anthropic::MessageEvents::default()),
        }
    }
}
