//! The extraction tools, called as a client would, against real stored results.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod definitions;
mod e4;
mod fixture;
mod paths;
mod replies;
mod ways;
