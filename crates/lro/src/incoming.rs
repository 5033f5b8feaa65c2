//! Incoming: a result on its way to a client.

use lro_core::Detail;
use lro_core::tool_result::{Origin, ToolResult};

use crate::call::Call;

/// A result that a tool returned.
#[derive(Debug, Clone)]
pub struct Incoming<'a> {
    /// The tool, as its server calls it.
    pub tool: &'a str,
    /// The server whose tool it is, where there are several.
    pub server: Option<&'a str>,
    /// The query, where there was one.
    pub query: Option<&'a str>,
    /// The detail level that was asked for; found out from the records where nobody says.
    pub detail: Option<Detail>,
    /// What it returned.
    pub body: Body<'a>,
}

/// What a tool returned.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Body<'a> {
    /// An MCP result, its payload taken.
    ToolResult(&'a ToolResult<'a>),
    /// A payload and nothing around it.
    Payload(&'a [u8]),
}

impl<'a> Incoming<'a> {
    /// A payload that `tool` returned.
    pub fn payload(tool: &'a str, payload: &'a [u8]) -> Self {
        Self { tool, server: None, query: None, detail: None, body: Body::Payload(payload) }
    }

    /// An MCP result that `tool` returned.
    pub fn tool_result(tool: &'a str, result: &'a ToolResult<'a>) -> Self {
        Self { tool, server: None, query: None, detail: None, body: Body::ToolResult(result) }
    }

    /// The result of `call`.
    pub fn new(call: Call<'a>, body: Body<'a>) -> Self {
        let Call { tool, server, query, detail } = call;
        Self { tool, server, query, detail, body }
    }

    pub(crate) fn call(&self) -> Call<'a> {
        Call { tool: self.tool, server: self.server, query: self.query, detail: self.detail }
    }

    pub(crate) fn main(&self) -> &'a [u8] {
        match self.body {
            Body::ToolResult(result) => {
                result.payload().map_or(&[][..], |part| part.payload.as_bytes())
            }
            Body::Payload(payload) => payload,
        }
    }

    /// Whether the payload stood as text in the result, so that its white space counts.
    pub(crate) fn is_text(&self) -> bool {
        match self.body {
            Body::ToolResult(result) => {
                result.payload().is_some_and(|part| part.origin == Origin::Text)
            }
            Body::Payload(_) => false,
        }
    }

    /// Texts that say something else than the payload.
    pub(crate) fn further(&self) -> Vec<&'a str> {
        match self.body {
            Body::ToolResult(result) => {
                result.parts.iter().skip(1).map(|part| part.payload.as_ref()).collect()
            }
            Body::Payload(_) => Vec::new(),
        }
    }
}
