//! Delivery from end to end: what the client gets, what is stored, what is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod deliver;
mod failure;
mod fixture;
mod ledger;
mod replies;
mod separate;
mod stream;
