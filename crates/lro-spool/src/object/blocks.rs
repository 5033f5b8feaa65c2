//! Reads stored results by verified blocks, with a small cache and prefetching.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use lro_core::ResultId;
use tokio::task::JoinHandle;

use super::bucket::{RequestFailure, StoreClient};
use super::digest::{BLOCK_BYTES, verify_blocks};
use super::index::StoredEntry;
use super::key::Keys;
use super::local_cache::LocalFile;
use super::{ReaderLease, Shared};
use crate::error::{Damage, SpoolError};
use crate::sidecar::PartNumber;
use crate::spool::{PositionedRead, ResultInfo, StoredResult};

/// The most blocks fetched in one request.
const MAX_RUN_BLOCKS: u64 = 4;
/// The most runs in the cache, excluding prefetches.
const MAX_CACHED_RUNS: usize = 2;
/// The most concurrent prefetches, during a long sequential scan.
const MAX_PREFETCHES: usize = 3;
/// The number of blocks per request of a full copy.
const COPY_STEP_BLOCKS: usize = 8;

/// One piece of a stored result: its data or a part.
#[derive(Debug)]
struct RemotePiece {
    client: Arc<StoreClient>,
    keys: Keys,
    id: ResultId,
    stored: Arc<StoredEntry>,
    index: usize,
    bytes: u64,
}

/// Consecutive blocks fetched in one request.
#[derive(Debug, Clone)]
struct BlockRun {
    first: u64,
    count: u64,
    bytes: Bytes,
}

/// The blocks of a piece that were read last, and the prefetches of a sequential scan.
#[derive(Debug, Default)]
struct BlockCache {
    runs: VecDeque<BlockRun>,
    /// The block after the last one fetched.
    next: u64,
    /// The number of blocks to fetch if the scan continues there.
    next_run_blocks: u64,
    /// The number of concurrent prefetches allowed.
    prefetch_depth: usize,
    prefetches: VecDeque<Prefetch>,
}

/// A run that is being fetched in the background. Dropping it aborts the request.
#[derive(Debug)]
struct Prefetch {
    first: u64,
    count: u64,
    task: JoinHandle<Result<Bytes, SpoolError>>,
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RemotePiece {
    fn blocks(&self) -> u64 {
        self.bytes.div_ceil(BLOCK_BYTES)
    }

    /// Fetches and verifies blocks. Damaged bytes are fetched again, in case the transfer damaged
    /// them, up to the retry limit.
    async fn fetch(&self, first: u64, count: u64) -> Result<Bytes, SpoolError> {
        let id = self.id;
        let key = self.keys.data(id, &self.stored.nonce, self.index);
        let range = first * BLOCK_BYTES..((first + count) * BLOCK_BYTES).min(self.bytes);
        let digests = self.stored.digests.get(self.index).map_or("", String::as_str);
        let damaged = |why| SpoolError::Damaged { name: id.reference().to_string(), why };
        let mut attempts = self.client.attempts();
        loop {
            let failure = match self.client.range(&attempts, &key, range.clone()).await {
                Ok(bytes) => match verify_blocks(digests, first, &bytes) {
                    Ok(()) => return Ok(bytes),
                    Err(_) if attempts.wait_for_retry().await => continue,
                    Err(why) => return Err(damaged(why)),
                },
                Err(failure) => failure,
            };
            if attempts.should_retry(&failure).await {
                continue;
            }
            if failure.is_missing() {
                // If the result was deleted meanwhile, nothing is damaged.
                let index = self.keys.index(id);
                return Err(match self.client.size(&index).await? {
                    None => SpoolError::NotFound { asked: id.reference().to_string() },
                    Some(_) => damaged(Damage::Missing),
                });
            }
            return Err(match self.client.size(&key).await {
                Ok(Some(there)) if there < self.bytes => damaged(Damage::Short),
                _ => failure.into_spool_error("read", &key),
            });
        }
    }
}

impl BlockCache {
    /// Reads from `offset`, up to the end of the run.
    fn read_at(
        &mut self,
        piece: &Arc<RemotePiece>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, SpoolError> {
        if offset >= piece.bytes || buf.is_empty() {
            return Ok(0);
        }
        let block = offset / BLOCK_BYTES;
        let here = |run: &BlockRun| (run.first..run.first + run.count).contains(&block);
        let run = match self.runs.iter().find(|run| here(run)) {
            Some(run) => run.clone(),
            None => self.get(piece, block, offset, buf.len() as u64)?,
        };
        let from = usize::try_from(offset - run.first * BLOCK_BYTES).unwrap_or(usize::MAX);
        let bytes = run.bytes.get(from..).unwrap_or_default();
        let read = bytes.len().min(buf.len());
        buf[..read].copy_from_slice(&bytes[..read]);
        Ok(read)
    }

    fn get(
        &mut self,
        piece: &Arc<RemotePiece>,
        block: u64,
        offset: u64,
        len: u64,
    ) -> Result<BlockRun, SpoolError> {
        let client = Arc::clone(&piece.client);
        let here = |run: &Prefetch| (run.first..run.first + run.count).contains(&block);
        // Drops prefetches that were skipped.
        while self.prefetches.front().is_some_and(|run| !here(run)) {
            self.prefetches.pop_front();
        }
        let (first, count, bytes) = if let Some(mut run) = self.prefetches.pop_front() {
            self.prefetch_depth = (self.prefetch_depth + 1).min(MAX_PREFETCHES);
            let fetched = client.wait(&mut run.task);
            let lost =
                |error| RequestFailure::Store(error).into_spool_error("read", piece.keys.all());
            (run.first, run.count, fetched.map_err(|error| lost(error.into()))??)
        } else {
            self.prefetch_depth = 1;
            let wanted = (offset.saturating_add(len)).div_ceil(BLOCK_BYTES) - block;
            // A read that continues the last one is likely to continue again.
            let next_run_blocks =
                if block == self.next && block > 0 { self.next_run_blocks } else { 1 };
            let count = wanted.max(next_run_blocks).min(MAX_RUN_BLOCKS).min(piece.blocks() - block);
            (block, count, client.wait(piece.fetch(block, count))?)
        };
        let sequential = first == self.next && first > 0;
        self.next = first + count;
        self.next_run_blocks = if sequential {
            (count * 2).min(MAX_RUN_BLOCKS)
        } else {
            count.clamp(2, MAX_RUN_BLOCKS)
        };
        while sequential && self.prefetches.len() < self.prefetch_depth {
            let last = self.prefetches.back();
            let first = last.map_or(self.next, |last| last.first + last.count);
            let count = self.next_run_blocks.min(piece.blocks() - first);
            if count == 0 {
                break;
            }
            let piece = Arc::clone(piece);
            let task = client.handle().spawn(async move { piece.fetch(first, count).await });
            self.prefetches.push_back(Prefetch { first, count, task });
        }
        let run = BlockRun { first, count, bytes };
        if self.runs.len() == MAX_CACHED_RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back(run.clone());
        Ok(run)
    }
}

/// A reader of the data of a result or of one of its parts. It fetches blocks on demand, or the
/// whole piece if a file is requested.
pub(super) struct ObjectReader {
    shared: Arc<Shared>,
    info: ResultInfo,
    piece: Arc<RemotePiece>,
    blocks: Mutex<BlockCache>,
    /// A full local copy, once requested and if there was room.
    copy: OnceLock<Option<Arc<LocalFile>>>,
    lease: Arc<ReaderLease>,
}

impl ObjectReader {
    pub(super) fn new(
        shared: Arc<Shared>,
        info: ResultInfo,
        stored: Arc<StoredEntry>,
        lease: ReaderLease,
    ) -> Self {
        Self::for_piece(shared, info, stored, 0, Arc::new(lease))
    }

    fn for_piece(
        shared: Arc<Shared>,
        info: ResultInfo,
        stored: Arc<StoredEntry>,
        index: usize,
        lease: Arc<ReaderLease>,
    ) -> Self {
        let (client, keys) = (Arc::clone(&shared.client), shared.keys.clone());
        let bytes = stored.sizes().nth(index).unwrap_or(0);
        let piece = Arc::new(RemotePiece { client, keys, id: info.id(), stored, index, bytes });
        let (blocks, copy) = (Mutex::default(), OnceLock::new());
        if let Some(file) = shared.client.local.get(&(piece.stored.nonce.clone(), index)) {
            // Not shared yet, so it is unset.
            let _ = copy.set(Some(file));
        }
        Self { shared, info, piece, blocks, copy, lease }
    }

    /// Fetches the whole piece into a file, two requests at a time.
    fn fetch_whole(&self) -> Result<Arc<LocalFile>, SpoolError> {
        let (client, piece) = (&self.shared.client, &self.piece);
        let mut file = client.local.create()?;
        let mut space = file.reserve(piece.bytes)?;
        let fetch = |first: u64| {
            let count = (COPY_STEP_BLOCKS as u64).min(piece.bytes.div_ceil(BLOCK_BYTES) - first);
            let piece = Arc::clone(piece);
            client.handle().spawn(async move { piece.fetch(first, count).await })
        };
        let mut firsts = (0..piece.bytes.div_ceil(BLOCK_BYTES)).step_by(COPY_STEP_BLOCKS);
        let mut next = firsts.next().map(fetch);
        while let Some(current) = next {
            next = firsts.next().map(fetch);
            let got = client.wait(current).unwrap_or_else(|error| {
                Err(RequestFailure::Store(error.into()).into_spool_error("read", piece.keys.all()))
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
        Ok(client.local.insert((piece.stored.nonce.clone(), piece.index), file))
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
        // A failed fetch leaves the cache unchanged.
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.read_at(&self.piece, offset, buf)
    }

    /// Returns no file if there is no room for a copy or it cannot be fetched; reading then reports
    /// the error.
    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        let copy = self.copy.get_or_init(|| self.fetch_whole().ok());
        copy.as_ref().and_then(|file| file.as_file())
    }
}

impl StoredResult for ObjectReader {
    fn listed(&self) -> &ResultInfo {
        &self.info
    }

    fn part(&self, part: PartNumber) -> Result<Box<dyn PositionedRead>, SpoolError> {
        let index = usize::from(part.0);
        if index == 0 || index > self.info.sidecar.parts.len() {
            let asked = format!("part {} of {}", part.0, self.info.name);
            return Err(SpoolError::NotFound { asked });
        }
        let (shared, info) = (Arc::clone(&self.shared), self.info.clone());
        let stored = Arc::clone(&self.piece.stored);
        Ok(Box::new(Self::for_piece(shared, info, stored, index, Arc::clone(&self.lease))))
    }
}
