//! `atlatl trust`: allows a project's file to set every key.

use std::path::{Path, PathBuf};

use lro::IdSeed;
use lro_core::escape_invisible;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Status};
use crate::output::{Mode, Output, Table, pluralize};
use crate::settings::{
    PROJECT_FILE, ProjectError, ProjectFile, SettingEntry, Sources, TrustRecord, TrustStore,
    canonical_path, key_list,
};

/// Examples for the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl trust                          (the atlatl.toml of this directory)
  atlatl trust --dry-run                (only show what it sets)
  atlatl trust --list
  atlatl trust --revoke ../other/atlatl.toml";

/// Arguments of `atlatl trust`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// List trusted files
    #[arg(long, conflicts_with_all = ["file", "revoke", "dry_run", "yes"])]
    list: bool,
    /// Revoke the trust in the file
    #[arg(long, conflicts_with_all = ["dry_run", "yes"])]
    revoke: bool,
    /// Show what the file sets; record nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Project file [default: ./atlatl.toml]
    file: Option<PathBuf>,
}

/// The JSON output.
#[derive(Serialize)]
struct TrustReport {
    path: String,
    trusted: bool,
    /// Entries that apply without trust.
    allowed: Vec<ReportedEntry>,
    /// Entries that apply only with trust.
    needs_trust: Vec<ReportedEntry>,
}

#[derive(Serialize)]
struct ReportedEntry {
    key: String,
    value: Value,
}

#[derive(Serialize)]
struct ListedFile<'a> {
    #[serde(flatten)]
    record: &'a TrustRecord,
    state: TrustState,
}

/// Whether a recorded file still has the trusted contents.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum TrustState {
    Trusted,
    Changed,
    Missing,
}

/// Runs the command.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let surroundings = sources.surroundings();
    let store = TrustStore::new(surroundings)
        .ok_or_else(|| Error::usage("no home directory to record trust in"))?;
    if args.list {
        return list(&store, sources, output);
    }
    let file = args.file.as_deref().unwrap_or(Path::new(PROJECT_FILE));
    if file.file_name() != Some(PROJECT_FILE.as_ref()) {
        return Err(Error::usage(format!("a project file is named {PROJECT_FILE}"))
            .with_hint(format!("to use this file: --config {}", file.display())));
    }
    if args.revoke {
        return revoke(&store, file, output);
    }
    let project =
        ProjectFile::open(file, surroundings).map_err(|error| project_error(file, error))?;
    let keys = key_list(&project.untrusted);
    if output.mode() == Mode::Human && keys.is_some() {
        output.table(&table(&project.untrusted))?;
    }
    let grants = keys.is_some() && !args.dry_run;
    if grants {
        if !args.yes {
            confirm(&project, output)?;
        }
        store
            .grant(&project.path, &project.contents, IdSeed::from_system().now)
            .map_err(|error| Error::failure(format!("cannot record the trust: {error}")))?;
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

fn table(entries: &[SettingEntry]) -> Table {
    let mut table = Table::new(["NEEDS TRUST", "VALUE", "ORIGIN"]);
    for entry in entries {
        // Not redacted: the user has to review the value, which comes from the project.
        let value = escape_invisible(&entry.value.to_string()).into_owned();
        table.row([entry.full_name(), value, entry.origin.to_string()]);
    }
    table
}

fn confirm(project: &ProjectFile, output: &mut Output) -> Result<(), Error> {
    let keys = pluralize(project.untrusted.len() as u64, "key", "keys");
    let question = format!("Allow {} to set {keys}?", project.path.display());
    match output.confirmed(question)? {
        Some(true) => Ok(()),
        Some(false) => Err(Error::failure("nothing was recorded")),
        None => Err(Error::usage("cannot ask for confirmation: not a terminal").with_hint(
            "use --yes to skip the confirmation, or --dry-run to only show the changes",
        )),
    }
}

fn report(project: &ProjectFile, trusted: bool) -> TrustReport {
    let items = |entries: &[SettingEntry]| {
        let item = |entry: &SettingEntry| ReportedEntry {
            key: entry.full_name(),
            value: entry.value.clone(),
        };
        entries.iter().map(item).collect()
    };
    TrustReport {
        path: project.path.display().to_string(),
        trusted,
        allowed: items(&project.allowed),
        needs_trust: items(&project.untrusted),
    }
}

fn project_error(file: &Path, error: ProjectError) -> Error {
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
        .map_err(|error| Error::failure(format!("cannot read the trust records: {error}")))?;
    let listed: Vec<ListedFile<'_>> = records
        .iter()
        .map(|record| {
            let state = match ProjectFile::open(&record.path, sources.surroundings()) {
                Ok(file) if record.is_for(&file.contents) => TrustState::Trusted,
                Err(ProjectError::Absent) => TrustState::Missing,
                Ok(_) | Err(_) => TrustState::Changed,
            };
            ListedFile { record, state }
        })
        .collect();
    match output.mode() {
        Mode::Json => output.json(&listed)?,
        Mode::Human if listed.is_empty() => output.note("no project file is trusted"),
        Mode::Human => {
            let mut table = Table::new(["FILE", "STATE", "SINCE"]);
            for ListedFile { record, state } in &listed {
                let state = match state {
                    TrustState::Trusted => "trusted",
                    TrustState::Changed => "changed, not trusted",
                    TrustState::Missing => "not found",
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
    // Also if the directory does not exist any longer.
    let path = canonical_path(file).or_else(|_| std::path::absolute(file))?;
    let was_trusted = store
        .revoke(&path)
        .map_err(|error| Error::failure(format!("cannot revoke the trust: {error}")))?;
    let name = path.display().to_string();
    if !was_trusted {
        return Err(
            Error::failure(format!("{name} was not trusted")).with_hint("atlatl trust --list")
        );
    }
    match output.mode() {
        Mode::Json => output.json(&serde_json::json!({"path": name, "trusted": false}))?,
        Mode::Human => output.line(format_args!("{name} is no longer trusted"))?,
    }
    Ok(Status::Success)
}
