//! An operating system that fails on demand.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use crate::fs::os::{Lock, Os, RealOs, Stat, SymlinkPolicy};

/// How a system call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InjectedFault {
    /// `ENOSPC`.
    NoSpace,
    /// `EIO`.
    Io,
    /// `EDQUOT`.
    Quota,
    /// `EINTR`: the next call succeeds.
    Interrupted,
    /// A write accepts half of its bytes; other calls succeed.
    ShortWrite,
}

/// How long a fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultDuration {
    /// One call fails.
    Once,
    /// That call and every later one fail.
    FromThenOn,
}

/// The real operating system, except that the Nth call fails.
#[derive(Debug)]
pub struct FaultyOs {
    calls: AtomicU64,
    fail_at: u64,
    fault: InjectedFault,
    lasting: FaultDuration,
    unnamed_files: bool,
}

impl FaultyOs {
    /// Fails at call number `fail_at`, counted from 1; 0 never fails.
    pub fn new(fail_at: u64, fault: InjectedFault, lasting: FaultDuration) -> Self {
        Self { calls: AtomicU64::new(0), fail_at, fault, lasting, unnamed_files: true }
    }

    /// Without support for unnamed files.
    pub fn without_unnamed_files(self) -> Self {
        Self { unnamed_files: false, ..self }
    }

    /// Whether the failing call was reached.
    pub fn fired(&self) -> bool {
        self.fail_at > 0 && self.calls.load(Ordering::SeqCst) >= self.fail_at
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn due(&self) -> bool {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match self.lasting {
            FaultDuration::Once => call == self.fail_at,
            FaultDuration::FromThenOn => self.fail_at > 0 && call >= self.fail_at,
        }
    }

    /// The bytes that a write accepts, and whether the call was counted as a short write.
    fn shortened<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], bool) {
        if self.fault != InjectedFault::ShortWrite {
            return (bytes, false);
        }
        let taken = if self.due() { bytes.len().div_ceil(2) } else { bytes.len() };
        (&bytes[..taken], true)
    }

    fn call<T>(&self, real: impl FnOnce(RealOs) -> io::Result<T>) -> io::Result<T> {
        if !self.due() {
            return real(RealOs);
        }
        Err(match self.fault {
            InjectedFault::NoSpace => Errno::NOSPC.into(),
            InjectedFault::Io => Errno::IO.into(),
            InjectedFault::Quota => Errno::DQUOT.into(),
            InjectedFault::Interrupted => Errno::INTR.into(),
            InjectedFault::ShortWrite => return real(RealOs),
        })
    }
}

impl Os for FaultyOs {
    fn user(&self) -> u32 {
        RealOs.user()
    }

    fn open_dir(&self, path: &Path, links: SymlinkPolicy) -> io::Result<OwnedFd> {
        self.call(|os| os.open_dir(path, links))
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.call(|os| os.make_dir(path, mode))
    }

    fn open_dir_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
        self.call(|os| os.open_dir_at(dir, name))
    }

    fn make_dir_at(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<()> {
        self.call(|os| os.make_dir_at(dir, name, mode))
    }

    fn create_unnamed(&self, dir: BorrowedFd<'_>, mode: u32) -> io::Result<OwnedFd> {
        if !self.unnamed_files {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.call(|os| os.create_unnamed(dir, mode))
    }

    fn create(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd> {
        self.call(|os| os.create(dir, name, mode))
    }

    fn open_append(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd> {
        self.call(|os| os.open_append(dir, name, mode))
    }

    fn open(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
        self.call(|os| os.open(dir, name))
    }

    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        self.call(|os| os.set_mode(file, mode))
    }

    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        let (bytes, short) = self.shortened(bytes);
        if short { RealOs.write(file, bytes) } else { self.call(|os| os.write(file, bytes)) }
    }

    fn write_at(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let (bytes, short) = self.shortened(bytes);
        if short {
            RealOs.write_at(file, bytes, offset)
        } else {
            self.call(|os| os.write_at(file, bytes, offset))
        }
    }

    fn read_at(&self, file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call(|os| os.read_at(file, buf, offset))
    }

    fn begin_sync(&self, file: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
        self.call(|os| os.begin_sync(file, offset))
    }

    fn sync_data(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.call(|os| os.sync_data(file))
    }

    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        self.call(|os| os.sync_dir(dir))
    }

    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
        self.call(|os| os.rename(dir, from, to))
    }

    fn replace(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
        self.call(|os| os.replace(dir, from, to))
    }

    fn unlink(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        self.call(|os| os.unlink(dir, name))
    }

    fn stat(&self, file: BorrowedFd<'_>) -> io::Result<Stat> {
        self.call(|os| os.stat(file))
    }

    fn stat_at(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Stat> {
        self.call(|os| os.stat_at(dir, name))
    }

    fn lock(&self, file: BorrowedFd<'_>, lock: Lock) -> io::Result<bool> {
        self.call(|os| os.lock(file, lock))
    }

    fn names(&self, dir: BorrowedFd<'_>) -> io::Result<Vec<String>> {
        self.call(|os| os.names(dir))
    }

    fn free_bytes(&self, dir: BorrowedFd<'_>) -> io::Result<u64> {
        self.call(|os| os.free_bytes(dir))
    }
}
