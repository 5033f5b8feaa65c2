//! Scripted agents in all worlds, served by the built program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod ablations;
mod conversations;
mod fixture;
mod guidance;
mod kinds;
mod loca;
mod measures;
mod oracles;
mod pagers;
mod questions;
mod resume;
mod sandboxes;
mod settings;
