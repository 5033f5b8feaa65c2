//! Sweeps of object storage: expired results, leftovers of dead writers, and room for new results.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::{StreamExt, stream};
use lro_core::ResultId;
use object_store::path::Path;

use super::bucket::{CreateOutcome, MAX_DELETED_OBJECTS};
use super::index::{BucketListing, DataObjects, IndexEntry, RemovalReason, StoredEntry, Tombstone};
use super::key::Nonce;
use super::{Busy, RemovalGuard, Shared};
use crate::error::SpoolError;
use crate::spool::{ResultInfo, SweepReport};

/// The most tombstones created concurrently.
const MAX_CONCURRENT_CLAIMS: usize = 8;

/// The outcome for one expired result.
enum Outcome {
    Deleted,
    InUse,
    /// By another sweep, which reports it.
    DeletedElsewhere,
}

/// An expired result, for a batch.
struct ExpiredResult {
    info: ResultInfo,
    nonce: Nonce,
    /// The keys of its data.
    data: Vec<Path>,
    bytes: u64,
}

impl Shared {
    pub(super) fn sweep(&self, now: DateTime<Utc>) -> Result<SweepReport, SpoolError> {
        let listing = self.list_bucket()?;
        let mut swept =
            SweepReport { expired: self.tombstones.take_unreported(), ..SweepReport::default() };
        // Nonces of results whose data is referenced.
        let mut known: HashSet<Nonce> = HashSet::new();
        // Ids whose entries could not be read.
        let mut unread: HashSet<ResultId> = HashSet::new();
        let mut expired = Vec::new();
        // Entries without a result.
        let mut stale = Vec::new();
        for (id, entry) in self.read_entries(&listing) {
            match entry.as_deref() {
                Ok(IndexEntry::Stored(stored)) => {
                    known.insert(stored.nonce.clone());
                    match listing.tombstones.get(&(id, stored.nonce.clone())) {
                        // The deleting process died before it deleted the entry, or is about to.
                        Some(deleted_at) => {
                            if is_older(*deleted_at, self.client.options.orphan_after, now) {
                                stale.push(self.keys.index(id));
                            }
                        }
                        None => expired.extend(self.expired_result(id, stored, now)),
                    }
                }
                Ok(IndexEntry::Void(_)) => {
                    if self.is_unused_void(&listing, id, now) {
                        stale.push(self.keys.index(id));
                    }
                }
                Err(error) => {
                    unread.insert(id);
                    if !matches!(error, SpoolError::NotFound { .. }) {
                        swept.failures.extend(entry.err());
                    }
                }
            }
        }
        self.delete_all(&stale, &mut swept.failures);
        let mut expired = expired.into_iter();
        loop {
            let batch: Vec<_> = expired.by_ref().take(MAX_DELETED_OBJECTS).collect();
            if batch.is_empty() {
                break;
            }
            self.expire_batch(batch, &mut swept);
        }
        self.sweep_tombstones(&listing, now, &mut swept);
        let mut orphans = Vec::new();
        for ((id, nonce), data) in &listing.data {
            let is_gone = listing.tombstones.contains_key(&(*id, nonce.clone()));
            if is_gone || known.contains(nonce) || unread.contains(id) || self.is_draft(nonce) {
                continue;
            }
            if is_older(data.written, self.client.options.orphan_after, now) {
                match self.claim_orphan(*id, nonce) {
                    Ok(true) => orphans.push(data),
                    Ok(false) => {}
                    Err(error) => swept.failures.push(error),
                }
            }
        }
        let keys: Vec<Path> = orphans.iter().flat_map(|data| data.keys.iter().cloned()).collect();
        let remaining = self.delete_all(&keys, &mut swept.failures);
        swept.leftovers += orphans.iter().filter(|data| data.is_deleted(&remaining)).count();
        swept.expired.sort_by_key(|gone| gone.sidecar.expires_at);
        Ok(swept)
    }

    /// The result of an entry, if it has expired.
    fn expired_result(
        &self,
        id: ResultId,
        stored: &StoredEntry,
        now: DateTime<Utc>,
    ) -> Option<ExpiredResult> {
        let info = stored.result_info().ok()?;
        info.sidecar.is_expired(id, now).then(|| ExpiredResult {
            nonce: stored.nonce.clone(),
            data: self.data_keys(id, stored),
            bytes: stored.sizes().sum(),
            info,
        })
    }

    fn data_keys(&self, id: ResultId, stored: &StoredEntry) -> Vec<Path> {
        let pieces = stored.sizes().enumerate().filter(|(_, bytes)| *bytes > 0);
        pieces.map(|(piece, _)| self.keys.data(id, &stored.nonce, piece)).collect()
    }

    /// Deletes expired results: their tombstones are created first, then all of their entries are deleted,
    /// then, without a grace period, all of their data.
    fn expire_batch(&self, batch: Vec<ExpiredResult>, swept: &mut SweepReport) {
        let (mut removals, mut candidates) = (Vec::new(), Vec::new());
        for result in batch {
            match self.leases.begin_removal(result.info.id()) {
                Ok(removal) => {
                    removals.push(removal);
                    candidates.push(result);
                }
                Err(Busy::InUse) => swept.in_use += 1,
                // By another sweep, which reports it.
                Err(Busy::BeingRemoved) => {}
            }
        }
        let claims = candidates.into_iter().map(|result| async move {
            let claimed = self.claim(&result.info, &result.nonce, RemovalReason::Expired).await;
            (result, claimed)
        });
        let claims = stream::iter(claims).buffered(MAX_CONCURRENT_CLAIMS);
        let mut claimed = Vec::new();
        for (result, outcome) in self.client.wait(claims.collect::<Vec<_>>()) {
            match outcome {
                Ok(true) => claimed.push(result),
                Ok(false) => {}
                Err(error) => swept.failures.push(error),
            }
        }
        let entries: Vec<Path> =
            claimed.iter().map(|result| self.keys.index(result.info.id())).collect();
        // This process reports the results; a later sweep deletes an entry or data that remains.
        let remaining = self.delete_all(&entries, &mut Vec::new());
        let mut data = Vec::new();
        for result in claimed {
            self.usage.release(&result.nonce, Some(result.bytes));
            self.client.local.evict(&result.nonce);
            self.tombstones.remember(&result.info);
            if !remaining.contains(&self.keys.index(result.info.id())) {
                data.extend(result.data);
            }
            swept.expired.push(result.info);
        }
        if self.client.options.grace.is_zero() {
            self.delete_all(&data, &mut Vec::new());
        }
        drop(removals);
    }

    fn expire(&self, info: &ResultInfo, stored: &StoredEntry) -> Result<Outcome, SpoolError> {
        let _removal = match self.leases.begin_removal(info.id()) {
            Ok(removal) => removal,
            Err(Busy::InUse) => return Ok(Outcome::InUse),
            Err(Busy::BeingRemoved) => return Ok(Outcome::DeletedElsewhere),
        };
        if !self.delete_result(info, stored, RemovalReason::Expired)? {
            return Ok(Outcome::DeletedElsewhere);
        }
        self.tombstones.remember(info);
        Ok(Outcome::Deleted)
    }

    /// Creates the tombstone of a result; returns false if another process deletes the result. Only one
    /// process can create the tombstone.
    async fn claim(
        &self,
        info: &ResultInfo,
        nonce: &Nonce,
        why: RemovalReason,
    ) -> Result<bool, SpoolError> {
        let id = info.id();
        let tombstone = Tombstone::new(info, why).seal();
        let key = self.keys.tombstone(id, nonce);
        if !matches!(self.client.create(&key, &tombstone).await?, CreateOutcome::Created) {
            return Ok(false);
        }
        // With a clock ahead of ours, the tombstone of another process may have been created and
        // deleted since the entry was read. That process deleted the entry first, so the entry is
        // read once more.
        let entry = self.entry(id).await;
        if !matches!(&entry, Ok(Some(IndexEntry::Stored(there))) if there.nonce == *nonce) {
            let _ = self.client.delete(&key).await;
            return entry.map(|_| false);
        }
        Ok(true)
    }

    /// Deletes a result; returns false if another process does. Without a grace period the data is
    /// deleted at once, otherwise by a later sweep.
    pub(super) fn delete_result(
        &self,
        info: &ResultInfo,
        stored: &StoredEntry,
        why: RemovalReason,
    ) -> Result<bool, SpoolError> {
        let id = info.id();
        if !self.client.wait(self.claim(info, &stored.nonce, why))? {
            return Ok(false);
        }
        // This process reports it; a later sweep deletes an entry or data that remains.
        let unpublished = self.client.wait(self.client.delete(&self.keys.index(id)));
        self.usage.release(&stored.nonce, Some(stored.sizes().sum()));
        self.client.local.evict(&stored.nonce);
        if unpublished.is_ok() && self.client.options.grace.is_zero() {
            self.delete_all(&self.data_keys(id, stored), &mut Vec::new());
        }
        Ok(true)
    }

    /// Deletes the data of deleted results after the grace period, and later their tombstones.
    fn sweep_tombstones(
        &self,
        listing: &BucketListing,
        now: DateTime<Utc>,
        swept: &mut SweepReport,
    ) {
        let options = &self.client.options;
        let old: Vec<_> = listing
            .tombstones
            .iter()
            .filter(|(_, deleted_at)| is_older(**deleted_at, options.grace, now))
            .collect();
        let mut tombstones = Vec::new();
        for batch in old.chunks(MAX_DELETED_OBJECTS) {
            // The guards keep readers of this process away from the data.
            let mut removals: BTreeMap<ResultId, RemovalGuard<'_>> = BTreeMap::new();
            let (mut keys, mut candidates) = (Vec::new(), Vec::new());
            for ((id, nonce), deleted_at) in batch {
                let data = listing.data.get(&(*id, nonce.clone()));
                if let Some(data) = data {
                    if let Entry::Vacant(place) = removals.entry(*id) {
                        let Ok(removal) = self.leases.begin_removal(*id) else { continue };
                        place.insert(removal);
                    }
                    keys.extend(data.keys.iter().cloned());
                }
                candidates.push((*id, nonce, **deleted_at, data));
            }
            let remaining = self.delete_all(&keys, &mut swept.failures);
            drop(removals);
            for (id, nonce, deleted_at, data) in candidates {
                let is_deleted = data.is_none_or(|data| data.is_deleted(&remaining));
                // The next sweep needs the tombstone to delete a remaining entry.
                let has_entry = listing.index.contains_key(&id);
                let is_forgotten = is_older(deleted_at, options.remember.max(options.grace), now);
                if is_deleted && !has_entry && is_forgotten {
                    tombstones.push(self.keys.tombstone(id, nonce));
                }
            }
        }
        self.delete_all(&tombstones, &mut swept.failures);
    }

    /// Whether a placeholder entry can be deleted, since no writer can commit there any more.
    fn is_unused_void(&self, listing: &BucketListing, id: ResultId, now: DateTime<Utc>) -> bool {
        let old = |since| is_older(since, self.client.options.orphan_after, now);
        let has_data = listing.data.keys().any(|(of, _)| *of == id);
        !has_data && listing.index.get(&id).is_some_and(|meta| old(meta.last_modified))
    }

    /// Prevents that data without an entry gets one; returns false if it has one by now.
    fn claim_orphan(&self, id: ResultId, nonce: &Nonce) -> Result<bool, SpoolError> {
        let void = IndexEntry::Void(Nonce::new()).seal();
        let place = self.client.wait(self.client.create(&self.keys.index(id), &void))?;
        if let CreateOutcome::Existing(there) = place {
            match IndexEntry::read(&id.reference().to_string(), &there)? {
                // Committed since the listing.
                IndexEntry::Stored(stored) if stored.nonce == *nonce => return Ok(false),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Deletes objects in batches. Returns those that may still exist, and adds why to `failures`.
    fn delete_all(&self, keys: &[Path], failures: &mut Vec<SpoolError>) -> BTreeSet<Path> {
        let mut remaining = BTreeSet::new();
        for undeleted in self.client.wait(self.client.delete_all(keys)) {
            remaining.extend(undeleted.keys);
            failures.push(undeleted.error);
        }
        remaining
    }

    /// Reserves room for a draft about to be committed. Deletes expired results, oldest first,
    /// until the quota holds.
    pub(super) fn make_room(
        &self,
        nonce: &Nonce,
        bytes: u64,
        now: DateTime<Utc>,
    ) -> Result<(), SpoolError> {
        let reserve = || self.usage.reserve(nonce, bytes, self.quota);
        let full = |limit| SpoolError::Full { limit };
        let unlimited = self.quota.max_bytes == u64::MAX && self.quota.max_files == u64::MAX;
        if unlimited || (self.usage.is_known() && reserve().is_ok()) {
            return Ok(());
        }
        let listing = self.list_bucket()?;
        let Err(mut limit) = reserve() else { return Ok(()) };
        let mut candidates: Vec<(DateTime<Utc>, Arc<IndexEntry>)> = Vec::new();
        for (id, entry) in self.read_entries(&listing) {
            // An entry that cannot be read is no candidate.
            let Ok(entry) = entry else { continue };
            if let IndexEntry::Stored(stored) = &*entry
                && stored.sidecar.is_expired(id, now)
                && !listing.tombstones.contains_key(&(id, stored.nonce.clone()))
            {
                candidates.push((stored.sidecar.expires_at, Arc::clone(&entry)));
            }
        }
        candidates.sort_by_key(|(expires_at, _)| *expires_at);
        for (_, entry) in candidates {
            let IndexEntry::Stored(stored) = &*entry else { continue };
            let Ok(info) = stored.result_info() else { continue };
            if let Ok(Outcome::Deleted) = self.expire(&info, stored) {
                self.tombstones.report_later(info);
                match reserve() {
                    Ok(()) => return Ok(()),
                    Err(still) => limit = still,
                }
            }
        }
        Err(full(limit))
    }
}

impl DataObjects {
    /// Whether none of them remains.
    fn is_deleted(&self, remaining: &BTreeSet<Path>) -> bool {
        self.keys.iter().all(|key| !remaining.contains(key))
    }
}

/// Whether `since` is at least `age` ago. With a clock that was set back, nothing is.
fn is_older(since: DateTime<Utc>, age: Duration, now: DateTime<Utc>) -> bool {
    (now - since).to_std().is_ok_and(|passed| passed >= age)
}
