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

/// What a directory needs of the operating system.
///
/// # Contract
///
/// As the system calls of these names, with errors as they come: an interrupted call is an error of
/// kind [`Interrupted`](io::ErrorKind::Interrupted), a short write a smaller number. Nothing follows
/// a symbolic link in its last component, [`open_dir`](Self::open_dir) with [`Links::Follow`] aside.
pub trait Os: fmt::Debug + Send + Sync {
    /// The user we act as.
    fn user(&self) -> u32;

    /// Opens a directory by its path.
    fn open_dir(&self, path: &Path, links: Links) -> io::Result<OwnedFd>;

    /// Creates a directory by its path.
    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Opens a directory within another.
    fn open_dir_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd>;

    /// Creates a directory within another.
    fn make_dir_at(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<()>;

    /// Creates a file without a name, for writing and reading; an error of kind
    /// [`Unsupported`](io::ErrorKind::Unsupported) where there is no such thing.
    fn create_unnamed(&self, dir: BorrowedFd<'_>, mode: u32) -> io::Result<OwnedFd>;

    /// Creates a file that was not there, for writing and reading.
    fn create(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd>;

    /// Opens a file to read it and to append to it, creating it where there is none; without waiting
    /// for the other end of a pipe.
    fn open_append(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd>;

    /// Opens a file for reading, without waiting for the other end of a pipe.
    fn open(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd>;

    /// Sets permissions, whatever the umask.
    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()>;

    /// Writes some of the bytes and says how many.
    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize>;

    /// Writes some of the bytes at `offset` and says how many.
    fn write_at(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Reads some bytes from `offset` on.
    fn read_at(&self, file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Asks the system to begin making a file's bytes safe, from `offset` on; it need not.
    fn begin_sync(&self, file: BorrowedFd<'_>, offset: u64) -> io::Result<()>;

    /// Makes a file's bytes safe.
    fn sync_data(&self, file: BorrowedFd<'_>) -> io::Result<()>;

    /// Makes a directory's entries safe.
    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()>;

    /// Gives an entry another name, never an occupied one.
    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()>;

    /// Removes an entry that is not a directory.
    fn unlink(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()>;

    /// Looks at an open file or directory.
    fn stat(&self, file: BorrowedFd<'_>) -> io::Result<Stat>;

    /// Looks at an entry.
    fn stat_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Stat>;

    /// Locks an open file; false where someone else holds a lock and `lock` does not wait.
    fn lock(&self, file: BorrowedFd<'_>, lock: Lock) -> io::Result<bool>;

    /// The names in a directory that are text.
    fn names(&self, dir: BorrowedFd<'_>) -> io::Result<Vec<String>>;

    /// The bytes a user may still write to the file system.
    fn free_bytes(&self, dir: BorrowedFd<'_>) -> io::Result<u64>;
}

/// Whether a link in the last component of a path leads on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// It does: the system's temporary directory may be one.
    Follow,
    /// It is an error.
    Refuse,
}

/// Which lock, and whether to wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// As a reader, waiting: a sweeper lets go at once.
    Shared,
    /// As a writer of a new file, waiting.
    Exclusive,
    /// As a sweeper: not at all where anyone else has one.
    ExclusiveNow,
}

/// What is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its kind.
    pub kind: Kind,
    /// Its owner.
    pub owner: u32,
    /// Its permissions.
    pub mode: u32,
    /// The number of its names.
    pub links: u64,
    /// Its size.
    pub bytes: u64,
    /// Which one it is: device and inode.
    pub identity: (u64, u64),
}

/// The kinds that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, a pipe, a device.
    Other,
}

/// Repeats a call that a signal interrupted.
pub(crate) fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The operating system we run on.
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

    fn open_dir(&self, path: &Path, links: Links) -> io::Result<OwnedFd> {
        let flags = match links {
            Links::Follow => DIRECTORY,
            Links::Refuse => DIRECTORY | OFlags::NOFOLLOW,
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
        // Exclusive: nobody can give it a name later.
        const UNNAMED: OFlags =
            OFlags::RDWR.union(OFlags::TMPFILE).union(OFlags::EXCL).union(OFlags::CLOEXEC);
        match fs::openat(dir, ".", UNNAMED, permissions(mode)) {
            // A file system or a kernel that does not know it sees an attempt to open a directory.
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
        // What is dirty is sent to the disk before any of it could be dropped from the cache, and
        // nothing waits for it. The call that says only that, sync_file_range, rustix has not.
        Ok(fs::fadvise(file, offset, None, fs::Advice::DontNeed)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn begin_sync(&self, _: BorrowedFd<'_>, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        // On Apple's systems fsync leaves the data in the drive's cache. Not every file system there
        // has the stronger call.
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
            // A file system that cannot: a second name never replaces either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::linkat(dir, from, dir, to, AtFlags::empty())?;
                Ok(fs::unlinkat(dir, from, AtFlags::empty())?)
            }
            other => Ok(other?),
        }
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
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
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
