//! `atlatl db`: migrates, checks and fills the PostgreSQL database of many tenants.

use std::path::PathBuf;

use atlatl_memory::{MemoryStore, OnConflict, Postgres, SqliteStore};
use clap::Subcommand;
use mif::MemoryId;
use serde_json::json;

use super::memory::import::importer::Importer;
use crate::error::{Error, Status};
use crate::memory_config::{
    self, ALLOW_PLAIN_KEY, StoreLocation, database_error, invalid_url, postgres_options,
};
use crate::output::{Mode, Output, Progress, Spinner, grouped};
use crate::settings::{Settings, Sources};

/// Examples for the long help of `atlatl db migrate`.
const MIGRATE_EXAMPLES: &str = "\
A URL without a password uses $PGPASSWORD.

Examples:
  atlatl db migrate --as postgres://owner@127.0.0.1/memories \\
    --set memory.store=postgres://atlatl@127.0.0.1/memories";

/// Examples for the long help of `atlatl db import-sqlite`.
const IMPORT_EXAMPLES: &str = "\
Examples:
  atlatl db import-sqlite ~/.local/share/atlatl/memory.db
  atlatl db import-sqlite ann.db --set memory.tenant=ann";

/// The number of memories that are read at once.
const IMPORT_BATCH_LEN: usize = 500;

/// The subcommands of `atlatl db`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create or update the schema
    ///
    /// Runs as the owner of the schema, which must be another user than the one in
    /// `memory.store`: that user is granted access and is subject to the row-level
    /// security policies that isolate tenants. Servers of the previous version keep
    /// working, and concurrent migrations are safe.
    #[command(verbatim_doc_comment, after_long_help = MIGRATE_EXAMPLES)]
    Migrate(MigrateArgs),
    /// Check the connection, the schema and the extensions
    Check,
    /// Import the memories of a SQLite file
    ///
    /// Copies memories of every status to the tenant `memory.tenant`. Existing memories
    /// are kept, so you can run an interrupted import again.
    #[command(verbatim_doc_comment, after_long_help = IMPORT_EXAMPLES)]
    ImportSqlite(ImportSqliteArgs),
}

/// Arguments of `atlatl db migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// Database URL with the user who owns the schema
    #[arg(long = "as", value_name = "URL")]
    owner: String,
}

/// Arguments of `atlatl db import-sqlite`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportSqliteArgs {
    /// SQLite file with memories
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace existing memories that have the same id
    #[arg(long)]
    replace: bool,
}

/// Runs a subcommand.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let StoreLocation::Database(database) = memory_config::store_location(&settings)? else {
        return Err(Error::usage("memory.store is not a PostgreSQL database")
            .with_hint("--set memory.store=postgres://USER@HOST/DATABASE"));
    };
    match command {
        Command::Migrate(args) => migrate(args, &settings, output),
        Command::Check => check(&database, output),
        Command::ImportSqlite(args) => import_sqlite(args, &settings, output),
    }
}

fn migrate(args: &MigrateArgs, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let config = &settings.config.memory;
    let plain_text = memory_config::plain_text(config.allow_plain);
    let owner = postgres_options(&args.owner, plain_text)
        .map_err(|error| invalid_url("--as", &error, ALLOW_PLAIN_KEY))?;
    let user = postgres_options(&config.store, plain_text)
        .map_err(|error| invalid_url("memory.store", &error, ALLOW_PLAIN_KEY))?;
    if owner.role == user.role {
        return Err(Error::usage(format!(
            "{} would own the schema and use it: row-level security does not apply to an owner",
            user.role
        ))
        .with_hint("use --as with another user that may create a schema in the database"));
    }
    let spinner = Spinner::start("migrating");
    let applied = Postgres::migrate(&owner.for_role(user.role)).map_err(database_error)?;
    drop(spinner);
    match output.mode() {
        Mode::Json => output.json(&json!({"applied": applied}))?,
        Mode::Human if applied.is_empty() => output.line("the schema is up to date")?,
        Mode::Human => {
            for name in &applied {
                output.line(format!("applied {name}"))?;
            }
        }
    }
    Ok(Status::Success)
}

fn check(database: &Postgres, output: &mut Output) -> Result<Status, Error> {
    let info = database.about().map_err(database_error)?;
    if output.mode() == Mode::Json {
        output.json(&json!({
            "place": info.place,
            "server": info.server,
            "role": info.role,
            "schema": info.schema,
            "known": info.supported,
            "pgvector": info.pgvector,
            "connections": info.connections,
        }))?;
        return Ok(Status::Success);
    }
    let schema = match info.schema - info.supported {
        0 => format!("version {}, up to date", info.schema),
        _ => format!(
            "version {}, newer than version {} of this program, compatible",
            info.schema, info.supported
        ),
    };
    let pgvector = match &info.pgvector {
        Some(version) => format!("{version}, used for vector search"),
        None => "not installed: vector search uses plain SQL and is slower".to_owned(),
    };
    for (name, value) in [
        ("database", info.place),
        ("server", format!("PostgreSQL {}", info.server)),
        ("role", format!("{}, subject to row-level security", info.role)),
        ("schema", schema),
        ("pgvector", pgvector),
        ("connections", format!("at most {}", grouped(info.connections.into()))),
    ] {
        output.line(format!("{name:<12} {value}"))?;
    }
    Ok(Status::Success)
}

fn import_sqlite(
    args: &ImportSqliteArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    if !args.file.is_file() {
        return Err(Error::failure(format!("{}: there is no such file", args.file.display())));
    }
    let from = SqliteStore::open(&args.file)?;
    let to = memory_config::open(settings)?;
    let clash = if args.replace { OnConflict::Replace } else { OnConflict::Keep };
    let (first, last) = (MemoryId::from_u128(0), MemoryId::from_u128(u128::MAX));
    // The progress bar counts memories: their sizes are known only after reading.
    let progress = Progress::new("importing", || count(&from, &first, &last).unwrap_or_default());
    let mut importer = Importer::new(to, clash, true, progress, output);
    let done = each_batch(&from, first, &last, |ids| {
        let memories = from.get_all(ids)?;
        memories.into_iter().try_for_each(|memory| importer.memory(memory, 1))
    });
    importer.finish(done)
}

/// Visits the ids of all memories, of any status and time, each exactly once.
fn each_batch(
    store: &SqliteStore,
    mut first: MemoryId,
    last: &MemoryId,
    mut visit: impl FnMut(&[MemoryId]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut overlap = 0;
    loop {
        let ids = store.ids(&first, last, IMPORT_BATCH_LEN + overlap)?;
        let new = ids.get(overlap..).unwrap_or_default();
        let Some(newest) = new.last() else { return Ok(()) };
        visit(new)?;
        // The next batch begins with the last id of this one.
        first = newest.clone();
        overlap = 1;
    }
}

fn count(store: &SqliteStore, first: &MemoryId, last: &MemoryId) -> Result<u64, Error> {
    let mut all = 0;
    each_batch(store, first.clone(), last, |ids| {
        all += ids.len() as u64;
        Ok(())
    })?;
    Ok(all)
}
