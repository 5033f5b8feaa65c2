//! Large Result Offloading in MCP: the extraction tools, without a transport.
//!
//! [`Tools`] says which tools there are and answers their calls; whoever speaks MCP puts its
//! definitions into `tools/list` and hands calls of those names to it.

mod tools;

pub use tools::{Called, Tools};
