//! The relay, message by message.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod announced;
mod fixture;
mod listing;
mod long;
mod own_tools;
mod pages;
mod references;
mod remote;
mod results;
mod tasks;
mod transparent;
mod trust;
