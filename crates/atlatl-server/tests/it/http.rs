//! The server over real connections.

mod api;
mod door;
mod eras;
mod many;
mod oidc;
mod openapi;
mod proxies;
pub(crate) mod served;
mod stored;
mod tokens;
