//! A bounded cache of unnamed local files.
//!
//! They hold full copies of results for callers that need a file, and scratch data. No other process
//! can open them by name, and the system deletes them with the process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::key::Nonce;
use super::options::ObjectOptions;
use crate::error::{SpoolError, SpoolLimit};
use crate::fs::os::{Os, RealOs, SymlinkPolicy, retry_interrupted};
use crate::spool::{PositionedRead, Scratch};

const FILE_MODE: u32 = 0o600;
/// The number of bytes between two checks of the free space.
const FREE_SPACE_CHECK_BYTES: u64 = 64 << 20;

/// The key of a copy: the nonce of its result, and the number of the piece.
type CopyKey = (Nonce, usize);

#[derive(Debug)]
pub(super) struct LocalCache {
    path: PathBuf,
    dir: OwnedFd,
    max_bytes: u64,
    min_free_bytes: u64,
    used: AtomicU64,
    /// Full copies, least recently used first.
    copies: Mutex<Vec<CachedCopy>>,
}

/// A full copy of a piece of a result.
#[derive(Debug)]
struct CachedCopy {
    key: CopyKey,
    file: Arc<LocalFile>,
    /// Whether it was used since [`LocalCache::drop_unused`] was called last.
    is_recent: bool,
}

/// An unnamed file. Dropping it deletes it and releases its space.
#[derive(Debug)]
pub(super) struct LocalFile {
    local: Arc<LocalCache>,
    file: OwnedFd,
    /// The same file, opened read-only.
    read_only: Option<OwnedFd>,
    bytes: u64,
    unchecked: u64,
}

impl LocalCache {
    pub(super) fn open(options: &ObjectOptions) -> Result<Arc<Self>, SpoolError> {
        let path = options.local_dir.clone();
        // The temporary directory of the system may be a symbolic link.
        let dir = retry_interrupted(|| RealOs.open_dir(&path, SymlinkPolicy::Follow))
            .map_err(|error| SpoolError::io("open", &path, error))?;
        Ok(Arc::new(Self {
            path,
            dir,
            max_bytes: options.local_bytes,
            min_free_bytes: options.local_free_bytes,
            used: AtomicU64::new(0),
            copies: Mutex::default(),
        }))
    }

    fn copies(&self) -> MutexGuard<'_, Vec<CachedCopy>> {
        // Nothing panics while the lock is held.
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the copy, if there is one.
    pub(super) fn get(&self, key: &CopyKey) -> Option<Arc<LocalFile>> {
        let mut copies = self.copies();
        let at = copies.iter().position(|copy| copy.key == *key)?;
        let found = CachedCopy { is_recent: true, ..copies.remove(at) };
        let file = Arc::clone(&found.file);
        copies.push(found);
        Some(file)
    }

    /// Caches a copy until its space is needed.
    pub(super) fn insert(&self, key: CopyKey, file: LocalFile) -> Arc<LocalFile> {
        let file = Arc::new(file);
        self.copies().push(CachedCopy { key, file: Arc::clone(&file), is_recent: true });
        file
    }

    /// Evicts the copies of a deleted result.
    pub(super) fn evict(&self, nonce: &Nonce) {
        self.copies().retain(|copy| copy.key.0 != *nonce);
    }

    /// Drops the copies that were not used since the last call. A result that another process deleted
    /// cannot be opened any more, so its copies are not used.
    pub(super) fn drop_unused(&self) {
        self.copies().retain_mut(|copy| std::mem::take(&mut copy.is_recent));
    }

    /// Claims space, evicting unused copies, least recently used first.
    fn claim_space(&self, bytes: u64) -> Result<(), SpoolError> {
        let full = || SpoolError::Full { limit: SpoolLimit::Device };
        loop {
            let fits = |used: u64| used.checked_add(bytes).filter(|then| *then <= self.max_bytes);
            if self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok() {
                return Ok(());
            }
            let mut copies = self.copies();
            let unused = copies.iter().position(|copy| Arc::strong_count(&copy.file) == 1);
            let unused = copies.remove(unused.ok_or_else(full)?);
            drop(copies);
            drop(unused);
        }
    }

    fn check_free_space(&self) -> Result<(), SpoolError> {
        let free = retry_interrupted(|| RealOs.free_bytes(self.dir.as_fd()))
            .map_err(|error| SpoolError::io("measure", &self.path, error))?;
        if free < self.min_free_bytes {
            return Err(SpoolError::Full { limit: SpoolLimit::FreeSpace });
        }
        Ok(())
    }

    /// Creates a scratch file.
    pub(super) fn scratch(self: &Arc<Self>) -> Result<LocalFile, SpoolError> {
        self.check_free_space()?;
        let unnamed = retry_interrupted(|| RealOs.create_unnamed(self.dir.as_fd(), FILE_MODE));
        let (file, read_only) = match unnamed {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.create_then_unlink().map(|(file, _)| (file, None))
            }
            other => other.map(|file| (file, None)),
        }
        .map_err(|error| SpoolError::io("create a file in", &self.path, error))?;
        Ok(LocalFile { local: Arc::clone(self), file, read_only, bytes: 0, unchecked: 0 })
    }

    /// Creates a file for a copy. Another process that receives it can only read it.
    pub(super) fn create(self: &Arc<Self>) -> Result<LocalFile, SpoolError> {
        self.check_free_space()?;
        let (file, read_only) = self
            .create_then_unlink()
            .map_err(|error| SpoolError::io("create a file in", &self.path, error))?;
        let read_only = Some(read_only);
        Ok(LocalFile { local: Arc::clone(self), file, read_only, bytes: 0, unchecked: 0 })
    }

    /// Creates a file, opened for writing and read-only, and unlinks it. A crash in between leaves
    /// an empty file.
    fn create_then_unlink(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (dir, name) = (self.dir.as_fd(), format!(".part-object-{}", Nonce::new()));
        let file = retry_interrupted(|| RealOs.create(dir, &name, FILE_MODE))?;
        let read_only = retry_interrupted(|| RealOs.open(dir, &name));
        retry_interrupted(|| RealOs.unlink(dir, &name))?;
        Ok((file, read_only?))
    }
}

impl LocalFile {
    /// Reserves space for `bytes` more bytes.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<SpaceReservation, SpoolError> {
        self.local.claim_space(bytes)?;
        Ok(SpaceReservation { local: Arc::clone(&self.local), bytes })
    }

    /// Appends bytes from a reservation.
    pub(super) fn append_reserved(
        &mut self,
        reserved: &mut SpaceReservation,
        bytes: &[u8],
    ) -> Result<(), SpoolError> {
        let more = (bytes.len() as u64).min(reserved.bytes);
        self.write_all(bytes)?;
        // From here on, dropping the file releases the space.
        reserved.bytes -= more;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), SpoolError> {
        self.unchecked += bytes.len() as u64;
        if self.unchecked >= FREE_SPACE_CHECK_BYTES {
            self.unchecked = 0;
            self.local.check_free_space()?;
        }
        let mut at = self.bytes;
        while !bytes.is_empty() {
            let written = retry_interrupted(|| RealOs.write_at(self.file.as_fd(), bytes, at))
                .and_then(|n| if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) })
                .map_err(|error| SpoolError::io("write to a file in", &self.local.path, error))?;
            bytes = &bytes[written..];
            at += written as u64;
        }
        Ok(())
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        self.local.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reserved space for bytes to come.
#[derive(Debug)]
pub(super) struct SpaceReservation {
    local: Arc<LocalCache>,
    bytes: u64,
}

impl Drop for SpaceReservation {
    fn drop(&mut self) {
        self.local.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl PositionedRead for LocalFile {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        // Ignores what a failed append left behind the end.
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(buf.len());
        retry_interrupted(|| RealOs.read_at(self.file.as_fd(), &mut buf[..wanted], offset))
            .map_err(|error| SpoolError::io("read a file in", &self.local.path, error))
    }

    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        self.read_only.as_ref().map(AsFd::as_fd)
    }
}

impl Scratch for LocalFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        let mut reserved = self.reserve(bytes.len() as u64)?;
        self.append_reserved(&mut reserved, bytes)
    }
}
