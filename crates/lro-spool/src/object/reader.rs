//! Reader: a stored result, fetched by blocks as they are asked for, or whole where a file is.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Shared;
use super::block_digests::BLOCK;
use super::block_reader::{Blocks, Piece};
use super::failure::Failure;
use super::index_entry::Stored;
use super::leases::Hold;
use super::local_cache::LocalFile;
use crate::error::SpoolError;
use crate::spool::{Listed, PartNumber, PositionedRead, StoredResult};

/// How many blocks a copy fetches at once.
const STEP: usize = 8;

/// The data of a result, or one of its parts.
pub(super) struct ObjectReader {
    shared: Arc<Shared>,
    listed: Listed,
    piece: Arc<Piece>,
    blocks: Mutex<Blocks>,
    /// A whole copy, once someone asked for it and there was room.
    copy: OnceLock<Option<Arc<LocalFile>>>,
    hold: Arc<Hold>,
}

impl ObjectReader {
    pub(super) fn new(
        shared: Arc<Shared>,
        listed: Listed,
        stored: Arc<Stored>,
        hold: Hold,
    ) -> Self {
        Self::of_piece(shared, listed, stored, 0, Arc::new(hold))
    }

    fn of_piece(
        shared: Arc<Shared>,
        listed: Listed,
        stored: Arc<Stored>,
        index: usize,
        hold: Arc<Hold>,
    ) -> Self {
        let (remote, keys) = (Arc::clone(&shared.remote), shared.keys.clone());
        let bytes = stored.sizes().nth(index).unwrap_or(0);
        let piece = Arc::new(Piece { remote, keys, id: listed.id(), stored, index, bytes });
        let (blocks, copy) = (Mutex::default(), OnceLock::new());
        if let Some(file) = shared.remote.local.copy(&(piece.stored.nonce.clone(), index)) {
            // Nobody else can have set it.
            let _ = copy.set(Some(file));
        }
        Self { shared, listed, piece, blocks, copy, hold }
    }

    /// Fetches everything into a file, two requests at a time.
    fn fetch_whole(&self) -> Result<Arc<LocalFile>, SpoolError> {
        let (remote, piece) = (&self.shared.remote, &self.piece);
        let mut file = remote.local.create()?;
        let mut space = file.reserve(piece.bytes)?;
        let fetch = |first: u64| {
            let count = (STEP as u64).min(piece.bytes.div_ceil(BLOCK) - first);
            let piece = Arc::clone(piece);
            remote.handle().spawn(async move { piece.fetch(first, count).await })
        };
        let mut firsts = (0..piece.bytes.div_ceil(BLOCK)).step_by(STEP);
        let mut next = firsts.next().map(fetch);
        while let Some(current) = next {
            next = firsts.next().map(fetch);
            let got = remote.wait(current).unwrap_or_else(|error| {
                Err(Failure::Store(error.into()).doing("read", piece.keys.all()))
            });
            match got {
                Ok(bytes) => file.append_reserved(&mut space, &bytes)?,
                Err(error) => {
                    if let Some(next) = next {
                        next.abort();
                    }
                    return Err(error);
                }
            }
        }
        Ok(remote.local.keep((piece.stored.nonce.clone(), piece.index), file))
    }
}

impl PositionedRead for ObjectReader {
    fn len(&self) -> u64 {
        self.piece.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        if let Some(Some(file)) = self.copy.get() {
            return file.read_at(offset, buf);
        }
        // A fetch that failed leaves what was there.
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.read_at(&self.piece, offset, buf)
    }

    /// Without room for a copy, or when it cannot be fetched, there is no file; whoever then reads
    /// is told why.
    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        let copy = self.copy.get_or_init(|| self.fetch_whole().ok());
        copy.as_ref().and_then(|file| file.as_file())
    }
}

impl StoredResult for ObjectReader {
    fn listed(&self) -> &Listed {
        &self.listed
    }

    fn part(&self, part: PartNumber) -> Result<Box<dyn PositionedRead>, SpoolError> {
        let index = usize::from(part.0);
        if index == 0 || index > self.listed.sidecar.parts.len() {
            let asked = format!("part {} of {}", part.0, self.listed.name);
            return Err(SpoolError::NotFound { asked });
        }
        let (shared, listed) = (Arc::clone(&self.shared), self.listed.clone());
        let stored = Arc::clone(&self.piece.stored);
        Ok(Box::new(Self::of_piece(shared, listed, stored, index, Arc::clone(&self.hold))))
    }
}
