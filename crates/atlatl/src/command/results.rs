//! `atlatl results`: lists, shows and removes stored results.

mod browse;
mod choose;
mod entry;
mod open;
mod pin;
mod remove;
mod show;
mod stored_rows;
pub(crate) mod view;

use chrono::{DateTime, Utc};
use clap::Subcommand;
use clap_complete::ArgValueCompleter;
use lro::IdSeed;
use lro_spool::{Address, ResultInfo, Spool as _, SpoolError, SweepReport};
use serde::Serialize;

use self::choose::Choice;
use self::entry::{ResultEntry, render_table};
use crate::command::can_browse;
use crate::command::complete;
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
    /// SQL; `?` lists its keys. In a pipe, with --json or --plain, prints a summary
    /// and the beginning. With --original, writes the payload as the tool returned it;
    /// a structured list without white space between its values.
    #[command(verbatim_doc_comment)]
    Show(show::ShowArgs),
    /// Open stored results in a browser
    ///
    /// Serves them on this machine, for you only, until you end the command. Without
    /// REF, opens the list of results, with a search in all of them and your savings.
    /// The URL works once: it starts a session of the browser that opens it.
    #[command(verbatim_doc_comment)]
    Open(open::OpenArgs),
    /// Print the path of a stored result's file
    Path(PathArgs),
    /// Keep results until you remove them
    ///
    /// With --for, for some time. A result never expires earlier than before.
    #[command(verbatim_doc_comment)]
    Pin(pin::PinArgs),
    /// Remove results before they expire
    ///
    /// Asks on a terminal. A result that is being read is kept.
    #[command(visible_alias = "remove", verbatim_doc_comment)]
    Rm(remove::RemoveArgs),
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
    /// Reference (with or without lro:), file name, absolute
    /// path, or @1 for the latest result, @2 for the one before
    #[arg(value_name = "REF", add = ArgValueCompleter::new(complete::references), verbatim_doc_comment)]
    reference: String,
    /// The --scope that the result was stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    scope: Option<String>,
    /// Search all your directories and scopes
    #[arg(long)]
    all: bool,
}

impl ResultSelector {
    fn address(&self, stores: &Stores) -> Result<Address, Error> {
        find_address(&self.reference, stores, self.reach())
    }

    fn reach(&self) -> Reach {
        if self.all { Reach::Everywhere } else { Reach::Here }
    }
}

/// Selects several stored results.
#[derive(Debug, clap::Args)]
struct ResultsSelector {
    /// References (with or without lro:), file names, absolute
    /// paths, or @1 for the latest result
    #[arg(value_name = "REF", required = true, add = ArgValueCompleter::new(complete::references), verbatim_doc_comment)]
    references: Vec<String>,
    /// The --scope that the results were stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    scope: Option<String>,
    /// Search all your directories and scopes
    #[arg(long)]
    all: bool,
}

impl ResultsSelector {
    fn reach(&self) -> Reach {
        if self.all { Reach::Everywhere } else { Reach::Here }
    }

    /// Finds all of the results, each once, before the command changes any: @2 means the same for each.
    fn find(
        &self,
        stores: &Stores,
        now: DateTime<Utc>,
    ) -> Result<Vec<(Address, ResultEntry)>, Error> {
        let mut found: Vec<(Address, ResultEntry)> = Vec::new();
        for reference in &self.references {
            let address = find_address(reference, stores, self.reach())?;
            let entry = stores
                .find(&address, self.reach(), |store| {
                    let stored = store.open(&address, now)?;
                    Ok(ResultEntry::from_listed(stored.listed(), now))
                })
                .map_err(with_missing_hint)?;
            if found.iter().all(|(_, other)| other.reference != entry.reference) {
                found.push((address, entry));
            }
        }
        Ok(found)
    }
}

/// The results that have not expired, the latest first.
pub(crate) fn latest_entries(
    stores: &Stores,
    reach: Reach,
    now: DateTime<Utc>,
) -> Vec<ResultEntry> {
    let (listed, _) = choose::latest(stores, reach, now);
    listed.iter().map(|listed| ResultEntry::from_listed(listed, now)).collect()
}

/// Finds the result that a person refers to: as [`parse_address`], or `@1` for the latest one.
pub(super) fn find_address(text: &str, stores: &Stores, reach: Reach) -> Result<Address, Error> {
    let Some(number) = text.trim().strip_prefix('@') else { return parse_address(text) };
    let Some(index) = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) else {
        return Err(Error::usage(format!("{text}: not a number of a result"))
            .with_hint("@1 is the latest result, @2 the one before"));
    };
    let (results, failure) = choose::latest(stores, reach, IdSeed::from_system().now);
    match (results.get(index), failure) {
        // A result that is not listed could be the one.
        (_, Some(failure)) => Err(Error::failure(failure)),
        (Some(listed), None) => Ok(listed.name.clone().into()),
        (None, None) => {
            let all = counted(results.len() as u64, "result", "results");
            let message = format!("{text}: {all} stored for this directory and scope");
            Err(Error::failure(message).with_hint("atlatl results list --all"))
        }
    }
}

/// Parses a reference, ignoring case and an `lro:` prefix because a person may have typed it.
fn parse_address(text: &str) -> Result<Address, Error> {
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
        Command::Show(args) => show::run(args, &settings, can_browse(sources), output),
        Command::Open(args) => open::run(args, &settings, output),
        Command::Path(args) => print_path(args, &settings, output),
        Command::Pin(args) => pin::run(args, &settings, output),
        Command::Rm(args) => remove::run(args, &settings, output),
        Command::Clean(args) => clean(args, &settings, output),
    }
}

/// Shows the results of this directory in a list with these lines above.
pub(crate) fn choose_from_list(
    settings: &Settings,
    title: &str,
    output: &Output,
    above: impl FnMut() -> Vec<String>,
) -> Result<Status, Error> {
    recover(settings, None);
    let stores = Stores::from_settings(settings, None)?;
    Choice { stores: &stores, reach: Reach::Here, settings, title }.run(output, above)
}

/// Stores the output of commands whose `atlatl run` was killed, so that it is listed.
fn recover_interrupted(command: &Command, settings: &Settings) {
    let scope = match command {
        Command::List(args) => args.scope.as_deref(),
        Command::Open(args) => args.scope.as_deref(),
        Command::Pin(_)
        | Command::Rm(_)
        | Command::Show(_)
        | Command::Path(_)
        | Command::Clean(_) => None,
    };
    recover(settings, scope);
}

fn recover(settings: &Settings, scope: Option<&str>) {
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
    let (mut listed, failures) = choose::all(&stores, reach);
    listed.sort_by_key(ResultInfo::id);
    let entries: Vec<ResultEntry> =
        listed.iter().map(|listed| ResultEntry::from_listed(listed, now)).collect();
    match output.mode() {
        Mode::Json => output.json(&entries)?,
        Mode::Human if entries.is_empty() => output.note("no stored results"),
        Mode::Human => output.table(&render_table(&entries, now))?,
    }
    for failure in &failures {
        output.warning(with_causes(failure));
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
    let address = args.selector.address(&stores)?;
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
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct CleanArgs {
    /// Remove expired results (the default)
    #[arg(long, conflicts_with = "all")]
    expired: bool,
    /// Remove every result of all your directories, expired
    /// or not
    #[arg(long, verbatim_doc_comment)]
    all: bool,
    /// Do not ask for confirmation of --all
    #[arg(long)]
    yes: bool,
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
    } else if args.all && !args.yes && !confirms_all(&stores, now, output)? {
        output.note("nothing was removed");
        return Ok(Status::Failure);
    } else {
        let watch = LedgerSink::new(settings, "atlatl results");
        report.add_swept(&stores.sweep(now, &watch), now);
        if args.all {
            report.remove_all(&stores, now);
        }
        for failure in watch.failures() {
            output.warning(failure);
        }
    }
    report.bytes = report.removed.iter().map(|entry| entry.bytes).sum();
    report.removed.sort_by(|a, b| a.reference.cmp(&b.reference));
    report.print(now, output)?;
    Ok(if report.failures.is_empty() { Status::Success } else { Status::Failure })
}

/// Asks on a terminal whether every result may be removed.
fn confirms_all(stores: &Stores, now: DateTime<Utc>, output: &mut Output) -> Result<bool, Error> {
    let mut all = CleanReport::default();
    all.preview(stores, true, now);
    let results = counted(all.removed.len() as u64, "result", "results");
    let bytes = size(all.removed.iter().map(|entry| entry.bytes).sum());
    let question = format!("Remove {results} of all your directories, {bytes}?");
    // Scripts, which have no terminal, do not need --yes.
    Ok(output.confirmed(question)? != Some(false))
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
            output.warning(failure);
        }
        Ok(())
    }
}
