//! The relay between a client and a server of MCP.
//!
//! [`Relay`] decides: a message in, what becomes of it out, and nothing else touched. [`upstream`] is
//! the server, a process or a URL; [`session`] moves the bytes between it and a client.

mod alone;
mod announce;
mod aside;
mod awaited;
mod called;
mod client_side;
mod lenient;
mod long;
mod outlet;
mod own;
mod reference;
mod relay;
mod server_side;
mod tasks;

pub mod downstream;
pub mod session;
pub mod upstream;

pub use alone::Greeting;
pub use own::OwnCall;
pub use reference::Passing;
pub use relay::{Forward, FromClient, Relay};
