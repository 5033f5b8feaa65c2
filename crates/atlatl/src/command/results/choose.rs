//! A list of stored results on a terminal, from which the user opens one after the other.

use std::sync::Arc;
use std::time::Duration;

use atlatl_browse::{ColorMode, List, ListColumn, ListCommand, draw_list};
use chrono::{DateTime, Utc};
use lro::IdSeed;
use lro_spool::{ResultInfo, Spool as _, SpoolError};
use ratatui::crossterm::event;

use super::browse::terminal::{self, PendingSignals, TerminalGuard};
use super::browse::{self, QueryRunner};
use super::entry::ResultEntry;
use super::{parse_address, with_missing_hint};
use crate::error::{Error, Status, with_causes};
use crate::output::{Output, distance, size};
use crate::settings::Settings;
use crate::spool_config::{Reach, Stores};

/// How often the lines above the list and the size of the window are checked.
const POLL_TIMEOUT: Duration = Duration::from_millis(200);

const COLUMNS: [ListColumn; 6] = [
    ListColumn { title: "STORED", is_right: true, rank: 3 },
    ListColumn { title: "SERVER", is_right: false, rank: 1 },
    ListColumn { title: "TOOL", is_right: false, rank: 5 },
    ListColumn { title: "RECORDS", is_right: true, rank: 4 },
    ListColumn { title: "SIZE", is_right: true, rank: 0 },
    ListColumn { title: "ARGUMENTS", is_right: false, rank: 2 },
];
const EMPTY: &str = "No results are stored here.\n\
                     `atlatl install` puts the servers of your clients behind the proxy.\n\
                     `atlatl run -- COMMAND` stores the output of a command if it is large.";

/// The results to choose from.
pub(super) struct Choice<'a> {
    pub(super) stores: &'a Stores,
    pub(super) reach: Reach,
    pub(super) settings: &'a Settings,
    pub(super) title: &'a str,
}

impl Choice<'_> {
    /// Shows the list until the user quits, the terminal closes or a signal arrives. `above` returns the
    /// lines above the list.
    pub(super) fn run(
        &self,
        output: &Output,
        above: impl FnMut() -> Vec<String>,
    ) -> Result<Status, Error> {
        let signals = PendingSignals::watch()?;
        let mut terminal = TerminalGuard::acquire()?;
        let look = if output.has_colours() { ColorMode::Colour } else { ColorMode::Plain };
        let outcome = self.show(&mut terminal, &signals, look, above);
        // Restore the terminal before printing anything and before a signal ends the process.
        drop(terminal);
        // A closed terminal cannot show the error.
        if !terminal::poll_closed(Duration::ZERO) {
            outcome?;
        }
        signals.raise();
        Ok(Status::Success)
    }

    fn show(
        &self,
        terminal: &mut TerminalGuard,
        signals: &PendingSignals,
        look: ColorMode,
        mut above: impl FnMut() -> Vec<String>,
    ) -> Result<(), Error> {
        let mut list = List::new(self.title, &COLUMNS, EMPTY, look);
        let mut entries = self.load(&mut list);
        let mut dirty = true;
        loop {
            if signals.is_pending() || terminal::poll_closed(Duration::ZERO) {
                return Ok(());
            }
            if let Some((width, height)) = terminal.resized()? {
                list.resize(width, height);
                dirty = true;
            }
            dirty = list.set_above(&above()) || dirty;
            if dirty {
                terminal.draw(|frame| draw_list(&list, frame))?;
                dirty = false;
            }
            // `event::poll` does not return if the terminal has closed.
            if terminal::poll_closed(POLL_TIMEOUT) {
                return Ok(());
            }
            while !terminal::poll_closed(Duration::ZERO) && event::poll(Duration::ZERO)? {
                let Some(key) = terminal::key_press(&event::read()?) else { continue };
                dirty = true;
                match list.update(key) {
                    Some(ListCommand::Quit) => return Ok(()),
                    Some(ListCommand::Reload) => entries = self.load(&mut list),
                    Some(ListCommand::Open(index)) => {
                        let Some(entry) = entries.get(index) else { continue };
                        if let Err(error) = self.open(entry, terminal, signals, look) {
                            let message = error.reports().first().map(|report| &*report.message);
                            list.show_message(message.unwrap_or("cannot open the result"));
                        }
                        // What was opened may have expired meanwhile, and others are new.
                        terminal.forget_size();
                        entries = self.load(&mut list);
                    }
                    None => {}
                }
            }
        }
    }

    fn open(
        &self,
        entry: &ResultEntry,
        terminal: &mut TerminalGuard,
        signals: &PendingSignals,
        look: ColorMode,
    ) -> Result<(), Error> {
        let (address, now) = (parse_address(&entry.reference)?, IdSeed::from_system().now);
        let (store, stored) = self
            .stores
            .find(&address, self.reach, |store| Ok((store.clone(), store.open(&address, now)?)))
            .map_err(with_missing_hint)?;
        let mut runner = QueryRunner::new(Arc::new(store), address, &self.settings.config);
        terminal.forget_size();
        browse::show_result(stored, entry, &mut runner, look, terminal, signals)
    }

    /// Reads the results, the latest first.
    fn load(&self, list: &mut List) -> Vec<ResultEntry> {
        let now = IdSeed::from_system().now;
        let (infos, failure) = latest(self.stores, self.reach, now);
        let entries: Vec<ResultEntry> =
            infos.iter().map(|listed| ResultEntry::from_listed(listed, now)).collect();
        let rows = entries.iter().map(|entry| (entry.reference.clone(), row(entry, now)));
        list.set_rows(rows.collect());
        if let Some(failure) = failure {
            list.show_message(&failure);
        }
        entries
    }
}

/// All results, also expired ones, and the failures to list some.
pub(super) fn all(stores: &Stores, reach: Reach) -> (Vec<ResultInfo>, Vec<SpoolError>) {
    let (mut listed, mut failures) = (Vec::new(), Vec::new());
    let more = stores.each(reach, |store| match store.list() {
        Ok(mut more) => listed.append(&mut more),
        Err(error) => failures.push(error),
    });
    failures.extend(more);
    (listed, failures)
}

/// The results that have not expired, the latest first, and the first failure to list some.
pub(super) fn latest(
    stores: &Stores,
    reach: Reach,
    now: DateTime<Utc>,
) -> (Vec<ResultInfo>, Option<String>) {
    let (mut listed, failures) = all(stores, reach);
    listed.retain(|listed| !listed.sidecar.is_expired(listed.id(), now));
    listed.sort_by_key(|listed| std::cmp::Reverse(listed.id()));
    (listed, failures.first().map(|error| with_causes(error)))
}

fn row(entry: &ResultEntry, now: DateTime<Utc>) -> Vec<String> {
    vec![
        distance(entry.created_at, now),
        entry.server_name().to_owned(),
        entry.title().to_owned(),
        entry.content_summary(),
        size(entry.bytes),
        entry.arguments.clone().unwrap_or_default(),
    ]
}
