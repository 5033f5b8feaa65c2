//! `atlatl off` and `atlatl on`: pause and resume the hooks and `atlatl run`.

use std::time::Duration;

use chrono::{SecondsFormat, TimeDelta};
use lro::IdSeed;
use serde_json::json;

use crate::error::{Error, Status};
use crate::hook::pause::PauseFile;
use crate::output::{Mode, Output};
use crate::settings::Sources;
use crate::units::parse_duration;

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_hours(7 * 24);

/// Examples for the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl off                  (for one hour)
  atlatl off --for 10m
  atlatl on                   (ends the pause)";

/// Arguments of `atlatl off`.
#[derive(Debug, clap::Args)]
pub(crate) struct OffArgs {
    /// Length of the pause, at most a week
    #[arg(
        long = "for",
        alias = "minutes",
        value_name = "TIME",
        default_value = "1h",
        value_parser = parse_pause
    )]
    length: Duration,
}

/// A bare number is of minutes.
fn parse_pause(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text, Duration::from_mins(1))?;
    if length <= MAX_PAUSE { Ok(length) } else { Err("must be at most 7d".to_owned()) }
}

/// Arguments of `atlatl on`.
#[derive(Debug, clap::Args)]
pub(crate) struct OnArgs {}

/// Runs `atlatl off`.
pub(crate) fn run_off(
    args: &OffArgs,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let length =
        TimeDelta::from_std(args.length).map_err(|error| Error::usage(error.to_string()))?;
    let end = IdSeed::from_system().now + length;
    pause_file(sources)?.set(end).map_err(|error| cannot_write(&error))?;
    let until = end.to_rfc3339_opts(SecondsFormat::Secs, true);
    match output.mode() {
        Mode::Json => output.json(&json!({"off_until": until}))?,
        Mode::Human => {
            output.line(format_args!(
                "Hooks and `atlatl run` pass output unchanged until {until}."
            ))?;
            output.note("End the pause with `atlatl on`.");
        }
    }
    Ok(Status::Success)
}

/// Runs `atlatl on`.
pub(crate) fn run_on(_: &OnArgs, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let file = pause_file(sources)?;
    let was_off = file.end(IdSeed::from_system().now).is_some();
    file.clear().map_err(|error| cannot_write(&error))?;
    match output.mode() {
        Mode::Json => output.json(&json!({"was_off": was_off}))?,
        Mode::Human if was_off => {
            output.line("Hooks and `atlatl run` store large output again.")?;
        }
        Mode::Human => output.line("There was no pause.")?,
    }
    Ok(Status::Success)
}

fn pause_file(sources: &Sources) -> Result<PauseFile, Error> {
    let state_dir = sources.surroundings().state_dir.as_deref();
    state_dir
        .map(PauseFile::in_state_dir)
        .ok_or_else(|| Error::usage("no home directory to store the pause in"))
}

fn cannot_write(error: &std::io::Error) -> Error {
    Error::failure(format!("cannot change the pause in the state directory: {error}"))
        .with_hint("atlatl doctor")
}
