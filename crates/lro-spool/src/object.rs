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
mod draft;
mod index;
mod key;
mod local_cache;
mod sweep;
mod url;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use lro_core::ResultId;

use self::blocks::ObjectReader;
use self::bucket::Remote;
pub use self::bucket::{Bucket, ObjectOptions};
use self::draft::ObjectDraft;
use self::index::{Claim, ENTRY_CAP, Entries, Entry, Stored, Usage, Why};
pub use self::key::NotATenant;
use self::key::{Keys, Nonce};
use crate::address::Address;
use crate::error::{Foreign, SpoolError};
use crate::spool::{Draft, Gone, Listed, NewResult, Quota, Scratch, Spool, StoredResult, Swept};

/// What one tenant has in a bucket. Clones share it; of one tenant a process has only one, since
/// two would not know of each other's readers.
#[derive(Debug, Clone)]
pub struct ObjectSpool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    remote: Arc<Remote>,
    keys: Keys,
    quota: Quota,
    holds: Arc<Holds>,
    usage: Usage,
    entries: Entries,
    gone: Gone,
    /// The drafts of this process: their bytes are no leftovers.
    drafts: Mutex<HashSet<Nonce>>,
}

impl ObjectSpool {
    /// The results of a tenant, under its own prefix: any text but an empty one names one.
    /// [`Quota::min_free_bytes`] means nothing here; see [`ObjectOptions::local`].
    pub fn new(bucket: &Bucket, tenant: &str, quota: Quota) -> Result<Self, NotATenant> {
        let keys = Keys::new(&bucket.0.prefix, tenant)?;
        Ok(Self(Arc::new(Shared {
            remote: Arc::clone(&bucket.0),
            keys,
            quota: Quota { min_free_bytes: 0, ..quota },
            holds: Arc::default(),
            usage: Usage::default(),
            entries: Entries::default(),
            gone: Gone::default(),
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
        // First the hold, then the look: whoever removes it after this sees a reader.
        let hold = self.0.holds.hold(address.id());
        let (listed, stored) = self.0.find(address)?;
        if listed.sidecar.is_expired(listed.id(), now) {
            return Err(listed.expired());
        }
        Ok(Box::new(ObjectReader::new(Arc::clone(&self.0), listed, Arc::new(stored), hold)))
    }

    fn list(&self) -> Result<Vec<Listed>, SpoolError> {
        let inventory = self.0.inventory()?;
        let mut all = Vec::new();
        for (_, entry) in self.0.entries(&inventory) {
            match entry.as_deref() {
                Ok(Entry::Stored(stored)) => all.push(stored.listed()?),
                // A damaged one is told of by whoever opens it, and by the sweep.
                Ok(Entry::Void(_))
                | Err(SpoolError::NotFound { .. } | SpoolError::Damaged { .. }) => {}
                Err(_) => drop(entry?),
            }
        }
        all.sort_by_key(Listed::id);
        Ok(all)
    }

    fn remove(&self, address: &Address) -> Result<Listed, SpoolError> {
        let id = address.id();
        let in_use = |name| SpoolError::InUse { name };
        let removal = self.0.holds.remove(id);
        let (listed, stored) = self.0.find(address)?;
        let _removal = match removal {
            Ok(removal) => removal,
            Err(Busy::Read) => return Err(in_use(listed.name)),
            Err(Busy::BeingRemoved) => return Err(self.0.missing(address)),
        };
        if self.0.take_away(&listed, &stored, Why::Removed)? {
            Ok(listed)
        } else {
            Err(SpoolError::NotFound { asked: address.to_string() })
        }
    }

    fn sweep(&self, now: DateTime<Utc>) -> Result<Swept, SpoolError> {
        self.0.sweep(now)
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        Ok(Box::new(self.0.remote.local.scratch()?))
    }
}

impl Shared {
    /// What is known of a result, asked of the store.
    fn find(&self, address: &Address) -> Result<(Listed, Stored), SpoolError> {
        if let Address::Path { folder, name } = address {
            let path = folder.join(name.to_string());
            return Err(SpoolError::NotOurs { path, why: Foreign::Elsewhere });
        }
        let id = address.id();
        match self.remote.wait(self.entry(id))? {
            Some(Entry::Stored(stored)) => {
                let listed = stored.listed()?;
                if matches!(address, Address::Name(asked) if *asked != listed.name) {
                    return Err(SpoolError::NotFound { asked: address.to_string() });
                }
                Ok((listed, *stored))
            }
            Some(Entry::Void(_)) | None => Err(self.missing(address)),
        }
    }

    async fn entry(&self, id: ResultId) -> Result<Option<Entry>, SpoolError> {
        let Some(bytes) = self.remote.get(&self.keys.index(id), ENTRY_CAP).await? else {
            return Ok(None);
        };
        let name = id.reference().to_string();
        let entry = Entry::read(&name, &bytes)?;
        if let Entry::Stored(stored) = &entry
            && stored.listed()?.id() != id
        {
            return Err(SpoolError::NotFound { asked: name });
        }
        Ok(Some(entry))
    }

    /// Why there is none. f24: an expired reference gets a final answer, whoever removed the result.
    fn missing(&self, address: &Address) -> SpoolError {
        let (id, asked) = (address.id(), address.to_string());
        let named = |gone: &Listed| !matches!(address, Address::Name(name) if *name != gone.name);
        if let Some(expired) = self.gone.expired(id) {
            return expired;
        }
        let claims = self.remote.wait(async {
            let mut claims = Vec::new();
            for meta in self.remote.list(&self.keys.gone_of(id)).await? {
                if let Some(bytes) = self.remote.get(&meta.location, ENTRY_CAP).await? {
                    claims.push(Claim::read(&asked, &bytes)?);
                }
            }
            Ok::<_, SpoolError>(claims)
        });
        // That there is none is known; that it was there once is more than must be said.
        let expired = claims.unwrap_or_default().into_iter().find(|c| c.why == Why::Expired);
        match expired.and_then(|claim| claim.listed().ok()) {
            Some(gone) if gone.id() == id && named(&gone) => gone.expired(),
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

/// Shared by the spools of one tenant.
#[derive(Debug, Default)]
pub(super) struct Holds {
    state: Mutex<State>,
    removed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    readers: HashMap<ResultId, usize>,
    removing: HashSet<ResultId>,
}

/// While it is there, nothing in this process removes the result.
#[derive(Debug)]
pub(super) struct Hold(Arc<Holds>, ResultId);

/// While it is there, nothing in this process opens the result.
#[derive(Debug)]
pub(super) struct Removal<'a>(&'a Holds, ResultId);

/// Why a result cannot be removed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    Read,
    BeingRemoved,
}

impl Holds {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one insert or remove.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Protects a result, there or not. Where it is just being removed, waits for the end of that.
    pub(super) fn hold(self: &Arc<Self>, id: ResultId) -> Hold {
        let mut state = self.state();
        while state.removing.contains(&id) {
            state = self.removed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state.readers.entry(id).or_default() += 1;
        Hold(Arc::clone(self), id)
    }

    pub(super) fn remove(&self, id: ResultId) -> Result<Removal<'_>, Busy> {
        let mut state = self.state();
        if state.readers.contains_key(&id) {
            return Err(Busy::Read);
        }
        if !state.removing.insert(id) {
            return Err(Busy::BeingRemoved);
        }
        Ok(Removal(self, id))
    }
}

impl Drop for Hold {
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

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.0.state().removing.remove(&self.1);
        self.0.removed.notify_all();
    }
}
