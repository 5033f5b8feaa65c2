//! Logins at a strict authorization server and at faulty ones.

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
