//! Scratch: bytes put aside in a file that has no name.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lro_core::{Operation, ResultId};

use super::Shared;
use crate::error::{Limit, SpoolError};
use crate::fs::os::again;
use crate::name::{Extension, FileName, Piece};
use crate::spool::{PositionedRead, Scratch};

/// Nobody but us reads it, whoever may read results.
const MODE: u32 = 0o600;
/// How much is put aside between two looks at the free space.
const CHECK_EVERY: u64 = 64 << 20;
/// How many names may be in use where a file must have one for a moment.
const ATTEMPTS: usize = 16;

pub(super) struct DirScratch {
    shared: Arc<Shared>,
    file: OwnedFd,
    bytes: u64,
    unchecked: u64,
}

impl DirScratch {
    pub(super) fn begin(shared: Arc<Shared>) -> Result<Self, SpoolError> {
        let folder = &shared.folder;
        let io = |op, error| SpoolError::io(op, &folder.path, error);
        let file = match again(|| folder.os.create_unnamed(folder.fd.as_fd(), MODE)) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => named_for_a_moment(&shared),
            other => other.map_err(|error| io("create a file in", error)),
        }?;
        // The umask may have taken from the mode, and shall not decide.
        again(|| folder.os.set_mode(file.as_fd(), MODE))
            .map_err(|error| io("set permissions in", error))?;
        let scratch = Self { shared, file, bytes: 0, unchecked: 0 };
        scratch.leaves_space()?;
        Ok(scratch)
    }

    fn leaves_space(&self) -> Result<(), SpoolError> {
        if self.shared.free()? < self.shared.options.quota.min_free_bytes {
            return Err(SpoolError::Full { limit: Limit::FreeSpace });
        }
        Ok(())
    }
}

/// Makes a file and takes its name away at once. Its name is that of a draft: a sweep clears it
/// should we die in between, and may as well be faster.
fn named_for_a_moment(shared: &Shared) -> Result<OwnedFd, SpoolError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = &shared.folder;
    let operation = Operation::of_tool("scratch");
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..ATTEMPTS {
        // Unique enough: the name is free again in a moment.
        let next = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let id = ResultId::new(0, u128::from(std::process::id()) << 48 | next);
        let name = Piece::Data.draft_of(&FileName::new(&operation, id, Extension::Bin));
        let io = |op, error| SpoolError::io(op, folder.at(&name), error);
        match again(|| folder.os.create(folder.fd.as_fd(), &name, MODE)) {
            Ok(file) => {
                let unlink = || again(|| folder.os.unlink(folder.fd.as_fd(), &name));
                return match unlink() {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        // Once more: the name would stay until the next sweep.
                        let _ = unlink();
                        Err(io("remove", error))
                    }
                    _ => Ok(file),
                };
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(io("create", error)),
        }
    }
    Err(SpoolError::io("create a file in", &folder.path, taken))
}

impl Scratch for DirScratch {
    fn append(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        let io = |error| SpoolError::io("write to a file in", &self.shared.folder.path, error);
        let mut at = self.bytes;
        let mut rest = bytes;
        while !rest.is_empty() {
            // By place: what a failure left behind the end is written over.
            let written = again(|| self.shared.options.os.write_at(self.file.as_fd(), rest, at))
                .and_then(|n| if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) })
                .map_err(io)?;
            rest = &rest[written..];
            at += written as u64;
        }
        self.unchecked += bytes.len() as u64;
        if self.unchecked >= CHECK_EVERY {
            self.unchecked = 0;
            self.leaves_space()?;
        }
        self.bytes = at;
        Ok(())
    }
}

impl PositionedRead for DirScratch {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(buf.len());
        again(|| self.shared.options.os.read_at(self.file.as_fd(), &mut buf[..wanted], offset))
            .map_err(|error| SpoolError::io("read from a file in", &self.shared.folder.path, error))
    }
}
