//! Stores: where this person's results lie, by the configuration.

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use lro::{Event, EventKind, EventSink};
use lro_core::Operation;
use lro_spool::{
    Address, DirOnDemand, DirOptions, DirSpool, Foreign, Quota, Scope, Spool, SpoolError, Swept,
};

use crate::{error::Error, settings::Settings};

/// The two directories that results are stored in.
pub(crate) struct Stores {
    /// Spec F5: results of memory operations, straight in the output directory.
    memory: Place,
    /// All others, in a private directory with a folder per scope.
    other: Place,
}

/// A directory, and how to use it.
struct Place {
    path: PathBuf,
    options: DirOptions,
}

/// Whose results are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those of this directory and scope, and of memory operations.
    Here,
    /// All of this person's.
    Everywhere,
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
        // A directory that is gone has results of its own still: those of a directory without name.
        let working_dir = surroundings.working_dir.as_deref().unwrap_or(Path::new(""));
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
            memory: Place { path: output_dir, options: flat },
            other: Place { path: private, options: scoped },
        })
    }

    /// The directory of memory operations' results, and the private one of all others.
    pub(crate) fn directories(&self) -> (&Path, &Path) {
        (&self.memory.path, &self.other.path)
    }

    /// Where results of `operation` belong.
    pub(crate) fn of_operation(&self, operation: &Operation) -> Arc<dyn Spool> {
        let Place { path, options } =
            if operation.is_memory() { &self.memory } else { &self.other };
        Arc::new(DirOnDemand::new(path.clone(), options.clone()))
    }

    /// Visits the folders that exist: whoever only looks makes none. Returns what cannot be looked
    /// at: one directory that someone else put in our way must not hide the other.
    pub(crate) fn each(&self, reach: Reach, mut visit: impl FnMut(&DirSpool)) -> Vec<SpoolError> {
        let mut failures = Vec::new();
        for Place { path, options } in [&self.memory, &self.other] {
            match reach {
                Reach::Everywhere => {
                    failures.append(&mut DirSpool::each_scope(path, options, &mut visit));
                }
                Reach::Here => match DirSpool::existing(path, options.clone()) {
                    Ok(Some(store)) => visit(&store),
                    Ok(None) => {}
                    Err(error) => failures.push(error),
                },
            }
        }
        failures
    }

    /// Asks each store for `address`, until one has it.
    pub(crate) fn find<T>(
        &self,
        address: &Address,
        reach: Reach,
        ask: impl Fn(&DirSpool) -> Result<T, SpoolError>,
    ) -> Result<T, SpoolError> {
        let mut found = None;
        let mut missing = SpoolError::NotFound { asked: address.to_string() };
        let failures = self.each(reach, |store| {
            if found.is_some() {
                return;
            }
            match ask(store) {
                // The path of one directory is foreign to the other.
                Err(
                    SpoolError::NotFound { .. }
                    | SpoolError::NotOurs { why: Foreign::Elsewhere, .. },
                ) => {}
                Err(error @ SpoolError::NotOurs { .. }) => missing = error,
                other => found = Some(other),
            }
        });
        found.unwrap_or_else(|| Err(failures.into_iter().next().unwrap_or(missing)))
    }

    /// Removes what has expired, everywhere, and tells `events` of each.
    pub(crate) fn sweep(&self, now: DateTime<Utc>, events: &dyn EventSink) -> Swept {
        let mut all = Swept::default();
        for place in [&self.memory, &self.other] {
            place.sweep(now, events, &mut all);
        }
        all
    }

    /// The same where something has expired or nothing was swept for a while: for a command that is
    /// run often and must not look at every stored result each time.
    pub(crate) fn sweep_if_due(&self, now: DateTime<Utc>, events: &dyn EventSink) {
        for place in [&self.memory, &self.other] {
            if DirSpool::sweep_is_due(&place.path, &place.options, now) {
                place.sweep(now, events, &mut Swept::default());
            }
        }
    }
}

impl Place {
    fn sweep(&self, now: DateTime<Utc>, events: &dyn EventSink, all: &mut Swept) {
        let mut next_expiry = None;
        let failures =
            DirSpool::each_scope(&self.path, &self.options, |store| match store.sweep(now) {
                Ok(mut swept) => {
                    for gone in &swept.expired {
                        let tool = gone.sidecar.tool.clone();
                        let kind = EventKind::OffloadFileExpired { tool };
                        events.publish(Event::new(now, gone.id(), kind));
                    }
                    all.expired.append(&mut swept.expired);
                    all.failures.append(&mut swept.failures);
                    all.in_use += swept.in_use;
                    all.leftovers += swept.leftovers;
                    next_expiry = next_expiry.into_iter().chain(swept.next_expiry).min();
                }
                Err(error) => all.failures.push(error),
            });
        all.failures.extend(failures);
        DirSpool::recount(&self.path, &self.options, next_expiry, now);
    }
}

/// `prompt.offload.output_dir` as an absolute path, the empty default filled in.
pub(crate) fn output_dir(settings: &Settings) -> Result<PathBuf, Error> {
    let configured = &settings.config.prompt.offload.output_dir;
    let temp_dir = &settings.surroundings().temp_dir;
    let dir = if configured.is_empty() { temp_dir } else { Path::new(configured) };
    absolute("prompt.offload.output_dir", dir)
}

/// Paths that lead upward are resolved once, here: as the path of a result they are refused.
fn absolute(key: &str, dir: &Path) -> Result<PathBuf, Error> {
    let unusable = |error: io::Error| Error::failure(format!("{key}: {error}"));
    if dir.components().any(|component| component == Component::ParentDir) {
        return dir.canonicalize().map_err(unusable);
    }
    std::path::absolute(dir).map_err(unusable)
}
