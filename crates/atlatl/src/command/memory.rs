//! `atlatl memory`: adds, finds, edits, deletes, imports and exports memories.

mod by_id;
mod edit;
pub(super) mod export;
pub(super) mod import;
#[cfg(feature = "local")]
mod model;
mod query;
mod vectors;

use clap::Subcommand;
use serde_json::json;

use crate::command::runtime;
use crate::error::{Error, Status};
use crate::memory_config;
use crate::output::{Mode, Output};
use crate::settings::{Settings, Sources};

/// The subcommands of `atlatl memory`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a memory
    ///
    /// Prints its id. The title defaults to the first line, the namespace follows from
    /// the type.
    #[command(verbatim_doc_comment, after_long_help = edit::ADD_EXAMPLES)]
    Add(edit::AddArgs),
    /// Find memories by words, best match first
    ///
    /// Finds memories with any of the words; more matching words rank higher. The
    /// number of matches goes to standard error.
    #[command(verbatim_doc_comment, after_long_help = query::SEARCH_EXAMPLES)]
    Search(query::SearchArgs),
    /// List memories, newest first
    List(query::ListArgs),
    /// Show one memory with all its fields
    Show(by_id::ShowArgs),
    /// Edit a memory in your editor or with options
    ///
    /// Without options, opens the memory as Markdown in $VISUAL or $EDITOR. If the
    /// edited text is not a valid memory, the error names the file that contains it.
    #[command(verbatim_doc_comment)]
    Edit(edit::EditArgs),
    /// Delete memories permanently
    Forget(by_id::ForgetArgs),
    /// Repair the full-text index
    ///
    /// A memory server repairs it automatically, once a day.
    #[command(verbatim_doc_comment)]
    Repair,
    /// Import memories from files
    ///
    /// Reads JSON lines (.jsonl), JSON and JSON-LD (.json, .jsonld: an object, an
    /// array or a @graph), Markdown (.md), and folders of Markdown. Existing
    /// memories are kept, so you can run an interrupted import again.
    ///
    /// The memories are stored first. Then, if there is an embedder, their vectors are
    /// computed; what an interruption leaves out, the next import or `atlatl serve`
    /// computes.
    ///
    /// Markdown without an id gets one from its path below the folder and its content.
    /// The type defaults to semantic, the creation time to the time of the file. In
    /// folders, symbolic links and names that begin with a dot are skipped.
    #[command(verbatim_doc_comment, after_long_help = import::EXAMPLES)]
    Import(import::ImportArgs),
    /// Export memories in a form that `import` restores exactly
    ///
    /// Exports memories of every status, unless options select some. Expired memories
    /// are left out.
    #[command(verbatim_doc_comment, after_long_help = export::EXAMPLES)]
    Export(export::ExportArgs),
    /// Install, list and remove embedding models
    #[cfg(feature = "local")]
    #[command(subcommand)]
    Model(model::Command),
}

/// Runs a subcommand.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    runtime::block_on(run_async(command, &settings, output))?
}

async fn run_async(
    command: &Command,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    match command {
        Command::Add(args) => edit::add(args, settings, output).await,
        Command::Search(args) => query::search(args, settings, output).await,
        Command::List(args) => query::list(args, settings, output).await,
        Command::Show(args) => by_id::show(args, settings, output).await,
        Command::Edit(args) => edit::edit(args, settings, output).await,
        Command::Forget(args) => by_id::forget(args, settings, output).await,
        Command::Repair => repair(settings, output).await,
        Command::Import(args) => import::run(args, settings, output).await,
        Command::Export(args) => export::run(args, settings, output).await,
        // It needs no store.
        #[cfg(feature = "local")]
        Command::Model(command) => model::run(command, settings, output),
    }
}

/// Runs `atlatl memory repair`: rebuilds missing index entries and removes orphaned ones.
async fn repair(settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let repaired = memory_config::open_required(settings).await?.repair().await?;
    let (missing, orphaned) = (repaired.missing, repaired.orphaned);
    match output.mode() {
        Mode::Json => output.json(&json!({"missing": missing, "orphaned": orphaned}))?,
        Mode::Human => {
            output.line(format!("added to the index: {missing}; removed from it: {orphaned}"))?;
        }
    }
    Ok(Status::Success)
}
