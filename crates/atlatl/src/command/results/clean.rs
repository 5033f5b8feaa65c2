//! `atlatl results clean`.

use chrono::{DateTime, Utc};
use lro::{Event, EventKind, EventSink as _, Moment};
use lro_spool::{DirSpool, Spool as _, SpoolError};
use serde::Serialize;

use super::entry::{Entry, table};
use crate::{
    error::{Error, Status},
    output::{Mode, Output, counted, size},
    settings::Settings,
    stores::Stores,
    watch::Watch,
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Remove results whose time is up, and what crashed writers left [default]
    #[arg(long, conflicts_with = "all")]
    expired: bool,
    /// Remove every result, expired or not
    #[arg(long)]
    all: bool,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// As a program reads it.
#[derive(Debug, Default, Serialize)]
struct Cleaned {
    dry_run: bool,
    removed: Vec<Entry>,
    bytes: u64,
    in_use: usize,
    leftovers: usize,
    failures: Vec<String>,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = Moment::of_system().now;
    let stores = Stores::of(settings, None)?;
    let mut cleaned = Cleaned { dry_run: args.dry_run, ..Cleaned::default() };
    if args.dry_run {
        for store in stores.of_all_scopes()? {
            let listed = store.list()?.into_iter();
            let entries = listed.map(|listed| Entry::of(&listed, now));
            cleaned.removed.extend(entries.filter(|entry| args.all || entry.expired));
        }
    } else {
        let watch = Watch::new(settings);
        // A sweep covers all scopes of its directory by itself.
        for store in stores.existing()? {
            cleaned.sweep(&store, now, &watch)?;
        }
        if args.all {
            for store in stores.of_all_scopes()? {
                cleaned.remove_all(&store, now)?;
            }
        }
        for failure in watch.failures() {
            output.note(failure)?;
        }
    }
    cleaned.bytes = cleaned.removed.iter().map(|entry| entry.bytes).sum();
    cleaned.removed.sort_by(|a, b| a.reference.cmp(&b.reference));
    cleaned.print(now, output)?;
    Ok(if cleaned.failures.is_empty() { Status::Success } else { Status::Failure })
}

impl Cleaned {
    fn sweep(
        &mut self,
        store: &DirSpool,
        now: DateTime<Utc>,
        watch: &Watch,
    ) -> Result<(), SpoolError> {
        let swept = store.sweep(now)?;
        self.in_use += swept.in_use;
        self.leftovers += swept.leftovers;
        self.failures.extend(swept.failures.iter().map(ToString::to_string));
        for gone in swept.expired {
            self.removed.push(Entry::of(&gone, now));
            watch.publish(Event::new(now, gone.id(), EventKind::OffloadFileExpired(gone.into())));
        }
        Ok(())
    }

    fn remove_all(&mut self, store: &DirSpool, now: DateTime<Utc>) -> Result<(), SpoolError> {
        for listed in store.list()? {
            match store.remove(&listed.name.clone().into()) {
                Ok(gone) => self.removed.push(Entry::of(&gone, now)),
                Err(SpoolError::InUse { .. }) => self.in_use += 1,
                // Someone else was faster, which is what was asked for.
                Err(SpoolError::NotFound { .. }) => {}
                Err(error) => self.failures.push(error.to_string()),
            }
        }
        Ok(())
    }

    fn print(&self, now: DateTime<Utc>, output: &mut Output) -> Result<(), Error> {
        if output.mode() == Mode::Json {
            return Ok(output.json(self)?);
        }
        if !self.removed.is_empty() {
            output.table(&table(&self.removed, now))?;
        }
        let verb = if self.dry_run { "would remove" } else { "removed" };
        let results = counted(self.removed.len() as u64, "result", "results");
        output.line(format_args!("{verb} {results}, {}", size(self.bytes)))?;
        if self.in_use > 0 {
            output.note(format_args!("{} being read, kept", self.in_use))?;
        }
        if self.leftovers > 0 {
            output.note(format_args!("{} left by crashed writers, removed", self.leftovers))?;
        }
        for failure in &self.failures {
            output.note(failure)?;
        }
        Ok(())
    }
}
