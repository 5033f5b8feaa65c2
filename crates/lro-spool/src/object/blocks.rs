//! Reads stored results by verified blocks, with a small cache and prefetching.
//!
//! Each block has a SHA-256 digest in the index entry. The checksums of the services do not replace it:
//! the client library verifies none on reads, and the services return none for a range.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use lro_core::ResultId;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use super::bucket::{Failure, Remote};
use super::index::Stored;
use super::key::Keys;
use super::local_cache::LocalFile;
use super::{Hold, Shared};
use crate::error::{Damage, SpoolError};
use crate::spool::{Listed, PartNumber, PositionedRead, StoredResult};

/// What is fetched and checked as one.
pub(super) const BLOCK: u64 = 1 << 20;
/// The length of a digest in hexadecimal.
const HEX: usize = 64;
/// No more blocks than this are fetched at once.
const RUN: u64 = 4;
/// How many runs are kept, those on their way aside.
const KEPT: usize = 2;
/// How many runs are on their way in a scan that went on for a while.
const AHEAD: usize = 3;
/// How many blocks a copy fetches at once.
const STEP: usize = 8;

/// The digests of a piece that is being written.
#[derive(Default)]
pub(super) struct Digests {
    block: Sha256,
    filled: u64,
    done: String,
}

impl Digests {
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = usize::try_from(BLOCK - self.filled).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(space.min(bytes.len()));
            self.block.update(now);
            self.filled += now.len() as u64;
            bytes = later;
            if self.filled == BLOCK {
                self.close();
            }
        }
    }

    /// All of them, one behind the other.
    pub(super) fn finish(&mut self) -> String {
        if self.filled > 0 {
            self.close();
        }
        std::mem::take(&mut self.done)
    }

    fn close(&mut self) {
        push_hex(&mut self.done, &self.block.finalize_reset());
        self.filled = 0;
    }
}

/// Whether there is a digest for each block of this many bytes.
pub(super) fn fit(digests: &str, bytes: u64) -> bool {
    digests.is_ascii()
        && bytes.div_ceil(BLOCK).checked_mul(HEX as u64) == Some(digests.len() as u64)
}

/// Whether `bytes` are the blocks from number `first` on.
pub(super) fn check(digests: &str, first: u64, bytes: &[u8]) -> Result<(), Damage> {
    let block = usize::try_from(BLOCK).unwrap_or(usize::MAX);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    let expected = digests.as_bytes().chunks(HEX).skip(first);
    for (bytes, expected) in bytes.chunks(block).zip(expected) {
        if sha256(bytes).as_bytes() != expected {
            return Err(Damage::Changed);
        }
    }
    Ok(())
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(HEX);
    push_hex(&mut hex, &Sha256::digest(bytes));
    hex
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
}

/// One piece of a stored result.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) remote: Arc<Remote>,
    pub(super) keys: Keys,
    pub(super) id: ResultId,
    pub(super) stored: Arc<Stored>,
    pub(super) index: usize,
    pub(super) bytes: u64,
}

/// Blocks that were fetched together.
#[derive(Debug, Clone)]
struct Run {
    first: u64,
    count: u64,
    bytes: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct Blocks {
    runs: VecDeque<Run>,
    /// The block behind the last one that was fetched.
    next: u64,
    /// How many to fetch at once when that one is asked for.
    ahead: u64,
    /// How many runs may be on their way.
    deep: usize,
    on_their_way: VecDeque<OnItsWay>,
}

#[derive(Debug)]
struct OnItsWay {
    first: u64,
    count: u64,
    answer: JoinHandle<Result<Bytes, SpoolError>>,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.answer.abort();
    }
}

impl Piece {
    fn blocks(&self) -> u64 {
        self.bytes.div_ceil(BLOCK)
    }

    /// Fetches blocks. Bytes that are not those that were written are asked for again, since it may
    /// be the way that changed them; after that they are no longer asked for.
    pub(super) async fn fetch(&self, first: u64, count: u64) -> Result<Bytes, SpoolError> {
        let id = self.id;
        let key = self.keys.data(id, &self.stored.nonce, self.index);
        let range = first * BLOCK..((first + count) * BLOCK).min(self.bytes);
        let digests = self.stored.digests.get(self.index).map_or("", String::as_str);
        let damaged = |why| SpoolError::Damaged { name: id.reference().to_string(), why };
        let mut attempts = self.remote.attempts();
        loop {
            let failure = match self.remote.range(&attempts, &key, range.clone()).await {
                Ok(bytes) => match check(digests, first, &bytes) {
                    Ok(()) => return Ok(bytes),
                    Err(_) if attempts.once_more().await => continue,
                    Err(why) => return Err(damaged(why)),
                },
                Err(failure) => failure,
            };
            if attempts.again(&failure).await {
                continue;
            }
            if failure.is_missing() {
                // The result itself may be gone, and then nothing is damaged.
                let index = self.keys.index(id);
                return Err(match self.remote.size(&index).await? {
                    None => SpoolError::NotFound { asked: id.reference().to_string() },
                    Some(_) => damaged(Damage::Missing),
                });
            }
            return Err(match self.remote.size(&key).await {
                Ok(Some(there)) if there < self.bytes => damaged(Damage::Short),
                _ => failure.doing("read", &key),
            });
        }
    }
}

impl Blocks {
    /// Reads what is there from `offset` on, up to the end of what was fetched together.
    pub(super) fn read_at(
        &mut self,
        piece: &Arc<Piece>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, SpoolError> {
        if offset >= piece.bytes || buf.is_empty() {
            return Ok(0);
        }
        let block = offset / BLOCK;
        let here = |run: &Run| (run.first..run.first + run.count).contains(&block);
        let run = match self.runs.iter().find(|run| here(run)) {
            Some(run) => run.clone(),
            None => self.get(piece, block, offset, buf.len() as u64)?,
        };
        let from = usize::try_from(offset - run.first * BLOCK).unwrap_or(usize::MAX);
        let bytes = run.bytes.get(from..).unwrap_or_default();
        let read = bytes.len().min(buf.len());
        buf[..read].copy_from_slice(&bytes[..read]);
        Ok(read)
    }

    fn get(
        &mut self,
        piece: &Arc<Piece>,
        block: u64,
        offset: u64,
        len: u64,
    ) -> Result<Run, SpoolError> {
        let remote = Arc::clone(&piece.remote);
        let here = |run: &OnItsWay| (run.first..run.first + run.count).contains(&block);
        // What was passed over is not waited for.
        while self.on_their_way.front().is_some_and(|run| !here(run)) {
            self.on_their_way.pop_front();
        }
        let (first, count, bytes) = if let Some(mut run) = self.on_their_way.pop_front() {
            self.deep = (self.deep + 1).min(AHEAD);
            let answer = remote.wait(&mut run.answer);
            let lost = |error| Failure::Store(error).doing("read", piece.keys.all());
            (run.first, run.count, answer.map_err(|error| lost(error.into()))??)
        } else {
            self.deep = 1;
            let wanted = (offset.saturating_add(len)).div_ceil(BLOCK) - block;
            // One that goes on where the last one ended is likely to go on.
            let ahead = if block == self.next && block > 0 { self.ahead } else { 1 };
            let count = wanted.max(ahead).min(RUN).min(piece.blocks() - block);
            (block, count, remote.wait(piece.fetch(block, count))?)
        };
        let goes_on = first == self.next && first > 0;
        self.next = first + count;
        self.ahead = if goes_on { (count * 2).min(RUN) } else { count.clamp(2, RUN) };
        while goes_on && self.on_their_way.len() < self.deep {
            let last = self.on_their_way.back();
            let first = last.map_or(self.next, |last| last.first + last.count);
            let count = self.ahead.min(piece.blocks() - first);
            if count == 0 {
                break;
            }
            let piece = Arc::clone(piece);
            let answer = remote.handle().spawn(async move { piece.fetch(first, count).await });
            self.on_their_way.push_back(OnItsWay { first, count, answer });
        }
        let run = Run { first, count, bytes };
        if self.runs.len() == KEPT {
            self.runs.pop_front();
        }
        self.runs.push_back(run.clone());
        Ok(run)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_sha256_whatever_pieces_the_bytes_come_in() {
        let bytes: Vec<u8> = (0..5_000_000u32).map(|n| (n / 999).to_le_bytes()[0]).collect();
        let mut whole = Digests::default();
        whole.feed(&bytes);
        let mut pieces = Digests::default();
        for piece in bytes.chunks(77_777) {
            pieces.feed(piece);
        }
        let digests = whole.finish();
        assert_eq!(digests, pieces.finish());
        assert!(fit(&digests, bytes.len() as u64) && !fit(&digests, 1));
        assert_eq!(check(&digests, 1, &bytes[1 << 20..3 << 20]), Ok(()));
        assert_eq!(check(&digests, 0, &bytes[1 << 20..3 << 20]), Err(Damage::Changed));
        let mut other = bytes[4 << 20..].to_vec();
        assert_eq!(check(&digests, 4, &other), Ok(()));
        other[7] ^= 1;
        assert_eq!(check(&digests, 4, &other), Err(Damage::Changed));
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
