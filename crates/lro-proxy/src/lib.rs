//! A proxy between an MCP client and an MCP server.
//!
//! [`Relay`] decides on every message: forward it unchanged, change it, drop it or answer it.
//! [`upstream`] connects to the server, which is a process or a URL; [`downstream`] serves clients over
//! stdio or HTTP; [`session`] moves the bytes between a stdio client and a server.

mod relay;
mod stub_server;

pub mod session;

/// Connections to the server: a child process, or a URL.
pub mod upstream {
    pub mod http;
    pub mod process;
}

/// Connections to clients: stdio, or HTTP.
pub mod downstream {
    pub mod http;
    pub(crate) mod stdio;
}

pub use relay::local_tools::LocalToolCall;
pub use relay::reference::ReferencePassing;
pub use relay::{ClientOutcome, Forward, Relay};
pub use stub_server::StubServer;
