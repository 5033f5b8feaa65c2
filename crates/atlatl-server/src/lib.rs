//! The Atlatl memory server: MCP in both eras, over stdio and HTTP, and an HTTP API.
//!
//! [`MemoryServer`] answers requests and knows no transport; [`stdio::serve`] carries them over a
//! pair of streams. Tools know nothing of offloading: what they answer is written, and what is
//! written passes the interceptor.

pub mod access;
mod answer;
mod arguments;
pub mod auth;
mod call;
mod client;
mod cursor;
mod custodian;
mod definition;
mod dispatch;
pub mod event;
mod greeting;
pub mod http;
mod link;
mod permit;
mod prompt;
mod quota;
mod resource;
mod seal;
mod server;
pub mod stdio;
mod task;
mod tool;
pub mod trace;
mod trouble;

pub use client::{Client, Transport};
pub use link::{Brought, SignedLinks};
pub use server::{MemoryServer, Parts};
pub use task::TaskSlots;
