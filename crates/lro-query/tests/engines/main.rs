//! Tests of jq and SQL queries in real workers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fixture;
mod hostile;
mod hostile_jq;
mod hostile_sql;
mod jq;
mod sql;
mod stored;
mod worker;
