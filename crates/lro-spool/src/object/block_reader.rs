//! Reads blocks with verification, a small cache and prefetching.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use lro_core::ResultId;
use tokio::task::JoinHandle;

use super::block_digests::{BLOCK, check};
use super::bucket::Remote;
use super::failure::Failure;
use super::index_entry::Stored;
use super::key::Keys;
use crate::error::{Damage, SpoolError};

/// No more blocks than this are fetched at once.
const RUN: u64 = 4;
/// How many runs are kept, those on their way aside.
const KEPT: usize = 2;
/// How many runs are on their way in a scan that went on for a while.
const AHEAD: usize = 3;

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
