//! The screen without a terminal.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod any_keys;
mod failures;
mod harness;
mod hostile;
mod queries;
mod views;
