//! A spool in a directory: private, atomic, and limited to files that this program wrote.
//!
//! All access goes through an open directory handle. A name is one parsed path component, opened
//! without following symbolic links, and checked before its content is used. Writers and readers hold
//! advisory locks, which the kernel releases with their process: an unlocked draft is a leftover of a
//! dead writer.

mod account;
mod checked_dir;
mod draft;
mod options;
pub mod os;
mod sweep;

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use self::account::{Account, Pending};
use self::checked_dir::{Folder, Found, Locked};
use self::draft::{DirDraft, DirScratch};
pub use self::options::{DirKind, DirOnDemand, DirOptions, Sharing};
use self::os::{Lock, again};
use crate::address::{Address, Entry, FileName, Piece, Scope};
use crate::error::{Foreign, SpoolError};
use crate::spool::{
    Draft, Gone, Listed, NewResult, PartNumber, PositionedRead, Scratch, Spool, StoredResult, Swept,
};

/// A spool in a directory. Clones share it.
#[derive(Debug, Clone)]
pub struct DirSpool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: DirOptions,
    folder: Folder,
    /// The private directory whose folders are the scopes, where there are scopes.
    root: Option<Folder>,
    /// What all folders hold, where a quota asks for it and the file can be used.
    account: Option<Account>,
    gone: Gone,
}

impl DirSpool {
    /// Opens a directory, making it where `options` say it is our own, and clears what writers
    /// that died left in it.
    ///
    /// `path` is absolute, and is what descriptors will show.
    pub fn open(path: &Path, options: DirOptions) -> Result<Self, SpoolError> {
        let (folder, root) = match (options.kind, options.scope) {
            (DirKind::Flat, _) => (Folder::flat(path, &options)?, None),
            (DirKind::Private, None) => (Folder::private(path, &options)?, None),
            (DirKind::Private, Some(scope)) => {
                let root = Folder::private(path, &options)?;
                (root.private_within(&scope.to_string(), &options)?, Some(root))
            }
        };
        let account = account_in(root.as_ref().unwrap_or(&folder), &options);
        let shared = Shared { options, folder, root, account, gone: Gone::default() };
        shared.clear_after_crashes();
        Ok(Self(Arc::new(shared)))
    }

    /// Whether a sweep of all scopes is due: something has expired, or the last one is long ago. Cheap:
    /// no result is looked at.
    pub fn sweep_is_due(path: &Path, options: &DirOptions, now: DateTime<Utc>) -> bool {
        let whole = DirOptions { scope: None, ..options.clone() };
        match Self::existing(path, whole) {
            Ok(Some(root)) => match &root.0.account {
                Some(account) => account.balance(now).is_none_or(|b| b.sweep_is_due(now)),
                None => true,
            },
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Counts what all scopes hold, behind a sweep of each; `next_expiry` is what they said.
    pub fn recount(
        path: &Path,
        options: &DirOptions,
        next_expiry: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) {
        if options.kind == DirKind::Flat {
            // There is one folder, and its sweep counted it.
            return;
        }
        let whole = DirOptions { scope: None, ..options.clone() };
        let Ok(Some(Self(root))) = Self::existing(path, whole) else { return };
        let Ok(mut shared) = Arc::try_unwrap(root) else { return };
        // The folders of all scopes lie in it.
        shared.root = Folder::existing(path, &shared.options).ok();
        // Where it cannot be counted nothing is relied upon later.
        let _ = shared.count(next_expiry, now);
    }

    /// The directory that holds this spool's files.
    pub fn path(&self) -> &Path {
        &self.0.folder.path
    }

    /// Opens a directory as it is, for whoever only looks: nothing is made or cleared, and sweeps
    /// and quotas do not reach beyond the one folder. `None` where there is none.
    pub fn existing(path: &Path, options: DirOptions) -> Result<Option<Self>, SpoolError> {
        let opened = match options.kind {
            DirKind::Flat => Folder::flat(path, &options),
            DirKind::Private => Folder::existing(path, &options),
        };
        let opened = opened.and_then(|root| {
            let account = account_in(&root, &options);
            let folder = match (options.kind, options.scope) {
                (DirKind::Private, Some(scope)) => {
                    root.existing_within(&scope.to_string(), &options)?
                }
                _ => root,
            };
            Ok((folder, account))
        });
        match opened {
            Ok((folder, account)) => Ok(Some(Self::alone(folder, account, options))),
            Err(SpoolError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Visits all scopes of a directory, as [`existing`](Self::existing) opens each, one at a time:
    /// for the person whose they are, never for a tool. Returns what cannot be looked at.
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
                    let account = account_in(&root.0.folder, &options);
                    visit(&Self::alone(folder, account, options));
                }
                Err(error) => failures.push(error),
            }
        }
        failures
    }

    fn alone(folder: Folder, account: Option<Account>, options: DirOptions) -> Self {
        Self(Arc::new(Shared { options, folder, root: None, account, gone: Gone::default() }))
    }

    /// Whether the directory was removed since it was opened.
    fn is_gone(&self) -> bool {
        let Folder { os, fd, .. } = &self.0.folder;
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
        if found.listed.sidecar.is_expired(found.listed.id(), now) {
            return Err(found.listed.expired());
        }
        if self.0.folder.lock(&found, Lock::Shared)? != Locked::ByUs {
            return Err(self.0.not_found(address));
        }
        Ok(Box::new(DirReader::new(Arc::clone(&self.0), found)))
    }

    fn list(&self) -> Result<Vec<Listed>, SpoolError> {
        let mut all = Vec::new();
        for name in self.0.folder.results()? {
            match self.0.folder.examine(&name, self.0.options.ttl) {
                Ok(found) => all.push(found.listed),
                Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        all.sort_by_key(Listed::id);
        Ok(all)
    }

    fn remove(&self, address: &Address) -> Result<Listed, SpoolError> {
        let found = self.0.find(address)?;
        match self.0.folder.lock(&found, Lock::ExclusiveNow)? {
            Locked::ByUs if self.0.unlink_result(None, &self.0.folder, &found)? => Ok(found.listed),
            Locked::ByOthers => Err(SpoolError::InUse { name: found.listed.name }),
            Locked::ByUs | Locked::Gone => Err(self.0.not_found(address)),
        }
    }

    fn sweep(&self, now: DateTime<Utc>) -> Result<Swept, SpoolError> {
        Ok(self.0.sweep(now))
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        Ok(Box::new(DirScratch::begin(Arc::clone(&self.0))?))
    }
}

impl Shared {
    /// Our folder, and those of the other scopes under the same root, with their names.
    fn each_folder(&self, mut visit: impl FnMut(Option<Scope>, &Folder)) {
        visit(None, &self.folder);
        let Some(root) = &self.root else { return };
        let scopes = root.names().unwrap_or_default().into_iter().filter_map(|n| n.parse().ok());
        for scope in scopes.filter(|scope| Some(*scope) != self.options.scope) {
            if let Ok(folder) = root.existing_within(&scope.to_string(), &self.options) {
                visit(Some(scope), &folder);
            }
        }
    }

    /// Clears what writers left that died. Where the account says that all of them ended or live, no
    /// directory is listed.
    fn clear_after_crashes(&self) {
        let pending = self.account.as_ref().and_then(Account::pending);
        let (Some(account), Some(pending)) = (&self.account, pending) else {
            self.clear_all();
            return;
        };
        let dead: Vec<&Pending> = pending.iter().filter(|draft| !self.is_alive(draft)).collect();
        if dead.is_empty() {
            return;
        }
        if !self.clear_all() {
            // The next start tries again.
            return;
        }
        for draft in dead {
            // What it claimed stays in the sum until the next count: it may be a result by now.
            account.end(&draft.id);
        }
    }

    /// Clears leftovers everywhere, and says whether all could be looked at. What cannot be cleared
    /// now stays hidden, and the next sweep tries again.
    fn clear_all(&self) -> bool {
        let mut swept = Swept::default();
        self.each_folder(|_, folder| folder.clear_leftovers(&mut swept));
        swept.failures.is_empty()
    }

    /// Whether somebody holds the lock on a draft.
    fn is_alive(&self, draft: &Pending) -> bool {
        let Ok(name) = draft.name.parse::<FileName>() else { return false };
        let locked = self.in_folder_of(draft, |folder| {
            let name = Piece::Data.draft_of(&name);
            let (file, _) = folder.open_ours(&name)?;
            folder.lock_file(&file, &name, Lock::ExclusiveNow)
        });
        matches!(locked, Some(Ok(Locked::ByOthers)))
    }

    fn in_folder_of<T>(&self, draft: &Pending, ask: impl FnOnce(&Folder) -> T) -> Option<T> {
        let scope: Option<Scope> = draft.scope.parse().ok();
        match (&self.root, scope) {
            (Some(root), Some(scope)) if Some(scope) != self.options.scope => {
                Some(ask(&root.existing_within(&scope.to_string(), &self.options).ok()?))
            }
            _ => Some(ask(&self.folder)),
        }
    }

    /// Finds a result of this scope and opens its file.
    fn find(&self, address: &Address) -> Result<Found, SpoolError> {
        let names: Vec<FileName> = match address {
            Address::Name(name) => vec![name.clone()],
            Address::Path { folder, name } if *folder == self.folder.path => vec![name.clone()],
            // Spec V5: a path is compared with the one that descriptors showed, and never opened.
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
                // Someone else may have planted a file of that identity beside ours.
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    fn not_found(&self, address: &Address) -> SpoolError {
        let asked = address.to_string();
        self.gone.expired(address.id()).unwrap_or(SpoolError::NotFound { asked })
    }
}

/// The account in `folder`, where a quota asks for one.
fn account_in(folder: &Folder, options: &DirOptions) -> Option<Account> {
    options.quota.counts().then(|| Account::new(folder, options).ok()).flatten()
}

/// The data files among a folder's entries.
fn results(names: &[String]) -> Vec<FileName> {
    let entries = names.iter().filter_map(|name| Entry::parse(name));
    entries.filter(|e| e.piece == Piece::Data && !e.draft).map(|e| e.name).collect()
}

struct DirReader {
    shared: Arc<Shared>,
    /// The lock goes with the last reader of any part.
    data: Arc<OwnedFd>,
    bytes: u64,
    listed: Listed,
}

struct PartReader {
    shared: Arc<Shared>,
    file: OwnedFd,
    bytes: u64,
    name: String,
    _protected: Arc<OwnedFd>,
}

impl DirReader {
    fn new(shared: Arc<Shared>, found: Found) -> Self {
        let Found { file, stat, listed } = found;
        Self { shared, data: Arc::new(file), bytes: stat.bytes, listed }
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
        again(|| self.options.os.read_at(file.as_fd(), buf, offset))
            .map_err(|error| SpoolError::io("read", self.folder.at(&name.to_string()), error))
    }
}

impl PositionedRead for DirReader {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        self.shared.read_at(&self.data, &self.listed.name, offset, buf)
    }

    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.data.as_fd())
    }
}

impl StoredResult for DirReader {
    fn listed(&self) -> &Listed {
        &self.listed
    }

    fn part(&self, part: PartNumber) -> Result<Box<dyn PositionedRead>, SpoolError> {
        let name = Piece::Part(part.0).of(&self.listed.name);
        if part.0 == 0 || usize::from(part.0) > self.listed.sidecar.parts.len() {
            return Err(SpoolError::NotFound { asked: name });
        }
        let (file, stat) = self.shared.folder.open_ours(&name)?;
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
