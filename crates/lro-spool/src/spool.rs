//! The `Spool` trait and what its implementations share: quotas and tombstones.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use lro_core::ResultId;

use crate::address::{Address, FileName};
use crate::error::{SpoolError, SpoolLimit};
use crate::sidecar::{Layout, NewResult, PartNumber, PartRole, Sidecar};

/// The most tombstones kept in memory.
const MAX_TOMBSTONES: usize = 1024;

/// Storage for results until they expire.
///
/// Deliberately blocking: directories, query engines and searches are, and an implementation over a
/// network drives its own runtime. In an asynchronous runtime, call it in `spawn_blocking`.
///
/// # Contract
///
/// 1. **Atomic.** Before [`Draft::commit`] returns, a result cannot be opened or listed; afterwards
///    it can, complete and with its sidecar, also by another process on the same storage. A draft
///    that is dropped, or whose commit fails, leaves nothing behind.
/// 2. **Header first.** [`create`](Self::create) writes the header line of a
///    [`Jsonl`](crate::Extension::Jsonl) file; the caller's bytes follow it.
/// 3. **Exclusive names.** A name that is in use is [`Taken`](SpoolError::Taken), at the latest
///    when the draft is committed; nothing stored is ever replaced.
/// 4. **Readers protect.** A result returned by [`open`](Self::open) can be read to its end until
///    it is dropped: neither [`sweep`](Self::sweep) nor [`remove`](Self::remove) deletes it.
/// 5. **Expiry is exact.** A result whose time to live has passed at `now` is
///    [`Expired`](SpoolError::Expired), swept or not; a sweep deletes it unless it has readers. A
///    sweep deletes nothing else, whatever the clock says: a `now` before the creation of a result
///    expires nothing.
/// 6. **Reported once.** Each expired result is in the return value of exactly one sweep, also if
///    it was deleted earlier to make room.
/// 7. **Own files only.** Files that the spool did not write are neither opened, listed nor
///    deleted.
/// 8. **Quotas** apply to committed results. The oldest expired results are deleted to make room;
///    after that the draft fails with [`Full`](SpoolError::Full).
/// 9. **No clock, no environment.** Times and identities are arguments.
/// 10. **Scratch files have no name.** The bytes of a [`Scratch`] can be read only through it; it
///     is neither listed nor swept, and it disappears with its handle, also when the process dies.
///     It does not count against the quota, but respects the minimum of free space.
///
/// Every implementation runs `contract::run` (feature `contract`) in its tests.
pub trait Spool: Send + Sync {
    /// Begins a result.
    fn create(&self, new: NewResult) -> Result<Box<dyn Draft>, SpoolError>;

    /// Opens a result for reading.
    fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError>;

    /// Lists all results, including expired ones, by age.
    fn list(&self) -> Result<Vec<ResultInfo>, SpoolError>;

    /// Deletes a result before it expires.
    fn remove(&self, address: &Address) -> Result<ResultInfo, SpoolError>;

    /// Deletes expired results and the leftovers of dead writers.
    fn sweep(&self, now: DateTime<Utc>) -> Result<SweepReport, SpoolError>;

    /// Creates a temporary buffer for bytes that may not become a result.
    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError>;
}

/// A temporary buffer, deleted when it is dropped.
pub trait Scratch: PositionedRead {
    /// Appends all of the bytes or none: after a failure, the earlier bytes are still readable.
    fn append(&mut self, bytes: &[u8]) -> Result<(), SpoolError>;
}

/// A result that is being written. Dropping it without a commit leaves nothing behind.
pub trait Draft: Send {
    /// Appends to the data.
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError>;

    /// Begins an additional part.
    fn add_part(&mut self, role: PartRole) -> Result<PartNumber, SpoolError>;

    /// Appends to an additional part of this draft.
    fn write_part(&mut self, part: PartNumber, bytes: &[u8]) -> Result<(), SpoolError>;

    /// Makes the payload of `bytes` bytes, which the spool received while it was produced, the data or
    /// the content of `part`, without a copy. Returns false if the spool does not have it: the caller
    /// writes it then. Nothing may be written to the data or the part before or after.
    fn take_payload(&mut self, part: Option<PartNumber>, bytes: u64) -> Result<bool, SpoolError> {
        let _ = (part, bytes);
        Ok(false)
    }

    /// Makes the result durable, then visible.
    fn commit(self: Box<Self>, layout: Layout) -> Result<ResultInfo, SpoolError>;
}

/// A stored result and its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultInfo {
    /// The name of the data file.
    pub name: FileName,
    /// The absolute path of the data file, if it has one.
    pub path: Option<PathBuf>,
    /// The metadata.
    pub sidecar: Sidecar,
}

impl ResultInfo {
    pub(crate) fn new(name: FileName, path: Option<PathBuf>, sidecar: Sidecar) -> Self {
        Self { name, path, sidecar }
    }

    /// The id.
    pub fn id(&self) -> ResultId {
        self.name.id()
    }

    /// The error for a request after expiry.
    pub(crate) fn expired_error(&self) -> SpoolError {
        SpoolError::Expired {
            operation: self.name.operation().to_owned(),
            tool: self.sidecar.tool.clone(),
            expires_at: self.sidecar.expires_at,
        }
    }
}

/// Bytes that can be read at any offset.
pub trait PositionedRead: Send + Sync {
    /// The number of bytes.
    fn len(&self) -> u64;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads from `offset` and returns the number of bytes read; 0 only at the end or for an empty
    /// buffer.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError>;

    /// The open file with exactly these bytes, if there is one: it can be passed to another process
    /// without a copy.
    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A stored result that is open for reading, and therefore protected from deletion.
pub trait StoredResult: PositionedRead {
    /// The metadata.
    fn listed(&self) -> &ResultInfo;

    /// Opens an additional part, which protects the whole result as well.
    fn part(&self, part: PartNumber) -> Result<Box<dyn PositionedRead>, SpoolError>;

    /// The absolute path of the data file, if it has one.
    fn path(&self) -> Option<&Path> {
        self.listed().path.as_deref()
    }
}

/// The result of a sweep.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// The deleted results, oldest first: one `OffloadFileExpired` event each.
    pub expired: Vec<ResultInfo>,
    /// The number of expired results that have readers.
    pub in_use: usize,
    /// The number of deleted leftovers.
    pub leftovers: usize,
    /// Failures; the sweep continued after each.
    pub failures: Vec<SpoolError>,
    /// When the next result expires, if the spool examined all of them.
    pub next_expiry: Option<DateTime<Utc>>,
}

/// The quota of a spool, over all scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The maximum size of all files, in bytes.
    pub max_bytes: u64,
    /// The maximum number of results.
    pub max_files: u64,
    /// The minimum free space on the file system, in bytes.
    pub min_free_bytes: u64,
}

impl Quota {
    /// No quota: only the limits of the file system apply.
    pub const NONE: Self = Self { max_bytes: u64::MAX, max_files: u64::MAX, min_free_bytes: 0 };

    /// Whether bytes or results are limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.max_bytes < u64::MAX || self.max_files < u64::MAX
    }

    /// The limit that `usage` exceeds, if any.
    pub(crate) fn exceeded_by(&self, usage: Usage) -> Option<SpoolLimit> {
        if usage.bytes > self.max_bytes {
            Some(SpoolLimit::Bytes)
        } else if usage.files > self.max_files {
            Some(SpoolLimit::Files)
        } else if usage.free < self.min_free_bytes {
            Some(SpoolLimit::FreeSpace)
        } else {
            None
        }
    }
}

impl Default for Quota {
    /// The defaults of `[spool]`.
    fn default() -> Self {
        Self::from(&lro_core::config::SpoolConfig::default())
    }
}

impl From<&lro_core::config::SpoolConfig> for Quota {
    fn from(config: &lro_core::config::SpoolConfig) -> Self {
        Self {
            max_bytes: config.max_bytes,
            max_files: config.max_files,
            min_free_bytes: config.min_free_bytes,
        }
    }
}

/// The usage of a spool, including drafts, and the free space.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) free: u64,
}

/// Recently expired results, so that an expired reference gets a final answer (finding f24) after
/// its file is deleted.
#[derive(Debug, Default)]
pub(crate) struct Tombstones(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    remembered: VecDeque<ResultInfo>,
    /// Deleted to make room, and not yet reported by a sweep.
    unreported: Vec<ResultInfo>,
}

impl Tombstones {
    pub(crate) fn expired(&self, id: ResultId) -> Option<SpoolError> {
        self.state().remembered.iter().find(|gone| gone.id() == id).map(ResultInfo::expired_error)
    }

    /// Keeps the metadata of the tool call, without the envelope.
    pub(crate) fn remember(&self, gone: &ResultInfo) {
        let mut gone = gone.clone();
        gone.sidecar.envelope = None;
        let mut state = self.state();
        if state.remembered.len() == MAX_TOMBSTONES {
            state.remembered.pop_front();
        }
        state.remembered.push_back(gone);
    }

    pub(crate) fn report_later(&self, gone: ResultInfo) {
        self.state().unreported.push(gone);
    }

    pub(crate) fn take_unreported(&self) -> Vec<ResultInfo> {
        std::mem::take(&mut self.state().unreported)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one push or pop, so a panic cannot leave the lists inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
