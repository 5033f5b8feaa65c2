//! `atlatl offload`: stores a large tool result and prints its descriptor, or reports with `--dry-run` what
//! would be done.

mod input;
mod render;
mod report;
mod tokens;

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use lro::mcp::{LargeFile, LargePayload};
use lro::{
    Delivered, IdSeed, Offloader, ResultBody, ScannedPayload, SpillBuffer, ToolCall, WhiteSpace,
};
use lro_core::payload::{Payload, Unreadable};
use lro_core::records::{Content, PayloadChanged};
use lro_core::tool_result::{Origin, ToolResult};
use lro_core::{O200k, Operation};

use self::input::{Input, LargeInput};
use self::report::{PayloadLocation, Report, Tool};
use crate::error::{Error, Status};
use crate::ledger_sink::LedgerSink;
use crate::output::{ByteProgress, Mode, Output, indent};
use crate::settings::{Settings, Sources};
use crate::spool_config::{Stores, output_dir};

/// The size in bytes up to which a decoded payload stays in memory.
const MAX_PAYLOAD_IN_MEMORY: usize = 16 << 20;

/// Examples for the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl offload result.json
  atlatl offload --tool read_file < result.json
  atlatl offload --dry-run --set proxy.threshold_tokens=500 rows.csv";

/// Arguments of `atlatl offload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the decision and its reason; store nothing
    #[arg(long)]
    dry_run: bool,
    /// Name of the tool, for its policy and threshold
    /// [default: `recall_memories` for memories]
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    tool: Option<String>,
    /// Query that produced the result, for its header
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// Store the result in a separate scope of this directory
    /// (results of memory operations share one scope)
    #[arg(long, value_name = "TEXT", verbatim_doc_comment)]
    scope: Option<String>,
    /// File with the result; - is standard input, the default
    file: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let stores = Stores::from_settings(&settings, args.scope.as_deref())?;
    let input = match input::read(args.file.as_deref(), &stores)? {
        Input::Memory(input) => input,
        Input::Large(file) => match offload_large(args, &file, &settings, &stores, output)? {
            LargeOutcome::Done => return Ok(Status::Success),
            LargeOutcome::Undecided => file.whole()?,
        },
    };
    if !args.dry_run {
        offload(args, &input, &settings, &stores, output)?;
        return Ok(Status::Success);
    }
    let directory = output_dir(&settings)?;
    let report = Report::new(&input, args.tool.as_deref(), &settings.config, &directory)?;
    print_report(&report, output)?;
    Ok(Status::Success)
}

fn print_report(report: &Report, output: &mut Output) -> Result<(), Error> {
    match output.mode() {
        Mode::Json => output.json(report)?,
        Mode::Human => output.facts(&render::facts(report))?,
    }
    Ok(())
}

/// Offloads `input` if it is large, and prints what a client would get.
fn offload(
    args: &Args,
    input: &[u8],
    settings: &Settings,
    stores: &Stores,
    output: &mut Output,
) -> Result<(), Error> {
    let result = std::str::from_utf8(input).ok().and_then(ToolResult::read);
    let tool = match &args.tool {
        Some(name) => name.clone(),
        None => Tool::infer(input, result.as_ref())?.map_or_else(String::new, |tool| tool.name),
    };
    let ledger = Arc::new(LedgerSink::new(settings, "atlatl offload"));
    let spool = stores.spool_for(&Operation::from_tool(&tool));
    let offloader =
        Offloader::new(spool, &settings.config).with_tokenizer(O200k).with_events(ledger.clone());

    let call = ToolCall { query: args.query.as_deref(), ..ToolCall::new(&tool) };
    let body = match &result {
        Some(result) => ResultBody::ToolResult(result),
        None => ResultBody::Payload(input),
    };
    let at = IdSeed::from_system();
    let source = DeliverySource {
        input: &input,
        other_blocks: result.as_ref().map_or(0, |r| r.other_blocks),
    };
    print_delivery(offloader.deliver_result(call, body, at), &source, output, stores, &ledger, at)
}

/// The input of a delivery.
struct DeliverySource<'a> {
    /// All of the input.
    input: &'a dyn Payload,
    /// The blocks of a tool result that are not text.
    other_blocks: usize,
}

/// Prints the delivered result, and removes expired results.
fn print_delivery(
    delivered: Delivered,
    source: &DeliverySource<'_>,
    output: &mut Output,
    stores: &Stores,
    ledger: &LedgerSink,
    at: IdSeed,
) -> Result<(), Error> {
    // Notes follow the data, which must not depend on them.
    let note = match delivered {
        Delivered::Offloaded(offloaded) => {
            // As a client receives it, unless a person reads it.
            let mut descriptor = match output.mode() {
                Mode::Human if output.is_terminal() => indent(&offloaded.descriptor),
                _ => offloaded.descriptor,
            };
            descriptor.push('\n');
            output.bytes(descriptor.as_bytes())?;
            other_blocks_note(source.other_blocks)
        }
        Delivered::Truncated(truncated) => {
            output.bytes(format!("{}\n", truncated.json).as_bytes())?;
            Some(truncated.warning.to_string())
        }
        Delivered::PassedOn(warning) => {
            pass_on(source.input, output)?;
            Some(warning.to_string())
        }
        // A kind of delivery of a later version: print the result unchanged.
        _ => {
            pass_on(source.input, output)?;
            None
        }
    };
    // f22: every start removes expired results. Failures there must not fail this command.
    stores.sweep_if_due(at.now, ledger);
    for text in ledger.failures().into_iter().chain(note) {
        output.note(text);
    }
    Ok(())
}

fn pass_on(input: &dyn Payload, output: &mut Output) -> Result<(), Error> {
    match input.whole() {
        Some(input) => output.foreign(input)?,
        None => output.foreign_payload(input)?,
    }
    Ok(())
}

/// A note on blocks that a client gets besides the descriptor and that are not printed.
fn other_blocks_note(other_blocks: usize) -> Option<String> {
    match other_blocks {
        0 => None,
        1 => Some("a block that is not text stays in the tool's result".to_owned()),
        more => Some(format!("{more} blocks that are not text stay in the tool's result")),
    }
}

/// Whether a large input was handled.
enum LargeOutcome {
    /// It was delivered or reported.
    Done,
    /// It is a tool result whose payload can only be determined by reading it into memory.
    Undecided,
}

/// Offloads a large input without reading it into memory, or reports what would be done.
fn offload_large(
    args: &Args,
    file: &LargeInput,
    settings: &Settings,
    stores: &Stores,
    output: &mut Output,
) -> Result<LargeOutcome, Error> {
    let unreadable = |error: Unreadable| file.unreadable(&error);
    let progress = RefCell::new(ByteProgress::new("reading", Some(file.bytes())));
    let input = ProgressPayload { inner: file, progress: &progress };
    let result = match LargeFile::read(&input).map_err(unreadable)? {
        LargeFile::Payload => None,
        LargeFile::ToolResult(result) => Some(result),
        LargeFile::Undecided => return Ok(LargeOutcome::Undecided),
    };
    let decoded = match &result {
        Some(result) if result.range().is_none() => {
            match decode_payload(&input, result, stores).map_err(unreadable)? {
                Some(buffer) => Some(buffer),
                None => return Ok(LargeOutcome::Undecided),
            }
        }
        _ => None,
    };
    let range = result.as_ref().and_then(LargePayload::range).unwrap_or(0..file.bytes());
    let part = PayloadRange { inner: file, range };
    let (inner, white_space): (&dyn Payload, _) = match &decoded {
        Some(buffer) => (buffer, WhiteSpace::Significant),
        None => (&part, WhiteSpace::Insignificant),
    };
    let payload = ProgressPayload { inner, progress: &progress };
    progress.borrow_mut().next("scanning", payload.bytes());
    let scanned = ScannedPayload::read(&payload).map_err(unreadable)?;
    if result.is_some() && scanned.detected().content == Content::Binary {
        // The payload is not UTF-8, so the file is not JSON, although its outline looks like it.
        return Ok(LargeOutcome::Undecided);
    }
    progress.borrow_mut().next("storing", payload.bytes());
    if args.dry_run {
        let location = result.as_ref().map(|result| PayloadLocation {
            payload: Some(if decoded.is_some() { Origin::Text } else { Origin::Structured }),
            further_texts: 0,
            other_blocks: result.other_blocks,
        });
        let (detected, directory) = (scanned.detected().clone(), output_dir(settings)?);
        let tool = args.tool.as_deref();
        let report =
            Report::for_large(inner, &detected, location, tool, &settings.config, &directory)?;
        progress.borrow_mut().clear();
        print_report(&report, output)?;
        return Ok(LargeOutcome::Done);
    }
    let tool = if let Some(name) = &args.tool {
        name.clone()
    } else {
        let memories = scanned.is_of_memories(&payload).map_err(|_| PayloadChanged)?;
        Tool::infer_from_detected(scanned.detected(), memories)
            .map_or_else(String::new, |tool| tool.name)
    };
    let ledger = Arc::new(LedgerSink::new(settings, "atlatl offload"));
    let spool = stores.spool_for(&Operation::from_tool(&tool));
    let offloader =
        Offloader::new(spool, &settings.config).with_tokenizer(O200k).with_events(ledger.clone());
    let call = ToolCall { query: args.query.as_deref(), ..ToolCall::new(&tool) };
    let at = IdSeed::from_system();
    let delivered = offloader.deliver_scanned(call, &payload, scanned, white_space, at);
    progress.borrow_mut().clear();
    let other_blocks = result.map_or(0, |result| result.other_blocks);
    print_delivery(
        delivered,
        &DeliverySource { input: file, other_blocks },
        output,
        stores,
        &ledger,
        at,
    )?;
    if file.has_changed() {
        let name = file.name();
        output.note(format_args!("{name} changed while it was read: offload it again"));
    }
    Ok(LargeOutcome::Done)
}

/// Decodes the payload of a tool result from its JSON string; `None` if the string is not valid.
fn decode_payload(
    input: &dyn Payload,
    result: &LargePayload,
    stores: &Stores,
) -> Result<Option<SpillBuffer>, Unreadable> {
    let spool = stores.spool_for(&Operation::from_tool(""));
    let mut buffer = SpillBuffer::new(MAX_PAYLOAD_IN_MEMORY);
    let is_valid = result.decode(input, |piece| buffer.append(piece, &*spool))?;
    Ok(is_valid.then_some(buffer))
}

/// A range of a payload.
struct PayloadRange<'a> {
    inner: &'a dyn Payload,
    range: Range<u64>,
}

impl Payload for PayloadRange<'_> {
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn whole(&self) -> Option<&[u8]> {
        None
    }

    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        let left = self.bytes().saturating_sub(at);
        if left == 0 {
            return Ok(&[]);
        }
        let chunk = self.inner.chunk_at(self.range.start + at, space)?;
        Ok(&chunk[..chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX))])
    }
}

/// A payload that updates a progress bar while it is read.
struct ProgressPayload<'a> {
    inner: &'a dyn Payload,
    progress: &'a RefCell<ByteProgress>,
}

impl Payload for ProgressPayload<'_> {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn whole(&self) -> Option<&[u8]> {
        self.inner.whole()
    }

    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        let chunk = self.inner.chunk_at(at, space)?;
        self.progress.borrow_mut().at(at + chunk.len() as u64);
        Ok(chunk)
    }
}
