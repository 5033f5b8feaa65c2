//! An open directory, and the checks on its files.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lro_core::OffloadHeader;

use super::options::{DirOptions, Parents, Sharing};
use super::results;
use crate::address::{Extension, FileName, ResultFile};
use crate::error::{Foreign, SpoolError};
use crate::fs::os::{FileKind, Lock, Os, Stat, SymlinkPolicy, retry_interrupted};
use crate::sidecar::Sidecar;
use crate::spool::ResultInfo;

/// The longest header line.
pub(super) const MAX_HEADER_BYTES: usize = 1 << 20;
/// The most attempts to open a sidecar while its owner replaces it.
const MAX_SIDECAR_ATTEMPTS: usize = 16;
/// The largest sidecar.
pub(super) const MAX_SIDECAR_BYTES: usize = 32 << 20;
/// `ELOOP` (a symbolic link that is not followed) and `ENXIO` (a socket) have no stable
/// `ErrorKind`.
const NOT_A_FILE_ERRNOS: [i32; 2] =
    [rustix::io::Errno::LOOP.raw_os_error(), rustix::io::Errno::NXIO.raw_os_error()];

#[derive(Debug)]
pub(super) struct CheckedDir {
    pub(super) os: Arc<dyn Os>,
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
}

/// A result whose file is open and passed all checks.
pub(super) struct OpenedResult {
    pub(super) file: OwnedFd,
    pub(super) stat: Stat,
    pub(super) info: ResultInfo,
}

/// The result of locking a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockOutcome {
    Acquired,
    Contended,
    /// The file was deleted or hard-linked before the lock was acquired.
    Removed,
}

impl CheckedDir {
    /// Opens a shared directory as it is.
    pub(super) fn flat(path: &Path, options: &DirOptions) -> Result<Self, SpoolError> {
        require_absolute(path)?;
        let os = Arc::clone(&options.os);
        let fd = retry_interrupted(|| os.open_dir(path, SymlinkPolicy::Follow))
            .map_err(|error| SpoolError::io("open", path, error))?;
        Ok(Self { os, fd, path: path.to_owned() })
    }

    /// Opens a private directory, and creates it if it is missing.
    pub(super) fn private(path: &Path, options: &DirOptions) -> Result<Self, SpoolError> {
        require_absolute(path)?;
        let os = Arc::clone(&options.os);
        if options.parents == Parents::Created {
            make_parents(&*os, path)?;
        }
        let created = created(retry_interrupted(|| os.make_dir(path, options.dir_mode())))
            .map_err(|error| SpoolError::io("make", path, error))?;
        let fd = retry_interrupted(|| os.open_dir(path, SymlinkPolicy::Refuse))
            .map_err(|e| open_error(path, e))?;
        Self { os, fd, path: path.to_owned() }.checked(created, options)
    }

    /// Opens an existing private directory.
    pub(super) fn existing(path: &Path, options: &DirOptions) -> Result<Self, SpoolError> {
        require_absolute(path)?;
        let os = Arc::clone(&options.os);
        let fd = retry_interrupted(|| os.open_dir(path, SymlinkPolicy::Refuse))
            .map_err(|e| open_error(path, e))?;
        Self { os, fd, path: path.to_owned() }.checked(Creation::Existing, options)
    }

    /// Opens a private subdirectory, and creates it if it is missing.
    pub(super) fn private_within(
        &self,
        name: &str,
        options: &DirOptions,
    ) -> Result<Self, SpoolError> {
        let make = || self.os.make_dir_at(self.fd.as_fd(), name, options.dir_mode());
        let created = created(retry_interrupted(make))
            .map_err(|e| SpoolError::io("make", self.at(name), e))?;
        self.within(name)?.checked(created, options)
    }

    /// Opens an existing private subdirectory.
    pub(super) fn existing_within(
        &self,
        name: &str,
        options: &DirOptions,
    ) -> Result<Self, SpoolError> {
        self.within(name)?.checked(Creation::Existing, options)
    }

    fn within(&self, name: &str) -> Result<Self, SpoolError> {
        let path = self.at(name);
        let fd = retry_interrupted(|| self.os.open_dir_at(self.fd.as_fd(), name))
            .map_err(|error| open_error(&path, error))?;
        Ok(Self { os: Arc::clone(&self.os), fd, path })
    }

    /// Checks that the directory belongs to this user and is private.
    fn checked(self, created: Creation, options: &DirOptions) -> Result<Self, SpoolError> {
        let foreign = |why| SpoolError::NotOurs { path: self.path.clone(), why };
        let io = |op, error| SpoolError::io(op, &self.path, error);
        let stat =
            retry_interrupted(|| self.os.stat(self.fd.as_fd())).map_err(|e| io("look at", e))?;
        if stat.kind != FileKind::Directory {
            return Err(foreign(Foreign::WrongKind));
        }
        if stat.owner != self.os.user() {
            return Err(foreign(Foreign::OtherOwner));
        }
        // The mode for group access is accepted too, since the configuration may have changed. Any
        // other access was granted by someone else.
        let ours = [options.dir_mode(), Sharing::Group.dir_mode()].contains(&(stat.mode & 0o777));
        let open = stat.mode & (if options.sharing == Sharing::Group { 0o027 } else { 0o077 });
        if created == Creation::Existing && open != 0 && !ours {
            return Err(foreign(Foreign::OpenToOthers));
        }
        // Corrects a mode reduced by the umask, and the other of the two accepted modes.
        if created == Creation::New || stat.mode & 0o777 != options.dir_mode() {
            retry_interrupted(|| self.os.set_mode(self.fd.as_fd(), options.dir_mode()))
                .map_err(|e| io("set permissions of", e))?;
        }
        Ok(self)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn names(&self) -> Result<Vec<String>, SpoolError> {
        retry_interrupted(|| self.os.names(self.fd.as_fd()))
            .map_err(|error| SpoolError::io("list", &self.path, error))
    }

    pub(super) fn results(&self) -> Result<Vec<FileName>, SpoolError> {
        Ok(results(&self.names()?))
    }

    /// Opens a regular file that belongs to this user and has one hard link.
    pub(super) fn open_own(&self, name: &str) -> Result<(OwnedFd, Stat), SpoolError> {
        let file = retry_interrupted(|| self.os.open(self.fd.as_fd(), name)).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                SpoolError::NotFound { asked: name.to_owned() }
            } else {
                open_error(&self.at(name), error)
            }
        })?;
        let stat = retry_interrupted(|| self.os.stat(file.as_fd()))
            .map_err(|error| SpoolError::io("look at", self.at(name), error))?;
        let why = match stat {
            Stat { kind: FileKind::Directory | FileKind::Other, .. } => Foreign::WrongKind,
            Stat { owner, .. } if owner != self.os.user() => Foreign::OtherOwner,
            Stat { links: 0, .. } => return Err(SpoolError::NotFound { asked: name.to_owned() }),
            Stat { links: 2.., .. } => Foreign::MoreLinks,
            Stat { .. } => return self.still_named(name, file, stat),
        };
        Err(SpoolError::NotOurs { path: self.at(name), why })
    }

    /// Checks that `name` is the only link of an open file. A hard link to a foreign file that was removed
    /// between opening and examining it would otherwise count as our own.
    fn still_named(
        &self,
        name: &str,
        file: OwnedFd,
        stat: Stat,
    ) -> Result<(OwnedFd, Stat), SpoolError> {
        match retry_interrupted(|| self.os.stat_at(self.fd.as_fd(), name)) {
            Ok(named) if named.identity == stat.identity && named.links == 1 => Ok((file, stat)),
            Ok(named) if named.identity == stat.identity && named.links > 1 => {
                Err(SpoolError::NotOurs { path: self.at(name), why: Foreign::MoreLinks })
            }
            // Another file has the name, or it was removed meanwhile.
            Ok(_) => Err(SpoolError::NotFound { asked: name.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(SpoolError::NotFound { asked: name.to_owned() })
            }
            Err(error) => Err(SpoolError::io("look at", self.at(name), error)),
        }
    }

    /// Opens a result and reads its metadata, if this program wrote it.
    pub(super) fn examine(
        &self,
        name: &FileName,
        ttl: Duration,
    ) -> Result<OpenedResult, SpoolError> {
        let data = ResultFile::Data.file_name(name);
        let (file, stat) = self.open_own(&data)?;
        let foreign = || SpoolError::NotOurs { path: self.at(&data), why: Foreign::NoHeader };
        let sidecar = match self.sidecar(name) {
            Ok(sidecar) => Some(sidecar),
            // Any other error may be temporary, and ignoring it would give the result a wrong age.
            Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. }) => {
                // The data file is deleted before its sidecar: without a link it was deleted
                // meanwhile, and did not lose its sidecar.
                let stat = retry_interrupted(|| self.os.stat(file.as_fd()))
                    .map_err(|error| SpoolError::io("look at", self.at(&data), error))?;
                if stat.links == 0 {
                    return Err(SpoolError::NotFound { asked: data });
                }
                None
            }
            Err(error) => return Err(error),
        };
        let sidecar = if name.extension() == Extension::Jsonl {
            let header = self.header(&file, &data)?.ok_or_else(foreign)?;
            sidecar.unwrap_or_else(|| Sidecar::from_header(header, name.id(), stat.bytes, ttl))
        } else {
            sidecar.ok_or_else(foreign)?
        };
        let info = ResultInfo::new(name.clone(), Some(self.at(&data)), sidecar);
        Ok(OpenedResult { file, stat, info })
    }

    /// Reads the sidecar of a result, if this program wrote it.
    pub(super) fn sidecar(&self, name: &FileName) -> Result<Sidecar, SpoolError> {
        let beside = ResultFile::Sidecar.file_name(name);
        let mut opened = self.open_own(&beside);
        for _ in 1..MAX_SIDECAR_ATTEMPTS {
            // Not missing: replaced after it was opened and before it was examined.
            let is_replaced = matches!(opened, Err(SpoolError::NotFound { .. }))
                && retry_interrupted(|| self.os.stat_at(self.fd.as_fd(), &beside)).is_ok();
            if !is_replaced {
                break;
            }
            opened = self.open_own(&beside);
        }
        let (file, _) = opened?;
        let mut bytes = Vec::new();
        self.read(&file, &beside, &mut bytes, MAX_SIDECAR_BYTES, |_| false)?;
        serde_json::from_slice(&bytes)
            .ok()
            .filter(|sidecar: &Sidecar| sidecar.header.is_ours())
            .ok_or_else(|| SpoolError::NotOurs { path: self.at(&beside), why: Foreign::NoHeader })
    }

    fn header(&self, file: &OwnedFd, name: &str) -> Result<Option<OffloadHeader>, SpoolError> {
        let mut bytes = Vec::new();
        self.read(file, name, &mut bytes, MAX_HEADER_BYTES, |chunk| chunk.contains(&b'\n'))?;
        let line = bytes.split(|b| *b == b'\n').next().filter(|line| line.len() < bytes.len());
        let header = line.and_then(|line| serde_json::from_slice(line).ok());
        Ok(header.filter(OffloadHeader::is_ours))
    }

    /// Reads to the end, to `cap` bytes, or to a chunk for which `enough` is true.
    fn read(
        &self,
        file: &OwnedFd,
        name: &str,
        bytes: &mut Vec<u8>,
        cap: usize,
        enough: impl Fn(&[u8]) -> bool,
    ) -> Result<(), SpoolError> {
        let mut chunk = [0; 4096];
        while bytes.len() < cap {
            let offset = bytes.len() as u64;
            let read = retry_interrupted(|| self.os.read_at(file.as_fd(), &mut chunk, offset))
                .map_err(|error| SpoolError::io("read", self.at(name), error))?;
            bytes.extend_from_slice(&chunk[..read]);
            if read == 0 || enough(&chunk[..read]) {
                break;
            }
        }
        Ok(())
    }

    /// Locks a result.
    pub(super) fn lock(&self, found: &OpenedResult, lock: Lock) -> Result<LockOutcome, SpoolError> {
        self.lock_file(&found.file, &found.info.name.to_string(), lock)
    }

    pub(super) fn lock_file(
        &self,
        file: &OwnedFd,
        name: &str,
        lock: Lock,
    ) -> Result<LockOutcome, SpoolError> {
        let io = |op, error| SpoolError::io(op, self.at(name), error);
        if !retry_interrupted(|| self.os.lock(file.as_fd(), lock)).map_err(|e| io("lock", e))? {
            return Ok(LockOutcome::Contended);
        }
        let stat =
            retry_interrupted(|| self.os.stat(file.as_fd())).map_err(|e| io("look at", e))?;
        Ok(if stat.links == 1 { LockOutcome::Acquired } else { LockOutcome::Removed })
    }

    /// Deletes an entry if it still is the examined file. Returns false if it was gone.
    pub(super) fn unlink_same(&self, name: &str, expected: &Stat) -> Result<bool, SpoolError> {
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let io = |op, error| SpoolError::io(op, self.at(name), error);
        match retry_interrupted(|| self.os.stat_at(self.fd.as_fd(), name)) {
            Ok(stat) if stat.identity == expected.identity => {}
            Ok(_) => return Ok(false),
            Err(error) if gone(&error) => return Ok(false),
            Err(error) => return Err(io("look at", error)),
        }
        match retry_interrupted(|| self.os.unlink(self.fd.as_fd(), name)) {
            Err(error) if gone(&error) => Ok(false),
            other => other.map(|()| true).map_err(|error| io("remove", error)),
        }
    }

    /// Deletes a locked result. The data goes first, so that nothing is visible without its
    /// sidecar; after a failure, the next sweep recognises the orphaned sidecar. Returns the number
    /// of deleted bytes; `None` if another process deleted the data.
    pub(super) fn unlink_result(&self, found: &OpenedResult) -> Result<Option<u64>, SpoolError> {
        let ResultInfo { name, sidecar, .. } = &found.info;
        let removed = self.unlink_same(&ResultFile::Data.file_name(name), &found.stat)?;
        // The data is deleted, which was requested; a sweep deletes orphans.
        let beside = self.unlink_sidecar_and_parts(name, sidecar).unwrap_or(0);
        Ok(removed.then_some(found.stat.bytes + beside))
    }

    /// Deletes the parts of a result without data, then its sidecar, and returns the number of
    /// bytes.
    pub(super) fn unlink_sidecar_and_parts(
        &self,
        name: &FileName,
        sidecar: &Sidecar,
    ) -> Result<u64, SpoolError> {
        let mut bytes = 0;
        let parts = (1..).take(sidecar.parts.len()).map(ResultFile::Part);
        for piece in parts.chain([ResultFile::Sidecar]) {
            let beside = piece.file_name(name);
            match self.open_own(&beside) {
                Ok((_, stat)) => {
                    if self.unlink_same(&beside, &stat)? {
                        bytes += stat.bytes;
                    }
                }
                Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Creation {
    New,
    Existing,
}

fn created(result: io::Result<()>) -> io::Result<Creation> {
    match result {
        Ok(()) => Ok(Creation::New),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Creation::Existing),
        Err(error) => Err(error),
    }
}

/// Creates the missing parents of `path`, accessible to their owner only.
fn make_parents(os: &dyn Os, path: &Path) -> Result<(), SpoolError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let make = || created(retry_interrupted(|| os.make_dir(parent, Sharing::Owner.dir_mode())));
    let result = match make() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_parents(os, parent)?;
            make()
        }
        result => result,
    };
    // An existing directory is used even if creating it failed: a home directory may be below a
    // mount point that only root can write to.
    match result {
        Err(_) if parent.is_dir() => Ok(()),
        result => result.map(drop).map_err(|error| SpoolError::io("make", parent, error)),
    }
}

/// Converts a failure to open a file or directory.
fn open_error(path: &Path, error: io::Error) -> SpoolError {
    let foreign = |why| SpoolError::NotOurs { path: path.to_owned(), why };
    match error.kind() {
        io::ErrorKind::PermissionDenied => foreign(Foreign::OtherOwner),
        io::ErrorKind::NotADirectory => foreign(Foreign::WrongKind),
        _ if error.raw_os_error().is_some_and(|code| NOT_A_FILE_ERRNOS.contains(&code)) => {
            foreign(Foreign::WrongKind)
        }
        _ => SpoolError::io("open", path, error),
    }
}

fn require_absolute(path: &Path) -> Result<(), SpoolError> {
    if path.is_absolute() {
        return Ok(());
    }
    let source = io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute");
    Err(SpoolError::io("open", path, source))
}
