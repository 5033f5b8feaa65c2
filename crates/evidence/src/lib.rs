//! `cargo evidence`: controlled experiments with agents.
//!
//! [`corpora`] are the tool results, [`tasks`] the questions about them, [`reference`](mod@reference)
//! the two ways to answer them, and [`verify`](mod@verify) the checks of all three. A [`condition`]
//! says how a result reaches an agent, and a [`world`] serves it with the real program. [`agents`]
//! decide, the [`runner`] has their conversations, and [`score`](mod@score) and
//! [`report`](mod@report) read nothing but transcripts. [`task`] and [`transcript`] are the formats of
//! what is asked and of what happened.

pub mod ablation;
pub mod agent;
pub mod agents;
mod args;
pub mod break_even;
pub mod condition;
pub mod corpora;
pub mod loca;
pub mod paper;
pub mod prices;
pub mod questions;
pub mod reference;
pub mod report;
pub mod runner;
pub mod score;
pub mod statistics;
pub mod suite;
pub mod task;
pub mod tasks;
pub mod tokens;
pub mod traffic;
pub mod transcript;
pub mod verify;
pub mod world;
mod worlds;

use std::env;
use std::process::ExitCode;

use clap::Parser as _;
use xtask::output;
use xtask::repository::Repository;

use self::args::Cli;

/// The environment variable with the key of the endpoint.
const KEY_VARIABLE: &str = "EVIDENCE_API_KEY";

/// Parses the command line and runs the command; the exit code says whether it passed.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let key = env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
    match Repository::open().and_then(|repository| cli.run(&repository, key)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}
