//! `atlatl results show`.

use std::io::{self, BufWriter, Write as _};

use lro::Moment;
use lro_core::{Preview, Tokens};
use lro_spool::{Extension, OriginalError, Spool as _, StoredResult, original, records_begin};
use serde::Serialize;

use super::{Which, entry::Entry, missing};
use crate::{
    error::{Error, Status},
    output::{Facts, Mode, Output, counted, distance, size},
    settings::Settings,
    stores::Stores,
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
}

/// As a program reads it.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    entry: Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<Preview>,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = Moment::of_system().now;
    let stores = Stores::of(settings, args.which.scope.as_deref())?;
    let address = args.which.address()?;
    let stored = stores.find(&address, |store| store.open(&address, now)).map_err(missing)?;
    if args.original {
        return write_original(&*stored);
    }
    let entry = Entry::of(stored.listed(), now);
    let preview = preview(&*stored)?;
    match output.mode() {
        Mode::Json => output.json(&Shown { entry, preview })?,
        Mode::Human => {
            output.facts(&facts(&entry, now))?;
            output.text("\n")?;
            match preview {
                Some(Preview::Records(records)) => {
                    records.iter().try_for_each(|record| output.line(record))?;
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
        facts.text("parts", &counted(entry.parts.len() as u64, "further part", "further parts"));
    }
    facts.text("stored", &distance(entry.created_at, now));
    facts.text("expires", &distance(entry.expires_at, now));
    if let Some(path) = &entry.path {
        facts.text("path", &path.display().to_string());
    }
    facts
}

fn preview(stored: &dyn StoredResult) -> Result<Option<Preview>, Error> {
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
    let shown = if records {
        let whole = text.rfind('\n').map_or(&*text, |end| &text[..=end]);
        Preview::of_records(whole, PREVIEW)
    } else {
        Preview::of_text(&text, PREVIEW)
    };
    Ok(shown.map(|(preview, _)| preview))
}

fn write_original(stored: &dyn StoredResult) -> Result<Status, Error> {
    let mut out = BufWriter::new(io::stdout().lock());
    original(stored, &mut out).map_err(|error| match error {
        OriginalError::Spool(error) => error.into(),
        OriginalError::Write(error) => error.into(),
        other => Error::failure(other.to_string()),
    })?;
    out.flush()?;
    Ok(Status::Success)
}
