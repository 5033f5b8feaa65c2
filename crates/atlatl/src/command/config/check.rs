//! `atlatl config check`: everything that is wrong with the configuration.

use std::path::PathBuf;

use serde::Serialize;

use crate::{
    error::{Error, Status},
    output::{Mode, Output},
    settings::{FileState, Origin, Problems, Settings, Sources},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check this file alone
    file: Option<PathBuf>,
}

/// What is printed for programs.
#[derive(Serialize)]
struct Verdict<'a> {
    valid: bool,
    problems: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Item<'a> {
    origin: &'a Origin,
    message: String,
    hint: Option<String>,
}

pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let loaded = match &args.file {
        Some(file) => Settings::load(&Sources::only_file(file)),
        None => Settings::load(sources),
    };
    match (loaded, output.mode()) {
        (Ok(settings), Mode::Human) => {
            for (path, state) in settings.files() {
                output.line(format_args!("{path}: {}", verdict(*state)))?;
            }
            Ok(Status::Success)
        }
        (Ok(_), Mode::Json) => {
            output.json(&Verdict { valid: true, problems: Vec::new() })?;
            Ok(Status::Success)
        }
        (Err(problems), Mode::Human) => Err(problems.into()),
        (Err(problems), Mode::Json) => {
            output.json(&Verdict { valid: false, problems: items(&problems) })?;
            Ok(Status::Usage)
        }
    }
}

fn verdict(state: FileState) -> &'static str {
    match state {
        FileState::Read => "ok",
        FileState::Absent => "not there",
    }
}

fn items(problems: &Problems) -> Vec<Item<'_>> {
    problems
        .iter()
        .map(|problem| Item {
            origin: problem.origin(),
            message: problem.to_string(),
            hint: problem.hint(),
        })
        .collect()
}
