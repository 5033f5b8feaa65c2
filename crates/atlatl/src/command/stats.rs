//! `atlatl stats`: what offloading saved.

mod page;
mod screen;

use std::{fs, io, path::PathBuf};

use atlatl_lro::stats::{Amount, Basis, Summary};
use chrono::TimeDelta;
use lro::{Ledger, Moment};
use serde::Serialize;

use crate::{
    error::{Error, Status},
    ledger_sink::ledger_path,
    output::{Mode, Output, counted, grouped},
    settings::{Settings, Sources},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl stats                       all that the ledger holds
  atlatl stats --days 7              the last seven days
  atlatl stats --html savings.html   a page to look at or to pass on";

/// What was typed behind `atlatl stats`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only what happened in the last N days
    #[arg(long, value_name = "N")]
    days: Option<u32>,
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// As a program reads it.
#[derive(Serialize)]
struct Shown<'a> {
    ledger: String,
    unreadable_lines: u64,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let ledger = ledger_path(&settings)
        .ok_or_else(|| Error::usage("ledger.path: there is no home directory to keep it in"))?;
    let since = args.days.and_then(|days| {
        // Further back than dates go is everything.
        Moment::of_system().now.checked_sub_signed(TimeDelta::days(days.into()))
    });
    let mut unreadable = 0;
    let mut events = Vec::new();
    let lines = match Ledger::read(&ledger) {
        Ok(lines) => Some(lines),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(unread(&ledger, &error)),
    };
    for line in lines.into_iter().flatten() {
        match line {
            Ok(event) if since.is_none_or(|since| event.time >= since) => events.push(event),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => unreadable += 1,
            Err(error) => return Err(unread(&ledger, &error)),
        }
    }
    let summary = Summary::from_events(events);
    if unreadable > 0 {
        let lines = counted(unreadable, "line", "lines");
        output.note(format_args!("{}: {lines} cannot be read and are left out", ledger.display()));
    }
    if let Some(file) = &args.html {
        fs::write(file, page::page(&summary)).map_err(|error| {
            Error::failure(format!("{}: the page cannot be written: {error}", file.display()))
        })?;
        output.note(format_args!("{} has the page", file.display()));
    }
    match output.mode() {
        Mode::Json => {
            let ledger = ledger.display().to_string();
            output.json(&Shown { ledger, unreadable_lines: unreadable, summary: &summary })?;
        }
        Mode::Human => output.text(&screen::screen(&summary))?,
    }
    Ok(Status::Success)
}

fn unread(ledger: &std::path::Path, error: &io::Error) -> Error {
    Error::failure(format!("{}: the ledger cannot be read: {error}", ledger.display()))
        .with_hint("atlatl doctor")
}

/// The days that a summary is about; nothing where nothing happened.
fn span(summary: &Summary) -> Option<String> {
    let (from, to) = (summary.from?.date_naive(), summary.to?.date_naive());
    Some(if from == to { from.to_string() } else { format!("{from} to {to}") })
}

/// How an amount is known.
fn known(amount: Amount) -> String {
    match amount.basis() {
        Basis::PartlyEstimated => format!("{} of it estimated", grouped(amount.estimated)),
        basis => basis.as_str().to_owned(),
    }
}

/// A number that may be below zero, with a minus sign of a digit's width.
fn signed(number: i64) -> String {
    let sign = if number < 0 { "\u{2212}" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

fn per_cent(number: f64) -> String {
    // Two digits that say something, and no more.
    if number.abs() < 1.0 { format!("{number:.2} %") } else { format!("{number:.0} %") }
}

fn milliseconds(time: f64) -> String {
    if time < 10.0 { format!("{time:.1} ms") } else { format!("{time:.0} ms") }
}
