//! `atlatl memory forget`.

use atlatl_memory::CaptureService;
use mif::MemoryId;
use serde::Serialize;

use super::resolve_id;
use crate::{
    error::{Error, Status},
    memory_config,
    output::{Mode, Output, counted},
    settings::Settings,
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which memories
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// As a program reads it.
#[derive(Default, Serialize)]
struct Forgotten {
    forgotten: Vec<String>,
    missing: Vec<String>,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let store = memory_config::expected(settings)?;
    // All are known before the first is gone: a slip in one id costs no other memory.
    let mut ids: Vec<MemoryId> =
        args.ids.iter().map(|typed| resolve_id::id(typed, &*store)).collect::<Result<_, _>>()?;
    ids.sort();
    ids.dedup();
    if !args.yes {
        let question = match store.get_all(&ids)?.as_slice() {
            [] => None,
            [one] => Some(format!("Forget \"{}\" for good?", one.called())),
            more => Some(format!("Forget {} memories for good?", more.len())),
        };
        match question.map(|question| output.confirmed(question)).transpose()? {
            None | Some(Some(true)) => {}
            Some(Some(false)) => return Err(Error::failure("nothing was forgotten")),
            Some(None) => {
                let message = "there is no terminal to confirm a permanent deletion on";
                return Err(Error::usage(message).with_hint("--yes does not ask"));
            }
        }
    }
    let capture = CaptureService::new(store);
    let mut result = Forgotten::default();
    for id in ids {
        let was_there = capture.delete(&id)?;
        let list = if was_there { &mut result.forgotten } else { &mut result.missing };
        list.push(id.to_string());
    }
    match output.mode() {
        Mode::Json => output.json(&result)?,
        Mode::Human => {
            let there = counted(result.forgotten.len() as u64, "memory", "memories");
            output.line(format_args!("forgot {there}"))?;
        }
    }
    for id in &result.missing {
        output.note(format_args!("{id} was not there"));
    }
    Ok(if result.missing.is_empty() { Status::Success } else { Status::JsonRpcError })
}
