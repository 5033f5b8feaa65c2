//! Large Result Offloading in MCP, without a transport.
//!
//! [`Interceptor`] takes a serialized tool result and gives the one to send: as it came, or with a
//! descriptor in its place. [`Page`] makes `tools/list` say so. [`Tools`] are the extraction tools:
//! whoever speaks MCP puts their definitions into `tools/list` and hands calls of those names to
//! them.

mod intercept;
mod listing;
mod lookalike;
mod tools;

pub use intercept::{
    Changes as LongChanges, Disposition, Interceptor, LargeFile, LargePayload, Replaced,
};
pub use listing::{Changes, Page, Renamed};
pub use lookalike::{NoticeIn, mark_error_lookalike, mark_long_lookalike, mark_lookalike};
pub use tools::{Called, Tools};
