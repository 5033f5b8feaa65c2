//! The extraction tools, called as a client would, against real stored results.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "a long run says what it came to")]

mod any_result;
mod definitions;
mod descriptor_sizes;
mod descriptor_snapshots;
mod e4;
mod everything_is_found;
mod fixture;
mod hostile_fields;
mod kinds;
mod mistakes;
mod outside;
mod outside_questions;
mod parts;
mod paths;
mod race;
mod replies;
mod selection;
mod tables;
mod ways;
