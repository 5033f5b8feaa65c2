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
use crate::spool::{Draft, Listed, NewResult, Quota, Scratch, Spool, StoredResult, Swept};

/// The specification's `ttl_seconds`, for a file whose sidecar is lost.
const DEFAULT_TTL: Duration = Duration::from_hours(1);

/// What a directory is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirKind {
    /// Our own: made with access for its owner, refused when others have any.
    Private,
    /// The system's temporary directory or one like it: used as it is, each file checked.
    Flat,
}

/// Who may read stored files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharing {
    /// Their owner.
    Owner,
    /// Its group as well: for a client that runs as another user.
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
            // Whatever a later version may add, less is shown rather than more.
            _ => Self::Owner,
        }
    }
}

/// What happens when the parent of a private directory is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parents {
    /// Opening fails: a mistyped path must not become a tree of directories.
    Required,
    /// They are created with access for their owner.
    Created,
}

/// How to use a directory.
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
    /// For a directory of our own.
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

    /// Spec F5: for the system's temporary directory, used as it is.
    pub fn flat() -> Self {
        Self { kind: DirKind::Flat, ..Self::private() }
    }

    /// One folder of a private directory; sweeps and quotas still see all of them.
    pub fn scope(self, scope: Scope) -> Self {
        Self { kind: DirKind::Private, scope: Some(scope), ..self }
    }

    /// Who may read.
    pub fn sharing(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// Creates missing parents of the directory as well, with access for their owner.
    pub fn with_parents(self) -> Self {
        Self { parents: Parents::Created, ..self }
    }

    /// How much may be stored.
    pub fn quota(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// How long a file lives whose sidecar is lost.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Another operating system.
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

/// A spool in a directory that may be missing now and there later.
///
/// A program that runs for weeks must neither refuse to start because its directory cannot be used,
/// nor fail for ever because something that cleans temporary directories removed it.
#[derive(Debug)]
pub struct DirOnDemand {
    path: PathBuf,
    options: DirOptions,
    opened: Mutex<Option<DirSpool>>,
}

impl DirOnDemand {
    /// A spool at `path`, which is absolute; nothing is opened yet.
    pub fn new(path: PathBuf, options: DirOptions) -> Self {
        Self { path, options, opened: Mutex::new(None) }
    }

    /// The directory that was named, whether it is there or not.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The spool as it is now.
    pub fn get(&self) -> Result<DirSpool, SpoolError> {
        // What is in there is whole or not there at all, whoever panicked.
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spool) = opened.as_ref().filter(|spool| !spool.is_gone()) {
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

    fn list(&self) -> Result<Vec<Listed>, SpoolError> {
        self.get()?.list()
    }

    fn remove(&self, address: &Address) -> Result<Listed, SpoolError> {
        self.get()?.remove(address)
    }

    fn sweep(&self, now: DateTime<Utc>) -> Result<Swept, SpoolError> {
        self.get()?.sweep(now)
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        self.get()?.scratch()
    }
}
