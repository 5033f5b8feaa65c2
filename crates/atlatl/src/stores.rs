//! Stores: where this person's results lie, by the configuration.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use lro_core::Operation;
use lro_spool::{
    Address, DirOnDemand, DirOptions, DirSpool, Foreign, Quota, Scope, Spool, SpoolError,
};

use crate::{error::Error, settings::Settings};

/// The two directories that results are stored in.
pub(crate) struct Stores {
    /// Spec F5: results of memory operations, straight in the output directory.
    memory: Arc<DirOnDemand>,
    /// All others, in a private directory with a folder per scope.
    other: Arc<DirOnDemand>,
}

impl Stores {
    /// Those that `settings` name, with the folder of the working directory and `scope`.
    pub(crate) fn of(settings: &Settings, scope: Option<&str>) -> Result<Self, Error> {
        let config = &settings.config;
        let output_dir = output_dir(settings)?;
        let surroundings = settings.surroundings();
        let private = match &*config.proxy.dir {
            "" => output_dir.join(format!("atlatl-{}", surroundings.uid)),
            named => absolute("proxy.dir", Path::new(named))?,
        };
        let working_dir = surroundings.working_dir.as_deref().ok_or_else(|| {
            Error::failure("the working directory is gone, and with it the scope of its results")
                .with_hint("change to a directory that exists")
        })?;
        let scope = Scope::of([
            surroundings.uid.to_string().as_bytes(),
            working_dir.as_os_str().as_encoded_bytes(),
            scope.unwrap_or_default().as_bytes(),
        ]);
        let shared = |options: DirOptions, ttl| {
            options
                .quota(Quota::from(&config.spool))
                .sharing(config.spool.readable_by.into())
                .ttl(Duration::from_secs(ttl))
        };
        let flat = shared(DirOptions::flat(), config.prompt.offload.ttl_seconds);
        let scoped = shared(DirOptions::private(), config.proxy.ttl_seconds).scope(scope);
        Ok(Self {
            memory: Arc::new(DirOnDemand::new(output_dir, flat)),
            other: Arc::new(DirOnDemand::new(private, scoped)),
        })
    }

    /// Where results of `operation` belong.
    pub(crate) fn of_operation(&self, operation: &Operation) -> Arc<dyn Spool> {
        if operation.is_memory() { self.memory.clone() } else { self.other.clone() }
    }

    /// The directories that exist: whoever only looks makes none.
    pub(crate) fn existing(&self) -> Result<Vec<DirSpool>, SpoolError> {
        let there = [&self.memory, &self.other].into_iter().filter(|store| store.path().is_dir());
        there.map(|store| store.get()).collect()
    }

    /// The directories that exist, the folders of all scopes among them.
    pub(crate) fn of_all_scopes(&self) -> Result<Vec<DirSpool>, SpoolError> {
        Ok(self.existing()?.iter().flat_map(DirSpool::scopes).collect())
    }

    /// Asks each store for `address`, until one has it.
    pub(crate) fn find<T>(
        &self,
        address: &Address,
        ask: impl Fn(&DirSpool) -> Result<T, SpoolError>,
    ) -> Result<T, SpoolError> {
        let mut missing = SpoolError::NotFound { asked: address.to_string() };
        for store in self.existing()? {
            match ask(&store) {
                // The path of one directory is foreign to the other.
                Err(
                    SpoolError::NotFound { .. }
                    | SpoolError::NotOurs { why: Foreign::Elsewhere, .. },
                ) => {}
                Err(error @ SpoolError::NotOurs { .. }) => missing = error,
                other => return other,
            }
        }
        Err(missing)
    }
}

/// `prompt.offload.output_dir` as an absolute path, the empty default filled in.
pub(crate) fn output_dir(settings: &Settings) -> Result<PathBuf, Error> {
    let configured = &settings.config.prompt.offload.output_dir;
    let temp_dir = &settings.surroundings().temp_dir;
    let dir = if configured.is_empty() { temp_dir } else { Path::new(configured) };
    absolute("prompt.offload.output_dir", dir)
}

fn absolute(key: &str, dir: &Path) -> Result<PathBuf, Error> {
    let unusable = |error: io::Error| Error::failure(format!("{key}: {error}"));
    std::path::absolute(dir).map_err(unusable)
}
