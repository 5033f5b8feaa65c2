//! The screen without a terminal.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod any_keys;
mod columns;
mod exports;
mod failures;
mod harness;
mod hostile;
mod lists;
mod queries;
mod views;
mod widths;
