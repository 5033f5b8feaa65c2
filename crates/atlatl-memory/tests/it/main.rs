//! The memory store, its services and its embedders.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod durability;
mod embed;
#[cfg(feature = "postgres")]
mod postgres;
mod recall;
mod sqlite;
