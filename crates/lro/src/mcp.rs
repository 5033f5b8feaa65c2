//! Large Result Offloading in MCP, without a transport.
//!
//! [`Interceptor`] takes a serialized tool result and returns the one to send: unchanged, or with a
//! descriptor in its place. [`ToolsPage`] rewrites `tools/list` accordingly. [`Tools`] are the
//! extraction tools: an MCP server adds their definitions to `tools/list` and passes calls of these
//! names to them.

mod intercept;
mod listing;
mod lookalike;
mod tools;

use std::ops::Range;

pub use intercept::{Disposition, Interceptor, LargeFile, LargePayload, ReplacementResult};
pub use listing::{ListingOptions, RenamedTool, ToolsPage};
pub use lookalike::{NoticeIn, mark_error_lookalike, mark_large_lookalike, mark_lookalike};
pub use lro_wire::protocol::AppHost;
pub use tools::{AppView, CompanionTool, PAGE, SHOW, ToolOutput, Tools};

/// Edits of a message: ranges in ascending order, each with its replacement.
pub type RangeEdits = Vec<(Range<u64>, String)>;
