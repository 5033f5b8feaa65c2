//! A bounded cache of unnamed local files.
//!
//! They hold whole copies of results for whoever needs a file, and what is put aside. Nobody else
//! can open one, and the system takes them back with the process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::bucket::ObjectOptions;
use super::key::Nonce;
use crate::error::{Limit, SpoolError};
use crate::fs::os::{Links, Os, RealOs, again};
use crate::spool::{PositionedRead, Scratch};

const MODE: u32 = 0o600;
/// How much is written between two looks at the free space.
const CHECK_EVERY: u64 = 64 << 20;

/// Which copy: the nonce of its result, and the number of the piece.
type Which = (Nonce, usize);

#[derive(Debug)]
pub(super) struct Local {
    path: PathBuf,
    dir: OwnedFd,
    max_bytes: u64,
    min_free_bytes: u64,
    used: AtomicU64,
    /// Whole copies, the one used last at the end.
    copies: Mutex<Vec<(Which, Arc<LocalFile>)>>,
}

/// A file that goes, and gives back its space, when it is dropped.
#[derive(Debug)]
pub(super) struct LocalFile {
    local: Arc<Local>,
    file: OwnedFd,
    /// The same for reading alone.
    shown: Option<OwnedFd>,
    bytes: u64,
    unchecked: u64,
}

impl Local {
    pub(super) fn open(options: &ObjectOptions) -> Result<Arc<Self>, SpoolError> {
        let path = options.local_dir.clone();
        // The system's temporary directory may be a link.
        let dir = again(|| RealOs.open_dir(&path, Links::Follow))
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

    fn copies(&self) -> MutexGuard<'_, Vec<(Which, Arc<LocalFile>)>> {
        // Nothing panics while the lock is held.
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy, if there is one.
    pub(super) fn copy(&self, which: &Which) -> Option<Arc<LocalFile>> {
        let mut copies = self.copies();
        let at = copies.iter().position(|(one, _)| one == which)?;
        let found = copies.remove(at);
        let file = Arc::clone(&found.1);
        copies.push(found);
        Some(file)
    }

    /// Keeps a copy until its space is needed.
    pub(super) fn keep(&self, which: Which, file: LocalFile) -> Arc<LocalFile> {
        let file = Arc::new(file);
        self.copies().push((which, Arc::clone(&file)));
        file
    }

    /// Lets go of the copies of a result that is gone.
    pub(super) fn forget(&self, nonce: &Nonce) {
        self.copies().retain(|((of, _), _)| of != nonce);
    }

    /// Takes space, letting go of copies that nobody uses, the longest unused first.
    fn take(&self, bytes: u64) -> Result<(), SpoolError> {
        let full = || SpoolError::Full { limit: Limit::Device };
        loop {
            let fits = |used: u64| used.checked_add(bytes).filter(|then| *then <= self.max_bytes);
            if self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok() {
                return Ok(());
            }
            let mut copies = self.copies();
            let unused = copies.iter().position(|(_, file)| Arc::strong_count(file) == 1);
            let unused = copies.remove(unused.ok_or_else(full)?);
            drop(copies);
            drop(unused);
        }
    }

    fn leaves_space(&self) -> Result<(), SpoolError> {
        let free = again(|| RealOs.free_bytes(self.dir.as_fd()))
            .map_err(|error| SpoolError::io("measure", &self.path, error))?;
        if free < self.min_free_bytes {
            return Err(SpoolError::Full { limit: Limit::FreeSpace });
        }
        Ok(())
    }

    /// A file to put something aside in.
    pub(super) fn scratch(self: &Arc<Self>) -> Result<LocalFile, SpoolError> {
        self.leaves_space()?;
        let unnamed = again(|| RealOs.create_unnamed(self.dir.as_fd(), MODE));
        let (file, shown) = match unnamed {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.named_for_a_moment().map(|(file, _)| (file, None))
            }
            other => other.map(|file| (file, None)),
        }
        .map_err(|error| SpoolError::io("create a file in", &self.path, error))?;
        Ok(LocalFile { local: Arc::clone(self), file, shown, bytes: 0, unchecked: 0 })
    }

    /// A file for a copy. It can be handed to another process, which can then only read it.
    pub(super) fn create(self: &Arc<Self>) -> Result<LocalFile, SpoolError> {
        self.leaves_space()?;
        let (file, shown) = self
            .named_for_a_moment()
            .map_err(|error| SpoolError::io("create a file in", &self.path, error))?;
        let shown = Some(shown);
        Ok(LocalFile { local: Arc::clone(self), file, shown, bytes: 0, unchecked: 0 })
    }

    /// A new file, for writing and for reading alone. Whoever dies at this moment leaves it empty.
    fn named_for_a_moment(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (dir, name) = (self.dir.as_fd(), format!(".part-object-{}", Nonce::new()));
        let file = again(|| RealOs.create(dir, &name, MODE))?;
        let shown = again(|| RealOs.open(dir, &name));
        again(|| RealOs.unlink(dir, &name))?;
        Ok((file, shown?))
    }
}

impl LocalFile {
    /// Whether that much more fits; what fits is set aside for it.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<Reserved, SpoolError> {
        self.local.take(bytes)?;
        Ok(Reserved { local: Arc::clone(&self.local), bytes })
    }

    /// Appends bytes that space was reserved for.
    pub(super) fn append_reserved(
        &mut self,
        reserved: &mut Reserved,
        bytes: &[u8],
    ) -> Result<(), SpoolError> {
        let more = (bytes.len() as u64).min(reserved.bytes);
        self.write_all(bytes)?;
        // From now on it goes with the file.
        reserved.bytes -= more;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), SpoolError> {
        self.unchecked += bytes.len() as u64;
        if self.unchecked >= CHECK_EVERY {
            self.unchecked = 0;
            self.local.leaves_space()?;
        }
        let mut at = self.bytes;
        while !bytes.is_empty() {
            let written = again(|| RealOs.write_at(self.file.as_fd(), bytes, at))
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

/// Space for bytes that are still to come.
#[derive(Debug)]
pub(super) struct Reserved {
    local: Arc<Local>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.local.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl PositionedRead for LocalFile {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        // What a failed append left behind the end is not part of it.
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(buf.len());
        again(|| RealOs.read_at(self.file.as_fd(), &mut buf[..wanted], offset))
            .map_err(|error| SpoolError::io("read a file in", &self.local.path, error))
    }

    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        self.shown.as_ref().map(AsFd::as_fd)
    }
}

impl Scratch for LocalFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        let mut reserved = self.reserve(bytes.len() as u64)?;
        self.append_reserved(&mut reserved, bytes)
    }
}
