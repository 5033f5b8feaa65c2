//! `atlatl memory`: memories of one person, kept, found, changed and carried.

mod add;
mod edit;
mod export;
mod fields;
mod forget;
pub(super) mod import;
mod list;
mod render;
mod repair;
mod resolve_id;
mod search;
mod show;

use clap::Subcommand;

use crate::{
    error::{Error, Status},
    output::Output,
    settings::{Settings, Sources},
};

/// The commands below `atlatl memory`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep a memory
    ///
    /// Prints its id. What is not said is worked out: the title from the first line,
    /// the namespace from the type.
    #[command(verbatim_doc_comment, after_long_help = add::EXAMPLES)]
    Add(add::Args),
    /// Find memories by their words, the best first
    ///
    /// Any of the words will do, and more of them are better. How many there are is
    /// said on standard error.
    #[command(verbatim_doc_comment, after_long_help = search::EXAMPLES)]
    Search(search::Args),
    /// List memories, the newest first
    List(list::Args),
    /// Show one memory, whole
    Show(show::Args),
    /// Change a memory, in your editor or by flags
    ///
    /// Without flags it opens the memory as Markdown in $VISUAL or $EDITOR. A text
    /// that is no memory is kept, and where it lies is said.
    #[command(verbatim_doc_comment)]
    Edit(edit::Args),
    /// Remove memories for good
    Forget(forget::Args),
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
    Import(import::Args),
    /// Write memories out, so that an import gives the same again
    ///
    /// All of them, whatever their status, unless flags say which. What has outlived
    /// its time to live is left out.
    #[command(verbatim_doc_comment, after_long_help = export::EXAMPLES)]
    Export(export::Args),
}

/// Runs one of them.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    match command {
        Command::Add(args) => add::run(args, &settings, output),
        Command::Search(args) => search::run(args, &settings, output),
        Command::List(args) => list::run(args, &settings, output),
        Command::Show(args) => show::run(args, &settings, output),
        Command::Edit(args) => edit::run(args, &settings, output),
        Command::Forget(args) => forget::run(args, &settings, output),
        Command::Repair => repair::run(&settings, output),
        Command::Import(args) => import::run(args, &settings, output),
        Command::Export(args) => export::run(args, &settings, output),
    }
}
