//! Upstream: the server, as a process of ours or somewhere else.

pub mod http;
pub mod stdio;
