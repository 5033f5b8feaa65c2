//! The input and the outcome of an offload: a tool call, the body of its result, and what the client
//! gets.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use lro_core::threshold::Decision;
use lro_core::tool_result::{MAX_SHOWN_RESOURCES, Origin, Part, ToolResult};
use lro_core::{ClientLimit, Detail, ResultId, argument_digest};
use lro_spool::ResultInfo;

use crate::truncated::{Truncated, Warning};

/// A tool call whose result is delivered.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// The tool name, as its server lists it.
    pub tool: &'a str,
    /// The server of the tool, if there are several.
    pub server: Option<&'a str>,
    /// The query, if there was one.
    pub query: Option<&'a str>,
    /// The requested detail level; inferred from the records if `None`.
    pub detail: Option<Detail>,
    /// The arguments, if they are known.
    pub arguments: Option<&'a CallArguments>,
    /// The id of the request, for events.
    pub correlation: Option<&'a str>,
    /// How much of a large result the client would show, for events.
    pub client_limit: Option<ClientLimit>,
    /// The program that a command line runs, for events: untrusted text.
    pub program: Option<&'a str>,
}

impl<'a> ToolCall<'a> {
    /// A call of `tool`.
    pub fn new(tool: &'a str) -> Self {
        Self {
            tool,
            server: None,
            query: None,
            detail: None,
            arguments: None,
            correlation: None,
            client_limit: None,
            program: None,
        }
    }
}

/// The longest arguments in bytes that calls are compared by.
const MAX_COMPARED_ARGUMENTS_LEN: usize = 4096;

/// The arguments of a tool call: in full to compare calls, and as a digest to store with the result.
#[derive(Clone, PartialEq, Eq)]
pub struct CallArguments {
    /// `None` if they are too long.
    json: Option<String>,
    digest: String,
}

impl CallArguments {
    /// The arguments in `json`, an object.
    pub fn new(json: &str) -> Self {
        let short = json.len() <= MAX_COMPARED_ARGUMENTS_LEN;
        Self { json: short.then(|| json.to_owned()), digest: argument_digest(json) }
    }

    /// Names and short values, without values that may be secret: untrusted text.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The arguments, unless they are too long to keep.
    pub(crate) fn json(&self) -> Option<&str> {
        self.json.as_deref()
    }
}

impl std::fmt::Debug for CallArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The arguments may contain secrets.
        f.debug_struct("CallArguments").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// The body of a tool's result.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ResultBody<'a> {
    /// A parsed MCP result.
    ToolResult(&'a ToolResult<'a>),
    /// A bare payload.
    Payload(&'a [u8]),
}

impl<'a> ResultBody<'a> {
    /// The payload that may be offloaded.
    pub(crate) fn payload(self) -> &'a [u8] {
        match self {
            Self::ToolResult(result) => {
                result.payload().map_or(&[][..], |part| part.payload.as_bytes())
            }
            Self::Payload(payload) => payload,
        }
    }

    /// Whether the payload is the text of a content block, so that its white space is content.
    pub(crate) fn is_text(self) -> bool {
        match self {
            Self::ToolResult(result) => {
                let is_text =
                    |part: &Part<'_>| matches!(part.origin, Origin::Text | Origin::Resource);
                result.payload().is_some_and(is_text)
            }
            Self::Payload(_) => false,
        }
    }

    /// Texts of the result with other content than the payload.
    pub(crate) fn further_texts(self) -> Vec<&'a str> {
        match self {
            Self::ToolResult(result) => {
                result.parts.iter().skip(1).map(|part| part.payload.as_ref()).collect()
            }
            Self::Payload(_) => Vec::new(),
        }
    }

    /// The addresses of the embedded resources, if there are too many to show them.
    pub(crate) fn addresses(self) -> Vec<ResourceAddress<'a>> {
        let Self::ToolResult(result) = self else { return Vec::new() };
        let addresses: Vec<ResourceAddress<'a>> = (0..)
            .zip(&result.parts)
            .filter_map(|(part, resource)| {
                Some(ResourceAddress { part, uri: resource.uri.as_deref()? })
            })
            .collect();
        if addresses.len() > MAX_SHOWN_RESOURCES { addresses } else { Vec::new() }
    }
}

/// The address of an embedded resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResourceAddress<'a> {
    /// The number of the part with its text; 0 for the payload.
    pub(crate) part: usize,
    /// Its address: untrusted text.
    pub(crate) uri: &'a str,
}

/// The time and the random bits from which the id of a stored result is made.
#[derive(Debug, Clone, Copy)]
pub struct IdSeed {
    /// The current time.
    pub now: DateTime<Utc>,
    /// At least 80 random bits, the lower ones.
    pub random: u128,
}

impl IdSeed {
    /// The current time and 128 random bits of the operating system: session ids and the names of
    /// results must not be predictable. Nothing else in this crate reads the clock or the random
    /// number generator.
    ///
    /// # Panics
    /// If the operating system has no random numbers, as `HashMap` does: there is no safe substitute.
    pub fn from_system() -> Self {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system provides random numbers");
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = DateTime::UNIX_EPOCH + since_1970;
        Self { now, random: u128::from_be_bytes(random) }
    }

    /// The id of a result that is stored now.
    pub(crate) fn result_id(self) -> ResultId {
        let unix_ms = u64::try_from(self.now.timestamp_millis()).unwrap_or_default();
        ResultId::new(unix_ms, self.random)
    }
}

/// What the client gets for a result. A failed write is an outcome and not an error, because the tool
/// call itself succeeded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Delivered {
    /// The unchanged result.
    Inline(Decision),
    /// A descriptor; the result is stored.
    Offloaded(Box<Offloaded>),
    /// Spec L3: the result could not be stored; as many of the memories as fit.
    Truncated(Truncated),
    /// The result could not be stored and exists nowhere else: unchanged.
    PassedOn(Warning),
}

/// A stored result.
#[derive(Debug)]
#[non_exhaustive]
pub struct Offloaded {
    /// The descriptor, as JSON.
    pub descriptor: String,
    /// The entry of the result in the spool.
    pub listed: ResultInfo,
}
