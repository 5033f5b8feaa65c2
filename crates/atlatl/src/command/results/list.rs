//! `atlatl results list`.

use lro::Moment;
use lro_spool::{Listed, Spool as _};

use super::entry::{Entry, table};
use crate::{
    error::{Error, Status, with_causes},
    output::{Mode, Output},
    settings::Settings,
    spool_config::{Reach, Stores},
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List those of every directory and scope of yours
    #[arg(long)]
    all: bool,
    /// The --scope that results were stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    scope: Option<String>,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = Moment::of_system().now;
    let stores = Stores::from_settings(settings, args.scope.as_deref())?;
    let reach = if args.all { Reach::Everywhere } else { Reach::Here };
    let (mut listed, mut failures) = (Vec::new(), Vec::new());
    let more = stores.each(reach, |store| match store.list() {
        Ok(mut more) => listed.append(&mut more),
        Err(error) => failures.push(error),
    });
    failures.extend(more);
    listed.sort_by_key(Listed::id);
    let entries: Vec<Entry> = listed.iter().map(|listed| Entry::from_listed(listed, now)).collect();
    match output.mode() {
        Mode::Json => output.json(&entries)?,
        Mode::Human if entries.is_empty() => output.note("nothing is stored"),
        Mode::Human => output.table(&table(&entries, now))?,
    }
    for failure in &failures {
        output.note(with_causes(failure));
    }
    Ok(if failures.is_empty() { Status::Success } else { Status::JsonRpcError })
}
