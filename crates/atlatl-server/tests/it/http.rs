//! The same server over real connections.

mod api;
mod door;
mod eras;
mod openapi;
mod proxies;
mod served;
mod stored;
mod tokens;
