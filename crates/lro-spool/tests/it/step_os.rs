//! The real operating system, with a hook before and after each call.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use lro_spool::os::{Lock, Os, RealOs, Stat, SymlinkPolicy};

/// Where in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Before,
    After,
}

/// What a watcher says of a call, named as in [`Os`]; its error takes the place of the answer.
pub(crate) trait Watcher: Fn(&'static str, Side) -> io::Result<()> + Send + Sync {}

impl<F: Fn(&'static str, Side) -> io::Result<()> + Send + Sync> Watcher for F {}

/// The real operating system, with someone who watches each step.
pub(crate) struct StepOs<W>(pub(crate) W);

impl<W> fmt::Debug for StepOs<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StepOs")
    }
}

impl<W: Watcher> StepOs<W> {
    fn call<T>(
        &self,
        step: &'static str,
        real: impl FnOnce(RealOs) -> io::Result<T>,
    ) -> io::Result<T> {
        (self.0)(step, Side::Before)?;
        let answer = real(RealOs);
        (self.0)(step, Side::After)?;
        answer
    }
}

impl<W: Watcher> Os for StepOs<W> {
    fn user(&self) -> u32 {
        RealOs.user()
    }

    fn open_dir(&self, path: &Path, links: SymlinkPolicy) -> io::Result<OwnedFd> {
        self.call("open_dir", |os| os.open_dir(path, links))
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.call("make_dir", |os| os.make_dir(path, mode))
    }

    fn open_dir_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
        self.call("open_dir_at", |os| os.open_dir_at(dir, name))
    }

    fn make_dir_at(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<()> {
        self.call("make_dir_at", |os| os.make_dir_at(dir, name, mode))
    }

    fn create_unnamed(&self, dir: BorrowedFd<'_>, mode: u32) -> io::Result<OwnedFd> {
        self.call("create_unnamed", |os| os.create_unnamed(dir, mode))
    }

    fn create(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd> {
        self.call("create", |os| os.create(dir, name, mode))
    }

    fn open_append(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd> {
        self.call("open_append", |os| os.open_append(dir, name, mode))
    }

    fn open(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
        self.call("open", |os| os.open(dir, name))
    }

    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        self.call("set_mode", |os| os.set_mode(file, mode))
    }

    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        self.call("write", |os| os.write(file, bytes))
    }

    fn write_at(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.call("write_at", |os| os.write_at(file, bytes, offset))
    }

    fn begin_sync(&self, file: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
        self.call("begin_sync", |os| os.begin_sync(file, offset))
    }

    fn read_at(&self, file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call("read_at", |os| os.read_at(file, buf, offset))
    }

    fn sync_data(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.call("sync_data", |os| os.sync_data(file))
    }

    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        self.call("sync_dir", |os| os.sync_dir(dir))
    }

    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
        self.call("rename", |os| os.rename(dir, from, to))
    }

    fn replace(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
        self.call("replace", |os| os.replace(dir, from, to))
    }

    fn unlink(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        self.call("unlink", |os| os.unlink(dir, name))
    }

    fn stat(&self, file: BorrowedFd<'_>) -> io::Result<Stat> {
        self.call("stat", |os| os.stat(file))
    }

    fn stat_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Stat> {
        self.call("stat_at", |os| os.stat_at(dir, name))
    }

    fn lock(&self, file: BorrowedFd<'_>, lock: Lock) -> io::Result<bool> {
        self.call("lock", |os| os.lock(file, lock))
    }

    fn names(&self, dir: BorrowedFd<'_>) -> io::Result<Vec<String>> {
        self.call("names", |os| os.names(dir))
    }

    fn free_bytes(&self, dir: BorrowedFd<'_>) -> io::Result<u64> {
        self.call("free_bytes", |os| os.free_bytes(dir))
    }
}

/// Every step there is.
pub(crate) const STEPS: [&str; 19] = [
    "open_dir",
    "make_dir",
    "open_dir_at",
    "make_dir_at",
    "create",
    "open_append",
    "open",
    "set_mode",
    "write",
    "read_at",
    "sync_data",
    "sync_dir",
    "rename",
    "unlink",
    "stat",
    "stat_at",
    "lock",
    "names",
    "free_bytes",
];
