//! `atlatl off` and `atlatl on`: pause and resume the hooks and `atlatl run`.

use chrono::{SecondsFormat, TimeDelta};
use lro::IdSeed;
use serde_json::json;

use crate::error::{Error, Status};
use crate::hook::pause::PauseFile;
use crate::output::{Mode, Output};
use crate::settings::Sources;

/// The longest pause, in minutes.
const MAX_MINUTES: u32 = 7 * 24 * 60;

/// Examples for the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl off                  (for one hour)
  atlatl off --minutes 10
  atlatl on                   (ends the pause)";

/// Arguments of `atlatl off`.
#[derive(Debug, clap::Args)]
pub(crate) struct OffArgs {
    /// Length of the pause, at most a week [default: 60]
    #[arg(
        long,
        value_name = "N",
        default_value_t = 60,
        hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MINUTES))
    )]
    minutes: u32,
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
    let end = IdSeed::from_system().now + TimeDelta::minutes(args.minutes.into());
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
