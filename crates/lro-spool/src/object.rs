//! A spool in object storage: S3, Google Cloud Storage, Azure, or a compatible service.
//!
//! A [`Bucket`] is the store, an [`ObjectSpool`] is what one tenant stores in it. The bytes of a result
//! are stored under keys with a nonce. One index object, created exclusively and never replaced, makes
//! them visible all at once and holds the digest of each block. Every read is verified, and a range is
//! read by the blocks that it covers.
//!
//! Differences from a directory, where the kernel knows about readers and dead writers:
//!
//! * **Readers in other processes** are unknown. A result that expired or was removed can no longer be
//!   opened, but its bytes remain for a grace period ([`ObjectOptions::grace`]), and within this process
//!   for as long as a reader is open.
//! * **Leftovers** of dead writers are detected by age: the store's modification time compared with the
//!   `now` passed to [`sweep`](crate::Spool::sweep). Bytes that belong to no result are deleted after
//!   [`ObjectOptions::orphan_after`], and only once a placeholder in their index entry prevents a slow
//!   writer from making them visible.
//! * **Quotas** count the last listing and this process's own changes since. Several processes together
//!   may exceed a quota by what the others stored since then; each lists the bucket at every sweep and
//!   before it refuses a draft.
//! * **Unfinished multipart uploads** of a killed process cannot be listed. Configure a lifecycle rule of
//!   the bucket that aborts them after some days, and one that deletes objects older than the longest
//!   time to live. Nothing here relies on either.

mod blocks;
mod bucket;
mod digest;
mod draft;
mod erase;
mod index;
mod key;
mod local_cache;
mod options;
mod sweep;
mod url;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use lro_core::ResultId;

use self::blocks::ObjectReader;
pub use self::bucket::Bucket;
use self::bucket::StoreClient;
use self::draft::ObjectDraft;
pub use self::erase::{ErasedResults, ResultEraser};
use self::index::{
    EntryCache, IndexEntry, MAX_ENTRY_BYTES, RemovalReason, StoredEntry, Tombstone, UsageCache,
};
pub use self::key::InvalidTenant;
use self::key::{Keys, Nonce};
pub use self::options::{ObjectOptions, RequestSink};
use crate::address::Address;
use crate::error::{Foreign, SpoolError};
use crate::sidecar::NewResult;
use crate::spool::{
    Draft, Quota, ResultInfo, Scratch, Spool, StoredResult, SweepReport, Tombstones,
};

/// The results of one tenant in a bucket. Clones share it. Use one per tenant and process: two
/// instances would not know about each other's readers.
#[derive(Debug, Clone)]
pub struct ObjectSpool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: Arc<StoreClient>,
    keys: Keys,
    quota: Quota,
    leases: Arc<ReaderLeases>,
    usage: UsageCache,
    entry_cache: EntryCache,
    tombstones: Tombstones,
    /// The drafts of this process, whose bytes are not leftovers.
    drafts: Mutex<HashSet<Nonce>>,
}

impl ObjectSpool {
    /// Creates the spool of a tenant, under its own prefix. Any text except an empty one names a
    /// tenant. [`Quota::min_free_bytes`] is ignored; see [`ObjectOptions::local`].
    pub fn new(bucket: &Bucket, tenant: &str, quota: Quota) -> Result<Self, InvalidTenant> {
        let keys = Keys::new(&bucket.0.prefix, tenant)?;
        Ok(Self(Arc::new(Shared {
            client: Arc::clone(&bucket.0),
            keys,
            quota: Quota { min_free_bytes: 0, ..quota },
            leases: Arc::default(),
            usage: UsageCache::default(),
            entry_cache: EntryCache::default(),
            tombstones: Tombstones::default(),
            drafts: Mutex::default(),
        })))
    }
}

impl Spool for ObjectSpool {
    fn create(&self, new: NewResult) -> Result<Box<dyn Draft>, SpoolError> {
        Ok(Box::new(ObjectDraft::begin(Arc::clone(&self.0), new)?))
    }

    fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError> {
        // Takes the lease before the lookup, so that a later removal sees the reader.
        let lease = self.0.leases.acquire(address.id());
        let (info, stored) = self.0.find(address)?;
        if info.sidecar.is_expired(info.id(), now) {
            return Err(info.expired_error());
        }
        Ok(Box::new(ObjectReader::new(Arc::clone(&self.0), info, Arc::new(stored), lease)))
    }

    fn list(&self) -> Result<Vec<ResultInfo>, SpoolError> {
        let listing = self.0.list_bucket()?;
        let mut all = Vec::new();
        for (_, entry) in self.0.read_entries(&listing) {
            match entry.as_deref() {
                Ok(IndexEntry::Stored(stored)) => all.push(stored.result_info()?),
                // Opening it reports the damage, and so does a sweep.
                Ok(IndexEntry::Void(_))
                | Err(SpoolError::NotFound { .. } | SpoolError::Damaged { .. }) => {}
                Err(_) => drop(entry?),
            }
        }
        all.sort_by_key(ResultInfo::id);
        Ok(all)
    }

    fn remove(&self, address: &Address) -> Result<ResultInfo, SpoolError> {
        let id = address.id();
        let in_use = |name| SpoolError::InUse { name };
        let removal = self.0.leases.begin_removal(id);
        let (info, stored) = self.0.find(address)?;
        let _removal = match removal {
            Ok(removal) => removal,
            Err(Busy::InUse) => return Err(in_use(info.name)),
            Err(Busy::BeingRemoved) => return Err(self.0.missing(address)),
        };
        if self.0.delete_result(&info, &stored, RemovalReason::Removed)? {
            Ok(info)
        } else {
            Err(SpoolError::NotFound { asked: address.to_string() })
        }
    }

    fn sweep(&self, now: DateTime<Utc>) -> Result<SweepReport, SpoolError> {
        self.0.sweep(now)
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        Ok(Box::new(self.0.client.local.scratch()?))
    }
}

impl Shared {
    /// Reads the index entry of a result from the store.
    fn find(&self, address: &Address) -> Result<(ResultInfo, StoredEntry), SpoolError> {
        if let Address::Path { folder, name } = address {
            let path = folder.join(name.to_string());
            return Err(SpoolError::NotOurs { path, why: Foreign::Elsewhere });
        }
        let id = address.id();
        match self.client.wait(self.entry(id))? {
            Some(IndexEntry::Stored(stored)) => {
                let info = stored.result_info()?;
                if matches!(address, Address::Name(asked) if *asked != info.name) {
                    return Err(SpoolError::NotFound { asked: address.to_string() });
                }
                Ok((info, *stored))
            }
            Some(IndexEntry::Void(_)) | None => Err(self.missing(address)),
        }
    }

    async fn entry(&self, id: ResultId) -> Result<Option<IndexEntry>, SpoolError> {
        let Some(bytes) = self.client.get(&self.keys.index(id), MAX_ENTRY_BYTES).await? else {
            return Ok(None);
        };
        let name = id.reference().to_string();
        let entry = IndexEntry::read(&name, &bytes)?;
        if let IndexEntry::Stored(stored) = &entry
            && stored.result_info()?.id() != id
        {
            return Err(SpoolError::NotFound { asked: name });
        }
        Ok(Some(entry))
    }

    /// The error for a missing result. Finding f24: an expired reference gets a final answer,
    /// whichever process deleted the result.
    fn missing(&self, address: &Address) -> SpoolError {
        let (id, asked) = (address.id(), address.to_string());
        let named =
            |gone: &ResultInfo| !matches!(address, Address::Name(name) if *name != gone.name);
        if let Some(expired) = self.tombstones.expired(id) {
            return expired;
        }
        let tombstones = self.client.wait(async {
            let mut tombstones = Vec::new();
            for meta in self.client.list(&self.keys.tombstone_prefix(id)).await? {
                if let Some(bytes) = self.client.get(&meta.location, MAX_ENTRY_BYTES).await? {
                    tombstones.push(Tombstone::read(&asked, &bytes)?);
                }
            }
            Ok::<_, SpoolError>(tombstones)
        });
        // Reporting the expiry is best effort: if the tombstones cannot be read, the result is
        // reported as not found.
        let expired =
            tombstones.unwrap_or_default().into_iter().find(|c| c.why == RemovalReason::Expired);
        match expired.and_then(|tombstone| tombstone.result_info().ok()) {
            Some(gone) if gone.id() == id && named(&gone) => gone.expired_error(),
            _ => SpoolError::NotFound { asked },
        }
    }

    fn begin_draft(&self, nonce: &Nonce) {
        let mut drafts = self.drafts.lock().unwrap_or_else(PoisonError::into_inner);
        drafts.insert(nonce.clone());
    }

    fn end_draft(&self, nonce: &Nonce) {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner).remove(nonce);
    }

    fn is_draft(&self, nonce: &Nonce) -> bool {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner).contains(nonce)
    }
}

/// Leases of readers and pending removals in this process, shared by the spools of one tenant.
#[derive(Debug, Default)]
pub(super) struct ReaderLeases {
    state: Mutex<State>,
    removed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    readers: HashMap<ResultId, usize>,
    removing: HashSet<ResultId>,
}

/// While it exists, this process does not delete the result.
#[derive(Debug)]
pub(super) struct ReaderLease(Arc<ReaderLeases>, ResultId);

/// While it exists, this process does not open the result.
#[derive(Debug)]
pub(super) struct RemovalGuard<'a>(&'a ReaderLeases, ResultId);

/// Why a result cannot be deleted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    InUse,
    BeingRemoved,
}

impl ReaderLeases {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one insert or remove, so a panic cannot leave the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Protects a result, existing or not. Waits for the end of a removal in progress.
    pub(super) fn acquire(self: &Arc<Self>, id: ResultId) -> ReaderLease {
        let mut state = self.state();
        while state.removing.contains(&id) {
            state = self.removed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state.readers.entry(id).or_default() += 1;
        ReaderLease(Arc::clone(self), id)
    }

    pub(super) fn begin_removal(&self, id: ResultId) -> Result<RemovalGuard<'_>, Busy> {
        let mut state = self.state();
        if state.readers.contains_key(&id) {
            return Err(Busy::InUse);
        }
        if !state.removing.insert(id) {
            return Err(Busy::BeingRemoved);
        }
        Ok(RemovalGuard(self, id))
    }
}

impl Drop for ReaderLease {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(readers) = state.readers.get_mut(&self.1) {
            *readers -= 1;
            if *readers == 0 {
                state.readers.remove(&self.1);
            }
        }
    }
}

impl Drop for RemovalGuard<'_> {
    fn drop(&mut self) {
        self.0.state().removing.remove(&self.1);
        self.0.removed.notify_all();
    }
}
