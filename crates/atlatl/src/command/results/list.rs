//! `atlatl results list`.

use lro::Moment;
use lro_spool::{Listed, Spool as _};

use super::entry::{Entry, table};
use crate::{
    error::{Error, Status},
    output::{Mode, Output},
    settings::Settings,
    stores::Stores,
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List what is stored for every directory and scope of yours
    #[arg(long)]
    all: bool,
    /// The --scope that results were stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    scope: Option<String>,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = Moment::of_system().now;
    let stores = Stores::of(settings, args.scope.as_deref())?;
    let stores = if args.all { stores.of_all_scopes()? } else { stores.existing()? };
    let mut listed = Vec::new();
    for store in &stores {
        listed.append(&mut store.list()?);
    }
    listed.sort_by_key(Listed::id);
    let entries: Vec<Entry> = listed.iter().map(|listed| Entry::of(listed, now)).collect();
    match output.mode() {
        Mode::Json => output.json(&entries)?,
        Mode::Human if entries.is_empty() => output.note("nothing is stored")?,
        Mode::Human => output.table(&table(&entries, now))?,
    }
    Ok(Status::Success)
}
