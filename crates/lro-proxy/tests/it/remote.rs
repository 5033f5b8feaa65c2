//! A server at a URL, its faults, and what the client receives.

mod client;
mod eras;
mod faults;
mod gateway;
mod secrets;
mod sessions;
mod sizes;
