//! The extraction tools, called as a client would, against real stored results.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "a long run says what it came to")]

mod definitions;
mod e4;
mod fixture;
mod outside;
mod paths;
mod race;
mod replies;
mod ways;
