//! Messages in their wire form.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod edits;
mod ids;
mod lines;
mod sse;
mod who;
