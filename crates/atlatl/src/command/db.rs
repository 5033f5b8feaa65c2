//! `atlatl db`: migrates, checks and fills the PostgreSQL database of many tenants.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use atlatl_memory::{
    Finish, MemoryStore, OnConflict, PasswordSource, Postgres, PostgresOptions, SqliteStore,
};
use clap::Subcommand;
use mif::MemoryId;
use serde_json::json;

use super::memory::import::importer::Importer;
use super::tenants::require_database;
use crate::command::runtime;
use crate::error::{Error, Status};
use crate::memory_config::{
    self, ALLOW_PLAIN_KEY, DatabaseUrl, StoreLocation, database_error, postgres_options,
};
use crate::output::{Mode, Output, Progress, Spinner, counted, grouped};
use crate::settings::{Settings, Sources};

/// Examples for the long help of `atlatl db migrate`.
const MIGRATE_EXAMPLES: &str = "\
A URL without a password uses $PGPASSWORD or the file in $PGPASSWORD_FILE.

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
    /// Then drop what only servers of the previous version
    /// need; fails if one of them is connected
    #[arg(long, verbatim_doc_comment)]
    finish: bool,
    /// Let this role administer tenants, keys, usage and
    /// erasures, without access to memories
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    admin_role: Option<String>,
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
    runtime::block_on(async {
        match command {
            Command::Migrate(args) => migrate(args, &settings, output).await,
            Command::Check => check(&database, output).await,
            Command::ImportSqlite(args) => import_sqlite(args, &settings, output).await,
        }
    })?
}

async fn migrate(
    args: &MigrateArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    require_database(&args.owner)?;
    let config = &settings.config.memory;
    let plain_text = memory_config::plain_text(config.allow_plain);
    let options = |name: &'static str, url: &str| {
        let url = DatabaseUrl { name, url, allow_plain: ALLOW_PLAIN_KEY };
        postgres_options(&url, plain_text, PasswordSource::None)
    };
    let owner = options("--as", &args.owner)?;
    let user = options("memory.store", &config.store)?;
    if owner.role == user.role {
        return Err(Error::usage(format!(
            "{} would own the schema and use it: row-level security does not apply to an owner",
            user.role
        ))
        .with_hint("use --as with another user that may create a schema in the database"));
    }
    if args.admin_role.as_ref().is_some_and(|role| [&owner.role, &user.role].contains(&role)) {
        return Err(Error::usage(
            "--admin-role: a role of its own is needed, which is neither the owner's nor the servers'",
        ));
    }
    let spinner = Spinner::start("migrating");
    let mut owner = owner.for_role(user.role);
    owner.admin_role.clone_from(&args.admin_role);
    let applied = Postgres::migrate(&owner).await.map_err(database_error)?;
    drop(spinner);
    if output.mode() == Mode::Human {
        for name in &applied {
            output.line(format!("applied {name}"))?;
        }
        if applied.is_empty() {
            output.line("the schema is up to date")?;
        }
    }
    let finish = if args.finish { Some(finish(&owner).await?) } else { None };
    match (output.mode(), finish) {
        (Mode::Json, None) => output.json(&json!({"applied": applied}))?,
        (Mode::Json, Some(indexed)) => output.json(
            &json!({"applied": applied, "finished": true, "indexed": indexed.unwrap_or(0)}),
        )?,
        (Mode::Human, None) => {}
        (Mode::Human, Some(None)) => output.line("the upgrade was finished before")?,
        (Mode::Human, Some(Some(indexed))) => {
            let indexed = counted(indexed, "memory", "memories");
            output.line(format!("finished the upgrade; indexed {indexed}"))?;
        }
    }
    Ok(Status::Success)
}

/// Drops what servers of the previous version need. Returns the number of memories that were indexed,
/// or `None` if the upgrade was finished before.
async fn finish(owner: &PostgresOptions) -> Result<Option<u64>, Error> {
    let spinner = Spinner::start("finishing");
    let outcome = Postgres::finish(owner).await.map_err(database_error)?;
    drop(spinner);
    match outcome {
        Finish::Dropped { indexed } => Ok(Some(indexed)),
        Finish::Connected(sessions) => Err(Error::failure(format!(
            "cannot finish the upgrade: servers of the previous version are connected ({})",
            sessions.join("; ")
        ))
        .with_hint("stop these servers or sessions, then run the command again")),
        _ => Ok(None),
    }
}

async fn check(database: &Postgres, output: &mut Output) -> Result<Status, Error> {
    let info = database.about().await.map_err(database_error)?;
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

async fn import_sqlite(
    args: &ImportSqliteArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    if !args.file.is_file() {
        return Err(Error::failure(format!("{}: there is no such file", args.file.display())));
    }
    let from = SqliteStore::open(&args.file)?;
    let to = memory_config::open(settings).await?;
    let clash = if args.replace { OnConflict::Replace } else { OnConflict::Keep };
    // The progress bar counts memories: their sizes are known only after reading.
    let is_drawn = io::stderr().is_terminal();
    let total = if is_drawn { count(&from).await.unwrap_or_default() } else { 0 };
    let progress = Progress::new("importing", || total);
    let mut importer = Importer::new(to, clash, true, progress, output);
    let done = import_all(&from, &mut importer).await;
    importer.finish(done).await
}

async fn import_all(from: &SqliteStore, importer: &mut Importer<'_>) -> Result<(), Error> {
    let mut ids = IdBatches::default();
    while let Some(batch) = ids.next(from).await? {
        for memory in from.get_all(&batch).await? {
            importer.memory(memory, 1).await?;
        }
    }
    Ok(())
}

async fn count(store: &SqliteStore) -> Result<u64, Error> {
    let (mut all, mut ids) = (0, IdBatches::default());
    while let Some(batch) = ids.next(store).await? {
        all += batch.len() as u64;
    }
    Ok(all)
}

/// Visits the ids of all memories, of any status and time, each exactly once.
#[derive(Default)]
struct IdBatches {
    /// The last id of the previous batch, with which the next query begins.
    previous: Option<MemoryId>,
}

impl IdBatches {
    async fn next(&mut self, store: &SqliteStore) -> Result<Option<Vec<MemoryId>>, Error> {
        let overlap = usize::from(self.previous.is_some());
        let first = self.previous.take().unwrap_or_else(|| MemoryId::from_u128(0));
        let last = MemoryId::from_u128(u128::MAX);
        let mut ids = store.ids(&first, &last, IMPORT_BATCH_LEN + overlap).await?;
        ids.drain(..overlap.min(ids.len()));
        self.previous = ids.last().cloned();
        Ok(self.previous.is_some().then_some(ids))
    }
}
