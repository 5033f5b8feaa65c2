//! The system calls of a directory spool, behind a trait so that tests can make each of them fail.
//!
//! Every call names one entry of an open directory; only opening and creating the directory itself
//! take a path.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::{fmt, io};

use rustix::fs;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RawMode, RenameFlags};
use rustix::io::Errno;

/// The system calls of a directory spool.
///
/// # Contract
///
/// Like the system calls of these names, with unmodified errors: an interrupted call returns an
/// error of kind [`Interrupted`](io::ErrorKind::Interrupted), a short write returns a smaller
/// number. No call follows a symbolic link in the last path component, except
/// [`open_dir`](Self::open_dir) with [`SymlinkPolicy::Follow`].
pub trait Os: fmt::Debug + Send + Sync {
    /// The effective user id.
    fn user(&self) -> u32;

    /// Opens a directory by its path.
    fn open_dir(&self, path: &Path, links: SymlinkPolicy) -> io::Result<OwnedFd>;

    /// Creates a directory by its path.
    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Opens a directory within another.
    fn open_dir_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd>;

    /// Creates a directory within another.
    fn make_dir_at(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<()>;

    /// Creates an unnamed file for reading and writing; fails with
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the system has none.
    fn create_unnamed(&self, dir: BorrowedFd<'_>, mode: u32) -> io::Result<OwnedFd>;

    /// Creates a file exclusively, for reading and writing.
    fn create(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd>;

    /// Opens a file for reading and appending, and creates it if it is missing; does not wait for
    /// the other end of a pipe.
    fn open_append(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd>;

    /// Opens a file for reading, without waiting for the other end of a pipe.
    fn open(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd>;

    /// Sets the mode, independently of the umask.
    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()>;

    /// Writes some of the bytes and returns how many.
    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize>;

    /// Writes some of the bytes at `offset` and returns how many.
    fn write_at(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Reads some bytes from `offset`.
    fn read_at(&self, file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Asks the system to begin writeback of a file from `offset`; a hint.
    fn begin_sync(&self, file: BorrowedFd<'_>, offset: u64) -> io::Result<()>;

    /// Syncs the data of a file.
    fn sync_data(&self, file: BorrowedFd<'_>) -> io::Result<()>;

    /// Syncs the entries of a directory.
    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()>;

    /// Renames an entry; never replaces another.
    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()>;

    /// Renames an entry; replaces a file of that name in the same step.
    fn replace(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()>;

    /// Deletes an entry that is not a directory.
    fn unlink(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()>;

    /// Stats an open file or directory.
    fn stat(&self, file: BorrowedFd<'_>) -> io::Result<Stat>;

    /// Stats an entry.
    fn stat_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Stat>;

    /// Locks an open file; returns false if another process holds the lock and `lock` does not
    /// wait.
    fn lock(&self, file: BorrowedFd<'_>, lock: Lock) -> io::Result<bool>;

    /// Lists the names in a directory that are valid UTF-8.
    fn names(&self, dir: BorrowedFd<'_>) -> io::Result<Vec<String>>;

    /// The free space of the file system for this user, in bytes.
    fn free_bytes(&self, dir: BorrowedFd<'_>) -> io::Result<u64>;
}

/// Whether a symbolic link in the last path component is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// It is followed: the temporary directory of the system may be a link.
    Follow,
    /// It is an error.
    Refuse,
}

/// The kind of a lock, and whether to wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// For a reader; waits, since a sweeper releases its lock at once.
    Shared,
    /// For the writer of a new file; waits.
    Exclusive,
    /// For a sweeper; does not wait.
    ExclusiveNow,
}

/// The metadata of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its type.
    pub kind: FileKind,
    /// Its owner.
    pub owner: u32,
    /// Its mode.
    pub mode: u32,
    /// The number of hard links.
    pub links: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its identity: device and inode.
    pub identity: (u64, u64),
}

/// A file type, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, a pipe, a device.
    Other,
}

/// Repeats a call while a signal interrupts it.
pub(crate) fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The real operating system, through rustix.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealOs;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
const CREATE: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

const APPEND: OFlags = OFlags::RDWR
    .union(OFlags::APPEND)
    .union(OFlags::CREATE)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

impl Os for RealOs {
    fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn open_dir(&self, path: &Path, links: SymlinkPolicy) -> io::Result<OwnedFd> {
        let flags = match links {
            SymlinkPolicy::Follow => DIRECTORY,
            SymlinkPolicy::Refuse => DIRECTORY | OFlags::NOFOLLOW,
        };
        Ok(fs::open(path, flags, Mode::empty())?)
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        Ok(fs::mkdir(path, permissions(mode))?)
    }

    fn open_dir_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
        Ok(fs::openat(dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?)
    }

    fn make_dir_at(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<()> {
        Ok(fs::mkdirat(dir, name, permissions(mode))?)
    }

    #[cfg(target_os = "linux")]
    fn create_unnamed(&self, dir: BorrowedFd<'_>, mode: u32) -> io::Result<OwnedFd> {
        // Exclusive, so that no process can link it to a name later.
        const UNNAMED: OFlags =
            OFlags::RDWR.union(OFlags::TMPFILE).union(OFlags::EXCL).union(OFlags::CLOEXEC);
        match fs::openat(dir, ".", UNNAMED, permissions(mode)) {
            // A file system or kernel without support reports an attempt to open a directory.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            other => Ok(other?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn create_unnamed(&self, _: BorrowedFd<'_>, _: u32) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn create(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd> {
        Ok(fs::openat(dir, name, CREATE, permissions(mode))?)
    }

    fn open_append(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd> {
        Ok(fs::openat(dir, name, APPEND, permissions(mode))?)
    }

    fn open(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
        Ok(fs::openat(dir, name, READ, Mode::empty())?)
    }

    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        Ok(fs::fchmod(file, permissions(mode))?)
    }

    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(file, bytes)?)
    }

    fn write_at(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwrite(file, bytes, offset)?)
    }

    fn read_at(&self, file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(file, buf, offset)?)
    }

    #[cfg(target_os = "linux")]
    fn begin_sync(&self, file: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
        // Starts writeback of dirty pages before any can be dropped from the cache, without
        // waiting. rustix has no `sync_file_range`, the more direct call.
        Ok(fs::fadvise(file, offset, None, fs::Advice::DontNeed)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn begin_sync(&self, _: BorrowedFd<'_>, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        // On Apple platforms fsync leaves data in the cache of the drive, and not every file system
        // there supports the stronger call.
        #[cfg(target_vendor = "apple")]
        return Ok(fs::fcntl_fullfsync(file).or_else(|_| fs::fsync(file))?);
        #[cfg(not(target_vendor = "apple"))]
        Ok(fs::fdatasync(file)?)
    }

    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        Ok(fs::fsync(dir)?)
    }

    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
        match fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
            // Without support in the file system: creating a hard link never replaces an entry
            // either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::linkat(dir, from, dir, to, AtFlags::empty())?;
                Ok(fs::unlinkat(dir, from, AtFlags::empty())?)
            }
            other => Ok(other?),
        }
    }

    fn replace(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(dir, from, dir, to)?)
    }

    fn unlink(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(dir, name, AtFlags::empty())?)
    }

    fn stat(&self, file: BorrowedFd<'_>) -> io::Result<Stat> {
        Ok(stat(&fs::fstat(file)?))
    }

    fn stat_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Stat> {
        Ok(stat(&fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn lock(&self, file: BorrowedFd<'_>, lock: Lock) -> io::Result<bool> {
        let operation = match lock {
            Lock::Shared => FlockOperation::LockShared,
            Lock::Exclusive => FlockOperation::LockExclusive,
            Lock::ExclusiveNow => FlockOperation::NonBlockingLockExclusive,
        };
        match fs::flock(file, operation) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn names(&self, dir: BorrowedFd<'_>) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(dir)? {
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn free_bytes(&self, dir: BorrowedFd<'_>) -> io::Result<u64> {
        let space = fs::fstatvfs(dir)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_possible_truncation,
    trivial_numeric_casts,
    reason = "a mode has 16 bits on macOS and 32 on Linux; permissions need 12"
)]
fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode((mode & 0o7777) as RawMode)
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    trivial_numeric_casts,
    reason = "the widths and signs of these fields differ between platforms"
)]
fn stat(stat: &fs::Stat) -> Stat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        _ => FileKind::Other,
    };
    Stat {
        kind,
        owner: stat.st_uid,
        mode: (stat.st_mode as u32) & 0o7777,
        links: stat.st_nlink as u64,
        bytes: stat.st_size as u64,
        identity: (stat.st_dev as u64, stat.st_ino as u64),
    }
}
