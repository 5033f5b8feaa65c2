//! Tool errors and their mapping to MCP responses.

use atlatl_memory::StoreError;
use lro::mcp::Called;
use mif::MemoryId;

use crate::tools::arguments::ArgumentError;

/// Why a tool has no answer.
pub(crate) enum ToolError {
    Arguments(ArgumentError),
    Missing(MemoryId),
    /// There are as many memories as there may be.
    Full(u64),
    Store(StoreError),
}

impl ToolError {
    /// Which kind, in a word that clients are told too.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Arguments(_) => "arguments",
            Self::Missing(_) => "not_found",
            Self::Full(_) => "quota",
            Self::Store(StoreError::Busy | StoreError::Unavailable(_)) => "unavailable",
            Self::Store(_) => "storage",
        }
    }

    /// What the client is told.
    pub(crate) fn told(&self) -> Called {
        let class = self.class();
        match self {
            Self::Arguments(error) => Called::error(class, &error.message, &error.hint),
            Self::Missing(id) => Called::error(
                class,
                &format!("there is no memory {id}"),
                "recall_memories and list_memories give ids.",
            ),
            Self::Full(most) => Called::error(
                class,
                &format!("there are {most} memories, as many as there may be"),
                "Delete some, or ask the server's administrator for a larger quota.",
            ),
            Self::Store(error @ (StoreError::Busy | StoreError::Unavailable(_))) => {
                Called::error(class, &error.to_string(), "Try again in a moment.")
            }
            Self::Store(error @ StoreError::Unsure(_)) => {
                Called::error(class, &error.to_string(), "Look whether it is there first.")
            }
            // What an engine says may name paths, which are nobody's business.
            Self::Store(error) => Called::error(
                class,
                &error.to_string(),
                "Nothing was stored. The server's own output says more.",
            ),
        }
    }
}

impl From<ArgumentError> for ToolError {
    fn from(error: ArgumentError) -> Self {
        Self::Arguments(error)
    }
}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(error) => Self::Arguments(ArgumentError::new(
                error.to_string(),
                "Correct that field and call again; nothing was stored.",
            )),
            other => Self::Store(other),
        }
    }
}
