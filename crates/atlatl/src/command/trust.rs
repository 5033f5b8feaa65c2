//! `atlatl trust`: lets a project's file set every key.

use std::path::{Path, PathBuf};

use lro::Moment;
use lro_core::neutralise;
use serde::Serialize;
use serde_json::Value;

use crate::{
    error::{Error, Status},
    output::{Mode, Output, Table, counted},
    settings::{
        Entry, PROJECT_FILE, ProjectError, ProjectFile, Sources, TrustRecord, TrustStore, location,
        names,
    },
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl trust                          (the atlatl.toml of this directory)
  atlatl trust --dry-run                (only show what it sets)
  atlatl trust --list
  atlatl trust --revoke ../other/atlatl.toml";

/// What was typed behind `atlatl trust`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// List the files that you trust
    #[arg(long, conflicts_with_all = ["file", "revoke", "dry_run", "yes"])]
    list: bool,
    /// End the trust in the file
    #[arg(long, conflicts_with_all = ["dry_run", "yes"])]
    revoke: bool,
    /// Show what the file sets, and record nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// The project's file [default: ./atlatl.toml]
    file: Option<PathBuf>,
}

/// What a program reads.
#[derive(Serialize)]
struct Report {
    path: String,
    trusted: bool,
    /// What applies without trust.
    allowed: Vec<Item>,
    /// What applies with trust.
    needs_trust: Vec<Item>,
}

#[derive(Serialize)]
struct Item {
    key: String,
    value: Value,
}

#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    record: &'a TrustRecord,
    state: State,
}

/// Whether a recorded file is still what was trusted.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Trusted,
    Changed,
    Missing,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let surroundings = sources.surroundings();
    let store = TrustStore::new(surroundings)
        .ok_or_else(|| Error::usage("there is no home directory to record trust in"))?;
    if args.list {
        return list(&store, sources, output);
    }
    let file = args.file.as_deref().unwrap_or(Path::new(PROJECT_FILE));
    if file.file_name() != Some(PROJECT_FILE.as_ref()) {
        return Err(Error::usage(format!("a project's file is called {PROJECT_FILE}"))
            .with_hint(format!("to use this file: --config {}", file.display())));
    }
    if args.revoke {
        return revoke(&store, file, output);
    }
    let project = ProjectFile::open(file, surroundings).map_err(|error| refused(file, error))?;
    let keys = names(&project.untrusted);
    if output.mode() == Mode::Human && keys.is_some() {
        output.table(&table(&project.untrusted))?;
    }
    let grants = keys.is_some() && !args.dry_run;
    if grants {
        if !args.yes {
            confirm(&project, output)?;
        }
        store
            .grant(&project.path, &project.contents, Moment::of_system().now)
            .map_err(|error| Error::failure(format!("trust cannot be recorded: {error}")))?;
    }
    if output.mode() == Mode::Json {
        output.json(&report(&project, grants))?;
    }
    let path = project.path.display();
    match keys {
        None => output.note(format_args!("{path}: nothing in it needs trust")),
        Some(_) if grants => {
            output.note(format_args!(
                "{path} is trusted until it changes. Undo with: atlatl trust --revoke {}",
                file.display()
            ));
        }
        Some(_) => {}
    }
    Ok(Status::Success)
}

fn table(entries: &[Entry]) -> Table {
    let mut table = Table::new(["NEEDS TRUST", "VALUE", "ORIGIN"]);
    for entry in entries {
        // Whole: what is hidden cannot be judged, and it is the project's, not the user's.
        let value = neutralise(&entry.value.to_string()).into_owned();
        table.row([entry.full_name(), value, entry.origin.to_string()]);
    }
    table
}

fn confirm(project: &ProjectFile, output: &mut Output) -> Result<(), Error> {
    let keys = counted(project.untrusted.len() as u64, "key", "keys");
    let question = format!("Let {} set {keys}?", project.path.display());
    match output.confirmed(question)? {
        Some(true) => Ok(()),
        Some(false) => Err(Error::failure("nothing was recorded")),
        None => Err(Error::usage("trust needs a confirmation, and there is no terminal to ask on")
            .with_hint("--yes does not ask, --dry-run only shows")),
    }
}

fn report(project: &ProjectFile, trusted: bool) -> Report {
    let items = |entries: &[Entry]| {
        let item = |entry: &Entry| Item { key: entry.full_name(), value: entry.value.clone() };
        entries.iter().map(item).collect()
    };
    Report {
        path: project.path.display().to_string(),
        trusted,
        allowed: items(&project.allowed),
        needs_trust: items(&project.untrusted),
    }
}

fn refused(file: &Path, error: ProjectError) -> Error {
    let file = file.display();
    match error {
        ProjectError::Absent => Error::failure(format!("{file}: there is no such file")).with_hint(
            format!("to trust the file of another directory: atlatl trust PATH/{PROJECT_FILE}"),
        ),
        ProjectError::Refused(why) => {
            let failure = Error::failure(format!("{file} cannot be trusted: {why}"));
            match why.hint(&file.to_string()) {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        }
        ProjectError::Invalid(problems) => problems.into(),
    }
}

fn list(store: &TrustStore, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let records = store
        .records()
        .map_err(|error| Error::failure(format!("the records of trust: {error}")))?;
    let listed: Vec<Listed<'_>> = records
        .iter()
        .map(|record| {
            let state = match ProjectFile::open(&record.path, sources.surroundings()) {
                Ok(file) if record.is_for(&file.contents) => State::Trusted,
                Err(ProjectError::Absent) => State::Missing,
                Ok(_) | Err(_) => State::Changed,
            };
            Listed { record, state }
        })
        .collect();
    match output.mode() {
        Mode::Json => output.json(&listed)?,
        Mode::Human if listed.is_empty() => output.note("no project file is trusted"),
        Mode::Human => {
            let mut table = Table::new(["FILE", "STATE", "SINCE"]);
            for Listed { record, state } in &listed {
                let state = match state {
                    State::Trusted => "trusted",
                    State::Changed => "changed, not trusted",
                    State::Missing => "not there",
                };
                let since = record.trusted_at.format("%Y-%m-%d %H:%M UTC").to_string();
                table.row([record.path.display().to_string(), state.to_owned(), since]);
            }
            output.table(&table)?;
        }
    }
    Ok(Status::Success)
}

fn revoke(store: &TrustStore, file: &Path, output: &mut Output) -> Result<Status, Error> {
    // Also where the directory is gone by now.
    let path = location(file).or_else(|_| std::path::absolute(file))?;
    let was_trusted = store
        .revoke(&path)
        .map_err(|error| Error::failure(format!("trust cannot be revoked: {error}")))?;
    let shown = path.display().to_string();
    if !was_trusted {
        return Err(
            Error::failure(format!("{shown} was not trusted")).with_hint("atlatl trust --list")
        );
    }
    match output.mode() {
        Mode::Json => output.json(&serde_json::json!({"path": shown, "trusted": false}))?,
        Mode::Human => output.line(format_args!("{shown} is not trusted any longer"))?,
    }
    Ok(Status::Success)
}
