//! `atlatl db import-sqlite`.

use std::path::PathBuf;

use atlatl_memory::{Clash, MemoryStore, SqliteStore};
use mif::MemoryId;

use crate::{
    command::memory::import::importer::Importer,
    error::{Error, Status},
    memory_config,
    output::{Output, Progress},
    settings::Settings,
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl db import-sqlite ~/.local/share/atlatl/memory.db
  atlatl db import-sqlite ann.db --set memory.tenant=ann";

/// Memories that are read at once.
const BATCH: usize = 500;

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Put a memory in the place of a different one of its id
    #[arg(long)]
    replace: bool,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    if !args.file.is_file() {
        return Err(Error::failure(format!("{}: there is no such file", args.file.display())));
    }
    let from = SqliteStore::open(&args.file)?;
    let to = memory_config::open(settings)?;
    let clash = if args.replace { Clash::Replace } else { Clash::Keep };
    let (first, last) = (MemoryId::from_u128(0), MemoryId::from_u128(u128::MAX));
    // What is counted are memories: what they take is known only when they are read.
    let progress = Progress::new("importing", || count(&from, &first, &last).unwrap_or_default());
    let mut importer = Importer::new(to, clash, true, progress, output);
    let done = each(&from, first, &last, |ids| {
        let memories = from.get_all(ids)?;
        memories.into_iter().try_for_each(|memory| importer.memory(memory, 1))
    });
    importer.finish(done)
}

/// All that are stored, whatever their status and time: none is passed over, and none comes twice.
fn each(
    store: &SqliteStore,
    mut first: MemoryId,
    last: &MemoryId,
    mut take: impl FnMut(&[MemoryId]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut seen = 0;
    loop {
        let ids = store.ids(&first, last, BATCH + seen)?;
        let new = ids.get(seen..).unwrap_or_default();
        let Some(newest) = new.last() else { return Ok(()) };
        take(new)?;
        // The next batch begins with the last of this one.
        first = newest.clone();
        seen = 1;
    }
}

fn count(store: &SqliteStore, first: &MemoryId, last: &MemoryId) -> Result<u64, Error> {
    let mut all = 0;
    each(store, first.clone(), last, |ids| {
        all += ids.len() as u64;
        Ok(())
    })?;
    Ok(all)
}
