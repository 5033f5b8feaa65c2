//! An open directory, and the checks on its files.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lro_core::OffloadHeader;

use super::options::{DirOptions, Parents, Sharing};
use super::results;
use crate::address::{Extension, FileName, Piece};
use crate::error::{Foreign, SpoolError};
use crate::fs::os::{Kind, Links, Lock, Os, Stat, again};
use crate::sidecar::Sidecar;
use crate::spool::Listed;

/// A longer first line is no header of ours.
pub(super) const HEADER_CAP: usize = 1 << 20;
/// A larger sidecar is none of ours.
pub(super) const SIDECAR_CAP: usize = 32 << 20;
/// `ELOOP` and `ENXIO` have no stable kind: a link that is not followed, a socket.
const NOT_A_FILE: [i32; 2] =
    [rustix::io::Errno::LOOP.raw_os_error(), rustix::io::Errno::NXIO.raw_os_error()];

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) os: Arc<dyn Os>,
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
}

/// A result whose file is open and was checked.
pub(super) struct Found {
    pub(super) file: OwnedFd,
    pub(super) stat: Stat,
    pub(super) listed: Listed,
}

/// What came of locking a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locked {
    ByUs,
    ByOthers,
    /// It was removed, or got a second name, before we had it.
    Gone,
}

impl Folder {
    /// A directory that is used as it is.
    pub(super) fn flat(path: &Path, options: &DirOptions) -> Result<Self, SpoolError> {
        absolute(path)?;
        let os = Arc::clone(&options.os);
        let fd = again(|| os.open_dir(path, Links::Follow))
            .map_err(|error| SpoolError::io("open", path, error))?;
        Ok(Self { os, fd, path: path.to_owned() })
    }

    /// A directory of our own, made where there is none.
    pub(super) fn private(path: &Path, options: &DirOptions) -> Result<Self, SpoolError> {
        absolute(path)?;
        let os = Arc::clone(&options.os);
        if options.parents == Parents::Created {
            make_parents(&*os, path)?;
        }
        let made = made(again(|| os.make_dir(path, options.dir_mode())))
            .map_err(|error| SpoolError::io("make", path, error))?;
        let fd = again(|| os.open_dir(path, Links::Refuse)).map_err(|e| refused(path, e))?;
        Self { os, fd, path: path.to_owned() }.checked(made, options)
    }

    /// A directory of our own.
    pub(super) fn existing(path: &Path, options: &DirOptions) -> Result<Self, SpoolError> {
        absolute(path)?;
        let os = Arc::clone(&options.os);
        let fd = again(|| os.open_dir(path, Links::Refuse)).map_err(|e| refused(path, e))?;
        Self { os, fd, path: path.to_owned() }.checked(Made::Before, options)
    }

    /// A directory of our own within this one, made where there is none.
    pub(super) fn private_within(
        &self,
        name: &str,
        options: &DirOptions,
    ) -> Result<Self, SpoolError> {
        let make = || self.os.make_dir_at(self.fd.as_fd(), name, options.dir_mode());
        let made = made(again(make)).map_err(|e| SpoolError::io("make", self.at(name), e))?;
        self.within(name)?.checked(made, options)
    }

    /// A directory of our own within this one.
    pub(super) fn existing_within(
        &self,
        name: &str,
        options: &DirOptions,
    ) -> Result<Self, SpoolError> {
        self.within(name)?.checked(Made::Before, options)
    }

    fn within(&self, name: &str) -> Result<Self, SpoolError> {
        let path = self.at(name);
        let fd = again(|| self.os.open_dir_at(self.fd.as_fd(), name))
            .map_err(|error| refused(&path, error))?;
        Ok(Self { os: Arc::clone(&self.os), fd, path })
    }

    /// Ours alone, or not used.
    fn checked(self, made: Made, options: &DirOptions) -> Result<Self, SpoolError> {
        let foreign = |why| SpoolError::NotOurs { path: self.path.clone(), why };
        let io = |op, error| SpoolError::io(op, &self.path, error);
        let stat = again(|| self.os.stat(self.fd.as_fd())).map_err(|e| io("look at", e))?;
        if stat.kind != Kind::Directory {
            return Err(foreign(Foreign::WrongKind));
        }
        if stat.owner != self.os.user() {
            return Err(foreign(Foreign::OtherOwner));
        }
        // The mode for the group is ours as well: someone may have changed their mind about it. Any
        // other access was given by someone else.
        let ours = [options.dir_mode(), Sharing::Group.dir_mode()].contains(&(stat.mode & 0o777));
        let open = stat.mode & (if options.sharing == Sharing::Group { 0o027 } else { 0o077 });
        if made == Made::Before && open != 0 && !ours {
            return Err(foreign(Foreign::OpenToOthers));
        }
        // Whatever the umask left of the mode; and a directory that had the other mode so far.
        if made == Made::Now || stat.mode & 0o777 != options.dir_mode() {
            again(|| self.os.set_mode(self.fd.as_fd(), options.dir_mode()))
                .map_err(|e| io("set permissions of", e))?;
        }
        Ok(self)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn names(&self) -> Result<Vec<String>, SpoolError> {
        again(|| self.os.names(self.fd.as_fd()))
            .map_err(|error| SpoolError::io("list", &self.path, error))
    }

    pub(super) fn results(&self) -> Result<Vec<FileName>, SpoolError> {
        Ok(results(&self.names()?))
    }

    /// Opens an entry that is a regular file of ours with one name.
    pub(super) fn open_ours(&self, name: &str) -> Result<(OwnedFd, Stat), SpoolError> {
        let file = again(|| self.os.open(self.fd.as_fd(), name)).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                SpoolError::NotFound { asked: name.to_owned() }
            } else {
                refused(&self.at(name), error)
            }
        })?;
        let stat = again(|| self.os.stat(file.as_fd()))
            .map_err(|error| SpoolError::io("look at", self.at(name), error))?;
        let why = match stat {
            Stat { kind: Kind::Directory | Kind::Other, .. } => Foreign::WrongKind,
            Stat { owner, .. } if owner != self.os.user() => Foreign::OtherOwner,
            Stat { links: 0, .. } => return Err(SpoolError::NotFound { asked: name.to_owned() }),
            Stat { links: 2.., .. } => Foreign::MoreLinks,
            Stat { .. } => return Ok((file, stat)),
        };
        Err(SpoolError::NotOurs { path: self.at(name), why })
    }

    /// Opens a result and reads what is known of it, if it is ours.
    pub(super) fn examine(&self, name: &FileName, ttl: Duration) -> Result<Found, SpoolError> {
        let data = Piece::Data.of(name);
        let (file, stat) = self.open_ours(&data)?;
        let foreign = || SpoolError::NotOurs { path: self.at(&data), why: Foreign::NoHeader };
        let sidecar = match self.sidecar(name) {
            Ok(sidecar) => Some(sidecar),
            // Any other error may pass, and would make the result look younger or older than it is.
            Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. }) => {
                // Data goes before its sidecar: without a name by now it was removed meanwhile, and
                // is no file that lost its sidecar.
                let stat = again(|| self.os.stat(file.as_fd()))
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
            sidecar.unwrap_or_else(|| Sidecar::of_header(header, name.id(), stat.bytes, ttl))
        } else {
            sidecar.ok_or_else(foreign)?
        };
        let listed = Listed::new(name.clone(), Some(self.at(&data)), sidecar);
        Ok(Found { file, stat, listed })
    }

    /// The sidecar of a result, if it is ours.
    pub(super) fn sidecar(&self, name: &FileName) -> Result<Sidecar, SpoolError> {
        let beside = Piece::Sidecar.of(name);
        let (file, _) = self.open_ours(&beside)?;
        let mut bytes = Vec::new();
        self.read(&file, &beside, &mut bytes, SIDECAR_CAP, |_| false)?;
        serde_json::from_slice(&bytes)
            .ok()
            .filter(|sidecar: &Sidecar| sidecar.header.is_ours())
            .ok_or_else(|| SpoolError::NotOurs { path: self.at(&beside), why: Foreign::NoHeader })
    }

    fn header(&self, file: &OwnedFd, name: &str) -> Result<Option<OffloadHeader>, SpoolError> {
        let mut bytes = Vec::new();
        self.read(file, name, &mut bytes, HEADER_CAP, |chunk| chunk.contains(&b'\n'))?;
        let line = bytes.split(|b| *b == b'\n').next().filter(|line| line.len() < bytes.len());
        let header = line.and_then(|line| serde_json::from_slice(line).ok());
        Ok(header.filter(OffloadHeader::is_ours))
    }

    /// Reads until the end, `cap`, or a chunk that is `enough`.
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
            let read = again(|| self.os.read_at(file.as_fd(), &mut chunk, offset))
                .map_err(|error| SpoolError::io("read", self.at(name), error))?;
            bytes.extend_from_slice(&chunk[..read]);
            if read == 0 || enough(&chunk[..read]) {
                break;
            }
        }
        Ok(())
    }

    /// Locks a result.
    pub(super) fn lock(&self, found: &Found, lock: Lock) -> Result<Locked, SpoolError> {
        self.lock_file(&found.file, &found.listed.name.to_string(), lock)
    }

    pub(super) fn lock_file(
        &self,
        file: &OwnedFd,
        name: &str,
        lock: Lock,
    ) -> Result<Locked, SpoolError> {
        let io = |op, error| SpoolError::io(op, self.at(name), error);
        if !again(|| self.os.lock(file.as_fd(), lock)).map_err(|e| io("lock", e))? {
            return Ok(Locked::ByOthers);
        }
        let stat = again(|| self.os.stat(file.as_fd())).map_err(|e| io("look at", e))?;
        Ok(if stat.links == 1 { Locked::ByUs } else { Locked::Gone })
    }

    /// Removes an entry, if it is still the one that was looked at. False where it was gone.
    pub(super) fn unlink_same(&self, name: &str, looked_at: &Stat) -> Result<bool, SpoolError> {
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let io = |op, error| SpoolError::io(op, self.at(name), error);
        match again(|| self.os.stat_at(self.fd.as_fd(), name)) {
            Ok(stat) if stat.identity == looked_at.identity => {}
            Ok(_) => return Ok(false),
            Err(error) if gone(&error) => return Ok(false),
            Err(error) => return Err(io("look at", error)),
        }
        match again(|| self.os.unlink(self.fd.as_fd(), name)) {
            Err(error) if gone(&error) => Ok(false),
            other => other.map(|()| true).map_err(|error| io("remove", error)),
        }
    }

    /// Removes a result that is locked: its data first, so that nothing is visible without its
    /// sidecar; what a failure leaves is an orphan, which the next sweep knows by its sidecar.
    /// Says how many bytes were removed; `None` where someone else removed the data.
    pub(super) fn unlink_result(&self, found: &Found) -> Result<Option<u64>, SpoolError> {
        let Listed { name, sidecar, .. } = &found.listed;
        let removed = self.unlink_same(&Piece::Data.of(name), &found.stat)?;
        // The result itself is gone, which is what was asked for; orphans are swept.
        let beside = self.unlink_beside(name, sidecar).unwrap_or(0);
        Ok(removed.then_some(found.stat.bytes + beside))
    }

    /// Removes the parts of a result without data, then its sidecar, and says how many bytes.
    pub(super) fn unlink_beside(
        &self,
        name: &FileName,
        sidecar: &Sidecar,
    ) -> Result<u64, SpoolError> {
        let mut bytes = 0;
        let parts = (1..).take(sidecar.parts.len()).map(Piece::Part);
        for piece in parts.chain([Piece::Sidecar]) {
            let beside = piece.of(name);
            match self.open_ours(&beside) {
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
enum Made {
    Now,
    Before,
}

fn made(result: io::Result<()>) -> io::Result<Made> {
    match result {
        Ok(()) => Ok(Made::Now),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Made::Before),
        Err(error) => Err(error),
    }
}

/// Creates the parents of `path` that are missing, with access for their owner.
fn make_parents(os: &dyn Os, path: &Path) -> Result<(), SpoolError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let make = || made(again(|| os.make_dir(parent, Sharing::Owner.dir_mode())));
    let result = match make() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_parents(os, parent)?;
            make()
        }
        result => result,
    };
    // One that exists is used as it is, also where it could not be created: a home is on a mount
    // point that only root writes to.
    match result {
        Err(_) if parent.is_dir() => Ok(()),
        result => result.map(drop).map_err(|error| SpoolError::io("make", parent, error)),
    }
}

/// What a failure to open says about whose it is.
fn refused(path: &Path, error: io::Error) -> SpoolError {
    let foreign = |why| SpoolError::NotOurs { path: path.to_owned(), why };
    match error.kind() {
        io::ErrorKind::PermissionDenied => foreign(Foreign::OtherOwner),
        io::ErrorKind::NotADirectory => foreign(Foreign::WrongKind),
        _ if error.raw_os_error().is_some_and(|code| NOT_A_FILE.contains(&code)) => {
            foreign(Foreign::WrongKind)
        }
        _ => SpoolError::io("open", path, error),
    }
}

fn absolute(path: &Path) -> Result<(), SpoolError> {
    if path.is_absolute() {
        return Ok(());
    }
    let source = io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute");
    Err(SpoolError::io("open", path, source))
}
