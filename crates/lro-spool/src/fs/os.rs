//! Operating system: the few calls a directory needs, so that a test can make each of them fail.
//!
//! Every call names one entry of a directory that is held open; none takes a path, except for the
//! one that opens the directory.

mod real;

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

pub use self::real::RealOs;

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
