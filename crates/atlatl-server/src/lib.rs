//! The Atlatl memory server: MCP over stdio and HTTP in both protocol generations, and an HTTP API.
//!
//! [`MemoryServer`] answers requests independently of the transport; [`stdio::serve`] carries them
//! over a pair of streams. The tools know nothing of offloading: their results pass the
//! interceptor.

pub mod auth;
mod client;
mod cursor;
mod dependency;
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

pub use client::{ClientInfo, Transport};
pub use dependency::Dependency;
pub use limits::DatabaseTimeLimit;
pub use maintenance::MaintenanceTasks;
pub use server::{MemoryServer, MemoryServerConfig};
pub use signing::{SignedLinks, SignedUrl};
pub use tasks::TaskSlots;
