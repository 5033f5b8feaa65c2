//! Metadata of a tool call, kept until its result arrives.

use lro::Call;
use lro_core::{Detail, Operation};
use lro_wire::Message;

/// A `tools/call` on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolCallInfo {
    pub(crate) tool: String,
    pub(crate) query: Option<String>,
    pub(crate) detail: Option<Detail>,
    /// Spec A4: whether it continues a listing of memories by a cursor. Such a page is never
    /// offloaded, since a descriptor has no cursor.
    pub(crate) continuation: bool,
}

impl ToolCallInfo {
    /// What `message` asks for; `None` where it names no tool.
    pub(crate) fn from_message(message: &Message<'_>) -> Option<Self> {
        let params = message.params()?;
        let tool = params.text("name")?.into_owned();
        let arguments = params.at(&["arguments"]);
        let text = |name: &str| arguments.as_ref().and_then(|arguments| arguments.text(name));
        let detail = text("detail").and_then(|detail| match &*detail {
            "light" => Some(Detail::Light),
            "medium" => Some(Detail::Medium),
            "full" => Some(Detail::Full),
            _ => None,
        });
        let continuation = Operation::of_tool(&tool).is_memory() && text("cursor").is_some();
        Some(Self { tool, query: text("query").map(Into::into), detail, continuation })
    }

    /// The same call of a tool that its server calls `tool`.
    pub(crate) fn rename(&mut self, tool: String) {
        self.tool = tool;
    }

    /// As the offloader knows it.
    pub(crate) fn call<'a>(&'a self, server: &'a str) -> Call<'a> {
        Call {
            server: Some(server),
            query: self.query.as_deref(),
            detail: self.detail,
            ..Call::new(&self.tool)
        }
    }
}
