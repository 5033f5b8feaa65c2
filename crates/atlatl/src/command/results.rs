//! `atlatl results`: what is stored, and how to get rid of it.

mod browse;
mod clean;
mod entry;
mod list;
mod path;
mod show;

use clap::Subcommand;
use lro_spool::{Address, SpoolError};

use crate::{
    error::{Error, Status},
    output::Output,
    settings::{Settings, Sources},
    spool_config::Reach,
};

/// The commands below `atlatl results`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the results stored for this directory
    ///
    /// Results of memory operations lie in one place for all directories, those of
    /// other tools in a folder for the working directory and --scope.
    #[command(verbatim_doc_comment)]
    List(list::Args),
    /// Browse a stored result, or show how it begins
    ///
    /// On a terminal: a table to scroll, search, sort, filter by SQL and look into; `?`
    /// there says which key does what. In a pipe, with --output or --plain: what it is
    /// and how it begins. With --original: the payload itself, as the tool returned it.
    #[command(verbatim_doc_comment)]
    Show(show::Args),
    /// Print the path of a stored result's file
    Path(path::Args),
    /// Remove results whose time is up, or all of them
    ///
    /// Covers all directories of yours that Atlatl stored results for. A result that
    /// is being read stays.
    #[command(verbatim_doc_comment)]
    Clean(clean::Args),
}

/// Which result is meant.
#[derive(Debug, clap::Args)]
struct Which {
    /// A reference (lro:…), its bare end, a file name or an absolute path
    #[arg(value_name = "REF")]
    reference: String,
    /// The --scope that it was stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    scope: Option<String>,
    /// Look in every directory and scope of yours
    #[arg(long)]
    all: bool,
}

impl Which {
    fn address(&self) -> Result<Address, Error> {
        typed_address(&self.reference)
    }

    fn reach(&self) -> Reach {
        if self.all { Reach::Everywhere } else { Reach::Here }
    }
}

/// The result that a person means, who may have typed the reference.
pub(super) fn typed_address(text: &str) -> Result<Address, Error> {
    let text = text.trim();
    let typed = text.to_uppercase();
    let typed = typed.strip_prefix("LRO:").unwrap_or(&typed);
    text.parse()
        .or_else(|error| typed.parse().map_err(|_| error))
        .map_err(|error| Error::usage(format!("{text}: {error}")).with_hint("atlatl results list"))
}

/// Runs one of them.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    match command {
        Command::List(args) => list::run(args, &settings, output),
        Command::Show(args) => {
            show::run(args, &settings, sources.variable("TERM").as_deref(), output)
        }
        Command::Path(args) => path::run(args, &settings, output),
        Command::Clean(args) => clean::run(args, &settings, output),
    }
}

/// What to do about a result that is not there.
fn missing(error: SpoolError) -> Error {
    let hint = "it may have expired, or belong to another directory: try --all";
    match error {
        SpoolError::NotFound { .. } => Error::from(error).with_hint(hint),
        // An expired one says itself that the call has to be made again.
        _ => error.into(),
    }
}
