//! The memory store and its services.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod recall;
mod sqlite;
