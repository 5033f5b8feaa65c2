//! `atlatl results show`.

use std::{io::Write as _, sync::Arc};

use lro::Moment;
use lro_core::{Cut, Preview, Tokens};
use lro_spool::{
    Extension, OriginalError, PartNumber, Spool as _, StoredResult, original, original_part,
    records_begin,
};
use serde::Serialize;

use super::{
    Which,
    browse::{self, Asker},
    entry::Entry,
    missing,
};
use crate::{
    error::{Error, Status},
    output::{Facts, Mode, Output, counted, distance, size},
    settings::Settings,
    spool_config::Stores,
};

/// How much of a result is shown, in tokens as for a descriptor's preview.
const PREVIEW: Tokens = Tokens(600);
/// How much of it is read for that.
const HEAD_BYTES: usize = 64 * 1024;

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Write the payload itself, put together again
    #[arg(long)]
    original: bool,
    /// Write a further part: text beside the payload
    #[arg(long, value_name = "N", conflicts_with = "original")]
    part: Option<u16>,
    /// Print what it is and how it begins, on a terminal too
    #[arg(long)]
    plain: bool,
}

/// As a program reads it.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    entry: Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<Preview>,
    /// Whether long texts in the preview are cut.
    preview_cut: bool,
}

/// Runs it, on a terminal that calls itself `term`.
pub(super) fn run(
    args: &Args,
    settings: &Settings,
    term: Option<&str>,
    output: &mut Output,
) -> Result<Status, Error> {
    let now = Moment::of_system().now;
    let stores = Stores::from_settings(settings, args.which.scope.as_deref())?;
    let address = args.which.address()?;
    let (store, stored) = stores
        .find(&address, args.which.reach(), |store| Ok((store.clone(), store.open(&address, now)?)))
        .map_err(missing)?;
    if args.original {
        return write_original(&*stored, output);
    }
    if let Some(number) = args.part {
        return write_part(&*stored, number, output);
    }
    let entry = Entry::from_listed(stored.listed(), now);
    // A terminal that is called nothing, or dumb, has no cursor to move.
    let able = term.is_some_and(|term| !term.is_empty() && term != "dumb");
    if able && !args.plain && output.is_interactive() {
        let asker = Asker::new(Arc::new(store), address, &settings.config);
        return browse::run(stored, &entry, asker, output.has_colours());
    }
    let (preview, preview_cut) = match preview(&*stored)? {
        Some((preview, cut)) => (Some(preview), cut == Cut::Abridged),
        None => (None, false),
    };
    match output.mode() {
        Mode::Json => output.json(&Shown { entry, preview, preview_cut })?,
        Mode::Human => {
            output.facts(&facts(&entry, now))?;
            output.text("\n")?;
            if preview_cut {
                output.note("long texts are cut here; --original has all of it");
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

fn facts(entry: &Entry, now: chrono::DateTime<chrono::Utc>) -> Facts {
    let mut facts = Facts::default();
    facts.text("result", &entry.reference);
    facts.text("tool", entry.title());
    if let Some(query) = &entry.query {
        facts.text("query", query);
    }
    let holds = match entry.records {
        Some(records) => counted(records as u64, "record", "records"),
        None => entry.holds(),
    };
    facts.text("holds", &format!("{holds}, {}", size(entry.bytes)));
    if !entry.parts.is_empty() {
        let parts = counted(entry.parts.len() as u64, "further part", "further parts");
        facts.text("parts", &format!("{parts} (see --part)"));
    }
    facts.text("stored", &distance(entry.created_at, now));
    facts.text("expires", &distance(entry.expires_at, now));
    if let Some(path) = &entry.path {
        // Never broken, so that it can be copied.
        facts.list("path", std::slice::from_ref(path));
    }
    facts
}

fn preview(stored: &dyn StoredResult) -> Result<Option<(Preview, Cut)>, Error> {
    let records = stored.listed().name.extension() == Extension::Jsonl;
    let mut at = if records { records_begin(stored)? } else { 0 };
    let mut head = vec![0; HEAD_BYTES];
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
        Preview::of_records(whole, PREVIEW)
    } else {
        Preview::of_text(&text, PREVIEW)
    })
}

fn write_original(stored: &dyn StoredResult, output: &mut Output) -> Result<Status, Error> {
    let mut out = output.writer();
    original(stored, &mut out).map_err(unwritten)?;
    out.flush()?;
    Ok(Status::Success)
}

fn write_part(
    stored: &dyn StoredResult,
    number: u16,
    output: &mut Output,
) -> Result<Status, Error> {
    let mut out = output.writer();
    original_part(stored, PartNumber(number), &mut out).map_err(unwritten)?;
    out.flush()?;
    Ok(Status::Success)
}

fn unwritten(error: OriginalError) -> Error {
    match error {
        OriginalError::Spool(error) => error.into(),
        OriginalError::Write(error) => error.into(),
        other => Error::failure(other.to_string()).with_hint("atlatl results path REF"),
    }
}
