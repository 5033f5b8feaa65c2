//! `atlatl db`: the database of many tenants' memories, made, looked at and filled.

mod check;
mod import_sqlite;
mod migrate;

use clap::Subcommand;

use crate::{
    error::{Error, Status},
    memory_config::{self, Place},
    output::Output,
    settings::{Settings, Sources},
};

/// The commands below `atlatl db`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the schema, or bring it up to date
    ///
    /// Runs as the owner of the schema, who must be another than the user of
    /// `memory.store`: that one is let in, and is bound by policies that keep tenants
    /// apart. Servers of the version before go on working; several at once are safe.
    #[command(verbatim_doc_comment, after_long_help = migrate::EXAMPLES)]
    Migrate(migrate::Args),
    /// Say whether the database can be used, and what it has
    Check,
    /// Take in the memories of a file, as one person kept them
    ///
    /// All of them, whatever their status, into the memories of `memory.tenant`. What
    /// is there already stays as it is: run it again where it was interrupted.
    #[command(verbatim_doc_comment, after_long_help = import_sqlite::EXAMPLES)]
    ImportSqlite(import_sqlite::Args),
}

/// Runs one of them.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let Place::Database(database) = memory_config::place(&settings)? else {
        return Err(Error::usage("memory.store names no PostgreSQL database")
            .with_hint("--set memory.store=postgres://USER@HOST/DATABASE"));
    };
    match command {
        Command::Migrate(args) => migrate::run(args, &settings, output),
        Command::Check => check::run(&database, output),
        Command::ImportSqlite(args) => import_sqlite::run(args, &settings, output),
    }
}
