//! Memories: where this person's memories lie, by the configuration.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use atlatl_memory::embed::{self, EmbedderChoice};
use atlatl_memory::{Embedder, MemoryStore, Moment, SqliteStore};

use crate::{
    error::{Error, with_causes},
    settings::Settings,
};

/// What `memory.store` begins with.
const SQLITE: &str = "sqlite:";

/// Opens the store, and makes it where there is none.
pub(crate) fn open(settings: &Settings) -> Result<Arc<dyn MemoryStore>, Error> {
    Ok(Arc::new(SqliteStore::open(&path(settings)?)?))
}

/// Opens the store if it is there: whoever only looks makes none.
pub(crate) fn existing(settings: &Settings) -> Result<Option<Arc<dyn MemoryStore>>, Error> {
    let path = path(settings)?;
    match path.try_exists() {
        Ok(false) => Ok(None),
        // What cannot be looked at is told by the store, in its words.
        _ => Ok(Some(Arc::new(SqliteStore::open(&path)?))),
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

/// This very moment, for a memory that is made.
pub(crate) fn moment() -> Moment {
    let lro::Moment { now, random } = lro::Moment::of_system();
    Moment { now, random }
}

/// The file that `memory.store` names, the empty default filled in.
pub(crate) fn path(settings: &Settings) -> Result<PathBuf, Error> {
    let named = &*settings.config.memory.store;
    if named.is_empty() {
        let home = settings.surroundings().data_dir.as_ref();
        return home.map(|dir| dir.join("atlatl/memory.db")).ok_or_else(|| {
            Error::usage("memory.store: there is no home directory to keep memories in")
                .with_hint("--set memory.store=sqlite:PATH")
        });
    }
    let Some(path) = named.strip_prefix(SQLITE) else {
        // Not the value: it may hold a password.
        return Err(Error::usage("memory.store: this version has no PostgreSQL store")
            .with_hint("--set memory.store=sqlite:PATH keeps memories in a file"));
    };
    std::path::absolute(Path::new(path))
        .map_err(|error| Error::failure(format!("memory.store: {error}")))
}
