//! MCP over HTTP: what a server and a proxy have in common.
//!
//! [`header`] says a message in headers and checks them, [`Guard`] decides who may ask at all,
//! [`listen`] where a server may be reached, [`serve`] answers until it is stopped.

pub mod header;

mod bearer;
mod listen;
mod local_token;
mod origin_guard;
mod places;
mod problem;
mod route;
mod serve;
mod unix;
mod watched;

pub use bearer::{AuthError, BearerTokens};
pub use listen::{ListenError, Listener, UNIX, listen};
pub use local_token::{LOCAL_TOKEN, local_token};
pub use origin_guard::Guard;
pub use problem::{Problem, no_such_method, no_such_path};
pub use route::{Exposure, Route};
pub use serve::{Bounds, Stop, Stopped, serve, stop};
pub use unix::{SocketError, UnixSocket, checked as checked_socket, user_id};
