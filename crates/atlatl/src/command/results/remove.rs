//! `atlatl results rm`: removes results before they expire.

use lro::IdSeed;
use lro_spool::{Spool as _, SpoolError};

use super::ResultsSelector;
use super::entry::{ResultEntry, render_table};
use crate::error::{Error, Status, with_causes};
use crate::output::{Mode, Output, counted, size};
use crate::settings::Settings;
use crate::spool_config::Stores;

/// Arguments of `atlatl results rm`.
#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    selector: ResultsSelector,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Removes all of the results that can be removed, or none if one does not exist.
pub(super) fn run(
    args: &RemoveArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let now = IdSeed::from_system().now;
    let stores = Stores::from_settings(settings, args.selector.scope.as_deref())?;
    let reach = args.selector.reach();
    let found = args.selector.find(&stores, now)?;
    let bytes = size(found.iter().map(|(_, entry)| entry.bytes).sum());
    let results = counted(found.len() as u64, "result", "results");
    if !args.yes {
        if output.is_interactive() {
            let entries: Vec<&ResultEntry> = found.iter().map(|(_, entry)| entry).collect();
            output.table(&render_table(&entries, now))?;
        }
        // Scripts, which have no terminal, do not need --yes.
        if output.confirmed(format!("Remove {results}, {bytes}?"))? == Some(false) {
            output.note("nothing was removed");
            return Ok(Status::Failure);
        }
    }
    let (mut removed, mut failures) = (Vec::new(), Vec::new());
    for (address, entry) in found {
        match stores.find(&address, reach, |store| store.remove(&address)) {
            // Or another process removed it first.
            Ok(_) | Err(SpoolError::NotFound { .. }) => removed.push(entry),
            Err(SpoolError::InUse { .. }) => {
                failures.push(format!("{}: in use, kept", entry.reference));
            }
            Err(error) => failures.push(format!("{}: {}", entry.reference, with_causes(&error))),
        }
    }
    match output.mode() {
        Mode::Json => output.json(&removed)?,
        Mode::Human => {
            for entry in &removed {
                output.line(format_args!("removed {}, {}", entry.reference, size(entry.bytes)))?;
            }
        }
    }
    if failures.is_empty() { Ok(Status::Success) } else { Err(Error::failure(failures.join("; "))) }
}
