//! Options: what a directory is to us, and who may read in it.

use std::sync::Arc;
use std::time::Duration;

use lro_core::config::ReadableBy;

use crate::fs::os::{Os, RealOs};
use crate::quota::Quota;
use crate::scope::Scope;

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
