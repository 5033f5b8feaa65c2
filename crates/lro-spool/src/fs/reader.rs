//! Reader: a result held open, with a lock that keeps the sweeper away.

use std::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::Shared;
use super::checked_dir::Found;
use crate::error::SpoolError;
use crate::fs::os::again;
use crate::name::Piece;
use crate::spool::{Listed, PartNumber, PositionedRead, StoredResult};

pub(super) struct DirReader {
    shared: Arc<Shared>,
    /// The lock goes with the last reader of any part.
    data: Arc<OwnedFd>,
    bytes: u64,
    listed: Listed,
}

struct PartReader {
    shared: Arc<Shared>,
    file: OwnedFd,
    bytes: u64,
    name: String,
    _protected: Arc<OwnedFd>,
}

impl DirReader {
    pub(super) fn new(shared: Arc<Shared>, found: Found) -> Self {
        let Found { file, stat, listed } = found;
        Self { shared, data: Arc::new(file), bytes: stat.bytes, listed }
    }
}

impl Shared {
    fn read_at(
        &self,
        file: &OwnedFd,
        name: &dyn Display,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, SpoolError> {
        again(|| self.options.os.read_at(file.as_fd(), buf, offset))
            .map_err(|error| SpoolError::io("read", self.folder.at(&name.to_string()), error))
    }
}

impl PositionedRead for DirReader {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        self.shared.read_at(&self.data, &self.listed.name, offset, buf)
    }

    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.data.as_fd())
    }
}

impl StoredResult for DirReader {
    fn listed(&self) -> &Listed {
        &self.listed
    }

    fn part(&self, part: PartNumber) -> Result<Box<dyn PositionedRead>, SpoolError> {
        let name = Piece::Part(part.0).of(&self.listed.name);
        if part.0 == 0 || usize::from(part.0) > self.listed.sidecar.parts.len() {
            return Err(SpoolError::NotFound { asked: name });
        }
        let (file, stat) = self.shared.folder.open_ours(&name)?;
        Ok(Box::new(PartReader {
            shared: Arc::clone(&self.shared),
            file,
            bytes: stat.bytes,
            name,
            _protected: Arc::clone(&self.data),
        }))
    }
}

impl PositionedRead for PartReader {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        self.shared.read_at(&self.file, &self.name, offset, buf)
    }

    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
