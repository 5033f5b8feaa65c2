//! The index of a tenant: entries, tombstones, listings, and cached usage.
//!
//! An index entry publishes a result; a tombstone records its deletion. Both are JSON followed by a line
//! with their own digest, so that a truncated or changed one is detected.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::{StreamExt, stream};
use lro_core::ResultId;
use object_store::ObjectMeta;
use object_store::path::Path;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Shared;
use super::digest::{digests_cover, sha256};
use super::key::{KeyKind, Nonce};
use crate::address::FileName;
use crate::error::{Damage, SpoolError, SpoolLimit};
use crate::sidecar::Sidecar;
use crate::spool;
use crate::spool::{Quota, ResultInfo};

/// The largest index entry.
pub(super) const MAX_ENTRY_BYTES: u64 = 64 << 20;
/// The format version of entries and tombstones.
const ENTRY_VERSION: u32 = 1;
/// The most entries read concurrently.
const MAX_CONCURRENT_READS: usize = 8;
/// The size limit of the entry cache.
const MAX_CACHED_ENTRY_BYTES: u64 = 32 << 20;

/// The index entry of an id.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IndexEntry {
    /// A result.
    Stored(Box<StoredEntry>),
    /// A placeholder that prevents a commit: a sweep found uncommitted bytes, or a commit was given
    /// up.
    Void(Nonce),
}

/// A complete result.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredEntry {
    version: u32,
    name: String,
    pub(super) nonce: Nonce,
    pub(super) sidecar: Sidecar,
    /// The block digests of the data, then of each part.
    pub(super) digests: Vec<String>,
}

/// Records the deletion of a result. The process that creates it reports the expiry.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tombstone {
    version: u32,
    name: String,
    sidecar: Sidecar,
    pub(super) why: RemovalReason,
    by: Nonce,
}

/// Why a result was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RemovalReason {
    Expired,
    Removed,
}

impl StoredEntry {
    pub(super) fn new(info: &ResultInfo, nonce: Nonce, digests: Vec<String>) -> Self {
        let (name, sidecar) = (info.name.to_string(), info.sidecar.clone());
        Self { version: ENTRY_VERSION, name, nonce, sidecar, digests }
    }

    pub(super) fn result_info(&self) -> Result<ResultInfo, SpoolError> {
        result_info(&self.name, &self.sidecar)
    }

    /// The sizes of the data and of each part.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        [self.sidecar.bytes].into_iter().chain(self.sidecar.parts.iter().map(|part| part.bytes))
    }

    fn is_sound(&self) -> bool {
        let fits = self
            .digests
            .iter()
            .zip(self.sizes())
            .all(|(digests, bytes)| digests_cover(digests, bytes));
        self.version == ENTRY_VERSION
            && self.nonce.is_ours()
            && self.sidecar.header.is_ours()
            && self.digests.len() == self.sidecar.parts.len() + 1
            && fits
    }
}

impl IndexEntry {
    pub(super) fn seal(&self) -> Bytes {
        seal(self)
    }

    pub(super) fn read(name: &str, bytes: &[u8]) -> Result<Self, SpoolError> {
        let entry: Self = read(name, bytes)?;
        match &entry {
            Self::Stored(stored) if !stored.is_sound() => Err(changed(name)),
            _ => Ok(entry),
        }
    }
}

impl Tombstone {
    pub(super) fn new(info: &ResultInfo, why: RemovalReason) -> Self {
        let mut sidecar = info.sidecar.clone();
        sidecar.envelope = None;
        Self { version: ENTRY_VERSION, name: info.name.to_string(), sidecar, why, by: Nonce::new() }
    }

    pub(super) fn seal(&self) -> Bytes {
        seal(self)
    }

    pub(super) fn read(name: &str, bytes: &[u8]) -> Result<Self, SpoolError> {
        read(name, bytes)
    }

    pub(super) fn result_info(&self) -> Result<ResultInfo, SpoolError> {
        result_info(&self.name, &self.sidecar)
    }
}

fn result_info(name: &str, sidecar: &Sidecar) -> Result<ResultInfo, SpoolError> {
    let name: FileName = name.parse().map_err(|_| changed(name))?;
    Ok(ResultInfo::new(name, None, sidecar.clone()))
}

fn seal(value: &impl Serialize) -> Bytes {
    let mut bytes = serde_json::to_vec(value).expect("text, numbers and times have a JSON form");
    let digest = sha256(&bytes);
    bytes.push(b'\n');
    bytes.extend_from_slice(digest.as_bytes());
    bytes.into()
}

fn read<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, SpoolError> {
    let cut = bytes.iter().rposition(|b| *b == b'\n').ok_or_else(|| changed(name))?;
    let (json, digest) = (&bytes[..cut], &bytes[cut + 1..]);
    if sha256(json).as_bytes() != digest {
        return Err(changed(name));
    }
    serde_json::from_slice(json).map_err(|_| changed(name))
}

fn changed(name: &str) -> SpoolError {
    SpoolError::Damaged { name: name.to_owned(), why: Damage::Changed }
}

#[derive(Debug, Default)]
pub(super) struct BucketListing {
    /// The index entries, by age.
    pub(super) index: BTreeMap<ResultId, ObjectMeta>,
    /// Data objects of results, of drafts being committed, and of uncommitted drafts.
    pub(super) data: BTreeMap<(ResultId, Nonce), DataObjects>,
    /// The tombstones and their times.
    pub(super) tombstones: BTreeMap<(ResultId, Nonce), DateTime<Utc>>,
}

#[derive(Debug, Default)]
pub(super) struct DataObjects {
    pub(super) keys: Vec<Path>,
    pub(super) bytes: u64,
    /// When the latest of them was written.
    pub(super) written: DateTime<Utc>,
}

/// A cache of index entries. They are immutable, so each version is read once.
#[derive(Debug, Default)]
pub(super) struct EntryCache(Mutex<EntryCacheState>);

#[derive(Debug, Default)]
struct EntryCacheState {
    entries: HashMap<ResultId, (Version, Arc<IndexEntry>)>,
    order: VecDeque<(ResultId, u64)>,
    bytes: u64,
}

/// Distinguishes an entry from a later one at the same key.
type Version = (DateTime<Utc>, u64, Option<String>);

fn version(meta: &ObjectMeta) -> Version {
    (meta.last_modified, meta.size, meta.e_tag.clone())
}

impl EntryCache {
    fn get(&self, id: ResultId, meta: &ObjectMeta) -> Option<Arc<IndexEntry>> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, entry) = cache.entries.get(&id)?;
        (*seen == version(meta)).then(|| Arc::clone(entry))
    }

    fn put(&self, id: ResultId, meta: &ObjectMeta, entry: &Arc<IndexEntry>) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.entries.insert(id, (version(meta), Arc::clone(entry)));
        cache.order.push_back((id, meta.size));
        cache.bytes += meta.size;
        while cache.bytes > MAX_CACHED_ENTRY_BYTES {
            let Some((oldest, bytes)) = cache.order.pop_front() else { break };
            cache.bytes -= bytes;
            cache.entries.remove(&oldest);
        }
    }
}

impl Shared {
    /// Lists all objects of the tenant, and updates the usage.
    pub(super) fn list_bucket(&self) -> Result<BucketListing, SpoolError> {
        let epoch = self.usage.begin();
        let mut listing = BucketListing::default();
        for meta in self.client.wait(self.client.list(self.keys.all()))? {
            match self.keys.parse(&meta.location) {
                Some(KeyKind::Index(id)) => {
                    listing.index.insert(id, meta);
                }
                Some(KeyKind::Data(id, nonce)) => {
                    let data = listing.data.entry((id, nonce)).or_default();
                    data.bytes += meta.size;
                    data.written = data.written.max(meta.last_modified);
                    data.keys.push(meta.location);
                }
                Some(KeyKind::Tombstone(id, nonce)) => {
                    listing.tombstones.insert((id, nonce), meta.last_modified);
                }
                None => {}
            }
        }
        let visible = || listing.data.iter().filter(|((id, _), _)| listing.index.contains_key(id));
        let bytes = visible().map(|(_, data)| data.bytes).sum();
        let seen: HashSet<&Nonce> = visible().map(|((_, nonce), _)| nonce).collect();
        self.usage.apply_listing(epoch, bytes, listing.index.len() as u64, &seen);
        Ok(listing)
    }

    /// Reads the entries of a listing, by age, except those deleted since.
    pub(super) fn read_entries(
        &self,
        listing: &BucketListing,
    ) -> Vec<(ResultId, Result<Arc<IndexEntry>, SpoolError>)> {
        let reading = listing.index.iter().map(|(id, meta)| async move {
            if let Some(entry) = self.entry_cache.get(*id, meta) {
                return Some((*id, Ok(entry)));
            }
            if meta.size > MAX_ENTRY_BYTES {
                return None;
            }
            let entry = match self.entry(*id).await {
                Ok(entry) => Arc::new(entry?),
                Err(error) => return Some((*id, Err(error))),
            };
            self.entry_cache.put(*id, meta, &entry);
            Some((*id, Ok(entry)))
        });
        let reading = stream::iter(reading).buffered(MAX_CONCURRENT_READS);
        let entries = self.client.wait(reading.collect::<Vec<_>>());
        entries.into_iter().flatten().collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct UsageCache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Bytes and results of the last listing.
    info: Option<(u64, u64)>,
    /// The number of listings begun.
    epoch: u64,
    /// The epoch of the listing in use.
    applied: u64,
    /// Results of this process that no listing shows yet.
    own: HashMap<Nonce, UnlistedResult>,
}

#[derive(Debug)]
struct UnlistedResult {
    bytes: u64,
    /// The latest listing that had begun when the result became visible.
    since: Option<u64>,
}

/// The number of a listing that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListingEpoch(u64);

impl UsageCache {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_known(&self) -> bool {
        self.state().info.is_some()
    }

    pub(super) fn begin(&self) -> ListingEpoch {
        let mut state = self.state();
        state.epoch += 1;
        ListingEpoch(state.epoch)
    }

    /// Applies a listing, which includes everything visible before it began.
    pub(super) fn apply_listing(
        &self,
        listing: ListingEpoch,
        bytes: u64,
        files: u64,
        seen: &HashSet<&Nonce>,
    ) {
        let mut state = self.state();
        // A listing that began earlier and ended later is outdated.
        if listing.0 < state.applied {
            return;
        }
        state.applied = listing.0;
        state.info = Some((bytes, files));
        let unseen = |nonce: &Nonce, own: &UnlistedResult| {
            !seen.contains(nonce) && own.since.is_none_or(|since| since >= listing.0)
        };
        state.own.retain(|nonce, own| unseen(nonce, own));
    }

    /// Reserves usage for a draft about to be committed, if the quota allows.
    pub(super) fn reserve(
        &self,
        nonce: &Nonce,
        bytes: u64,
        quota: Quota,
    ) -> Result<(), SpoolLimit> {
        let mut state = self.state();
        let (mut total, mut files) = state.info.unwrap_or_default();
        for own in state.own.values() {
            total = total.saturating_add(own.bytes);
            files += 1;
        }
        let (bytes_then, files) = (total.saturating_add(bytes), files + 1);
        let usage = spool::Usage { bytes: bytes_then, files, free: u64::MAX };
        if let Some(limit) = quota.exceeded_by(usage) {
            return Err(limit);
        }
        state.own.insert(nonce.clone(), UnlistedResult { bytes, since: None });
        Ok(())
    }

    /// Marks a draft as visible.
    pub(super) fn settle(&self, nonce: &Nonce) {
        let mut state = self.state();
        let epoch = state.epoch;
        if let Some(own) = state.own.get_mut(nonce) {
            own.since = Some(epoch);
        }
    }

    /// Releases the usage of an abandoned draft or a deleted result.
    pub(super) fn release(&self, nonce: &Nonce, visible_bytes: Option<u64>) {
        let mut state = self.state();
        if state.own.remove(nonce).is_some() {
            return;
        }
        if let (Some(gone), Some((bytes, files))) = (visible_bytes, &mut state.info) {
            *bytes = bytes.saturating_sub(gone);
            *files = files.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_that_another_overtook_takes_nothing_back() {
        let (usage, quota) = (UsageCache::default(), Quota { max_files: 1, ..Quota::NONE });
        let early = usage.begin();
        let nonce = Nonce::new();
        usage.reserve(&nonce, 3, quota).expect("room");
        usage.settle(&nonce);
        let late = usage.begin();
        usage.apply_listing(late, 3, 1, &HashSet::from([&nonce]));
        usage.apply_listing(early, 0, 0, &HashSet::new());
        assert!(usage.reserve(&Nonce::new(), 3, quota).is_err(), "there is one already");
    }
}
