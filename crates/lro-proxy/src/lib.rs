//! The relay between a client and a server of MCP.
//!
//! [`Relay`] decides: a message in, what becomes of it out, and nothing else touched. [`session`]
//! moves the bytes, [`upstream`] owns the server's process.

mod alone;
mod announce;
mod awaited;
mod called;
mod client_side;
mod long;
mod own;
mod reference;
mod relay;
mod server_side;
mod tasks;

pub mod session;
pub mod upstream;

pub use alone::Greeting;
pub use own::OwnCall;
pub use reference::Passing;
pub use relay::{Forward, FromClient, Relay};
