//! Downstream: clients that come over HTTP, any number of them.

pub mod http;
