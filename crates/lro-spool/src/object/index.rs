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
use super::blocks::{fit, sha256};
use super::key::{Meaning, Nonce};
use crate::address::FileName;
use crate::error::{Damage, Limit, SpoolError};
use crate::sidecar::Sidecar;
use crate::spool;
use crate::spool::{Listed, Quota};

/// More than this is not read as an entry.
pub(super) const ENTRY_CAP: u64 = 64 << 20;
/// The form this version writes.
const VERSION: u32 = 1;
/// How many entries are fetched at the same time.
const TOGETHER: usize = 8;
/// How much of entries is remembered.
const REMEMBERED_BYTES: u64 = 32 << 20;

/// What stands at the one key by which a result is visible.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// A result.
    Stored(Box<Stored>),
    /// Nothing, and nobody shall commit a result here: a sweep found the bytes of one that was
    /// never committed, or a commit was given up.
    Void(Nonce),
}

/// A result that is whole.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    version: u32,
    name: String,
    pub(super) nonce: Nonce,
    pub(super) sidecar: Sidecar,
    /// The digests of the blocks of the data, then of each part.
    pub(super) digests: Vec<String>,
}

/// Says that a result is gone, and for whom it is to tell of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claim {
    version: u32,
    name: String,
    sidecar: Sidecar,
    pub(super) why: Why,
    by: Nonce,
}

/// Why a result is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Why {
    Expired,
    Removed,
}

impl Stored {
    pub(super) fn new(listed: &Listed, nonce: Nonce, digests: Vec<String>) -> Self {
        let (name, sidecar) = (listed.name.to_string(), listed.sidecar.clone());
        Self { version: VERSION, name, nonce, sidecar, digests }
    }

    pub(super) fn listed(&self) -> Result<Listed, SpoolError> {
        listed(&self.name, &self.sidecar)
    }

    /// The sizes of the data and of each part.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        [self.sidecar.bytes].into_iter().chain(self.sidecar.parts.iter().map(|part| part.bytes))
    }

    fn is_sound(&self) -> bool {
        let fits =
            self.digests.iter().zip(self.sizes()).all(|(digests, bytes)| fit(digests, bytes));
        self.version == VERSION
            && self.nonce.is_ours()
            && self.sidecar.header.is_ours()
            && self.digests.len() == self.sidecar.parts.len() + 1
            && fits
    }
}

impl Entry {
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

impl Claim {
    pub(super) fn new(listed: &Listed, why: Why) -> Self {
        let mut sidecar = listed.sidecar.clone();
        sidecar.envelope = None;
        Self { version: VERSION, name: listed.name.to_string(), sidecar, why, by: Nonce::new() }
    }

    pub(super) fn seal(&self) -> Bytes {
        seal(self)
    }

    pub(super) fn read(name: &str, bytes: &[u8]) -> Result<Self, SpoolError> {
        read(name, bytes)
    }

    pub(super) fn listed(&self) -> Result<Listed, SpoolError> {
        listed(&self.name, &self.sidecar)
    }
}

fn listed(name: &str, sidecar: &Sidecar) -> Result<Listed, SpoolError> {
    let name: FileName = name.parse().map_err(|_| changed(name))?;
    Ok(Listed::new(name, None, sidecar.clone()))
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
pub(super) struct Inventory {
    /// The entries, by age.
    pub(super) index: BTreeMap<ResultId, ObjectMeta>,
    /// Bytes of results, of drafts that are being committed, and of those that never were.
    pub(super) data: BTreeMap<(ResultId, Nonce), Data>,
    /// When results were taken away.
    pub(super) gone: BTreeMap<(ResultId, Nonce), DateTime<Utc>>,
}

#[derive(Debug, Default)]
pub(super) struct Data {
    pub(super) keys: Vec<Path>,
    pub(super) bytes: u64,
    /// When the youngest of them was written.
    pub(super) written: DateTime<Utc>,
}

/// Entries that were read; they never change, so the same one need not be read again.
#[derive(Debug, Default)]
pub(super) struct Entries(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    entries: HashMap<ResultId, (Version, Arc<Entry>)>,
    order: VecDeque<(ResultId, u64)>,
    bytes: u64,
}

/// What tells an entry from another one that took its place.
type Version = (DateTime<Utc>, u64, Option<String>);

fn version(meta: &ObjectMeta) -> Version {
    (meta.last_modified, meta.size, meta.e_tag.clone())
}

impl Entries {
    fn get(&self, id: ResultId, meta: &ObjectMeta) -> Option<Arc<Entry>> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, entry) = remembered.entries.get(&id)?;
        (*seen == version(meta)).then(|| Arc::clone(entry))
    }

    fn put(&self, id: ResultId, meta: &ObjectMeta, entry: &Arc<Entry>) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.entries.insert(id, (version(meta), Arc::clone(entry)));
        remembered.order.push_back((id, meta.size));
        remembered.bytes += meta.size;
        while remembered.bytes > REMEMBERED_BYTES {
            let Some((oldest, bytes)) = remembered.order.pop_front() else { break };
            remembered.bytes -= bytes;
            remembered.entries.remove(&oldest);
        }
    }
}

impl Shared {
    /// Lists what is there, and counts it.
    pub(super) fn inventory(&self) -> Result<Inventory, SpoolError> {
        let listing = self.usage.begin();
        let mut inventory = Inventory::default();
        for meta in self.remote.wait(self.remote.list(self.keys.all()))? {
            match self.keys.meaning(&meta.location) {
                Some(Meaning::Index(id)) => {
                    inventory.index.insert(id, meta);
                }
                Some(Meaning::Data(id, nonce)) => {
                    let data = inventory.data.entry((id, nonce)).or_default();
                    data.bytes += meta.size;
                    data.written = data.written.max(meta.last_modified);
                    data.keys.push(meta.location);
                }
                Some(Meaning::Gone(id, nonce)) => {
                    inventory.gone.insert((id, nonce), meta.last_modified);
                }
                None => {}
            }
        }
        let visible =
            || inventory.data.iter().filter(|((id, _), _)| inventory.index.contains_key(id));
        let bytes = visible().map(|(_, data)| data.bytes).sum();
        let seen: HashSet<&Nonce> = visible().map(|((_, nonce), _)| nonce).collect();
        self.usage.listed(listing, bytes, inventory.index.len() as u64, &seen);
        Ok(inventory)
    }

    /// The entries of a listing, by age; what is gone since is not among them.
    pub(super) fn entries(
        &self,
        inventory: &Inventory,
    ) -> Vec<(ResultId, Result<Arc<Entry>, SpoolError>)> {
        let reading = inventory.index.iter().map(|(id, meta)| async move {
            if let Some(entry) = self.entries.get(*id, meta) {
                return Some((*id, Ok(entry)));
            }
            if meta.size > ENTRY_CAP {
                return None;
            }
            let entry = match self.entry(*id).await {
                Ok(entry) => Arc::new(entry?),
                Err(error) => return Some((*id, Err(error))),
            };
            self.entries.put(*id, meta, &entry);
            Some((*id, Ok(entry)))
        });
        let reading = stream::iter(reading).buffered(TOGETHER);
        let entries = self.remote.wait(reading.collect::<Vec<_>>());
        entries.into_iter().flatten().collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct Usage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Bytes and results, as of the last listing.
    listed: Option<(u64, u64)>,
    /// Counts listings.
    epoch: u64,
    /// The listing that was taken over last.
    taken: u64,
    /// What this process stores or has stored and no listing has shown yet.
    own: HashMap<Nonce, Own>,
}

#[derive(Debug)]
struct Own {
    bytes: u64,
    /// The listing that was the latest to begin when the result became visible.
    since: Option<u64>,
}

/// A listing that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listing(u64);

impl Usage {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_known(&self) -> bool {
        self.state().listed.is_some()
    }

    pub(super) fn begin(&self) -> Listing {
        let mut state = self.state();
        state.epoch += 1;
        Listing(state.epoch)
    }

    /// Takes over what a listing showed. What was visible before it began is in it.
    pub(super) fn listed(&self, listing: Listing, bytes: u64, files: u64, seen: &HashSet<&Nonce>) {
        let mut state = self.state();
        // One that began earlier and ended later shows less than is known.
        if listing.0 < state.taken {
            return;
        }
        state.taken = listing.0;
        state.listed = Some((bytes, files));
        let unseen = |nonce: &Nonce, own: &Own| {
            !seen.contains(nonce) && own.since.is_none_or(|since| since >= listing.0)
        };
        state.own.retain(|nonce, own| unseen(nonce, own));
    }

    /// Counts a draft that is about to be committed, if the quota allows.
    pub(super) fn reserve(&self, nonce: &Nonce, bytes: u64, quota: Quota) -> Result<(), Limit> {
        let mut state = self.state();
        let (mut total, mut files) = state.listed.unwrap_or_default();
        for own in state.own.values() {
            total = total.saturating_add(own.bytes);
            files += 1;
        }
        let (bytes_then, files) = (total.saturating_add(bytes), files + 1);
        let usage = spool::Usage { bytes: bytes_then, files, free: u64::MAX };
        if let Some(limit) = quota.broken_by(usage) {
            return Err(limit);
        }
        state.own.insert(nonce.clone(), Own { bytes, since: None });
        Ok(())
    }

    /// The draft is visible.
    pub(super) fn settle(&self, nonce: &Nonce) {
        let mut state = self.state();
        let epoch = state.epoch;
        if let Some(own) = state.own.get_mut(nonce) {
            own.since = Some(epoch);
        }
    }

    /// The draft is given up, or the result is gone.
    pub(super) fn release(&self, nonce: &Nonce, visible_bytes: Option<u64>) {
        let mut state = self.state();
        if state.own.remove(nonce).is_some() {
            return;
        }
        if let (Some(gone), Some((bytes, files))) = (visible_bytes, &mut state.listed) {
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
        let (usage, quota) = (Usage::default(), Quota { max_files: 1, ..Quota::NONE });
        let early = usage.begin();
        let nonce = Nonce::new();
        usage.reserve(&nonce, 3, quota).expect("room");
        usage.settle(&nonce);
        let late = usage.begin();
        usage.listed(late, 3, 1, &HashSet::from([&nonce]));
        usage.listed(early, 0, 0, &HashSet::new());
        assert!(usage.reserve(&Nonce::new(), 3, quota).is_err(), "there is one already");
    }
}
