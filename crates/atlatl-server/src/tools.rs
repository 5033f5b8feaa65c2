//! The memory tools: names, properties and arguments.

pub(crate) mod arguments;
pub(crate) mod definition;
pub(crate) mod handlers;
pub(crate) mod response;

use crate::tools::arguments::with_filter;

/// A tool of the memory server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    List,
    Recall,
    Search,
    Inject,
    Capture,
    Get,
    Update,
    Delete,
}

impl Tool {
    /// In the order of the listing. The first is harmless to try.
    pub(crate) const ALL: [Self; 8] = [
        Self::List,
        Self::Recall,
        Self::Search,
        Self::Inject,
        Self::Capture,
        Self::Get,
        Self::Update,
        Self::Delete,
    ];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::List => "list_memories",
            Self::Recall => "recall_memories",
            Self::Search => "search_memories",
            Self::Inject => "inject_context",
            Self::Capture => "capture_memory",
            Self::Get => "get_memory",
            Self::Update => "update_memory",
            Self::Delete => "delete_memory",
        }
    }

    /// Spec A8: whether a call may run as a task.
    pub(crate) fn may_be_a_task(self) -> bool {
        matches!(self, Self::Recall | Self::Inject)
    }

    /// Returns whether a call changes the store.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Capture | Self::Update | Self::Delete)
    }

    /// Returns the names of its arguments.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::List => with_filter!([], ["status", "order", "detail", "limit", "cursor"]),
            Self::Recall => with_filter!(["query"], ["status", "detail", "limit", "cursor"]),
            Self::Search => {
                with_filter!(["query", "mode"], ["status", "detail", "limit", "cursor"])
            }
            Self::Inject => with_filter!(["query", "budget_tokens"], ["detail", "limit"]),
            Self::Capture => CAPTURE_ARGUMENTS,
            Self::Get => &["id", "detail"],
            Self::Update => UPDATE_ARGUMENTS,
            Self::Delete => &["id"],
        }
    }
}

const CAPTURE_ARGUMENTS: &[&str] = &[
    "content",
    "memory_type",
    "title",
    "namespace",
    "tags",
    "summary",
    "entities",
    "relationships",
    "citations",
    "provenance",
    "temporal",
    "extensions",
];

const UPDATE_ARGUMENTS: &[&str] = &[
    "id",
    "content",
    "memory_type",
    "title",
    "namespace",
    "tags",
    "status",
    "summary",
    "entities",
    "relationships",
    "citations",
    "provenance",
    "temporal",
    "extensions",
];
