//! Delivery: the result decided upon, stored and answered, as a client would get it.

use std::sync::Arc;

use lro::{Delivered, IdSeed, Offloader, ResultBody, ToolCall};
use lro_core::{O200k, Operation, payload::Payload, tool_result::ToolResult};

use super::{Args, report::Tool};
use crate::{
    error::Error,
    ledger_sink::LedgerSink,
    output::{Mode, Output, indent},
    settings::Settings,
    spool_config::Stores,
};

/// Delivers `input` to standard output.
pub(super) fn run(
    args: &Args,
    input: &[u8],
    settings: &Settings,
    stores: &Stores,
    output: &mut Output,
) -> Result<(), Error> {
    let result = std::str::from_utf8(input).ok().and_then(ToolResult::read);
    let tool = match &args.tool {
        Some(name) => name.clone(),
        None => Tool::assumed(input, result.as_ref())?.map_or_else(String::new, |tool| tool.name),
    };
    let watch = Arc::new(LedgerSink::new(settings));
    let spool = stores.of_operation(&Operation::of_tool(&tool));
    let offloader =
        Offloader::new(spool, &settings.config).with_tokenizer(O200k).with_events(watch.clone());

    let call = ToolCall { query: args.query.as_deref(), ..ToolCall::new(&tool) };
    let body = match &result {
        Some(result) => ResultBody::ToolResult(result),
        None => ResultBody::Payload(input),
    };
    let at = IdSeed::of_system();
    let beside =
        Beside { input: &input, other_blocks: result.as_ref().map_or(0, |r| r.other_blocks) };
    print(offloader.deliver_result(call, body, at), &beside, output, stores, &watch, at)
}

/// What was read, of which a delivery is printed.
pub(super) struct Beside<'a> {
    /// All of the input.
    pub(super) input: &'a dyn Payload,
    /// The blocks of a tool result that are not text.
    pub(super) other_blocks: usize,
}

/// Prints what takes the place of the input, and cleans up.
pub(super) fn print(
    delivered: Delivered,
    beside: &Beside<'_>,
    output: &mut Output,
    stores: &Stores,
    watch: &LedgerSink,
    at: IdSeed,
) -> Result<(), Error> {
    // Remarks come behind the data, which must not depend on them.
    let remark = match delivered {
        Delivered::Offloaded(offloaded) => {
            let mut descriptor = match output.mode() {
                Mode::Json => offloaded.descriptor,
                Mode::Human => indent(&offloaded.descriptor),
            };
            descriptor.push('\n');
            output.bytes(descriptor.as_bytes())?;
            left_out(beside.other_blocks)
        }
        Delivered::Truncated(truncated) => {
            output.bytes(format!("{}\n", truncated.json).as_bytes())?;
            Some(truncated.warning.to_string())
        }
        Delivered::PassedOn(warning) => {
            pass_on(beside.input, output)?;
            Some(warning.to_string())
        }
        // Whatever a later version may deliver: as it came is never wrong.
        _ => {
            pass_on(beside.input, output)?;
            None
        }
    };
    // f22: every start cleans, as far as there is something to clean. Results of others must not
    // make this one fail.
    stores.sweep_if_due(at.now, watch);
    for text in watch.failures().into_iter().chain(remark) {
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

/// What a client gets beside the descriptor, and this output does not show.
fn left_out(other_blocks: usize) -> Option<String> {
    match other_blocks {
        0 => None,
        1 => Some("a block that is no text stays in the tool's result".to_owned()),
        more => Some(format!("{more} blocks that are no text stay in the tool's result")),
    }
}
