//! The memory server through its transports: a pair of streams, and HTTP.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::needless_pass_by_value, reason = "arguments read better without a sign")]

mod acknowledge;
mod context;
mod failing;
mod faults;
mod fixture;
mod http;
mod pages;
mod protocol;
mod proxies;
mod sets;
mod tasks;
mod tools;
mod walk;
