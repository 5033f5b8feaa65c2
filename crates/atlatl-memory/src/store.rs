//! Store: where memories are kept.

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId, MifError};

use super::listing::{Filter, Listed, Order, Position};
use crate::search::query::Terms;

/// Keeps memories and finds them again. Blocking: whoever has a runtime uses its blocking threads.
///
/// # Contract
///
/// - **Acknowledged is durable.** When a method that writes returns `Ok`, what it wrote survives the
///   end of the process and of the machine. When it returns an error, nothing of it was written;
///   [`StoreError::Unsure`] alone says that nobody knows.
/// - **A memory is one thing.** A reader sees a memory whole or not at all, and finds it by its words
///   as soon as it was acknowledged. Only vectors may lag.
/// - **What was put comes back** equal, unknown keys and every digit included.
/// - **Positions outlast rows.** Going through a listing by positions meets every memory that is there
///   from beginning to end, and admitted throughout, exactly once; one that comes or goes meanwhile at
///   most once.
/// - **What has outlived its time** ([`Filter::admits`]) is not found, listed or counted.
/// - Nothing is kept in the process that another process with the same store would need.
///
/// [`contract`](crate::contract) has the suite that every implementation runs.
pub trait MemoryStore: Send + Sync {
    /// Writes all of `memories` or none. Says of each what became of it, in their order.
    fn put(&self, memories: &[Memory], clash: Clash) -> Result<Vec<Put>, StoreError>;

    /// The memory called `id`.
    fn get(&self, id: &MemoryId) -> Result<Option<Memory>, StoreError>;

    /// The memories called `ids`, in their order; those that are not there are left out.
    fn get_all(&self, ids: &[MemoryId]) -> Result<Vec<Memory>, StoreError>;

    /// The ids from `first` to `last` in their order, at most `limit`: so the beginning of an id can
    /// stand for it. Like [`get`](Self::get) it knows of everything that is stored.
    fn ids(
        &self,
        first: &MemoryId,
        last: &MemoryId,
        limit: usize,
    ) -> Result<Vec<MemoryId>, StoreError>;

    /// Puts `change` of the memory called `id` in its place, with no writer in between.
    fn update(&self, id: &MemoryId, change: Change<'_>) -> Result<Option<Memory>, StoreError>;

    /// Removes the memory called `id` for good; whether it was there.
    fn delete(&self, id: &MemoryId) -> Result<bool, StoreError>;

    /// At most `limit` memories after a position.
    fn list(
        &self,
        filter: &Filter,
        order: Order,
        after: Option<&Position>,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Listed, StoreError>;

    /// At most `limit` memories after the first `offset`.
    fn list_from(
        &self,
        filter: &Filter,
        order: Order,
        offset: u64,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Memory>, StoreError>;

    /// How many memories the filter admits.
    fn count(&self, filter: &Filter, now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// The memories that have the words, the best first, at most `limit`.
    fn lexical(
        &self,
        terms: &Terms,
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Matches, StoreError>;

    /// The same, and the `first` best of them with it: a store that is asked over a network is asked
    /// once.
    fn lexical_and_read(
        &self,
        terms: &Terms,
        filter: &Filter,
        limit: usize,
        first: usize,
        now: DateTime<Utc>,
    ) -> Result<(Matches, Vec<Memory>), StoreError> {
        let matches = self.lexical(terms, filter, limit, now)?;
        let read = self.get_all(&matches.first(first))?;
        Ok((matches, read))
    }

    /// The memories with the vectors nearest to `vector`, the nearest first, at most `limit`.
    fn nearest(
        &self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Match>, StoreError>;

    /// Memories that have no vector of `model` yet and a version above `after`, in the order of their
    /// versions, at most `limit`.
    fn unembedded(
        &self,
        model: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError>;

    /// Keeps vectors of `model`, by version. A memory that was changed since gets none. An empty
    /// vector says that none can be made: the memory waits no longer. Memories that are left out go on
    /// waiting, whatever their versions.
    fn put_vectors(&self, model: &str, vectors: &[(u64, Vec<f32>)]) -> Result<(), StoreError>;

    /// Removes what has outlived its time, at most `limit`; says which.
    fn expire(&self, now: DateTime<Utc>, limit: usize) -> Result<Vec<MemoryId>, StoreError>;

    /// Looks for memories that an index lacks, and for entries of memories that are gone, and mends
    /// both.
    fn repair(&self) -> Result<Repaired, StoreError>;

    /// Whether an index of vectors is behind and [`advance_index`](Self::advance_index) has something
    /// to do. An index that is behind hides nothing: what it lacks is compared without it.
    fn is_index_behind(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Brings the indexes of vectors nearer to what is stored, in a bounded step, where writing into
    /// them takes too long for whoever writes; how much was done, 0 if there is nothing to do now.
    fn advance_index(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Takes the task called `task` until a time, unless someone has it; whether it was free. So a
    /// task runs in one process at a time.
    fn lease(
        &self,
        task: &str,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<bool, StoreError>;

    /// Random bytes that belong to the store: whoever shares it, shares them.
    fn secret(&self) -> Result<[u8; 32], StoreError>;
}

/// How a memory is changed.
pub type Change<'a> = &'a mut dyn FnMut(Memory) -> Result<Memory, MifError>;

/// What happens to a memory whose id is taken by a different one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clash {
    /// The stored one stays.
    Keep,
    /// The new one takes its place.
    Replace,
}

/// What became of a memory that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Put {
    /// It is new.
    Stored,
    /// It took the place of a different one.
    Replaced,
    /// The very same is there already.
    Unchanged,
    /// A different one of this id is there, and stays.
    Kept,
}

/// A memory that answers a question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Match {
    /// Which.
    pub id: MemoryId,
    /// How well, in the measure of the index: more is better.
    pub score: f64,
    /// Whether its weight falls with time.
    pub fades: bool,
}

impl Match {
    /// A match.
    pub fn new(id: MemoryId, score: f64, fades: bool) -> Self {
        Self { id, score, fades }
    }
}

/// The best matches of a question.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Matches {
    /// The best, the best first.
    pub best: Vec<Match>,
    /// How many there are in all.
    pub total: u64,
}

impl Matches {
    /// The best of `total`.
    pub fn new(best: Vec<Match>, total: u64) -> Self {
        Self { best, total }
    }

    /// Which are the first `n`.
    pub(crate) fn first(&self, n: usize) -> Vec<MemoryId> {
        self.best.iter().take(n).map(|one| one.id.clone()).collect()
    }
}

/// A memory that waits for its vector.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unembedded {
    /// Its version: it changes when the memory does.
    pub version: u64,
    /// What the vector is made from.
    pub text: String,
}

impl Unembedded {
    /// A memory that waits.
    pub fn new(version: u64, text: String) -> Self {
        Self { version, text }
    }

    /// This version of a memory: its title and its content, once where the one begins the other.
    pub(crate) fn from_memory(version: u64, memory: Memory) -> Self {
        let text = match &memory.title {
            Some(title) if !memory.content.starts_with(title.as_str()) => {
                format!("{title}\n{}", memory.content)
            }
            _ => memory.content,
        };
        Self { version, text }
    }
}

/// What a repair found and mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Repaired {
    /// Memories that an index did not have.
    pub missing: u64,
    /// Entries of memories that are gone.
    pub orphaned: u64,
}

impl Repaired {
    /// What was found.
    pub fn new(missing: u64, orphaned: u64) -> Self {
        Self { missing, orphaned }
    }
}

/// Why a store did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Someone else writes for too long. Nothing was written; trying again may help.
    #[error("the memory store is busy")]
    Busy,
    /// It is somewhere else, and does not answer or does not let us in. Nothing was written; trying
    /// again helps when it is back.
    #[error("the memory store cannot be reached")]
    Unavailable(#[source] Source),
    /// The connection broke at the very end, and the store could not be asked what became of the
    /// change. Look before trying again.
    #[error("the memory store was lost while it wrote: the change may be there or not")]
    Unsure(#[source] Source),
    /// Secrets would travel without encryption beyond this machine, which was not allowed. Nothing was
    /// sent.
    #[error("refused to use {place} without encryption: {why}")]
    PlainText {
        /// Which database.
        place: String,
        /// What would have been readable on the way.
        why: &'static str,
    },
    /// The disk is full or does not take it. Nothing was written.
    #[error("the memory store cannot write")]
    Storage(#[source] Source),
    /// What is there is no store of ours, or of a later version.
    #[error("{place} is no memory store: {why}")]
    NotAStore {
        /// Where.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// What is stored cannot be read as a memory.
    #[error("a stored memory is damaged")]
    Damaged(#[source] MifError),
    /// The changed memory is none.
    #[error("the memory is not valid")]
    Invalid(#[source] MifError),
    /// The engine failed in another way.
    #[error("the memory store failed")]
    Engine(#[source] Source),
}

/// What an engine says.
pub type Source = Box<dyn std::error::Error + Send + Sync>;
