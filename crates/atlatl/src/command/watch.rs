//! `atlatl watch`: prints what is stored, queried and refused, while it happens.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use atlatl_browse::fit;
use chrono::{DateTime, Local, Utc};
use lro::{Event, EventKind, FollowedLedger};
use lro_core::tokens::Estimate;

use crate::error::{Error, Status};
use crate::ledger_sink::ledger_path;
use crate::output::{Mode, Output, counted, grouped, printable, size};
use crate::settings::{Settings, Sources};

/// How often the ledger is read.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The width of a reference.
const REFERENCE_WIDTH: usize = 30;
/// The widest name of a server with its tool.
const NAME_WIDTH: usize = 30;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl watch
  atlatl watch --last 50
  atlatl watch --json | jq -r .event";

/// Arguments of `atlatl watch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Begin with the last N events
    #[arg(long, value_name = "N", default_value_t = 10)]
    last: usize,
    /// Print the last events and end
    #[arg(long)]
    once: bool,
}

/// Prints events until the user ends the command.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let path = ledger_path(&settings)
        .ok_or_else(|| Error::usage("ledger.path: no home directory for the ledger"))?;
    let failed = |error: io::Error| failure(&path, &error);
    let mut ledger = FollowedLedger::new(&path);
    let mut last = VecDeque::new();
    for event in ledger.read().map_err(failed)? {
        if last.len() >= args.last {
            last.pop_front();
        }
        last.push_back(event);
    }
    // With --last 0 the oldest event is still pushed before it is dropped.
    last.truncate(args.last);
    for event in &last {
        print(event, output)?;
    }
    if args.once {
        return Ok(Status::Success);
    }
    if output.is_interactive() {
        output.hint("Ctrl-C ends it; results that pass unchanged are not listed");
    }
    loop {
        thread::sleep(POLL_INTERVAL);
        // `watch | head` has ended: without an event, no write would notice.
        if output.is_closed() {
            return Ok(Status::Success);
        }
        for event in ledger.read().map_err(failed)? {
            print(&event, output)?;
        }
    }
}

fn failure(path: &Path, error: &io::Error) -> Error {
    Error::failure(format!("{}: cannot read the ledger: {error}", path.display()))
        .with_hint("atlatl doctor")
}

fn print(event: &Event, output: &mut Output) -> Result<(), Error> {
    match output.mode() {
        // One event on a line, as in the ledger.
        Mode::Json => {
            // A tool's name may contain what controls a terminal.
            let line = serde_json::json!(event).to_string();
            output.bytes(lro_core::escape_invisible_json(&line).as_bytes())?;
            output.bytes(b"\n")?;
        }
        Mode::Human => {
            let time = local_time(event.time, Utc::now());
            let Line { about, reference, text } = Line::from(event);
            let about = printable(&about);
            let about = fit(&about, NAME_WIDTH);
            output.line(format_args!("{time}  {reference:REFERENCE_WIDTH$}  {about}  {text}"))?;
        }
    }
    Ok(())
}

/// An event for a person.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// The server and the tool.
    about: String,
    reference: String,
    text: String,
}

impl From<&Event> for Line {
    fn from(event: &Event) -> Self {
        let (about, text) = describe(&event.kind);
        let reference = event.result.map(|reference| reference.to_string()).unwrap_or_default();
        Self { about, reference, text }
    }
}

fn describe(kind: &EventKind) -> (String, String) {
    let named = |server: Option<&str>, tool: &str| match server {
        // The label of a server ends with a hash.
        Some(server) => format!("{} {tool}", server.split(':').next().unwrap_or(server)),
        None => tool.to_owned(),
    };
    match kind {
        EventKind::ResultOffloaded {
            tool,
            server,
            records,
            bytes,
            inline,
            descriptor,
            reused,
            ..
        } => {
            let verb = if *reused { "stored before" } else { "stored" };
            let records = match records {
                0 => String::new(),
                records => format!("{}, ", counted(*records, "record", "records")),
            };
            let saved = format!("{} \u{2192} {}", tokens(*inline), tokens(*descriptor));
            (
                named(server.as_deref(), tool),
                format!("{verb}: {records}{}, {saved} tokens", size(*bytes)),
            )
        }
        EventKind::ResultExtracted { tool, server, way, given, total, reply, .. } => (
            named(server.as_deref(), tool),
            format!(
                "answered {way}: {} of {}, {} tokens",
                grouped(*given),
                grouped(*total),
                tokens(*reply)
            ),
        ),
        EventKind::ExtractionFailed { class, reply } => {
            (String::new(), format!("not answered ({class}), {} tokens", tokens(*reply)))
        }
        EventKind::OffloadWriteFailed { tool, error } => {
            (tool.clone(), format!("NOT stored, passed on whole: {error}"))
        }
        EventKind::ToolsListed { server, definitions } => (
            named(Some(server), "").trim_end().to_owned(),
            format!("listed tools, {} tokens of definitions", tokens(*definitions)),
        ),
        EventKind::ResultPassed { tool, server, bytes } => {
            (named(Some(server), tool), format!("passed by reference: {}", size(*bytes)))
        }
        EventKind::ReferenceRefused { tool, server } => {
            (named(Some(server), tool), "refused a reference of another server".to_owned())
        }
        EventKind::ToolRenamed { server, tool, listed_as } => {
            (named(Some(server), tool), format!("listed as {listed_as}"))
        }
        EventKind::OffloadFileExpired { tool } => (tool.clone(), "expired, removed".to_owned()),
        EventKind::MemoryRecalled { tool, count, total_matches } => (
            tool.clone(),
            format!("returned {} of {} memories", grouped(*count), grouped(*total_matches)),
        ),
        EventKind::MemoryCaptured { memory } => ("memory".to_owned(), format!("captured {memory}")),
        EventKind::MemoryDeleted { memory } => ("memory".to_owned(), format!("deleted {memory}")),
        other => (String::new(), other.name().to_owned()),
    }
}

fn tokens(estimate: Estimate) -> String {
    grouped(estimate.tokens.0)
}

/// The time of day, with the date if it is not today's.
fn local_time(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let (time, now) = (time.with_timezone(&Local), now.with_timezone(&Local));
    let is_today = time.date_naive() == now.date_naive();
    time.format(if is_today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_another_day_has_its_date() {
        let now = Utc::now();
        assert_eq!(local_time(now, now).len(), 8);
        assert_eq!(local_time(now - chrono::TimeDelta::days(2), now).len(), 19);
    }

    #[test]
    fn events_are_described_in_a_line() {
        let line = |json: &str| {
            let event: Event = serde_json::from_str(json).unwrap();
            let Line { about, reference, text } = Line::from(&event);
            format!("{reference} | {about} | {text}")
        };
        let stored = r#"{"time":"2026-11-14T10:00:00Z","ref":"lro:01K9ZZZZZZZZZZZZZZZZZZZZZZ",
            "event":"ResultOffloaded","tool":"list_issues","server":"tracker:ab12","records":500,
            "bytes":90000,"inline":{"tokens":30000,"method":"counted"},"all_texts":true,
            "descriptor":{"tokens":400,"method":"counted"},"took_us":9000}"#;
        assert_eq!(
            line(stored),
            "lro:01K9ZZZZZZZZZZZZZZZZZZZZZZ | tracker list_issues | \
             stored: 500 records, 90.0 kB, 30,000 \u{2192} 400 tokens"
        );
        let failed = r#"{"time":"2026-11-14T10:00:00Z","event":"OffloadWriteFailed","tool":"t",
            "error":"no space left"}"#;
        assert_eq!(line(failed), " | t | NOT stored, passed on whole: no space left");
        let other = r#"{"time":"2026-11-14T10:00:00Z","event":"CustodialTaskFinished","task":"x",
            "acted_on":1}"#;
        assert_eq!(line(other), " |  | CustodialTaskFinished");
    }
}
