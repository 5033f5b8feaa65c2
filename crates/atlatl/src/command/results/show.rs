//! `atlatl results show`: one result on a terminal, in full, or as facts and a preview.

use std::io::Write as _;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use clap_complete::ArgValueCompleter;
use lro::IdSeed;
use lro_core::{Preview, PreviewExtent, Tokens};
use lro_spool::{
    Extension, OutputStream, RestoreError, Spool as _, StoredResult, records_offset,
    restore_output, restore_stream, restore_text,
};
use serde::Serialize;

use super::browse::QueryRunner;
use super::choose::Choice;
use super::entry::ResultEntry;
use super::{browse, find_address, with_missing_hint};
use crate::command::complete;
use crate::error::{Error, Status};
use crate::output::{Facts, Mode, Output, counted, distance, expiry, size};
use crate::settings::Settings;
use crate::spool_config::{Reach, Stores};

/// The size of the preview, as in a descriptor.
const PREVIEW_TOKENS: Tokens = Tokens(600);
/// The bytes that are read for the preview.
const PREVIEW_READ_BYTES: usize = 64 * 1024;

/// Arguments of `atlatl results show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Reference (with or without lro:), file name, absolute
    /// path, or @1 for the latest result, @2 for the one before
    /// [default: choose from a list, on a terminal]
    #[arg(value_name = "REF", add = ArgValueCompleter::new(complete::references), verbatim_doc_comment)]
    reference: Option<String>,
    /// The --scope that the result was stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    scope: Option<String>,
    /// Search all your directories and scopes
    #[arg(long)]
    all: bool,
    /// Write the original payload, as the tool returned it
    #[arg(long)]
    original: bool,
    /// Write text part N instead of the payload
    #[arg(long, value_name = "N", conflicts_with = "original")]
    part: Option<u16>,
    /// Write one stream of a command's output: stdout, stderr
    #[arg(long, value_name = "STREAM", conflicts_with_all = ["original", "part"])]
    #[arg(value_parser = ["stdout", "stderr"], hide_possible_values = true)]
    stream: Option<String>,
    /// Print a summary and the beginning, even on a terminal
    #[arg(long)]
    plain: bool,
}

/// The output in JSON.
#[derive(Serialize)]
struct ShowReport {
    #[serde(flatten)]
    entry: ResultEntry,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<Preview>,
    /// Whether long texts in the preview are truncated.
    preview_cut: bool,
}

/// Runs `atlatl results show`; `can_browse` says whether a terminal can show a table.
pub(super) fn run(
    args: &ShowArgs,
    settings: &Settings,
    can_browse: bool,
    output: &mut Output,
) -> Result<Status, Error> {
    let now = IdSeed::from_system().now;
    let stores = Stores::from_settings(settings, args.scope.as_deref())?;
    let reach = if args.all { Reach::Everywhere } else { Reach::Here };
    let browse = can_browse && !args.plain && output.is_interactive();
    let writes = args.original || args.part.is_some() || args.stream.is_some();
    let Some(reference) = &args.reference else {
        if browse && !writes {
            let choice = Choice { stores: &stores, reach, settings, title: "Stored results" };
            return choice.run(output, Vec::new);
        }
        return Err(Error::usage("no REF: results can be chosen from a list only on a terminal")
            .with_hint("atlatl results show @1"));
    };
    let address = find_address(reference, &stores, reach)?;
    let (store, stored) = stores
        .find(&address, reach, |store| Ok((store.clone(), store.open(&address, now)?)))
        .map_err(with_missing_hint)?;
    if args.original {
        return write_original(&*stored, output);
    }
    if let Some(number) = args.part {
        return write_part(&*stored, number, output);
    }
    if let Some(stream) = &args.stream {
        let stream = if stream == "stderr" { OutputStream::Stderr } else { OutputStream::Stdout };
        return write_stream(&*stored, stream, output);
    }
    let entry = ResultEntry::from_listed(stored.listed(), now);
    if browse {
        let runner = QueryRunner::new(Arc::new(store), address, &settings.config);
        return browse::run(stored, &entry, runner, output.has_colours());
    }
    let (preview, preview_cut) = match preview(&*stored)? {
        Some((preview, cut)) => (Some(preview), cut == PreviewExtent::Abridged),
        None => (None, false),
    };
    match output.mode() {
        Mode::Json => output.json(&ShowReport { entry, preview, preview_cut })?,
        Mode::Human => {
            output.facts(&facts(&entry, now))?;
            output.text("\n")?;
            if preview_cut {
                output.note("long texts are truncated; --original writes them in full");
            }
            match preview {
                Some(Preview::Records(records)) => {
                    records.iter().try_for_each(|record| output.line(record))?;
                    let all = entry.records.unwrap_or_default();
                    output.note(format_args!("{} of {all} records", records.len()));
                }
                Some(Preview::Text(text)) => {
                    text.lines().try_for_each(|line| output.line(line))?;
                }
                _ => {}
            }
        }
    }
    Ok(Status::Success)
}

fn facts(entry: &ResultEntry, now: DateTime<Utc>) -> Facts {
    let mut facts = Facts::default();
    facts.text("result", &entry.reference);
    facts.text("tool", entry.title());
    if let Some(server) = &entry.server {
        facts.text("server", server);
    }
    if let Some(arguments) = &entry.arguments {
        facts.text("arguments", arguments);
    }
    if let Some(query) = &entry.query {
        facts.text("query", query);
    }
    let holds = match entry.records {
        Some(records) => counted(records as u64, "record", "records"),
        None => entry.content_summary(),
    };
    facts.text("holds", &format!("{holds}, {}", size(entry.bytes)));
    if entry.further_texts > 0 {
        let parts = counted(entry.further_texts as u64, "further part", "further parts");
        facts.text("parts", &format!("{parts} (see --part)"));
    }
    facts.text("stored", &distance(entry.created_at, now));
    facts.text("expires", &expiry(entry.expires_at, now));
    if let Some(path) = &entry.path {
        // Not wrapped, so that it can be copied.
        facts.list("path", std::slice::from_ref(path));
    }
    facts
}

fn preview(stored: &dyn StoredResult) -> Result<Option<(Preview, PreviewExtent)>, Error> {
    let records = stored.listed().name.extension() == Extension::Jsonl;
    let mut at = if records { records_offset(stored)? } else { 0 };
    let mut head = vec![0; PREVIEW_READ_BYTES];
    let mut filled = 0;
    while filled < head.len() {
        let read = stored.read_at(at, &mut head[filled..])?;
        if read == 0 {
            break;
        }
        filled += read;
        at += read as u64;
    }
    let text = String::from_utf8_lossy(&head[..filled]);
    Ok(if records {
        let whole = text.rfind('\n').map_or(&*text, |end| &text[..=end]);
        Preview::from_records(whole, PREVIEW_TOKENS)
    } else {
        Preview::from_text(&text, PREVIEW_TOKENS)
    })
}

fn write_original(stored: &dyn StoredResult, output: &mut Output) -> Result<Status, Error> {
    let mut out = output.writer();
    restore_output(stored, &mut out).map_err(write_error)?;
    out.flush()?;
    Ok(Status::Success)
}

fn write_stream(
    stored: &dyn StoredResult,
    stream: OutputStream,
    output: &mut Output,
) -> Result<Status, Error> {
    let mut out = output.writer();
    restore_stream(stored, stream, &mut out).map_err(write_error)?;
    out.flush()?;
    Ok(Status::Success)
}

fn write_part(
    stored: &dyn StoredResult,
    number: u16,
    output: &mut Output,
) -> Result<Status, Error> {
    let mut out = output.writer();
    if !restore_text(stored, number.into(), &mut out).map_err(write_error)? {
        let further = stored.listed().sidecar.further_texts();
        return Err(Error::failure(format!("there is no part {number}")).with_hint(format!(
            "this result has {}",
            counted(further as u64, "further part", "further parts")
        )));
    }
    out.flush()?;
    Ok(Status::Success)
}

fn write_error(error: RestoreError) -> Error {
    match error {
        RestoreError::Spool(error) => error.into(),
        RestoreError::Write(error) => error.into(),
        other => Error::failure(other.to_string()).with_hint("atlatl results path REF"),
    }
}
