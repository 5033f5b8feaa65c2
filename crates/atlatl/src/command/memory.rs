//! `atlatl memory`: adds, finds, edits, deletes, imports and exports memories.

mod by_id;
mod edit;
mod export;
pub(super) mod import;
mod query;

use clap::Subcommand;
use serde_json::json;

use crate::error::{Error, Status};
use crate::memory_config;
use crate::output::{Mode, Output};
use crate::settings::{Settings, Sources};

/// The subcommands of `atlatl memory`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep a memory
    ///
    /// Prints its id. What is not said is worked out: the title from the first line,
    /// the namespace from the type.
    #[command(verbatim_doc_comment, after_long_help = edit::ADD_EXAMPLES)]
    Add(edit::AddArgs),
    /// Find memories by their words, the best first
    ///
    /// Any of the words will do, and more of them are better. How many there are is
    /// said on standard error.
    #[command(verbatim_doc_comment, after_long_help = query::SEARCH_EXAMPLES)]
    Search(query::SearchArgs),
    /// List memories, the newest first
    List(query::ListArgs),
    /// Show one memory, whole
    Show(by_id::ShowArgs),
    /// Change a memory, in your editor or by flags
    ///
    /// Without flags it opens the memory as Markdown in $VISUAL or $EDITOR. A text
    /// that is no memory is kept, and the error names its file.
    #[command(verbatim_doc_comment)]
    Edit(edit::EditArgs),
    /// Remove memories for good
    Forget(by_id::ForgetArgs),
    /// Put the index of words in step with the memories
    ///
    /// A memory server does so by itself, once a day.
    #[command(verbatim_doc_comment)]
    Repair,
    /// Take in memories from files
    ///
    /// Reads JSON lines (.jsonl), JSON and JSON-LD (.json, .jsonld: an object, an
    /// array or a @graph), Markdown (.md), and folders of Markdown. What is there
    /// already stays as it is: an import that was interrupted is simply run again.
    ///
    /// Markdown that brings no id gets one made from its path below the named folder
    /// and its content; no type means semantic, and no creation time the file's.
    /// In folders, names that begin with a dot and symbolic links are passed over.
    #[command(verbatim_doc_comment, after_long_help = import::EXAMPLES)]
    Import(import::ImportArgs),
    /// Write memories out, so that an import gives the same again
    ///
    /// All of them, whatever their status, unless flags say which. What has outlived
    /// its time to live is left out.
    #[command(verbatim_doc_comment, after_long_help = export::EXAMPLES)]
    Export(export::ExportArgs),
}

/// Runs a subcommand.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    match command {
        Command::Add(args) => edit::add(args, &settings, output),
        Command::Search(args) => query::search(args, &settings, output),
        Command::List(args) => query::list(args, &settings, output),
        Command::Show(args) => by_id::show(args, &settings, output),
        Command::Edit(args) => edit::edit(args, &settings, output),
        Command::Forget(args) => by_id::forget(args, &settings, output),
        Command::Repair => repair(&settings, output),
        Command::Import(args) => import::run(args, &settings, output),
        Command::Export(args) => export::run(args, &settings, output),
    }
}

/// Runs `atlatl memory repair`: rebuilds missing index entries and removes orphaned ones.
fn repair(settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let repaired = memory_config::open_required(settings)?.repair()?;
    let (missing, orphaned) = (repaired.missing, repaired.orphaned);
    match output.mode() {
        Mode::Json => output.json(&json!({"missing": missing, "orphaned": orphaned}))?,
        Mode::Human => {
            output.line(format!("put in what was missing: {missing}; took out: {orphaned}"))?;
        }
    }
    Ok(Status::Success)
}
