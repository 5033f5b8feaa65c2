//! HTTP building blocks shared by the memory server and the proxy.
//!
//! [`header`] encodes and checks MCP headers, [`Guard`] checks `Host`, `Origin` and bearer tokens,
//! [`listen()`] opens a TCP or Unix socket listener, and [`serve()`] runs a router on it until it is
//! stopped.

pub mod header;

mod bearer;
mod connections;
mod listen;
mod origin_guard;
mod peer_user;
mod route;
mod serve;

pub use bearer::{BearerError, BearerTokens, LOCAL_TOKEN, local_token};
pub use listen::{
    ListenError, Listener, SocketError, UNIX_PREFIX, UnixSocket, check_socket_path, listen, user_id,
};
pub use origin_guard::Guard;
pub use peer_user::knows_peer_users;
pub use route::{Exposure, Problem, Route, method_not_allowed, path_not_found};
pub use serve::{ServeLimits, StopHandle, StopSignal, serve, serve_async, stop_channel};
