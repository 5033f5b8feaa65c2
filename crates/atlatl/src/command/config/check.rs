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
        Some(file) => Settings::read(&Sources::only_file(file)),
        None => Settings::read(sources),
    };
    match (loaded, output.mode()) {
        (Ok(settings), Mode::Human) => {
            for (path, state) in settings.files() {
                output.line(format_args!("{path}: {}", verdict(state)))?;
            }
            settings.project_notes().into_iter().for_each(|note| output.note(note));
            Ok(Status::Success)
        }
        (Ok(settings), Mode::Json) => {
            settings.project_notes().into_iter().for_each(|note| output.note(note));
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

fn verdict(state: &FileState) -> String {
    match state {
        FileState::Read => "ok".to_owned(),
        FileState::Absent => "not there".to_owned(),
        FileState::Ignored(why) => format!("ignored: {why}"),
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
