//! JSON-RPC messages of MCP in their wire form.
//!
//! A proxy forwards every message that it does not change byte for byte, so this crate never parses
//! a message into values: [`Lines`] splits a stream into lines of any length, [`Message`] borrows
//! the few members that a relay needs, and [`edit`] changes a member and leaves every other byte
//! alone.
//!
//! ```
//! use lro_wire::{Message, edit};
//! use serde_json::json;
//!
//! let line = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"clientInfo":{"name":"x"}}}"#;
//! let message = Message::read(line).unwrap();
//! assert_eq!(message.method.as_deref(), Some("initialize"));
//!
//! let changed = edit::merge(line, &json!({"params": {"clientInfo": {"proxy": true}}}));
//! assert_eq!(
//!     changed.as_deref(),
//!     Some(r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"clientInfo":{"name":"x","proxy":true}}}"#),
//! );
//! ```

pub mod protocol;
pub mod sse;

mod line;
mod message;

pub use line::{Line, Lines, LongLine, MAX_IN_MEMORY_LINE_LEN};
pub use lro_json::{Object, edit};
pub use message::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Id, IdKey, JsonRpcError,
    METHOD_NOT_FOUND, MISSING_CAPABILITY, Message, Messages, PARSE_ERROR, UNSUPPORTED_VERSION,
};
// Two aspects of one module: the `_meta` members, and the protocol versions.
pub use protocol as meta;
pub use protocol as version;
