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
    let delivered = offloader.deliver(&incoming, at);
    for failure in watch.failures() {
        output.note(failure)?;
    }
    match delivered {
        Delivered::Offloaded(offloaded) => {
            let descriptor = match output.mode() {
                Mode::Json => offloaded.descriptor,
                Mode::Human => indent(&offloaded.descriptor),
            };
            output.bytes(descriptor.as_bytes())?;
            output.bytes(b"\n")?;
        }
        Delivered::Truncated(truncated) => {
            output.note(&truncated.warning)?;
            output.bytes(truncated.json.as_bytes())?;
            output.bytes(b"\n")?;
        }
        Delivered::PassedOn(warning) => {
            output.note(&warning)?;
            output.bytes(input)?;
        }
        // Whatever a later version may deliver: as it came is never wrong.
        _ => output.bytes(input)?,
    }
    // f22: every start cleans. Results of others must not make this one fail.
    let _ = offloader.sweep(at.now);
    Ok(())
}
