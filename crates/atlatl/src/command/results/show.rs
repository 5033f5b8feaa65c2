//! `atlatl results show`, and the description of a stored result that all subcommands use.

use std::io::Write as _;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use lro::IdSeed;
use lro_core::{Preview, PreviewExtent, Tokens};
use lro_spool::{
    Extension, FurtherPart, PartNumber, RestoreError, ResultInfo, Spool as _, StoredForm,
    StoredResult, records_offset, restore_part, restore_payload,
};
use serde::Serialize;

use super::browse::QueryRunner;
use super::{ResultSelector, browse, with_missing_hint};
use crate::error::{Error, Status};
use crate::output::{Facts, Mode, Output, Table, counted, distance, grouped, size};
use crate::settings::Settings;
use crate::spool_config::Stores;

/// The size of the preview, as in a descriptor.
const PREVIEW_TOKENS: Tokens = Tokens(600);
/// The bytes that are read for the preview.
const PREVIEW_READ_BYTES: usize = 64 * 1024;

/// Arguments of `atlatl results show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    selector: ResultSelector,
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

/// Runs `atlatl results show`; `term` is the value of `TERM`.
pub(super) fn run(
    args: &ShowArgs,
    settings: &Settings,
    term: Option<&str>,
    output: &mut Output,
) -> Result<Status, Error> {
    let now = IdSeed::of_system().now;
    let stores = Stores::from_settings(settings, args.selector.scope.as_deref())?;
    let address = args.selector.address()?;
    let (store, stored) = stores
        .find(&address, args.selector.reach(), |store| {
            Ok((store.clone(), store.open(&address, now)?))
        })
        .map_err(with_missing_hint)?;
    if args.original {
        return write_original(&*stored, output);
    }
    if let Some(number) = args.part {
        return write_part(&*stored, number, output);
    }
    let entry = ResultEntry::from_listed(stored.listed(), now);
    // Without TERM, or with TERM=dumb, the terminal cannot position its cursor.
    let can_browse = term.is_some_and(|term| !term.is_empty() && term != "dumb");
    if can_browse && !args.plain && output.is_interactive() {
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

fn facts(entry: &ResultEntry, now: DateTime<Utc>) -> Facts {
    let mut facts = Facts::default();
    facts.text("result", &entry.reference);
    facts.text("tool", entry.title());
    if let Some(query) = &entry.query {
        facts.text("query", query);
    }
    let holds = match entry.records {
        Some(records) => counted(records as u64, "record", "records"),
        None => entry.content_summary(),
    };
    facts.text("holds", &format!("{holds}, {}", size(entry.bytes)));
    if !entry.parts.is_empty() {
        let parts = counted(entry.parts.len() as u64, "further part", "further parts");
        facts.text("parts", &format!("{parts} (see --part)"));
    }
    facts.text("stored", &distance(entry.created_at, now));
    facts.text("expires", &distance(entry.expires_at, now));
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
        Preview::of_records(whole, PREVIEW_TOKENS)
    } else {
        Preview::of_text(&text, PREVIEW_TOKENS)
    })
}

fn write_original(stored: &dyn StoredResult, output: &mut Output) -> Result<Status, Error> {
    let mut out = output.writer();
    restore_payload(stored, &mut out).map_err(write_error)?;
    out.flush()?;
    Ok(Status::Success)
}

fn write_part(
    stored: &dyn StoredResult,
    number: u16,
    output: &mut Output,
) -> Result<Status, Error> {
    let mut out = output.writer();
    restore_part(stored, PartNumber(number), &mut out).map_err(write_error)?;
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

/// The maximum width of a tool name in a table.
const MAX_TITLE_CHARS: usize = 32;

/// The description of a stored result, in JSON and for tables.
#[derive(Debug, Serialize)]
pub(super) struct ResultEntry {
    #[serde(rename = "ref")]
    pub(super) reference: String,
    pub(super) operation: String,
    /// The tool name as the server reports it: untrusted text.
    pub(super) tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) query: Option<String>,
    pub(super) content: StoredForm,
    /// `None` if the content has no records.
    pub(super) records: Option<usize>,
    /// The size of all files except the sidecar.
    pub(super) bytes: u64,
    pub(super) created_at: DateTime<Utc>,
    pub(super) expires_at: DateTime<Utc>,
    pub(super) expired: bool,
    /// The path as text, lossy if it is not UTF-8.
    pub(super) path: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<FurtherPart>,
}

impl ResultEntry {
    /// Describes a result at the time `now`.
    pub(super) fn from_listed(listed: &ResultInfo, now: DateTime<Utc>) -> Self {
        let sidecar = &listed.sidecar;
        Self {
            reference: listed.id().reference().to_string(),
            operation: listed.name.operation().to_owned(),
            tool: sidecar.tool.clone(),
            query: sidecar.header.query.clone(),
            content: sidecar.content,
            records: sidecar.content.has_records().then_some(sidecar.header.count),
            bytes: sidecar.bytes + sidecar.parts.iter().map(|part| part.bytes).sum::<u64>(),
            created_at: sidecar.created_at,
            expires_at: sidecar.expires_at,
            expired: sidecar.is_expired(listed.id(), now),
            path: listed.path.as_ref().map(|path| path.display().to_string()),
            parts: sidecar.parts.clone(),
        }
    }

    /// The title in a table: the tool, or the operation if the tool is unknown.
    pub(super) fn title(&self) -> &str {
        if self.tool.is_empty() { &self.operation } else { &self.tool }
    }

    /// The number of records, or the kind of content.
    pub(super) fn content_summary(&self) -> String {
        match (self.records, self.content) {
            (Some(records), _) => grouped(records as u64),
            (None, StoredForm::Document) => "JSON".to_owned(),
            (None, StoredForm::Text) => "text".to_owned(),
            (None, _) => "binary".to_owned(),
        }
    }
}

/// Truncates a title.
fn truncate(title: &str) -> String {
    match title.char_indices().nth(MAX_TITLE_CHARS) {
        Some((end, _)) => format!("{}\u{2026}", &title[..end]),
        None => title.to_owned(),
    }
}

/// A table of results.
pub(super) fn render_table(entries: &[ResultEntry], now: DateTime<Utc>) -> Table {
    let mut table = Table::new(["REF", "TOOL", "RECORDS", "SIZE", "STORED", "EXPIRES"]);
    for entry in entries {
        table.row([
            entry.reference.clone(),
            truncate(entry.title()),
            entry.content_summary(),
            size(entry.bytes),
            distance(entry.created_at, now),
            distance(entry.expires_at, now),
        ]);
    }
    table
}
