//! `atlatl config`: what is configured, what can be, and whether it is right.

mod check;
mod reference;
mod schema;
mod show;

use clap::Subcommand;

use crate::{
    error::{Error, Status},
    output::Output,
    settings::Sources,
};

/// The commands below `atlatl config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print every key with the value that applies
    ///
    /// In a pipe: JSON in the shape of the configuration file or, with --origin, a list
    /// of key, value and origin. Passwords are not shown.
    #[command(verbatim_doc_comment)]
    Show(show::Args),
    /// Print the JSON Schema of the configuration file
    ///
    /// For editors: save it and name it on the file's first line, as in
    /// `#:schema ./atlatl.schema.json`.
    #[command(verbatim_doc_comment)]
    Schema,
    /// Check the configuration and print everything that is wrong with it
    ///
    /// Without FILE: all that would apply here, including variables and flags.
    /// Exits with 2 when something is wrong.
    #[command(verbatim_doc_comment)]
    Check(check::Args),
    /// Print the reference of all keys as Markdown
    #[command(hide = true)]
    Reference,
}

/// Runs one of them.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    match command {
        Command::Show(args) => show::run(args, sources, output),
        Command::Schema => schema::run(output),
        Command::Check(args) => check::run(args, sources, output),
        Command::Reference => reference::run(output),
    }
}
