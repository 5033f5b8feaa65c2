//! Logging in, against an authority that is strict and one that is wrong.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod callbacks;
mod hostile;
mod logging_in;
mod person;
mod private;
mod processes;
mod public;
mod refreshing;
mod refusing;
mod rules;
