//! The storage trait, its argument and result types, and its errors.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId, MifError};

use super::listing::{Filter, ListPosition, MemoryPage, Order};
use crate::search::query::{Phrase, Terms};

/// A durable store of memories with lexical and vector search.
///
/// # Contract
///
/// - **Acknowledged is durable.** When a method that writes returns `Ok`, the change survives the end
///   of the process and of the machine. When it returns an error, nothing was written;
///   [`StoreError::Unsure`] alone means that the outcome is unknown.
/// - **Writes are atomic per memory.** A reader sees a memory whole or not at all, and finds it by its
///   words as soon as the write is acknowledged. Only vectors may lag.
/// - **Round trip.** A memory is returned equal to the one stored, including unknown keys and every
///   digit.
/// - **Positions outlive rows.** A walk by positions returns every memory that exists and matches from
///   beginning to end exactly once, and a memory that appears or disappears meanwhile at most once.
/// - **Expired memories** ([`Filter::admits`]) are not found, listed or counted.
/// - The process keeps no state that another process with the same store would need.
/// - **Dropping a call abandons it.** Work in the database ends soon, and takes no longer part in the
///   limits of the store when it has ended. An abandoned write is stored whole or not at all.
///
/// The methods need a tokio runtime with its timer.
///
/// [`contract`](crate::contract) has the suite that every implementation runs.
#[async_trait]
pub trait MemoryStore: Send + Sync {
    /// Writes all of `memories` or none. Returns the outcome of each, in their order.
    async fn put(
        &self,
        memories: &[Memory],
        on_conflict: OnConflict,
    ) -> Result<Vec<PutOutcome>, StoreError>;

    /// Returns the memory with this id.
    async fn get(&self, id: &MemoryId) -> Result<Option<Memory>, StoreError>;

    /// Returns the memories with these ids, in their order. Missing ones are left out.
    async fn get_all(&self, ids: &[MemoryId]) -> Result<Vec<Memory>, StoreError>;

    /// Returns the ids from `first` to `last` in ascending order, at most `limit`, so that a prefix
    /// can identify a memory. Like [`get`](Self::get) it includes expired memories.
    async fn ids(
        &self,
        first: &MemoryId,
        last: &MemoryId,
        limit: usize,
    ) -> Result<Vec<MemoryId>, StoreError>;

    /// Replaces the memory with this id by the result of `change`. No other write happens in
    /// between.
    async fn update(&self, id: &MemoryId, change: UpdateFn) -> Result<Option<Memory>, StoreError>;

    /// Deletes the memory with this id permanently. Returns whether it existed.
    async fn delete(&self, id: &MemoryId) -> Result<bool, StoreError>;

    /// Returns at most `limit` memories after a position (keyset pagination).
    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<MemoryPage, StoreError>;

    /// Returns at most `limit` memories after the first `offset`.
    async fn list_from(
        &self,
        filter: &Filter,
        order: Order,
        offset: u64,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Memory>, StoreError>;

    /// Counts the memories that the filter admits.
    async fn count(&self, filter: &Filter, now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// Full-text search: returns the best matches in descending order, at most `limit`. A store may
    /// rank only the best, and let the others follow without a rank, newest first, if more than 1,000
    /// are requested.
    async fn lexical(
        &self,
        terms: &Terms,
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Matches, StoreError>;

    /// Like [`lexical`](Self::lexical), and also returns the `first` best memories, so that a store
    /// behind a network needs one round trip.
    async fn lexical_and_read(
        &self,
        terms: &Terms,
        filter: &Filter,
        limit: usize,
        first: usize,
        now: DateTime<Utc>,
    ) -> Result<(Matches, Vec<Memory>), StoreError> {
        let matches = self.lexical(terms, filter, limit, now).await?;
        let read = self.get_all(&matches.first(first)).await?;
        Ok((matches, read))
    }

    /// Returns how many memories contain each phrase, counting at most `cap` of each. It is a
    /// property of the index: status, expiry and filters do not matter.
    async fn frequencies(&self, phrases: &[Phrase], cap: u64) -> Result<Vec<u64>, StoreError>;

    /// Vector search: returns the memories with the vectors nearest to `vector`, nearest first, at
    /// most `limit`.
    async fn nearest(
        &self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<MemoryMatch>, StoreError>;

    /// Returns the cosine similarity of `vector` to the vectors of these memories, in their order;
    /// `None` for a memory that does not exist or has no such vector of `model`.
    async fn cosines(
        &self,
        model: &str,
        vector: &[f32],
        ids: &[MemoryId],
    ) -> Result<Vec<Option<f64>>, StoreError>;

    /// Returns memories that have no vector of `model` yet and a version above `after`, in the
    /// order of their versions, at most `limit`.
    async fn unembedded(
        &self,
        model: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError>;

    /// Returns the number of memories that have no vector of `model` yet.
    async fn count_unembedded(&self, model: &str) -> Result<u64, StoreError>;

    /// Stores vectors of `model` by version. A version that was replaced meanwhile gets none. An
    /// empty vector records that the model has no vector for this text, so that the memory is no
    /// longer pending. Memories that are left out stay pending, whatever their versions.
    async fn put_vectors(&self, model: &str, vectors: &[(u64, Vec<f32>)])
    -> Result<(), StoreError>;

    /// Returns the queue of memories that wait for a vector, if processes share one. Otherwise one
    /// process embeds what [`unembedded`](Self::unembedded) returns.
    fn embedding_queue(&self) -> Option<Arc<dyn EmbeddingQueue>> {
        None
    }

    /// Deletes expired memories, at most `limit`, and returns their ids.
    async fn expire(&self, now: DateTime<Utc>, limit: usize) -> Result<Vec<MemoryId>, StoreError>;

    /// Deletes memories that were not changed since `before`, at most `limit`, and returns their ids. A
    /// store without retention deletes none.
    async fn retire(
        &self,
        _before: DateTime<Utc>,
        _limit: usize,
    ) -> Result<Vec<MemoryId>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the bytes of all memories, if the store counts them.
    async fn stored_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    /// Finds and repairs index inconsistencies: memories that an index lacks, and index entries
    /// without a memory.
    async fn repair(&self) -> Result<RepairReport, StoreError>;

    /// Returns whether a vector index is behind and [`advance_index`](Self::advance_index) has work
    /// to do. An index that is behind hides nothing: vectors that it lacks are compared one by one.
    async fn is_index_behind(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Brings the vector indexes closer to the stored vectors, in a step of bounded length, for
    /// stores in which updating the index would slow down writers. Returns the amount of work done,
    /// 0 if there is none now.
    async fn advance_index(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Returns whether the full-text index is behind and
    /// [`advance_search_index`](Self::advance_search_index) has work to do. An index that is behind
    /// hides nothing.
    async fn is_search_index_behind(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Indexes memories that servers of a previous version wrote, and counts words if the store
    /// changed much, in a step of bounded length. Returns the amount of work done, 0 if there is none.
    async fn advance_search_index(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Acquires the lease on `task` until a time, unless another process holds it. Returns whether
    /// it was acquired. At most one process runs a leased task.
    async fn lease(
        &self,
        task: &str,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<bool, StoreError>;

    /// Returns random bytes that belong to the store. Every process that shares the store gets the
    /// same.
    async fn secret(&self) -> Result<[u8; 32], StoreError>;

    /// Checks whether the store answers now. A store that many callers share does not let the check
    /// wait for their calls.
    async fn ready(&self) -> Result<(), StoreError> {
        self.secret().await.map(drop)
    }
}

/// A queue of memories that wait for a vector, shared by the workers of any number of processes.
///
/// # Contract
///
/// - A write queues its memory, and [`MemoryStore::put_vectors`] removes it.
/// - A memory is claimed by one worker at a time. The claim ends with the lease, when the vector is
///   stored or when it is released.
/// - A store with many queued memories does not delay those of another store.
#[async_trait]
pub trait EmbeddingQueue: Send + Sync {
    /// Returns the database of the queue. Queues with the same name share their claims.
    fn database(&self) -> &str;

    /// Returns whether the queue has the memories of all stores of the database.
    fn is_shared(&self) -> bool;

    /// Claims memories without a vector of `model` for the time of `lease`, at most `limit`, all of
    /// one store. Returns `None` if there is nothing to do now.
    async fn claim(
        &self,
        model: &str,
        limit: usize,
        lease: Duration,
    ) -> Result<Option<EmbeddingClaim>, StoreError>;

    /// Returns memories of a claim to the queue by version.
    async fn release(
        &self,
        model: &str,
        claim: &EmbeddingClaim,
        versions: &[u64],
        release: Release,
    ) -> Result<(), StoreError>;
}

/// Memories of one store that a worker claimed.
#[non_exhaustive]
pub struct EmbeddingClaim {
    /// The tenant that they belong to.
    pub tenant: String,
    /// The store for the vectors.
    pub store: Arc<dyn MemoryStore>,
    /// The memories. If one failed before, it is alone.
    pub memories: Vec<Unembedded>,
    /// How often the memories failed.
    pub attempts: u32,
}

impl EmbeddingClaim {
    /// Creates a claim.
    pub fn new(
        tenant: String,
        store: Arc<dyn MemoryStore>,
        memories: Vec<Unembedded>,
        attempts: u32,
    ) -> Self {
        Self { tenant, store, memories, attempts }
    }
}

/// How a claimed memory returns to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// It can be claimed at once.
    Unchanged,
    /// It failed, and can be claimed after this time.
    Failed {
        /// The time until then.
        retry_after: Duration,
    },
}

/// A function that computes the new version of a memory from the current one.
pub type UpdateFn = Box<dyn FnMut(Memory) -> Result<Memory, MifError> + Send>;

/// What to do when a different memory with the same id exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// Keep the stored memory.
    Keep,
    /// Overwrite it with the new one.
    Replace,
}

/// The outcome of storing one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PutOutcome {
    /// A new memory was stored.
    Stored,
    /// A different memory with this id was overwritten.
    Replaced,
    /// The identical memory is stored already.
    Unchanged,
    /// A different memory with this id exists and was kept.
    Kept,
}

/// A memory that matches a query, with its score.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MemoryMatch {
    /// The id of the memory.
    pub id: MemoryId,
    /// The score, in the scale of the index. Higher is better.
    pub score: f64,
    /// Whether the memory's weight decays with time.
    pub decays: bool,
}

impl MemoryMatch {
    /// Creates a match.
    pub fn new(id: MemoryId, score: f64, decays: bool) -> Self {
        Self { id, score, decays }
    }
}

/// How accurate a total number of matches is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TotalAccuracy {
    /// All matches were counted.
    #[default]
    Exact,
    /// It was computed from the frequencies of the words.
    Estimated,
    /// There may be more: counting stopped, at 10,000 or before.
    AtLeast,
}

impl TotalAccuracy {
    /// Returns the words before a number of this accuracy: nothing, `about ` or `at least `.
    pub fn qualifier(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::Estimated => "about ",
            Self::AtLeast => "at least ",
        }
    }
}

/// The score of the first match that is not ranked, below every score of a ranking.
pub(crate) const UNRANKED_SCORE: f64 = 1e-9;
/// The score of an unranked match in proportion to the one before, so that no two are equal and a
/// position in the ranking is unambiguous.
pub(crate) const UNRANKED_STEP: f64 = 1.0 - 1e-5;

/// The best matches of a query.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Matches {
    /// The matches, best first.
    pub best: Vec<MemoryMatch>,
    /// The total number of matches.
    pub total: u64,
    /// How accurate `total` is.
    pub accuracy: TotalAccuracy,
    /// The score of a memory that fits the query perfectly, or 0 if it is unknown. A score divided
    /// by it is a share from 0 to 1.
    pub full_score: f64,
    /// The indexes of the phrases that no memory contains.
    pub unknown: Vec<usize>,
}

impl Matches {
    /// Creates a result from the best of `total` matches.
    pub fn new(best: Vec<MemoryMatch>, total: u64) -> Self {
        Self { best, total, ..Self::default() }
    }

    /// Adds the statistics of the query's phrases.
    #[must_use]
    pub fn with_statistics(mut self, full_score: f64, unknown: Vec<usize>) -> Self {
        (self.full_score, self.unknown) = (full_score, unknown);
        self
    }

    /// Returns the ids of the first `n` matches.
    pub(crate) fn first(&self, n: usize) -> Vec<MemoryId> {
        self.best.iter().take(n).map(|one| one.id.clone()).collect()
    }
}

/// A memory without a vector.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unembedded {
    /// The version of the memory. It changes with every update.
    pub version: u64,
    /// The text to embed.
    pub text: String,
}

impl Unembedded {
    /// Creates an entry.
    pub fn new(version: u64, text: String) -> Self {
        Self { version, text }
    }

    /// Takes the text from the title and the content. A title that the content begins with is not
    /// repeated.
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

/// The result of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// The number of memories that an index lacked.
    pub missing: u64,
    /// The number of index entries without a memory.
    pub orphaned: u64,
}

impl RepairReport {
    /// Creates a report.
    pub fn new(missing: u64, orphaned: u64) -> Self {
        Self { missing, orphaned }
    }
}

/// An error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another writer holds the store for too long. Nothing was written; a retry may succeed.
    #[error("the memory store is busy")]
    Busy,
    /// The store is remote and cannot be reached, or it rejects the login. Nothing was written; a
    /// retry succeeds when it is back.
    #[error("cannot reach the memory store")]
    Unavailable(#[source] BoxError),
    /// The connection broke during the commit, and the outcome could not be determined. Check
    /// before retrying.
    #[error("lost the connection to the memory store during a write: the outcome is unknown")]
    Unsure(#[source] BoxError),
    /// The connection would send secrets unencrypted to another machine, or a password to a server
    /// that is not verified. Nothing was sent.
    #[error("refused to use {place}: {why}")]
    PlainText {
        /// The database.
        place: String,
        /// What would have been readable, or by whom.
        why: &'static str,
    },
    /// The server cannot be connected to as configured: TLS fails, or the server refuses the client.
    /// Nothing was written; a retry fails until the configuration of one of them changes.
    #[error("cannot connect to the memory store")]
    Connect(#[source] ConnectError),
    /// The disk is full or does not accept writes. Nothing was written.
    #[error("cannot write to the memory store")]
    Storage(#[source] BoxError),
    /// The file or database is not a store of this program, or it has a later version.
    #[error("{place} is not a usable memory store: {why}")]
    NotAStore {
        /// The location.
        place: String,
        /// The reason.
        why: String,
    },
    /// A stored memory cannot be parsed.
    #[error("a stored memory is damaged")]
    Damaged(#[source] MifError),
    /// The changed memory is not valid.
    #[error("the memory is not valid")]
    Invalid(#[source] MifError),
    /// Any other failure of the database engine.
    #[error("the memory store failed")]
    Engine(#[source] BoxError),
}

/// Why a connection was refused, and what to do. It is also the cause of
/// [`StoreError::Unavailable`] if the server rejects the password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
#[non_exhaustive]
pub struct ConnectError {
    /// The database.
    pub place: String,
    /// The reason.
    pub why: String,
    /// What helps.
    pub hint: String,
}

/// The underlying error of a database engine.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
