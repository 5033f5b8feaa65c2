//! The `Spool` trait and what its implementations share: quotas and tombstones.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::records::Envelope;
use lro_core::{OffloadHeader, Operation, ResultId};

use crate::address::{Address, Extension, FileName};
use crate::error::{Limit, SpoolError};
use crate::sidecar::{PartRole, Sidecar, StoredForm};

/// How many are remembered for whoever asks for one again.
const REMEMBERED: usize = 1024;

/// A place where results are stored until they expire.
///
/// Blocking on purpose: the directory, the query engines and a search are, and an implementation
/// over a network bridges inside. A caller in an asynchronous runtime wraps a call in its
/// `spawn_blocking`.
///
/// # Contract
///
/// 1. **All or nothing.** Before [`Draft::commit`] returns, a result cannot be opened or listed;
///    afterwards it can, whole and with its sidecar, also by another process on the same place. A
///    draft that is dropped, or whose commit fails, leaves nothing behind.
/// 2. **Header first.** [`create`](Self::create) writes the header line of a
///    [`Jsonl`](Extension::Jsonl) file; what the caller writes follows it.
/// 3. **One name, one result.** A name that is in use is [`Taken`](SpoolError::Taken), at the
///    latest when the draft is committed; nothing stored is ever replaced.
/// 4. **Reading holds.** Whatever [`open`](Self::open) returned can be read to its end until it is
///    dropped: neither [`sweep`](Self::sweep) nor [`remove`](Self::remove) takes it away.
/// 5. **Expiry is exact.** A result whose time is up at `now` is [`Expired`](SpoolError::Expired),
///    swept or not; a sweep removes it unless someone reads it. Nothing else is ever removed by a
///    sweep, whatever the clock says: a `now` before a result's creation expires nothing.
/// 6. **Told once.** Each expired result is in the return value of exactly one sweep, also when it
///    was removed in between to make room.
/// 7. **Only ours.** What the spool did not write is neither opened, listed nor removed.
/// 8. **Quotas hold** for what is committed. Room is made by removing what has expired, oldest
///    first; after that the draft fails with [`Full`](SpoolError::Full).
/// 9. **No clock, no environment.** Time and identities come in as arguments.
/// 10. **Scratch has no name.** What was put into a [`Scratch`] can be read through it, and by
///     nobody else; it is neither listed nor swept, and is gone with its handle, also when the
///     process dies. It takes none of the quota of what is stored, and leaves as much free space.
///
/// An implementation runs `contract::run` (feature `contract`) in its tests.
pub trait Spool: Send + Sync {
    /// Begins a result.
    fn create(&self, new: NewResult) -> Result<Box<dyn Draft>, SpoolError>;

    /// Opens a result for reading.
    fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError>;

    /// All results, expired ones included, by age.
    fn list(&self) -> Result<Vec<Listed>, SpoolError>;

    /// Removes a result before its time.
    fn remove(&self, address: &Address) -> Result<Listed, SpoolError>;

    /// Removes what has expired, and what dead writers left.
    fn sweep(&self, now: DateTime<Utc>) -> Result<Swept, SpoolError>;

    /// A place to put bytes aside while it is not known yet what becomes of them.
    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError>;
}

/// Bytes that were put aside; they go with it.
pub trait Scratch: PositionedRead {
    /// Appends all of the bytes, or none: after a failure those before it can still be read.
    fn append(&mut self, bytes: &[u8]) -> Result<(), SpoolError>;
}

/// What a result is, before its bytes come.
#[derive(Debug, Clone)]
pub struct NewResult {
    /// Its identity.
    pub id: ResultId,
    /// What was called; stands in the name.
    pub operation: Operation,
    /// The tool as its server called it.
    pub tool: String,
    /// The server whose tool it is, where there are several.
    pub server: Option<String>,
    /// What the file holds.
    pub extension: Extension,
    /// The header.
    pub header: OffloadHeader,
    /// The time now.
    pub created_at: DateTime<Utc>,
    /// How long it shall live.
    pub ttl: Duration,
}

impl NewResult {
    /// The name its file will have.
    pub fn name(&self) -> FileName {
        FileName::new(&self.operation, self.id, self.extension)
    }
}

/// A result that is being written. Dropped without a commit it leaves nothing behind.
pub trait Draft: Send {
    /// Appends to the data.
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError>;

    /// Begins a further part.
    fn add_part(&mut self, role: PartRole) -> Result<PartNumber, SpoolError>;

    /// Appends to a further part of this draft.
    fn write_part(&mut self, part: PartNumber, bytes: &[u8]) -> Result<(), SpoolError>;

    /// Makes the result safe, then visible.
    fn commit(
        self: Box<Self>,
        form: StoredForm,
        envelope: Option<Envelope>,
    ) -> Result<Listed, SpoolError>;
}

/// The number of a further part, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartNumber(pub u16);

/// A stored result with what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The name of its file.
    pub name: FileName,
    /// The absolute path of its file, where it has one.
    pub path: Option<PathBuf>,
    /// What is known of it.
    pub sidecar: Sidecar,
}

impl Listed {
    pub(crate) fn new(name: FileName, path: Option<PathBuf>, sidecar: Sidecar) -> Self {
        Self { name, path, sidecar }
    }

    /// Its identity.
    pub fn id(&self) -> ResultId {
        self.name.id()
    }

    /// The answer to whoever asks for it when its time is up.
    pub(crate) fn expired(&self) -> SpoolError {
        SpoolError::Expired {
            operation: self.name.operation().to_owned(),
            tool: self.sidecar.tool.clone(),
            expires_at: self.sidecar.expires_at,
        }
    }
}

/// Bytes that can be read from any place on.
pub trait PositionedRead: Send + Sync {
    /// How many there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads from `offset` on and says how much; 0 only at the end or for an empty buffer.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError>;

    /// The open file that holds exactly these bytes, where there is one: what can be handed to
    /// another process without a copy.
    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A stored result, open for reading and protected while it is.
pub trait StoredResult: PositionedRead {
    /// What is known of it.
    fn listed(&self) -> &Listed;

    /// A further part; it protects the whole result as well.
    fn part(&self, part: PartNumber) -> Result<Box<dyn PositionedRead>, SpoolError>;

    /// The absolute path of its file, where it has one.
    fn path(&self) -> Option<&Path> {
        self.listed().path.as_deref()
    }
}

/// What a sweep did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// The results that are gone, oldest first: one `OffloadFileExpired` each.
    pub expired: Vec<Listed>,
    /// How many have expired and are being read.
    pub in_use: usize,
    /// How many files of dead writers are gone.
    pub leftovers: usize,
    /// What could not be looked at or removed; the sweep went on.
    pub failures: Vec<SpoolError>,
    /// When the next result expires, where the spool looked at all of them.
    pub next_expiry: Option<DateTime<Utc>>,
}

/// What a spool may hold, all of it taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The bytes of all files.
    pub max_bytes: u64,
    /// The number of results.
    pub max_files: u64,
    /// What must stay free on the file system.
    pub min_free_bytes: u64,
}

impl Quota {
    /// No limit but the file system's own.
    pub const NONE: Self = Self { max_bytes: u64::MAX, max_files: u64::MAX, min_free_bytes: 0 };

    /// Whether anything is counted against it.
    pub(crate) fn counts(&self) -> bool {
        self.max_bytes < u64::MAX || self.max_files < u64::MAX
    }

    /// Which limit this much would break.
    pub(crate) fn broken_by(&self, usage: Usage) -> Option<Limit> {
        if usage.bytes > self.max_bytes {
            Some(Limit::Bytes)
        } else if usage.files > self.max_files {
            Some(Limit::Files)
        } else if usage.free < self.min_free_bytes {
            Some(Limit::FreeSpace)
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

/// What a spool holds, drafts included, and what is left around it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) free: u64,
}

/// f24: an expired reference gets a final answer, also after its file is gone.
#[derive(Debug, Default)]
pub(crate) struct Gone(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    remembered: VecDeque<Listed>,
    /// Removed to make room, and not in a sweep's return value yet.
    untold: Vec<Listed>,
}

impl Gone {
    pub(crate) fn expired(&self, id: ResultId) -> Option<SpoolError> {
        self.state().remembered.iter().find(|gone| gone.id() == id).map(Listed::expired)
    }

    /// Keeps the call that made a result, not what stood around its records.
    pub(crate) fn remember(&self, gone: &Listed) {
        let mut gone = gone.clone();
        gone.sidecar.envelope = None;
        let mut state = self.state();
        if state.remembered.len() == REMEMBERED {
            state.remembered.pop_front();
        }
        state.remembered.push_back(gone);
    }

    pub(crate) fn tell_later(&self, gone: Listed) {
        self.state().untold.push(gone);
    }

    pub(crate) fn take_untold(&self) -> Vec<Listed> {
        std::mem::take(&mut self.state().untold)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one push or pop; none leaves the lists half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
