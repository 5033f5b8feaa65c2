//! `atlatl config`: prints and checks the configuration, and generates its schema and reference.

mod edit;
mod reference;

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Status};
use crate::output::{Mode, Output, Table};
use crate::settings::{FileState, Origin, Problems, SettingEntry, Settings, Sources};

/// The commands below `atlatl config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print every key with its effective value
    ///
    /// With --json: JSON in the shape of the configuration file or, with --origin, a
    /// list of key, value and origin. Passwords are not shown.
    #[command(verbatim_doc_comment)]
    Show(ShowArgs),
    /// Print the effective value of a key
    Get(edit::GetArgs),
    /// Set a key in your configuration file
    ///
    /// Writes ~/.config/atlatl/config.toml, or the file of --config; comments stay. An
    /// invalid value changes nothing.
    #[command(verbatim_doc_comment)]
    Set(edit::SetArgs),
    /// Print the JSON Schema of the configuration file
    ///
    /// For editors: save it and refer to it on the first line of the file, as in
    /// `#:schema ./atlatl.schema.json`.
    #[command(verbatim_doc_comment)]
    Schema,
    /// Check the configuration and print all errors
    ///
    /// Without FILE, checks everything that applies here, including variables and
    /// options. The exit status is 2 if there is an error.
    #[command(verbatim_doc_comment)]
    Check(CheckArgs),
    /// Print the reference of all keys as Markdown
    #[command(hide = true)]
    Reference,
}

/// Runs a command.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    match command {
        Command::Show(args) => run_show(args, sources, output),
        Command::Get(args) => edit::get(args, sources, output),
        Command::Set(args) => edit::set(args, sources, output),
        Command::Schema => reference::run_schema(output),
        Command::Check(args) => run_check(args, sources, output),
        Command::Reference => reference::run(output),
    }
}

/// Notes the configuration files and the values that are not defaults, for `--verbose`.
pub(crate) fn note_sources(sources: &Sources, output: &mut Output) {
    // The command itself reports an invalid configuration.
    let Ok(settings) = Settings::read(sources) else { return };
    for (path, state) in settings.files() {
        output.note(format_args!("configuration file {path}: {}", describe_state(state)));
    }
    let is_set = |entry: &&SettingEntry| !matches!(entry.origin, Origin::Default);
    for entry in settings.entries().iter().filter(is_set) {
        let value = display_value(entry);
        output.note(format_args!("{} = {value} ({})", entry.full_name(), entry.origin));
    }
}

/// Arguments of `atlatl config show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Also print where each value comes from
    #[arg(long)]
    origin: bool,
}

/// A value in the list that `--origin` prints for programs.
#[derive(Serialize)]
struct ValueItem<'a> {
    key: String,
    value: Value,
    origin: &'a Origin,
    /// The value of the project's file, if it does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted: Option<UntrustedValue<'a>>,
}

#[derive(Serialize)]
struct UntrustedValue<'a> {
    value: Value,
    origin: &'a Origin,
}

fn run_show(args: &ShowArgs, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::read(sources)?;
    settings.project_notes().into_iter().for_each(|note| output.note(note));
    match (output.mode(), args.origin) {
        (Mode::Human, with_origin) => {
            output.table(&table(&settings, with_origin))?;
            if with_origin && !settings.untrusted().is_empty() {
                output.text("\n")?;
                output.table(&untrusted_table(settings.untrusted()))?;
            }
        }
        (Mode::Json, false) => output.json(&settings.config.redacted())?,
        (Mode::Json, true) => output.json(&value_items(&settings))?,
    }
    Ok(Status::Success)
}

fn table(settings: &Settings, with_origin: bool) -> Table {
    let headings: &[&str] =
        if with_origin { &["KEY", "VALUE", "ORIGIN"] } else { &["KEY", "VALUE"] };
    let mut table = Table::new(headings);
    for entry in settings.entries() {
        let mut cells = vec![entry.full_name(), display_value(entry)];
        if with_origin {
            cells.push(entry.origin.to_string());
        }
        table.row(cells);
    }
    table
}

/// The entries of the project's file that do not apply.
fn untrusted_table(entries: &[SettingEntry]) -> Table {
    let mut table = Table::new(["NOT APPLIED", "VALUE", "ORIGIN", "REASON"]);
    for entry in entries {
        let reason = "needs atlatl trust".to_owned();
        table.row([entry.full_name(), display_value(entry), entry.origin.to_string(), reason]);
    }
    table
}

/// The value as text. An empty default is shown with the value that replaces it.
fn display_value(entry: &SettingEntry) -> String {
    let value = entry.key.redact(&entry.value);
    match entry.key.derived {
        Some(derived) if value == entry.key.default => format!("{value} = {derived}"),
        _ => value,
    }
}

fn value_items(settings: &Settings) -> Vec<ValueItem<'_>> {
    settings
        .entries()
        .iter()
        .map(|entry| ValueItem {
            key: entry.full_name(),
            value: entry.key.redacted(&entry.value),
            origin: &entry.origin,
            untrusted: settings
                .untrusted()
                .iter()
                .find(|other| other.full_name() == entry.full_name())
                .map(|other| UntrustedValue {
                    value: other.key.redacted(&other.value),
                    origin: &other.origin,
                }),
        })
        .collect()
}

/// Arguments of `atlatl config check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Check only this file
    file: Option<PathBuf>,
}

/// The JSON output of `atlatl config check`.
#[derive(Serialize)]
struct CheckReport<'a> {
    valid: bool,
    problems: Vec<ProblemItem<'a>>,
}

#[derive(Serialize)]
struct ProblemItem<'a> {
    origin: &'a Origin,
    message: String,
    hint: Option<String>,
}

fn run_check(args: &CheckArgs, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let loaded = match &args.file {
        Some(file) => Settings::read(&Sources::only_file(file)),
        None => Settings::read(sources),
    };
    match (loaded, output.mode()) {
        (Ok(settings), Mode::Human) => {
            for (path, state) in settings.files() {
                output.line(format_args!("{path}: {}", describe_state(state)))?;
            }
            settings.project_notes().into_iter().for_each(|note| output.note(note));
            Ok(Status::Success)
        }
        (Ok(settings), Mode::Json) => {
            settings.project_notes().into_iter().for_each(|note| output.note(note));
            output.json(&CheckReport { valid: true, problems: Vec::new() })?;
            Ok(Status::Success)
        }
        (Err(problems), Mode::Human) => Err(problems.into()),
        (Err(problems), Mode::Json) => {
            output.json(&CheckReport { valid: false, problems: problem_items(&problems) })?;
            Ok(Status::Usage)
        }
    }
}

fn describe_state(state: &FileState) -> String {
    match state {
        FileState::Read => "ok".to_owned(),
        FileState::Absent => "not found".to_owned(),
        FileState::Ignored(why) => format!("ignored: {why}"),
    }
}

fn problem_items(problems: &Problems) -> Vec<ProblemItem<'_>> {
    problems
        .iter()
        .map(|problem| ProblemItem {
            origin: problem.origin(),
            message: problem.to_string(),
            hint: problem.hint(),
        })
        .collect()
}
