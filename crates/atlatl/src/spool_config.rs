//! Opens the spools that the configuration names.

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use lro::{Event, EventKind, EventSink};
use lro_core::{Operation, config::ReadableBy};
use lro_spool::{
    Address, DirOnDemand, DirOptions, DirSpool, Foreign, Quota, Scope, Spool, SpoolError, Swept,
};
use rustix::fs::{Access, access};

use crate::{
    error::Error,
    settings::{Settings, Surroundings},
};

/// The two directories that results are stored in.
pub(crate) struct Stores {
    /// Spec F5: results of memory operations, straight in the output directory.
    memory: Place,
    /// All others, in a private directory with a folder per scope.
    other: Place,
    /// The other private directory that such results may be in: where earlier versions stored them, or
    /// where a process stores them that cannot write to the first. Only read and cleaned.
    alternate: Option<Place>,
    parents: Parents,
}

/// Whether missing parents of the private directory are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parents {
    Created,
    /// Not those of a directory that was named: it may be mistyped.
    Required,
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
    /// Those that `settings` name, with the folder of what `--scope` says.
    pub(crate) fn from_settings(settings: &Settings, scope: Option<&str>) -> Result<Self, Error> {
        let config = &settings.config;
        let output_dir = output_dir(settings)?;
        let surroundings = settings.surroundings();
        let (private, alternate, parents) = match &*config.proxy.dir {
            "" => default_dirs(settings, &output_dir),
            named => (absolute("proxy.dir", Path::new(named))?, None, Parents::Required),
        };
        let scope = scope_of(surroundings, scope);
        let shared = |options: DirOptions, ttl| {
            options
                .quota(Quota::from(&config.spool))
                .sharing(config.spool.readable_by.into())
                .ttl(Duration::from_secs(ttl))
        };
        let flat = shared(DirOptions::flat(), config.prompt.offload.ttl_seconds);
        let scoped = shared(DirOptions::private(), config.proxy.ttl_seconds).scope(scope);
        let alternate = alternate.map(|path| Place { path, options: scoped.clone() });
        let scoped = match parents {
            Parents::Created => scoped.with_parents(),
            Parents::Required => scoped,
        };
        Ok(Self {
            memory: Place { path: output_dir, options: flat },
            other: Place { path: private, options: scoped },
            alternate,
            parents,
        })
    }

    /// The directory of memory operations' results, and the private one of all others.
    pub(crate) fn directories(&self) -> (&Path, &Path) {
        (&self.memory.path, &self.other.path)
    }

    /// Whether the private directory is created together with its parents.
    pub(crate) fn creates_parents(&self) -> bool {
        self.parents == Parents::Created
    }

    /// The other private directory that results may be in.
    pub(crate) fn alternate_directory(&self) -> Option<&Path> {
        self.alternate.as_ref().map(|place| &*place.path)
    }

    /// The scope's folder in the other private directory, if there is one: results that are read from
    /// there until they expire.
    pub(crate) fn alternate(&self) -> Option<Arc<dyn Spool>> {
        let Place { path, options } = self.alternate.as_ref()?;
        let store = DirSpool::existing(path, options.clone()).ok().flatten()?;
        Some(Arc::new(store))
    }

    /// Where results of `operation` belong.
    pub(crate) fn of_operation(&self, operation: &Operation) -> Arc<dyn Spool> {
        let Place { path, options } =
            if operation.is_memory() { &self.memory } else { &self.other };
        Arc::new(DirOnDemand::new(path.clone(), options.clone()))
    }

    /// Visits the folders that exist and creates none. Returns what cannot be looked
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
        // Failures there are not reported: in a shared temporary directory another user can put
        // something in its place, and nothing depends on it. `atlatl doctor` does.
        if let Some(Place { path, options }) = &self.alternate {
            match reach {
                Reach::Everywhere => drop(DirSpool::each_scope(path, options, &mut visit)),
                Reach::Here => {
                    if let Ok(Some(store)) = DirSpool::existing(path, options.clone()) {
                        visit(&store);
                    }
                }
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
            let failures = place.sweep(now, events, &mut all);
            all.failures.extend(failures);
        }
        if let Some(alternate) = &self.alternate {
            // What cannot be opened there is not reported, see `each`.
            drop(alternate.sweep(now, events, &mut all));
        }
        all
    }

    /// The same where something has expired or nothing was swept for a while: for a command that is
    /// run often and must not look at every stored result each time.
    pub(crate) fn sweep_if_due(&self, now: DateTime<Utc>, events: &dyn EventSink) {
        for place in [&self.memory, &self.other].into_iter().chain(&self.alternate) {
            if DirSpool::sweep_is_due(&place.path, &place.options, now) {
                drop(place.sweep(now, events, &mut Swept::default()));
            }
        }
    }
}

impl Place {
    /// Removes what has expired in every scope. Returns the scopes that cannot be opened.
    fn sweep(
        &self,
        now: DateTime<Utc>,
        events: &dyn EventSink,
        all: &mut Swept,
    ) -> Vec<SpoolError> {
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
        DirSpool::recount(&self.path, &self.options, next_expiry, now);
        failures
    }
}

/// The private directory where `proxy.dir` names none, and the other one that results may be in.
///
/// The user's own state directory: in a shared temporary directory another user can create
/// `atlatl-{uid}` first, and every result would be passed on whole. The runtime directory would be as
/// safe, but it is in memory, and results can have gigabytes. The temporary directory remains the
/// place where the user chose it, where the group may read results (a home is closed to it), and where
/// nothing can be written to the state directory.
fn default_dirs(settings: &Settings, output_dir: &Path) -> (PathBuf, Option<PathBuf>, Parents) {
    let config = &settings.config;
    let surroundings = settings.surroundings();
    let temporary = output_dir.join(format!("atlatl-{}", surroundings.uid));
    let chosen = !config.prompt.offload.output_dir.is_empty();
    let state = surroundings.state_dir.as_ref().map(|dir| dir.join("atlatl/results"));
    match state {
        _ if chosen => (temporary, None, Parents::Required),
        state if config.spool.readable_by != ReadableBy::Owner => {
            (temporary, state, Parents::Required)
        }
        Some(state) if is_writable(&state) => (state, Some(temporary), Parents::Created),
        state => (temporary, state, Parents::Required),
    }
}

/// Whether `dir` can be written to, or created with its parents. A file in its place is not avoided:
/// only the user can put it there, and `atlatl doctor` reports it.
fn is_writable(dir: &Path) -> bool {
    if dir.is_file() {
        return true;
    }
    let nearest = dir.ancestors().find(|path| path.symlink_metadata().is_ok());
    nearest.is_some_and(|path| {
        path.is_dir() && access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    })
}

/// The scope that `--scope` names. `dir:PATH` is the scope of a directory, whatever the working
/// directory; any other text is a name within the working directory.
pub(crate) fn scope_of(surroundings: &Surroundings, typed: Option<&str>) -> Scope {
    // A directory that is gone has results of its own still: those of a directory without name.
    let working_dir = surroundings.working_dir.as_deref().unwrap_or(Path::new(""));
    let (dir, name) = match typed.and_then(|typed| typed.strip_prefix("dir:")) {
        Some(dir) => (scope_dir(Path::new(dir), working_dir, surroundings.home.as_deref()), ""),
        None => (working_dir.to_owned(), typed.unwrap_or_default()),
    };
    Scope::from_fields([
        surroundings.uid.to_string().as_bytes(),
        dir.as_os_str().as_encoded_bytes(),
        name.as_bytes(),
    ])
}

/// The directory that `dir:PATH` means, spelled as the working directory of a process in it is. One
/// that does not exist has a scope all the same: a moved project still finds its own results.
fn scope_dir(dir: &Path, working_dir: &Path, home: Option<&Path>) -> PathBuf {
    let dir = match (dir.strip_prefix("~"), home) {
        (Ok(beneath), Some(home)) => home.join(beneath),
        _ => working_dir.join(dir),
    };
    dir.canonicalize().unwrap_or_else(|_| dir.components().collect())
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
