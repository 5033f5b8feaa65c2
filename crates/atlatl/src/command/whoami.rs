//! `atlatl whoami`.

use lro::Moment;

use crate::{
    error::{Error, Status},
    login_store::{self, Entry},
    output::{Mode, Output, Table},
    settings::{Settings, Sources},
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let listed = login_store::open(&settings)?.list()?;
    let entries: Vec<Entry> = listed.into_iter().map(Entry::from).collect();
    match output.mode() {
        Mode::Json => output.json(&entries)?,
        Mode::Human if entries.is_empty() => output.note("you are logged in nowhere"),
        Mode::Human => {
            let now = Moment::of_system().now;
            let mut table = Table::new(["SERVER", "BY", "FOR", "LASTS"]);
            for entry in &entries {
                table.row([
                    entry.server.to_string(),
                    entry.issuer.clone(),
                    entry.good_for(),
                    entry.lasts(now),
                ]);
            }
            output.table(&table)?;
        }
    }
    Ok(Status::Success)
}
