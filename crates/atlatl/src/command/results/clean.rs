//! `atlatl results clean`.

use chrono::{DateTime, Utc};
use lro::Moment;
use lro_spool::{Spool as _, SpoolError, Swept};
use serde::Serialize;

use super::entry::{Entry, table};
use crate::{
    error::{Error, Status, with_causes},
    ledger_sink::LedgerSink,
    output::{Mode, Output, counted, size},
    settings::Settings,
    spool_config::{Reach, Stores},
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Remove results whose time is up, the default
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
    let stores = Stores::from_settings(settings, None)?;
    let mut cleaned = Cleaned { dry_run: args.dry_run, ..Cleaned::default() };
    if args.dry_run {
        cleaned.look(&stores, args.all, now);
    } else {
        let watch = LedgerSink::new(settings);
        cleaned.swept(&stores.sweep(now, &watch), now);
        if args.all {
            cleaned.remove_all(&stores, now);
        }
        for failure in watch.failures() {
            output.note(failure);
        }
    }
    cleaned.bytes = cleaned.removed.iter().map(|entry| entry.bytes).sum();
    cleaned.removed.sort_by(|a, b| a.reference.cmp(&b.reference));
    cleaned.print(now, output)?;
    Ok(if cleaned.failures.is_empty() { Status::Success } else { Status::JsonRpcError })
}

impl Cleaned {
    fn look(&mut self, stores: &Stores, all: bool, now: DateTime<Utc>) {
        let failures = stores.each(Reach::Everywhere, |store| match store.list() {
            Ok(listed) => {
                let entries = listed.iter().map(|listed| Entry::from_listed(listed, now));
                self.removed.extend(entries.filter(|entry| all || entry.expired));
            }
            Err(error) => self.failures.push(with_causes(&error)),
        });
        self.failed(&failures);
    }

    fn swept(&mut self, swept: &Swept, now: DateTime<Utc>) {
        self.in_use = swept.in_use;
        self.leftovers = swept.leftovers;
        self.removed.extend(swept.expired.iter().map(|gone| Entry::from_listed(gone, now)));
        self.failed(&swept.failures);
    }

    fn remove_all(&mut self, stores: &Stores, now: DateTime<Utc>) {
        // What the sweep could not remove because it is read is counted here, once.
        self.in_use = 0;
        let failures = stores.each(Reach::Everywhere, |store| {
            let listed = match store.list() {
                Ok(listed) => listed,
                Err(error) => return self.failures.push(with_causes(&error)),
            };
            for listed in listed {
                match store.remove(&listed.name.clone().into()) {
                    Ok(gone) => self.removed.push(Entry::from_listed(&gone, now)),
                    Err(SpoolError::InUse { .. }) => self.in_use += 1,
                    // Someone else was faster, which is what was asked for.
                    Err(SpoolError::NotFound { .. }) => {}
                    Err(error) => self.failures.push(with_causes(&error)),
                }
            }
        });
        self.failed(&failures);
    }

    fn failed(&mut self, failures: &[SpoolError]) {
        for failure in failures.iter().map(|failure| with_causes(failure)) {
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
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
            output.note(format_args!("{} being read, kept", self.in_use));
        }
        if self.leftovers > 0 {
            output.note(format_args!("{} left by crashed writers, removed", self.leftovers));
        }
        for failure in &self.failures {
            output.note(failure);
        }
        Ok(())
    }
}
