//! `atlatl memory list`.

use atlatl_memory::Order;
use mif::{Memory, Status as Life};

use super::{fields::Chosen, render};
use crate::{
    error::{Error, Status},
    memory_config,
    output::{Mode, Output, counted, grouped},
    settings::Settings,
};

/// How many memories a person reads, and how many a program.
const FOR_A_PERSON: usize = 20;
const FOR_A_PROGRAM: usize = 1000;

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    chosen: Chosen,
    /// newest, oldest or changed
    #[arg(long, value_name = "ORDER", default_value = "newest")]
    order: Order,
    /// At most so many [default: 20; 1000 in a pipe]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: Option<u16>,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = memory_config::moment().now;
    let filter = args.chosen.filter(Some(Life::Active));
    let (memories, total) = match memory_config::existing(settings)? {
        None => (Vec::new(), 0),
        Some(store) => {
            let listed =
                store.list(&filter, args.order, None, limit(args.limit, output), now)?.memories;
            (listed, store.count(&filter, now)?)
        }
    };
    let memories: Vec<&Memory> = memories.iter().collect();
    match output.mode() {
        Mode::Json => {
            let answer = render::Answer {
                count: memories.len(),
                total_matches: total,
                detail: "full",
                ranked_by: None,
                memories: memories.clone(),
                scores: None,
            };
            output.lexemes(&serde_json::to_string(&answer).map_err(std::io::Error::from)?)?;
        }
        Mode::Human if memories.is_empty() => {}
        Mode::Human => output.table(&render::table(&memories, None, now))?,
    }
    say_how_many(memories.len(), total, output);
    Ok(Status::Success)
}

/// What was asked for, or what fits who reads it.
pub(super) fn limit(asked: Option<u16>, output: &Output) -> usize {
    let fitting = if output.mode() == Mode::Human { FOR_A_PERSON } else { FOR_A_PROGRAM };
    asked.map_or(fitting, usize::from)
}

pub(super) fn say_how_many(shown: usize, total: u64, output: &mut Output) {
    let all = counted(total, "memory", "memories");
    output.note(format_args!("{} of {all}", grouped(shown as u64)));
}
