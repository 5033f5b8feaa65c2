//! `atlatl results`: lists, shows and removes stored results.

mod browse;
mod entry;
mod show;

use chrono::{DateTime, Utc};
use clap::Subcommand;
use lro::IdSeed;
use lro_spool::{Address, ResultInfo, Spool as _, SpoolError, SweepReport};
use serde::Serialize;

use self::entry::{ResultEntry, render_table};
use crate::error::{Error, Status, with_causes};
use crate::ledger_sink::LedgerSink;
use crate::output::{Mode, Output, counted, size};
use crate::settings::{Settings, Sources};
use crate::spool_config::{Reach, Stores};
use crate::stored_output::OutputStore;

/// The subcommands of `atlatl results`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the results stored for this directory
    ///
    /// All directories share the results of memory operations. Results of other tools
    /// are stored per working directory and --scope.
    #[command(verbatim_doc_comment)]
    List(ListArgs),
    /// Browse a stored result, or print its beginning
    ///
    /// On a terminal, opens a table that you can scroll, search, sort and filter by
    /// SQL; `?` lists its keys. In a pipe, with --output or --plain, prints a summary
    /// and the beginning. With --original, writes the payload as the tool returned it.
    #[command(verbatim_doc_comment)]
    Show(show::ShowArgs),
    /// Print the path of a stored result's file
    Path(PathArgs),
    /// Remove expired results, or all of them
    ///
    /// Covers all your directories that Atlatl stored results for. A result that is
    /// being read is kept.
    #[command(verbatim_doc_comment)]
    Clean(CleanArgs),
}

/// Selects a stored result.
#[derive(Debug, clap::Args)]
struct ResultSelector {
    /// Reference (with or without lro:), file name or absolute path
    #[arg(value_name = "REF")]
    reference: String,
    /// The --scope that the result was stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    scope: Option<String>,
    /// Search all your directories and scopes
    #[arg(long)]
    all: bool,
}

impl ResultSelector {
    fn address(&self) -> Result<Address, Error> {
        parse_address(&self.reference)
    }

    fn reach(&self) -> Reach {
        if self.all { Reach::Everywhere } else { Reach::Here }
    }
}

/// Parses a reference, ignoring case and an `lro:` prefix because a person may have typed it.
pub(super) fn parse_address(text: &str) -> Result<Address, Error> {
    let text = text.trim();
    let typed = text.to_uppercase();
    let typed = typed.strip_prefix("LRO:").unwrap_or(&typed);
    text.parse()
        .or_else(|error| typed.parse().map_err(|_| error))
        .map_err(|error| Error::usage(format!("{text}: {error}")).with_hint("atlatl results list"))
}

/// Runs a subcommand.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    recover_interrupted(command, &settings);
    match command {
        Command::List(args) => list(args, &settings, output),
        Command::Show(args) => {
            show::run(args, &settings, sources.variable("TERM").as_deref(), output)
        }
        Command::Path(args) => print_path(args, &settings, output),
        Command::Clean(args) => clean(args, &settings, output),
    }
}

/// Stores the output of commands whose `atlatl run` was killed, so that it is listed.
fn recover_interrupted(command: &Command, settings: &Settings) {
    let scope = match command {
        Command::List(args) => args.scope.as_deref(),
        Command::Show(_) | Command::Path(_) | Command::Clean(_) => None,
    };
    // If the directories are not usable, the command itself says so.
    if let Ok(store) = OutputStore::new(settings, scope, "atlatl results") {
        store.recover();
    }
}

/// Adds a hint to the error for a missing result.
fn with_missing_hint(error: SpoolError) -> Error {
    let hint = "it may have expired, or belong to another directory: try --all";
    match error {
        SpoolError::NotFound { .. } => Error::from(error).with_hint(hint),
        // The error for an expired result has its own advice.
        _ => error.into(),
    }
}

/// Arguments of `atlatl results list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// List results of all your directories and scopes
    #[arg(long)]
    all: bool,
    /// The --scope that results were stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    scope: Option<String>,
}

fn list(args: &ListArgs, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = IdSeed::from_system().now;
    let stores = Stores::from_settings(settings, args.scope.as_deref())?;
    let reach = if args.all { Reach::Everywhere } else { Reach::Here };
    let (mut listed, mut failures) = (Vec::new(), Vec::new());
    let more = stores.each(reach, |store| match store.list() {
        Ok(mut more) => listed.append(&mut more),
        Err(error) => failures.push(error),
    });
    failures.extend(more);
    listed.sort_by_key(ResultInfo::id);
    let entries: Vec<ResultEntry> =
        listed.iter().map(|listed| ResultEntry::from_listed(listed, now)).collect();
    match output.mode() {
        Mode::Json => output.json(&entries)?,
        Mode::Human if entries.is_empty() => output.note("no stored results"),
        Mode::Human => output.table(&render_table(&entries, now))?,
    }
    for failure in &failures {
        output.note(with_causes(failure));
    }
    Ok(if failures.is_empty() { Status::Success } else { Status::Failure })
}

/// Arguments of `atlatl results path`.
#[derive(Debug, clap::Args)]
pub(crate) struct PathArgs {
    #[command(flatten)]
    selector: ResultSelector,
}

fn print_path(args: &PathArgs, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = IdSeed::from_system().now;
    let stores = Stores::from_settings(settings, args.selector.scope.as_deref())?;
    let address = args.selector.address()?;
    let path = stores
        .find(&address, args.selector.reach(), |store| {
            Ok(store.open(&address, now)?.path().map(ToOwned::to_owned))
        })
        .map_err(with_missing_hint)?
        .ok_or_else(|| Error::failure(format!("{address} has no path")))?;
    // Plain text in every output mode, for `"$(atlatl results path …)"`.
    output.bytes(path.as_os_str().as_encoded_bytes())?;
    output.bytes(b"\n")?;
    Ok(Status::Success)
}

/// Arguments of `atlatl results clean`.
#[derive(Debug, clap::Args)]
pub(crate) struct CleanArgs {
    /// Remove expired results (the default)
    #[arg(long, conflicts_with = "all")]
    expired: bool,
    /// Remove every result, expired or not
    #[arg(long)]
    all: bool,
    /// Print what would be removed; remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// The result of `atlatl results clean` in JSON.
#[derive(Debug, Default, Serialize)]
struct CleanReport {
    dry_run: bool,
    removed: Vec<ResultEntry>,
    bytes: u64,
    in_use: usize,
    leftovers: usize,
    failures: Vec<String>,
}

fn clean(args: &CleanArgs, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = IdSeed::from_system().now;
    let stores = Stores::from_settings(settings, None)?;
    let mut report = CleanReport { dry_run: args.dry_run, ..CleanReport::default() };
    if args.dry_run {
        report.preview(&stores, args.all, now);
    } else {
        let watch = LedgerSink::new(settings, "atlatl results");
        report.add_swept(&stores.sweep(now, &watch), now);
        if args.all {
            report.remove_all(&stores, now);
        }
        for failure in watch.failures() {
            output.note(failure);
        }
    }
    report.bytes = report.removed.iter().map(|entry| entry.bytes).sum();
    report.removed.sort_by(|a, b| a.reference.cmp(&b.reference));
    report.print(now, output)?;
    Ok(if report.failures.is_empty() { Status::Success } else { Status::Failure })
}

impl CleanReport {
    fn preview(&mut self, stores: &Stores, all: bool, now: DateTime<Utc>) {
        let failures = stores.each(Reach::Everywhere, |store| match store.list() {
            Ok(listed) => {
                let entries = listed.iter().map(|listed| ResultEntry::from_listed(listed, now));
                self.removed.extend(entries.filter(|entry| all || entry.expired));
            }
            Err(error) => self.failures.push(with_causes(&error)),
        });
        self.add_failures(&failures);
    }

    fn add_swept(&mut self, swept: &SweepReport, now: DateTime<Utc>) {
        self.in_use = swept.in_use;
        self.leftovers = swept.leftovers;
        self.removed.extend(swept.expired.iter().map(|gone| ResultEntry::from_listed(gone, now)));
        self.add_failures(&swept.failures);
    }

    fn remove_all(&mut self, stores: &Stores, now: DateTime<Utc>) {
        // Results in use are counted again below, including those of the sweep.
        self.in_use = 0;
        let failures = stores.each(Reach::Everywhere, |store| {
            let listed = match store.list() {
                Ok(listed) => listed,
                Err(error) => return self.failures.push(with_causes(&error)),
            };
            for listed in listed {
                match store.remove(&listed.name.clone().into()) {
                    Ok(gone) => self.removed.push(ResultEntry::from_listed(&gone, now)),
                    Err(SpoolError::InUse { .. }) => self.in_use += 1,
                    // Another process removed it first.
                    Err(SpoolError::NotFound { .. }) => {}
                    Err(error) => self.failures.push(with_causes(&error)),
                }
            }
        });
        self.add_failures(&failures);
    }

    fn add_failures(&mut self, failures: &[SpoolError]) {
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
            output.table(&render_table(&self.removed, now))?;
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
