//! Called: what a call asked for, kept until its result is there.

use lro::Call;
use lro_core::Detail;
use lro_wire::Message;

/// A `tools/call` on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Called {
    pub(crate) tool: String,
    pub(crate) query: Option<String>,
    pub(crate) detail: Option<Detail>,
}

impl Called {
    /// What `message` asks for; `None` where it names no tool.
    pub(crate) fn of(message: &Message<'_>) -> Option<Self> {
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
        Some(Self { tool, query: text("query").map(Into::into), detail })
    }

    /// As the offloader knows it.
    pub(crate) fn call<'a>(&'a self, server: &'a str) -> Call<'a> {
        Call {
            server: Some(server),
            query: self.query.as_deref(),
            detail: self.detail,
            ..Call::of(&self.tool)
        }
    }
}
