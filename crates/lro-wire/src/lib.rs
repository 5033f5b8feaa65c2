//! JSON-RPC messages of MCP as they lie on the wire.
//!
//! A proxy must hand on what it does not change as the bytes that came. So nothing here turns a
//! message into values: [`Lines`] cuts a stream into lines of any length, [`Message`] borrows the
//! few members a relay looks at, and [`edit`] changes a member and leaves every other byte alone.
//!
//! ```
//! use lro_wire::{Message, edit};
//! use serde_json::json;
//!
//! let line = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"clientInfo":{"name":"x"}}}"#;
//! let message = Message::read(line).unwrap();
//! assert_eq!(message.method.as_deref(), Some("initialize"));
//!
//! let told = edit::merge(line, &json!({"params": {"clientInfo": {"proxy": true}}}));
//! assert_eq!(
//!     told.as_deref(),
//!     Some(r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"clientInfo":{"name":"x","proxy":true}}}"#),
//! );
//! ```

pub mod meta;
pub mod sse;
pub mod version;

mod error;
mod id;
mod line;
mod message;

pub use error::{
    HEADER_MISMATCH, INTERNAL, INVALID_PARAMS, JsonRpcError, METHOD_NOT_FOUND, MISSING_CAPABILITY,
    NO_JSON, NO_REQUEST, UNSUPPORTED_VERSION,
};
pub use id::{Id, IdKey};
pub use line::{LINE_IN_MEMORY, Line, Lines, LongLine};
pub use lro_json::{Object, edit};
pub use message::{Message, Messages};
