//! End-to-end tests of delivery: responses, stored files and events.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod deliver;
mod failure;
mod fixture;
mod ledger;
mod replies;
mod reuse;
mod separate;
mod stream;
