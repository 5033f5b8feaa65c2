//! Options of a directory spool, and a spool that opens its directory on demand.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::config::ReadableBy;

use super::DirSpool;
use super::os::{Os, RealOs};
use crate::address::{Address, Scope};
use crate::error::SpoolError;
use crate::sidecar::NewResult;
use crate::spool::{Draft, Quota, ResultInfo, Scratch, Spool, StoredResult, SweepReport};

/// The specification's default `ttl_seconds`, for a file whose sidecar is lost.
const DEFAULT_TTL: Duration = Duration::from_hours(1);

/// How a directory is shared with other programs and users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirKind {
    /// Private: created with owner access only, refused if other users have access.
    Private,
    /// Shared, such as the temporary directory of the system: used as it is, with checks on each
    /// file.
    Flat,
}

/// Who may read stored files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharing {
    /// The owner.
    Owner,
    /// The group as well, for a client that runs as another user.
    Group,
}

impl Sharing {
    pub(super) fn dir_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => 0o750,
        }
    }
}

impl From<ReadableBy> for Sharing {
    fn from(readable_by: ReadableBy) -> Self {
        match readable_by {
            ReadableBy::Group => Self::Group,
            // Unknown values of later versions grant less access rather than more.
            _ => Self::Owner,
        }
    }
}

/// What happens if the parent of a private directory is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parents {
    /// Opening fails: a mistyped path must not create a directory tree.
    Required,
    /// Parents are created with owner access only.
    Created,
}

/// Options of a directory spool.
#[derive(Debug, Clone)]
pub struct DirOptions {
    pub(super) kind: DirKind,
    pub(super) scope: Option<Scope>,
    pub(super) sharing: Sharing,
    pub(super) parents: Parents,
    pub(super) quota: Quota,
    pub(super) ttl: Duration,
    pub(super) os: Arc<dyn Os>,
}

impl DirOptions {
    /// Options of a private directory.
    pub fn private() -> Self {
        Self {
            kind: DirKind::Private,
            scope: None,
            sharing: Sharing::Owner,
            parents: Parents::Required,
            quota: Quota::default(),
            ttl: DEFAULT_TTL,
            os: Arc::new(RealOs),
        }
    }

    /// Spec F5: options of the temporary directory of the system, used as it is.
    pub fn flat() -> Self {
        Self { kind: DirKind::Flat, ..Self::private() }
    }

    /// Uses the subdirectory of this scope; sweeps and quotas still cover all scopes.
    pub fn scope(self, scope: Scope) -> Self {
        Self { kind: DirKind::Private, scope: Some(scope), ..self }
    }

    /// Sets who may read stored files.
    pub fn sharing(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// Creates missing parents of the directory as well, with owner access only.
    pub fn with_parents(self) -> Self {
        Self { parents: Parents::Created, ..self }
    }

    /// Sets the quota.
    pub fn quota(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// Sets the time to live of files whose sidecar is lost.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Replaces the system calls.
    pub fn os(self, os: Arc<dyn Os>) -> Self {
        Self { os, ..self }
    }

    pub(super) fn file_mode(&self) -> u32 {
        match self.sharing {
            Sharing::Owner => 0o600,
            Sharing::Group => 0o640,
        }
    }

    pub(super) fn dir_mode(&self) -> u32 {
        self.sharing.dir_mode()
    }
}

/// A directory spool that opens its directory on demand, and again after it was deleted.
///
/// A long-running program must neither refuse to start because its directory is unusable, nor fail
/// forever because a cleaner of temporary directories deleted it.
#[derive(Debug)]
pub struct DirOnDemand {
    path: PathBuf,
    options: DirOptions,
    opened: Mutex<Option<DirSpool>>,
}

impl DirOnDemand {
    /// Creates a spool at the absolute `path` without opening it.
    pub fn new(path: PathBuf, options: DirOptions) -> Self {
        Self { path, options, opened: Mutex::new(None) }
    }

    /// The configured directory, existing or not.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The open spool.
    pub fn get(&self) -> Result<DirSpool, SpoolError> {
        // The value is valid even if a thread panicked while holding the lock.
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spool) = opened.as_ref().filter(|spool| !spool.is_removed()) {
            return Ok(spool.clone());
        }
        let spool = DirSpool::open(&self.path, self.options.clone())?;
        *opened = Some(spool.clone());
        Ok(spool)
    }
}

impl Spool for DirOnDemand {
    fn create(&self, new: NewResult) -> Result<Box<dyn Draft>, SpoolError> {
        self.get()?.create(new)
    }

    fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError> {
        self.get()?.open(address, now)
    }

    fn list(&self) -> Result<Vec<ResultInfo>, SpoolError> {
        self.get()?.list()
    }

    fn remove(&self, address: &Address) -> Result<ResultInfo, SpoolError> {
        self.get()?.remove(address)
    }

    fn sweep(&self, now: DateTime<Utc>) -> Result<SweepReport, SpoolError> {
        self.get()?.sweep(now)
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        self.get()?.scratch()
    }
}
