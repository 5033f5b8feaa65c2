//! Delivery: the result decided upon, stored and answered, as a client would get it.

use std::sync::Arc;

use lro::{Delivered, Incoming, Moment, Offloader};
use lro_core::{O200k, Operation, tool_result::ToolResult};

use super::{Args, report::Tool};
use crate::{
    error::Error,
    output::{Mode, Output, indent},
    settings::Settings,
    stores::Stores,
    watch::Watch,
};

/// Delivers `input` to standard output.
pub(super) fn run(
    args: &Args,
    input: &[u8],
    settings: &Settings,
    output: &mut Output,
) -> Result<(), Error> {
    let result = std::str::from_utf8(input).ok().and_then(ToolResult::read);
    let tool = match &args.tool {
        Some(name) => name.clone(),
        None => Tool::assumed(input, result.as_ref())?.map_or_else(String::new, |tool| tool.name),
    };
    let stores = Stores::of(settings, args.scope.as_deref())?;
    let watch = Arc::new(Watch::new(settings));
    let spool = stores.of_operation(&Operation::of_tool(&tool));
    let offloader =
        Offloader::new(spool, &settings.config).with_tokenizer(O200k).with_events(watch.clone());

    let mut incoming = match &result {
        Some(result) => Incoming::tool_result(&tool, result),
        None => Incoming::payload(&tool, input),
    };
    incoming.query = args.query.as_deref();
    let at = Moment::of_system();
    // Remarks come behind the data, which must not depend on them.
    let remark = match offloader.deliver(&incoming, at) {
        Delivered::Offloaded(offloaded) => {
            let mut descriptor = match output.mode() {
                Mode::Json => offloaded.descriptor,
                Mode::Human => indent(&offloaded.descriptor),
            };
            descriptor.push('\n');
            output.bytes(descriptor.as_bytes())?;
            result.as_ref().and_then(left_out)
        }
        Delivered::Truncated(truncated) => {
            output.bytes(format!("{}\n", truncated.json).as_bytes())?;
            Some(truncated.warning.to_string())
        }
        Delivered::PassedOn(warning) => {
            output.foreign(input)?;
            Some(warning.to_string())
        }
        // Whatever a later version may deliver: as it came is never wrong.
        _ => {
            output.foreign(input)?;
            None
        }
    };
    // f22: every start cleans. Results of others must not make this one fail.
    let _ = stores.sweep(at.now, &*watch);
    for text in watch.failures().into_iter().chain(remark) {
        output.note(text);
    }
    Ok(())
}

/// What a client gets beside the descriptor, and this output does not show.
fn left_out(result: &ToolResult<'_>) -> Option<String> {
    match result.other_blocks {
        0 => None,
        1 => Some("a block that is no text stays in the tool's result".to_owned()),
        more => Some(format!("{more} blocks that are no text stay in the tool's result")),
    }
}
