//! The relay between a client and a server of MCP.
//!
//! [`Relay`] decides: a message in, what becomes of it out, and nothing else touched. [`upstream`] is
//! the server, a process or a URL; [`session`] moves the bytes between it and a client.

mod from_client;
mod from_server;
mod lenient;
mod line_writer;
mod local_tools;
mod oversize_message;
mod oversize_spill;
mod pending;
mod proxy_capability;
mod reference;
mod relay;
mod stub_server;
mod task_table;
mod tool_call;

pub mod downstream;
pub mod session;
pub mod upstream;

pub use local_tools::LocalToolCall;
pub use reference::Passing;
pub use relay::{Forward, FromClient, Relay};
pub use stub_server::Greeting;
