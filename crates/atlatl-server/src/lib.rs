//! The Atlatl memory server: MCP in both eras, over stdio and HTTP, and an HTTP API.
//!
//! [`MemoryServer`] answers requests and knows no transport; [`stdio::serve`] carries them over a
//! pair of streams. Tools know nothing of offloading: what they answer is written, and what is
//! written passes the interceptor.

pub mod auth;
mod cursor;
mod dispatch;
pub mod event;
mod handshake;
pub mod http;
mod limits;
mod maintenance;
mod resources_and_prompts;
mod server;
mod signing;
pub mod stdio;
mod tasks;
mod tools;
pub mod trace;

pub use handshake::{ClientInfo, Transport};
pub use server::{MemoryServer, MemoryServerConfig};
pub use signing::{SignedLinks, SignedUrl};
pub use tasks::TaskSlots;

// Former names, until every crate of the workspace uses the new ones.
#[doc(hidden)]
pub use server::MemoryServerConfig as ServerConfig;
