//! Large input: delivered or reported on without being in memory.

use std::{cell::RefCell, ops::Range, sync::Arc};

use lro::mcp::{LargeFile, LargePayload};
use lro::{Call, Moment, Offloader, Scanned, SpillBuffer, WhiteSpace};
use lro_core::{
    O200k, Operation,
    payload::{Payload, Unreadable},
    records::{Content, PayloadChanged},
    tool_result::Origin,
};

use super::{
    Args,
    deliver::{self, Beside},
    input::Large,
    report::{Place, Report, Tool},
};
use crate::{
    error::Error,
    ledger_sink::LedgerSink,
    output::{ByteProgress, Output},
    settings::Settings,
    spool_config::{Stores, output_dir},
};

/// A decoded payload up to this size stays in memory.
const IN_MEMORY: usize = 16 << 20;

/// Whether the input was dealt with.
pub(super) enum Outcome {
    /// It was.
    Done,
    /// It is a tool result that has to be read whole to tell what its payload is.
    Undecided,
}

/// Delivers `file` to standard output, or reports what would be done.
pub(super) fn run(
    args: &Args,
    file: &Large,
    settings: &Settings,
    stores: &Stores,
    output: &mut Output,
) -> Result<Outcome, Error> {
    let unreadable = |error: Unreadable| file.unreadable(&error);
    let progress = RefCell::new(ByteProgress::new("reading", Some(file.bytes())));
    let input = Tracked { inner: file, progress: &progress };
    let result = match LargeFile::read(&input).map_err(unreadable)? {
        LargeFile::Payload => None,
        LargeFile::ToolResult(result) => Some(result),
        LargeFile::Undecided => return Ok(Outcome::Undecided),
    };
    let decoded = match &result {
        Some(result) if result.range().is_none() => {
            match decoded(&input, result, stores).map_err(unreadable)? {
                Some(held) => Some(held),
                None => return Ok(Outcome::Undecided),
            }
        }
        _ => None,
    };
    let range = result.as_ref().and_then(LargePayload::range).unwrap_or(0..file.bytes());
    let part = Part { inner: file, range };
    let (inner, white_space): (&dyn Payload, _) = match &decoded {
        Some(held) => (held, WhiteSpace::Significant),
        None => (&part, WhiteSpace::Insignificant),
    };
    let payload = Tracked { inner, progress: &progress };
    progress.borrow_mut().next("scanning", payload.bytes());
    let scanned = Scanned::read(&payload).map_err(unreadable)?;
    if result.is_some() && scanned.found().content == Content::Binary {
        // Bytes that are no UTF-8: the file is no JSON, whatever its outline looks like.
        return Ok(Outcome::Undecided);
    }
    progress.borrow_mut().next("storing", payload.bytes());
    if args.dry_run {
        let place = result.as_ref().map(|result| Place {
            payload: Some(if decoded.is_some() { Origin::Text } else { Origin::Structured }),
            further_texts: 0,
            other_blocks: result.other_blocks,
        });
        let (found, directory) = (scanned.found().clone(), output_dir(settings)?);
        let tool = args.tool.as_deref();
        let report = Report::of_large(inner, &found, place, tool, &settings.config, &directory)?;
        progress.borrow_mut().clear();
        super::print(&report, output)?;
        return Ok(Outcome::Done);
    }
    let tool = if let Some(name) = &args.tool {
        name.clone()
    } else {
        let memories = scanned.is_of_memories(&payload).map_err(|_| PayloadChanged)?;
        Tool::assumed_of(scanned.found(), memories).map_or_else(String::new, |tool| tool.name)
    };
    let watch = Arc::new(LedgerSink::new(settings));
    let spool = stores.of_operation(&Operation::of_tool(&tool));
    let offloader =
        Offloader::new(spool, &settings.config).with_tokenizer(O200k).with_events(watch.clone());
    let call = Call { query: args.query.as_deref(), ..Call::new(&tool) };
    let at = Moment::of_system();
    let delivered = offloader.deliver_scanned(call, &payload, scanned, white_space, at);
    progress.borrow_mut().clear();
    let other_blocks = result.map_or(0, |result| result.other_blocks);
    deliver::print(delivered, &Beside { input: file, other_blocks }, output, stores, &watch, at)?;
    if file.has_changed() {
        let name = file.name();
        output.note(format_args!("{name} changed while it was read: offload it again"));
    }
    Ok(Outcome::Done)
}

/// The text of a string; `None` where it stands for none.
fn decoded(
    input: &dyn Payload,
    result: &LargePayload,
    stores: &Stores,
) -> Result<Option<SpillBuffer>, Unreadable> {
    let spool = stores.of_operation(&Operation::of_tool(""));
    let mut held = SpillBuffer::new(IN_MEMORY);
    let whole = result.decode(input, |piece| held.append(piece, &*spool))?;
    Ok(whole.then_some(held))
}

/// A range of a payload.
struct Part<'a> {
    inner: &'a dyn Payload,
    range: Range<u64>,
}

impl Payload for Part<'_> {
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

/// A payload whose reading shows on the terminal.
struct Tracked<'a> {
    inner: &'a dyn Payload,
    progress: &'a RefCell<ByteProgress>,
}

impl Payload for Tracked<'_> {
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
