//! A server at a URL: what it may do wrong, and what the client gets all the same.

mod client;
mod eras;
mod faults;
mod secrets;
mod sessions;
mod sizes;
