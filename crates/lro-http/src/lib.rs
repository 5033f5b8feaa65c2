//! MCP over HTTP: what a server and a proxy have in common.
//!
//! [`header`] says a message in headers and checks them, [`Guard`] decides who may ask at all,
//! [`listen`] where a server may be reached, [`serve`] answers until it is stopped.

pub mod header;

mod bearer;
mod guard;
mod listen;
mod problem;
mod serve;

pub use bearer::{AuthError, BearerTokens};
pub use guard::Guard;
pub use listen::{ListenError, listen};
pub use problem::{Problem, no_such_method, no_such_path};
pub use serve::{Bounds, Stop, Stopped, serve, stop};
