//! Opens the memory store that the configuration names.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use atlatl_memory::embed::{self, EmbedderChoice};
use atlatl_memory::{
    BackfillEvent, Embedder, EmbeddingBackfill, MemoryStore, Moment, PlainText, Postgres,
    PostgresOptions, SqliteStore, StoreError,
};

use crate::{
    error::{Error, with_causes},
    output::{Output, counted},
    settings::Settings,
};

/// What `memory.store` begins with.
const SQLITE: &str = "sqlite:";

/// Where memories are.
pub(crate) enum Place {
    /// In a file of one person's.
    File(PathBuf),
    /// In a database of many.
    Database(Postgres),
}

/// Opens the store, and makes it where there is none.
pub(crate) fn open(settings: &Settings) -> Result<Arc<dyn MemoryStore>, Error> {
    opened(place(settings)?, settings)
}

fn opened(place: Place, settings: &Settings) -> Result<Arc<dyn MemoryStore>, Error> {
    Ok(match place {
        Place::File(path) => Arc::new(SqliteStore::open(&path)?),
        Place::Database(database) => {
            database.ready().map_err(of_database)?;
            tenant(&database, settings)?
        }
    })
}

/// The store of a server: a database that is not there yet is waited for while it serves.
pub(crate) fn served(settings: &Settings) -> Result<Arc<dyn MemoryStore>, Error> {
    let database = match place(settings)? {
        Place::Database(database) => database,
        file @ Place::File(_) => return opened(file, settings),
    };
    waited_for(&database)?;
    tenant(&database, settings)
}

/// Says so where a database is not there yet; whatever else is wrong with it is an error.
pub(crate) fn waited_for(database: &Postgres) -> Result<(), Error> {
    match database.ready() {
        Ok(()) => Ok(()),
        Err(error @ (StoreError::Unavailable(_) | StoreError::Busy)) => {
            let why = with_causes(&error);
            Output::remark(format_args!("{why}: serving begins when it answers"));
            Ok(())
        }
        Err(error) => Err(of_database(error)),
    }
}

/// Opens the store if it is there: whoever only looks makes none.
pub(crate) fn existing(settings: &Settings) -> Result<Option<Arc<dyn MemoryStore>>, Error> {
    match place(settings)? {
        Place::File(path) if matches!(path.try_exists(), Ok(false)) => Ok(None),
        // What cannot be looked at is told by the store, in its words.
        there => opened(there, settings).map(Some),
    }
}

fn tenant(database: &Postgres, settings: &Settings) -> Result<Arc<dyn MemoryStore>, Error> {
    let name = &settings.config.memory.tenant;
    let wrong = |error: StoreError| Error::usage(format!("memory.tenant: {error}"));
    Ok(Arc::new(database.tenant(name).map_err(wrong)?))
}

/// What brings a schema up to date.
pub(crate) const MIGRATE: &str = "atlatl db migrate --as postgres://OWNER@HOST/DATABASE";

/// Whether that is what a store asks for.
pub(crate) fn wants_migration(why: &str) -> bool {
    why.contains("atlatl db migrate")
}

/// What a database has to say, with what helps there.
pub(crate) fn of_database(error: StoreError) -> Error {
    match &error {
        StoreError::NotAStore { why, .. } if wants_migration(why) => {
            Error::failure(error.to_string()).with_hint(MIGRATE)
        }
        StoreError::NotAStore { .. } => Error::failure(error.to_string()).with_hint(DATABASE_URL),
        StoreError::PlainText { .. } => Error::failure(error.to_string()).with_hint(
            "let the server ask for scram-sha-256 instead of password, in its pg_hba.conf",
        ),
        _ => error.into(),
    }
}

/// Opens the store, for whoever asks for a memory that must be in it.
pub(crate) fn expected(settings: &Settings) -> Result<Arc<dyn MemoryStore>, Error> {
    existing(settings)?.ok_or_else(|| {
        Error::failure("no memory is stored yet").with_hint("atlatl memory add TEXT")
    })
}

/// What turns memories into vectors, by `memory.embedder`. The key of an endpoint comes from where
/// every client of such endpoints looks for it.
pub(crate) fn embedder(settings: &Settings) -> Result<Option<Arc<dyn Embedder>>, Error> {
    let choice: EmbedderChoice = settings.config.memory.embedder.parse().map_err(|error| {
        Error::usage(format!("memory.embedder: {error}"))
            .with_hint("none, openai:URL#MODEL or local:DIRECTORY")
    })?;
    let key = std::env::var("OPENAI_API_KEY").ok().filter(|key| !key.is_empty());
    embed::open(&choice, key).map_err(|error| {
        Error::failure(format!("memory.embedder: {}", with_causes(&error)))
            .with_hint("--set memory.embedder=none ranks by words alone")
    })
}

/// Starts the background embedding of memories, and reports on standard error when it stops and when it
/// goes on. One for all stores of the process.
pub(crate) fn backfill(embedder: &Arc<dyn Embedder>, threads: usize) -> Option<EmbeddingBackfill> {
    let report = |event: BackfillEvent<'_>| match event {
        BackfillEvent::Paused { error } => Output::remark(format_args!(
            "memory.embedder: {}: memories are found by words until it answers; retrying",
            with_causes(error)
        )),
        BackfillEvent::Resumed => {
            Output::remark(format_args!("memory.embedder: it answers again; embedding continues"));
        }
        BackfillEvent::Refused { memories, error } => {
            let memories = counted(memories, "memory is", "memories are");
            Output::remark(format_args!(
                "memory.embedder: {memories} stored without a vector: {}",
                with_causes(error)
            ));
        }
        BackfillEvent::StoreFailed { error } => Output::remark(format_args!(
            "memory.store: {}: embedding is retried",
            with_causes(error)
        )),
        _ => {}
    };
    EmbeddingBackfill::start(Arc::clone(embedder), threads, report).ok()
}

/// This very moment, for a memory that is made.
pub(crate) fn moment() -> Moment {
    let lro::Moment { now, random } = lro::Moment::of_system();
    Moment { now, random }
}

/// What a URL looks like.
const DATABASE_URL: &str = "--set memory.store=postgres://USER@HOST/DATABASE";

/// Where `memory.store` says that memories are, the empty default filled in.
pub(crate) fn place(settings: &Settings) -> Result<Place, Error> {
    let config = &settings.config.memory;
    if config.store.starts_with("postgres://") {
        let mut options = options(&config.store, plain_text(config.allow_plain))
            .map_err(|error| wrong_url("memory.store", &error))?;
        options.connections = usize::try_from(config.connections).unwrap_or(usize::MAX);
        return Ok(Place::Database(Postgres::new(&options)?));
    }
    if config.store.is_empty() {
        let home = settings.surroundings().data_dir.as_ref();
        return home.map(|dir| Place::File(dir.join("atlatl/memory.db"))).ok_or_else(|| {
            Error::usage("memory.store: there is no home directory to keep memories in")
                .with_hint("--set memory.store=sqlite:PATH")
        });
    }
    // Any other beginning was refused with the configuration.
    let path = config.store.strip_prefix(SQLITE).unwrap_or(&config.store);
    std::path::absolute(Path::new(path))
        .map(Place::File)
        .map_err(|error| Error::failure(format!("memory.store: {error}")))
}

/// How the database at `url` is reached, as its user. A URL without a password gets the one that
/// every client of such databases looks for.
pub(crate) fn options(url: &str, plain_text: PlainText) -> Result<PostgresOptions, StoreError> {
    let password = std::env::var("PGPASSWORD").ok().filter(|password| !password.is_empty());
    PostgresOptions::new(url).with_plain_text(plain_text).as_user(password)
}

/// What is allowed without encryption.
pub(crate) fn plain_text(allowed: bool) -> PlainText {
    if allowed { PlainText::Anywhere } else { PlainText::Local }
}

/// Why the URL that `name` gives is not used.
pub(crate) fn wrong_url(name: &str, error: &StoreError) -> Error {
    let hint = match error {
        StoreError::PlainText { .. } => ALLOW_PLAIN,
        _ => DATABASE_URL,
    };
    Error::usage(format!("{name}: {error}")).with_hint(hint)
}

/// What allows a connection without encryption.
const ALLOW_PLAIN: &str = "use a database on this machine, a Unix socket or an encrypted tunnel; or, on a \
                           network that you trust, --set memory.allow_plain=true (--allow-plain with --as)";
