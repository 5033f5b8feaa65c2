//! Opens the memory store and the embedder that the configuration names.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use atlatl_memory::embed::{self, EmbedderChoice};
use atlatl_memory::{
    BackfillEvent, Embedder, EmbeddingBackfill, MemoryIdSeed, MemoryStore, PasswordSource,
    PlainText, Postgres, PostgresOptions, PreparedStatements, SqliteStore, StoreError,
    TransactionSink,
};
use lro_core::config::{MemoryConfig, PreparedStatementsMode};

use crate::{
    error::{Error, connect_error, log_message, with_causes},
    output::{Output, pluralize},
    settings::{
        Settings,
        secrets::{self, Secret},
    },
};

/// The prefix of `memory.store` that names a SQLite file.
const SQLITE_PREFIX: &str = "sqlite:";
/// The command that brings the schema of a database up to date.
pub(crate) const MIGRATE: &str = "atlatl db migrate --as postgres://OWNER@HOST/DATABASE";
/// The hint for an invalid database URL.
const DATABASE_URL_HINT: &str = "--set memory.store=postgres://USER@HOST/DATABASE";
/// The assignment that allows a connection without encryption.
pub(crate) const ALLOW_PLAIN_KEY: &str = "--set memory.allow_plain=true";

/// How long a query of a server waits for a local model that is being loaded.
const SERVER_QUERY_TIMEOUT: Duration = Duration::from_millis(150);
/// How long a command waits for a local model.
const COMMAND_QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The location of the memory store.
pub(crate) enum StoreLocation {
    /// A SQLite file of one user.
    File(PathBuf),
    /// A PostgreSQL database of many tenants.
    Database(Postgres),
}

/// Opens the store, and creates it if it does not exist.
pub(crate) async fn open(settings: &Settings) -> Result<Arc<dyn MemoryStore>, Error> {
    open_at(store_location(settings)?, settings).await
}

async fn open_at(
    location: StoreLocation,
    settings: &Settings,
) -> Result<Arc<dyn MemoryStore>, Error> {
    Ok(match location {
        StoreLocation::File(path) => Arc::new(SqliteStore::open(&path)?),
        StoreLocation::Database(database) => {
            database.verify().await.map_err(database_error)?;
            tenant(&database, settings)?
        }
    })
}

/// Opens the store for a server, which starts even if the database is not reachable yet.
pub(crate) async fn open_for_server(
    settings: &Settings,
    transactions: Option<TransactionSink>,
) -> Result<(Arc<dyn MemoryStore>, Option<Postgres>), Error> {
    let Some(mut options) = database_options(settings)? else {
        return Ok((open_at(store_location(settings)?, settings).await?, None));
    };
    options.transactions = transactions;
    let database = Postgres::new(&options)?;
    check_database(&database).await?;
    Ok((tenant(&database, settings)?, Some(database)))
}

/// Checks a database for a server. If it is not reachable yet, prints a note; any other problem is an
/// error.
pub(crate) async fn check_database(database: &Postgres) -> Result<(), Error> {
    match database.verify().await {
        Ok(()) => Ok(()),
        Err(error @ (StoreError::Unavailable(_) | StoreError::Busy)) => {
            let why = with_causes(&error);
            let hint = connect_error(&error).map(|refused| format!(" ({})", refused.hint));
            let hint = hint.unwrap_or_default();
            Output::remark(format_args!("{why}: requests are answered when it is reachable{hint}"));
            Ok(())
        }
        Err(error) => Err(database_error(error)),
    }
}

/// Opens the store if it exists. For commands that only read.
pub(crate) async fn open_existing(
    settings: &Settings,
) -> Result<Option<Arc<dyn MemoryStore>>, Error> {
    match store_location(settings)? {
        StoreLocation::File(path) if matches!(path.try_exists(), Ok(false)) => Ok(None),
        // Other errors are reported by the store itself.
        location => open_at(location, settings).await.map(Some),
    }
}

fn tenant(database: &Postgres, settings: &Settings) -> Result<Arc<dyn MemoryStore>, Error> {
    let name = &settings.config.memory.tenant;
    let wrong = |error: StoreError| Error::usage(format!("memory.tenant: {error}"));
    Ok(Arc::new(database.tenant(name).map_err(wrong)?))
}

/// Whether the reason of a store error is a schema that needs [`MIGRATE`].
pub(crate) fn wants_migration(why: &str) -> bool {
    why.contains("atlatl db migrate")
}

/// An error of the database, with a hint.
pub(crate) fn database_error(error: StoreError) -> Error {
    match &error {
        StoreError::NotAStore { why, .. } if wants_migration(why) => {
            Error::failure(error.to_string()).with_hint(MIGRATE)
        }
        StoreError::NotAStore { .. } => {
            Error::failure(error.to_string()).with_hint(DATABASE_URL_HINT)
        }
        StoreError::PlainText { .. } => Error::failure(error.to_string()).with_hint(
            "use scram-sha-256 instead of password in the server's pg_hba.conf, or \
                 sslmode=verify-full in the URL",
        ),
        _ => error.into(),
    }
}

/// Opens the store for a command that needs a stored memory. It is an error if there is none.
pub(crate) async fn open_required(settings: &Settings) -> Result<Arc<dyn MemoryStore>, Error> {
    open_existing(settings).await?.ok_or_else(|| {
        Error::failure("no memory is stored yet").with_hint("atlatl memory add TEXT")
    })
}

/// Opens the embedder that `memory.embedder` names, for a command. A local model is loaded by its
/// first use; one that cannot be used is reported then, and memories are found by words.
pub(crate) fn embedder(settings: &Settings) -> Result<Option<Arc<dyn Embedder>>, Error> {
    open_embedder(&embedder_choice(settings)?, COMMAND_QUERY_TIMEOUT)
}

/// Opens the embedder for a server. Prints a note if it is a local model that cannot be used.
pub(crate) fn server_embedder(settings: &Settings) -> Result<Option<Arc<dyn Embedder>>, Error> {
    let choice = embedder_choice(settings)?;
    #[cfg(feature = "local")]
    if let EmbedderChoice::Local { directory } = &choice
        && let Err(error) = embed::check_directory(directory)
    {
        let why = with_causes(&error);
        Output::remark(format_args!("memory.embedder: {why}: memories are found only by words"));
    }
    open_embedder(&choice, SERVER_QUERY_TIMEOUT)
}

/// The embedder that `memory.embedder` names, with the installed model in place of `auto`.
pub(crate) fn embedder_choice(settings: &Settings) -> Result<EmbedderChoice, Error> {
    let choice: EmbedderChoice = settings.config.memory.embedder.parse().map_err(|error| {
        Error::usage(format!("memory.embedder: {error}"))
            .with_hint("use auto, none, openai:URL#MODEL or local:DIRECTORY")
    })?;
    Ok(choice.resolve(&model_directories(settings)))
}

/// The directories of installed models, in the order in which `auto` searches them: first the user's,
/// so that installing another model has an effect, then those of the package that this program
/// belongs to.
pub(crate) fn model_directories(settings: &Settings) -> Vec<PathBuf> {
    let surroundings = settings.surroundings();
    let mut directories: Vec<PathBuf> = user_models(settings).into_iter().collect();
    let beside = surroundings.program.as_deref().and_then(Path::parent);
    let above = beside.and_then(Path::parent);
    // npm: a sibling of the package with the program.
    let siblings = above.and_then(Path::parent).filter(|dir| dir.ends_with("node_modules"));
    let npm = siblings.map(|dir| dir.join("atlatl-model-minilm"));
    // An archive or a bundle; a wheel or a system's package (`bin` beside `share`).
    let prefixes = beside.into_iter().chain(above).map(Path::to_owned).chain(npm);
    for directory in prefixes.map(|prefix| prefix.join("share/atlatl/models")) {
        // A program in `~/.local/bin` has the user's directory beside it.
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories
}

/// The directory for models that the user installs.
pub(crate) fn user_models(settings: &Settings) -> Option<PathBuf> {
    settings.surroundings().data_dir.as_ref().map(|dir| dir.join("atlatl/models"))
}

/// A variable of the environment, if it is text.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Opens an embedder. The API key of an endpoint comes from `OPENAI_API_KEY`, as with other clients
/// of such endpoints, or from the file in `OPENAI_API_KEY_FILE`.
fn open_embedder(
    choice: &EmbedderChoice,
    query_timeout: Duration,
) -> Result<Option<Arc<dyn Embedder>>, Error> {
    let key = secrets::read(["OPENAI_API_KEY", "OPENAI_API_KEY_FILE"], environment)?;
    embed::open_lazily(choice, key, query_timeout).map_err(|error| {
        Error::failure(format!("memory.embedder: {}", with_causes(&error)))
            .with_hint("use --set memory.embedder=none to rank only by words")
    })
}

/// Starts the background embedding of memories, one for all stores of the process. Prints a note when it
/// pauses and when it resumes.
pub(crate) fn start_backfill(
    embedder: &Arc<dyn Embedder>,
    workers: usize,
) -> Option<EmbeddingBackfill> {
    let report = |event: BackfillEvent<'_>| match event {
        BackfillEvent::Paused { error } => Output::remark(format_args!(
            "memory.embedder: {}: memories are found only by words until it recovers; retrying",
            log_message(error)
        )),
        BackfillEvent::Resumed => {
            Output::remark(format_args!("memory.embedder: recovered; embedding continues"));
        }
        BackfillEvent::Refused { memories, error } => {
            let memories = pluralize(memories, "memory is", "memories are");
            Output::remark(format_args!(
                "memory.embedder: {memories} stored without a vector: {}",
                log_message(error)
            ));
        }
        BackfillEvent::StoreFailed { error } => Output::remark(format_args!(
            "memory.store: {}: embedding is retried",
            log_message(error)
        )),
        _ => {}
    };
    EmbeddingBackfill::start(Arc::clone(embedder), workers, report).ok()
}

/// The current time with fresh randomness, for a new memory.
pub(crate) fn moment() -> MemoryIdSeed {
    let lro::IdSeed { now, random } = lro::IdSeed::from_system();
    MemoryIdSeed { now, random }
}

/// The location that `memory.store` names, or the default.
pub(crate) fn store_location(settings: &Settings) -> Result<StoreLocation, Error> {
    if let Some(options) = database_options(settings)? {
        return Ok(StoreLocation::Database(Postgres::new(&options)?));
    }
    let config = &settings.config.memory;
    if config.store.is_empty() {
        let home = settings.surroundings().data_dir.as_ref();
        return home.map(|dir| StoreLocation::File(dir.join("atlatl/memory.db"))).ok_or_else(
            || {
                Error::usage("memory.store: no home directory for memories")
                    .with_hint("--set memory.store=sqlite:PATH")
            },
        );
    }
    // The configuration check refuses any other prefix.
    let path = config.store.strip_prefix(SQLITE_PREFIX).unwrap_or(&config.store);
    std::path::absolute(Path::new(path))
        .map(StoreLocation::File)
        .map_err(|error| Error::failure(format!("memory.store: {error}")))
}

/// Whether memories are in PostgreSQL.
pub(crate) fn is_postgres(settings: &Settings) -> bool {
    settings.config.memory.store.starts_with("postgres://")
}

/// The connection options of the database that `memory.store` names; `None` for a file.
pub(crate) fn database_options(settings: &Settings) -> Result<Option<PostgresOptions>, Error> {
    let config = &settings.config.memory;
    if !is_postgres(settings) {
        return Ok(None);
    }
    let password = password_source(config)?;
    let url =
        DatabaseUrl { name: "memory.store", url: &config.store, allow_plain: ALLOW_PLAIN_KEY };
    let mut options = postgres_options(&url, plain_text(config.allow_plain), password)?;
    options.connections = usize::try_from(config.connections).unwrap_or(usize::MAX);
    options.prepared_statements = match config.prepared_statements {
        PreparedStatementsMode::On => PreparedStatements::On,
        PreparedStatementsMode::Off => PreparedStatements::Off,
        _ => PreparedStatements::Auto,
    };
    Ok(Some(options))
}

/// Like [`database_options`], for a process that also connects with `--as`: `PGPASSWORD` is for that
/// URL, so a password of the configuration has precedence.
pub(crate) fn second_login_options(settings: &Settings) -> Result<Option<PostgresOptions>, Error> {
    let Some(options) = database_options(settings)? else { return Ok(None) };
    match password_source(&settings.config.memory)? {
        PasswordSource::None => Ok(Some(options)),
        password => Ok(Some(options.as_user(password)?)),
    }
}

/// A database URL and where it comes from.
pub(crate) struct DatabaseUrl<'a> {
    /// The option or key.
    pub(crate) name: &'static str,
    pub(crate) url: &'a str,
    /// What allows a connection without encryption in this command.
    pub(crate) allow_plain: &'static str,
}

/// The connection options for the database at `url`. A URL without a password gets the one of
/// `PGPASSWORD` or of the file in `PGPASSWORD_FILE`, or else of `password`.
pub(crate) fn postgres_options(
    url: &DatabaseUrl<'_>,
    plain_text: PlainText,
    password: PasswordSource,
) -> Result<PostgresOptions, Error> {
    let password = match secrets::find(["PGPASSWORD", "PGPASSWORD_FILE"], environment)? {
        Some(Secret::Text(text)) => PasswordSource::Text(text),
        Some(Secret::File(path)) => PasswordSource::File(path),
        None => password,
    };
    PostgresOptions::new(url.url)
        .with_plain_text(plain_text)
        .as_user(password)
        .map_err(|error| invalid_url(url, &error))
}

/// The source of the password that the configuration names.
fn password_source(config: &MemoryConfig) -> Result<PasswordSource, Error> {
    match (config.password_file.as_str(), config.password_command.split_first()) {
        ("", None) => Ok(PasswordSource::None),
        (path, None) => std::path::absolute(path)
            .map(PasswordSource::File)
            .map_err(|error| Error::failure(format!("memory.password_file: {error}"))),
        ("", Some((program, arguments))) => {
            Ok(PasswordSource::Command { program: program.clone(), arguments: arguments.to_vec() })
        }
        _ => Err(Error::usage("memory.password_file and memory.password_command are both set")
            .with_hint("remove one of them")),
    }
}

/// The connections that are allowed without encryption.
pub(crate) fn plain_text(allowed: bool) -> PlainText {
    if allowed { PlainText::Anywhere } else { PlainText::Local }
}

/// The error for an invalid URL.
fn invalid_url(url: &DatabaseUrl<'_>, error: &StoreError) -> Error {
    let hint = match error {
        StoreError::PlainText { .. } => format!(
            "remove sslmode, so that the connection is encrypted and the server verified; or, on a \
             network that you trust, {}",
            url.allow_plain
        ),
        _ => DATABASE_URL_HINT.to_owned(),
    };
    Error::usage(format!("{}: {error}", url.name)).with_hint(hint)
}
