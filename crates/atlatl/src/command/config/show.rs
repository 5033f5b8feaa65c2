//! `atlatl config show`: every key with the value that applies.

use serde::Serialize;
use serde_json::Value;

use crate::{
    error::{Error, Status},
    output::{Mode, Output, Table},
    settings::{Entry, Origin, Settings, Sources},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also print where each value came from
    #[arg(long)]
    origin: bool,
}

/// A value in the list that `--origin` prints for programs.
#[derive(Serialize)]
struct Item<'a> {
    key: String,
    value: Value,
    origin: &'a Origin,
    /// The value of the project's file, where it does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted: Option<Untrusted<'a>>,
}

#[derive(Serialize)]
struct Untrusted<'a> {
    value: Value,
    origin: &'a Origin,
}

pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::read(sources)?;
    settings.project_notes().into_iter().for_each(|note| output.note(note));
    match (output.mode(), args.origin) {
        (Mode::Human, with_origin) => {
            output.table(&table(&settings, with_origin))?;
            if with_origin && !settings.untrusted().is_empty() {
                output.text("\n")?;
                output.table(&untrusted(settings.untrusted()))?;
            }
        }
        (Mode::Json, false) => output.json(&settings.config.redacted())?,
        (Mode::Json, true) => output.json(&items(&settings))?,
    }
    Ok(Status::Success)
}

fn table(settings: &Settings, with_origin: bool) -> Table {
    let headings: &[&str] =
        if with_origin { &["KEY", "VALUE", "ORIGIN"] } else { &["KEY", "VALUE"] };
    let mut table = Table::new(headings);
    for entry in settings.entries() {
        let mut cells = vec![entry.full_name(), shown(entry)];
        if with_origin {
            cells.push(entry.origin.to_string());
        }
        table.row(cells);
    }
    table
}

/// What the project's file sets and what does not apply.
fn untrusted(entries: &[Entry]) -> Table {
    let mut table = Table::new(["NOT APPLIED", "VALUE", "ORIGIN", "REASON"]);
    for entry in entries {
        let reason = "needs atlatl trust".to_owned();
        table.row([entry.full_name(), shown(entry), entry.origin.to_string(), reason]);
    }
    table
}

/// The value, with what stands in for it where it is empty.
fn shown(entry: &Entry) -> String {
    let shown = entry.key.shown(&entry.value);
    match entry.key.derived {
        Some(derived) if shown == entry.key.default => format!("{shown} = {derived}"),
        _ => shown,
    }
}

fn items(settings: &Settings) -> Vec<Item<'_>> {
    settings
        .entries()
        .iter()
        .map(|entry| Item {
            key: entry.full_name(),
            value: entry.key.redacted(&entry.value),
            origin: &entry.origin,
            untrusted: settings
                .untrusted()
                .iter()
                .find(|other| other.full_name() == entry.full_name())
                .map(|other| Untrusted {
                    value: other.key.redacted(&other.value),
                    origin: &other.origin,
                }),
        })
        .collect()
}
