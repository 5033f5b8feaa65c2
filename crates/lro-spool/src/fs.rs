//! A spool in a directory: private, atomic, and limited to files that this program wrote.
//!
//! All access goes through an open directory handle. A name is one parsed path component, opened
//! without following symbolic links, and checked before its content is used. Writers and readers hold
//! advisory locks, which the kernel releases with their process: an unlocked draft is a leftover of a
//! dead writer.

mod checked_dir;
mod draft;
mod keep;
mod options;
pub mod os;
mod output_log;
mod sweep;
mod usage_log;

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use self::checked_dir::{CheckedDir, LockOutcome, OpenedResult};
use self::draft::{DirDraft, DirScratch};
pub use self::options::{DirKind, DirOnDemand, DirOptions, Sharing};
use self::os::{Lock, retry_interrupted};
pub use self::output_log::{LogPayload, LogSpool, OutputLog};
use self::usage_log::{PendingOp, UsageLog};
use crate::address::{Address, DirEntryName, FileName, ResultFile, Scope};
use crate::error::{Foreign, SpoolError};
use crate::sidecar::{NewResult, PartNumber};
use crate::spool::{
    Draft, PositionedRead, ResultInfo, Scratch, Spool, StoredResult, SweepReport, Tombstones,
};

/// A spool in a directory. Clones share it.
#[derive(Debug, Clone)]
pub struct DirSpool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: DirOptions,
    folder: CheckedDir,
    /// The private directory that contains the directories of all scopes, if there are scopes.
    root: Option<CheckedDir>,
    /// The usage of all scopes, if a quota needs it and the log file is usable.
    usage_log: Option<UsageLog>,
    tombstones: Tombstones,
}

impl DirSpool {
    /// Opens a directory, creates it if it is private, and deletes the leftovers of dead writers.
    ///
    /// `path` must be absolute; descriptors show it.
    pub fn open(path: &Path, options: DirOptions) -> Result<Self, SpoolError> {
        let (folder, root) = match (options.kind, options.scope) {
            (DirKind::Flat, _) => (CheckedDir::flat(path, &options)?, None),
            (DirKind::Private, None) => (CheckedDir::private(path, &options)?, None),
            (DirKind::Private, Some(scope)) => {
                let root = CheckedDir::private(path, &options)?;
                (root.private_within(&scope.to_string(), &options)?, Some(root))
            }
        };
        let usage_log = usage_log_in(root.as_ref().unwrap_or(&folder), &options);
        let shared = Shared { options, folder, root, usage_log, tombstones: Tombstones::default() };
        shared.clear_after_crashes();
        Ok(Self(Arc::new(shared)))
    }

    /// Whether a sweep of all scopes is due: something has expired, or the last sweep is long ago.
    /// Cheap: examines no result.
    pub fn sweep_is_due(path: &Path, options: &DirOptions, now: DateTime<Utc>) -> bool {
        let whole = DirOptions { scope: None, ..options.clone() };
        match Self::existing(path, whole) {
            Ok(Some(root)) => match &root.0.usage_log {
                // Writers create the log. A shared temporary directory often has nothing of this user.
                Some(usage_log) if options.kind == DirKind::Flat && !usage_log.exists() => {
                    root.0.folder.results().is_ok_and(|names| !names.is_empty())
                }
                Some(usage_log) => usage_log.usage(now).is_none_or(|b| b.sweep_is_due(now)),
                None => true,
            },
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Counts the usage of all scopes after each was swept; `next_expiry` is the earliest that the
    /// sweeps reported.
    pub fn recount(
        path: &Path,
        options: &DirOptions,
        next_expiry: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) {
        if options.kind == DirKind::Flat {
            // There is one directory, and its sweep counted it.
            return;
        }
        let whole = DirOptions { scope: None, ..options.clone() };
        let Ok(Some(Self(root))) = Self::existing(path, whole) else { return };
        let Ok(mut shared) = Arc::try_unwrap(root) else { return };
        // It contains the directories of all scopes.
        shared.root = CheckedDir::existing(path, &shared.options).ok();
        // On failure the log has no total, and the next writer counts.
        let _ = shared.count(next_expiry, now);
    }

    /// The directory of this spool's files.
    pub fn path(&self) -> &Path {
        &self.0.folder.path
    }

    /// Opens an existing directory for inspection: creates and deletes nothing, and sweeps and
    /// quotas cover this one directory. `None` if it does not exist.
    pub fn existing(path: &Path, options: DirOptions) -> Result<Option<Self>, SpoolError> {
        let opened = match options.kind {
            DirKind::Flat => CheckedDir::flat(path, &options),
            DirKind::Private => CheckedDir::existing(path, &options),
        };
        let opened = opened.and_then(|root| {
            let usage_log = usage_log_in(&root, &options);
            let folder = match (options.kind, options.scope) {
                (DirKind::Private, Some(scope)) => {
                    root.existing_within(&scope.to_string(), &options)?
                }
                _ => root,
            };
            Ok((folder, usage_log))
        });
        match opened {
            Ok((folder, usage_log)) => Ok(Some(Self::single_folder(folder, usage_log, options))),
            Err(SpoolError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Visits all scopes of a directory, opening each as [`existing`](Self::existing) does, one at
    /// a time. For the owner of the files, never for a tool. Returns the failures.
    pub fn each_scope(
        path: &Path,
        options: &DirOptions,
        mut visit: impl FnMut(&Self),
    ) -> Vec<SpoolError> {
        let whole = DirOptions { scope: None, ..options.clone() };
        let root = match Self::existing(path, whole) {
            Ok(Some(root)) => root,
            Ok(None) => return Vec::new(),
            Err(error) => return vec![error],
        };
        if options.kind == DirKind::Flat {
            visit(&root);
            return Vec::new();
        }
        let mut failures = Vec::new();
        let names = root.0.folder.names().unwrap_or_else(|error| {
            failures.push(error);
            Vec::new()
        });
        for scope in names.into_iter().filter_map(|name| name.parse::<Scope>().ok()) {
            let options = options.clone().scope(scope);
            match root.0.folder.existing_within(&scope.to_string(), &options) {
                Ok(folder) => {
                    let usage_log = usage_log_in(&root.0.folder, &options);
                    visit(&Self::single_folder(folder, usage_log, options));
                }
                Err(error) => failures.push(error),
            }
        }
        failures
    }

    fn single_folder(folder: CheckedDir, usage_log: Option<UsageLog>, options: DirOptions) -> Self {
        Self(Arc::new(Shared {
            options,
            folder,
            root: None,
            usage_log,
            tombstones: Tombstones::default(),
        }))
    }

    /// Whether the directory was deleted after it was opened.
    fn is_removed(&self) -> bool {
        let CheckedDir { os, fd, .. } = &self.0.folder;
        os.stat(fd.as_fd()).is_ok_and(|stat| stat.links == 0)
    }
}

impl Spool for DirSpool {
    fn create(&self, new: NewResult) -> Result<Box<dyn Draft>, SpoolError> {
        Ok(Box::new(DirDraft::begin(Arc::clone(&self.0), new)?))
    }

    fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError> {
        let found = self.0.find(address)?;
        if found.info.sidecar.is_expired(found.info.id(), now) {
            return Err(found.info.expired_error());
        }
        if self.0.folder.lock(&found, Lock::Shared)? != LockOutcome::Acquired {
            return Err(self.0.not_found(address));
        }
        Ok(Box::new(DirReader::new(Arc::clone(&self.0), found)))
    }

    fn list(&self) -> Result<Vec<ResultInfo>, SpoolError> {
        let mut all = Vec::new();
        for name in self.0.folder.results()? {
            match self.0.folder.examine(&name, self.0.options.ttl) {
                Ok(found) => all.push(found.info),
                Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        all.sort_by_key(ResultInfo::id);
        Ok(all)
    }

    fn remove(&self, address: &Address) -> Result<ResultInfo, SpoolError> {
        let found = self.0.find(address)?;
        match self.0.folder.lock(&found, Lock::ExclusiveNow)? {
            LockOutcome::Acquired if self.0.unlink_result(None, &self.0.folder, &found)? => {
                Ok(found.info)
            }
            LockOutcome::Contended => Err(SpoolError::InUse { name: found.info.name }),
            LockOutcome::Acquired | LockOutcome::Removed => Err(self.0.not_found(address)),
        }
    }

    fn sweep(&self, now: DateTime<Utc>) -> Result<SweepReport, SpoolError> {
        Ok(self.0.sweep(now))
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        Ok(Box::new(DirScratch::begin(Arc::clone(&self.0))?))
    }
}

impl Shared {
    /// Visits this directory and those of the other scopes under the same root, with their scopes.
    fn each_folder(&self, mut visit: impl FnMut(Option<Scope>, &CheckedDir)) {
        visit(None, &self.folder);
        let Some(root) = &self.root else { return };
        let scopes = root.names().unwrap_or_default().into_iter().filter_map(|n| n.parse().ok());
        for scope in scopes.filter(|scope| Some(*scope) != self.options.scope) {
            if let Ok(folder) = root.existing_within(&scope.to_string(), &self.options) {
                visit(Some(scope), &folder);
            }
        }
    }

    /// Deletes the leftovers of dead writers. Lists no directory if the usage log shows that all
    /// writers have ended or are alive.
    fn clear_after_crashes(&self) {
        let pending = self.usage_log.as_ref().and_then(UsageLog::pending);
        let (Some(usage_log), Some(pending)) = (&self.usage_log, pending) else {
            self.clear_all();
            return;
        };
        let dead: Vec<&PendingOp> = pending.iter().filter(|draft| !self.is_alive(draft)).collect();
        if dead.is_empty() {
            return;
        }
        if !self.clear_all() {
            // The next start tries again.
            return;
        }
        for draft in dead {
            // What it claimed counts until the next total: it may have become a result.
            usage_log.end(&draft.id);
        }
    }

    /// Deletes leftovers in all scopes, and returns whether all of them could be examined. What
    /// remains is hidden, and the next sweep tries again.
    fn clear_all(&self) -> bool {
        let mut swept = SweepReport::default();
        self.each_folder(|_, folder| folder.clear_leftovers(&mut swept));
        swept.failures.is_empty()
    }

    /// Whether a live writer holds the lock on a draft.
    fn is_alive(&self, draft: &PendingOp) -> bool {
        let Ok(name) = draft.name.parse::<FileName>() else { return false };
        let locked = self.in_folder_of(draft, |folder| {
            let name = ResultFile::Data.draft_name(&name);
            let (file, _) = folder.open_own(&name)?;
            folder.lock_file(&file, &name, Lock::ExclusiveNow)
        });
        matches!(locked, Some(Ok(LockOutcome::Contended)))
    }

    fn in_folder_of<T>(&self, draft: &PendingOp, ask: impl FnOnce(&CheckedDir) -> T) -> Option<T> {
        let scope: Option<Scope> = draft.scope.parse().ok();
        match (&self.root, scope) {
            (Some(root), Some(scope)) if Some(scope) != self.options.scope => {
                Some(ask(&root.existing_within(&scope.to_string(), &self.options).ok()?))
            }
            _ => Some(ask(&self.folder)),
        }
    }

    /// Finds a result of this scope and opens its file.
    fn find(&self, address: &Address) -> Result<OpenedResult, SpoolError> {
        let names: Vec<FileName> = match address {
            Address::Name(name) => vec![name.clone()],
            Address::Path { folder, name } if *folder == self.folder.path => vec![name.clone()],
            // Spec V5: a path is compared with the one that descriptors show, and never opened.
            Address::Path { folder, name } => {
                let path = folder.join(name.to_string());
                return Err(SpoolError::NotOurs { path, why: Foreign::Elsewhere });
            }
            Address::Id(id) => {
                let names = self.folder.results()?;
                names.into_iter().filter(|name| name.id() == *id).collect()
            }
        };
        let mut error = self.not_found(address);
        for name in names {
            match self.folder.examine(&name, self.options.ttl) {
                Ok(found) => return Ok(found),
                Err(SpoolError::NotFound { .. }) => {}
                // Another user may have planted a file with the same id beside this one.
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    fn not_found(&self, address: &Address) -> SpoolError {
        let asked = address.to_string();
        self.tombstones.expired(address.id()).unwrap_or(SpoolError::NotFound { asked })
    }
}

/// The usage log in `folder`, if a quota needs one.
fn usage_log_in(folder: &CheckedDir, options: &DirOptions) -> Option<UsageLog> {
    options.quota.is_limited().then(|| UsageLog::new(folder, options).ok()).flatten()
}

/// The data files among directory entries.
fn results(names: &[String]) -> Vec<FileName> {
    let entries = names.iter().filter_map(|name| DirEntryName::parse(name));
    entries.filter(|e| e.piece == ResultFile::Data && !e.draft).map(|e| e.name).collect()
}

struct DirReader {
    shared: Arc<Shared>,
    /// Holds the lock until the last reader of any part is dropped.
    data: Arc<OwnedFd>,
    bytes: u64,
    info: ResultInfo,
}

struct PartReader {
    shared: Arc<Shared>,
    file: OwnedFd,
    bytes: u64,
    name: String,
    _protected: Arc<OwnedFd>,
}

impl DirReader {
    fn new(shared: Arc<Shared>, found: OpenedResult) -> Self {
        let OpenedResult { file, stat, info } = found;
        Self { shared, data: Arc::new(file), bytes: stat.bytes, info }
    }
}

impl Shared {
    fn read_at(
        &self,
        file: &OwnedFd,
        name: &dyn Display,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, SpoolError> {
        retry_interrupted(|| self.options.os.read_at(file.as_fd(), buf, offset))
            .map_err(|error| SpoolError::io("read", self.folder.at(&name.to_string()), error))
    }
}

impl PositionedRead for DirReader {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        self.shared.read_at(&self.data, &self.info.name, offset, buf)
    }

    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.data.as_fd())
    }
}

impl StoredResult for DirReader {
    fn listed(&self) -> &ResultInfo {
        &self.info
    }

    fn part(&self, part: PartNumber) -> Result<Box<dyn PositionedRead>, SpoolError> {
        let name = ResultFile::Part(part.0).file_name(&self.info.name);
        if part.0 == 0 || usize::from(part.0) > self.info.sidecar.parts.len() {
            return Err(SpoolError::NotFound { asked: name });
        }
        let (file, stat) = self.shared.folder.open_own(&name)?;
        Ok(Box::new(PartReader {
            shared: Arc::clone(&self.shared),
            file,
            bytes: stat.bytes,
            name,
            _protected: Arc::clone(&self.data),
        }))
    }
}

impl PositionedRead for PartReader {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        self.shared.read_at(&self.file, &self.name, offset, buf)
    }

    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
