//! Sweeps of object storage: expired results, leftovers of dead writers, and room for new results.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::ResultId;
use object_store::path::Path;

use super::bucket::CreateOutcome;
use super::index::{BucketListing, DataObjects, IndexEntry, RemovalReason, StoredEntry, Tombstone};
use super::key::Nonce;
use super::{Busy, Shared};
use crate::error::SpoolError;
use crate::spool::{ResultInfo, SweepReport};

/// The outcome for one expired result.
enum Outcome {
    Deleted,
    InUse,
    /// By another sweep, which reports it.
    DeletedElsewhere,
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
        for (id, entry) in self.read_entries(&listing) {
            match entry.as_deref() {
                Ok(IndexEntry::Stored(stored)) => {
                    known.insert(stored.nonce.clone());
                    self.sweep_stored(&listing, id, stored, now, &mut swept);
                }
                Ok(IndexEntry::Void(_)) => self.sweep_void(&listing, id, now, &mut swept),
                Err(error) => {
                    unread.insert(id);
                    if !matches!(error, SpoolError::NotFound { .. }) {
                        swept.failures.extend(entry.err());
                    }
                }
            }
        }
        self.sweep_tombstones(&listing, now, &mut swept);
        for ((id, nonce), data) in &listing.data {
            let is_gone = listing.tombstones.contains_key(&(*id, nonce.clone()));
            if is_gone || known.contains(nonce) || unread.contains(id) || self.is_draft(nonce) {
                continue;
            }
            if is_older(data.written, self.client.options.orphan_after, now) {
                match self.clear_orphan(*id, nonce, data) {
                    Ok(cleared) => swept.leftovers += usize::from(cleared),
                    Err(error) => swept.failures.push(error),
                }
            }
        }
        swept.expired.sort_by_key(|gone| gone.sidecar.expires_at);
        Ok(swept)
    }

    fn sweep_stored(
        &self,
        listing: &BucketListing,
        id: ResultId,
        stored: &StoredEntry,
        now: DateTime<Utc>,
        swept: &mut SweepReport,
    ) {
        let deleted_at = listing.tombstones.get(&(id, stored.nonce.clone()));
        if let Some(deleted_at) = deleted_at {
            // The deleting process died before it deleted the entry, or is about to.
            if is_older(*deleted_at, self.client.options.orphan_after, now) {
                swept.failures.extend(self.delete(&self.keys.index(id)).err());
            }
            return;
        }
        let Ok(info) = stored.result_info() else { return };
        if !info.sidecar.is_expired(id, now) {
            return;
        }
        match self.expire(&info, stored) {
            Ok(Outcome::Deleted) => swept.expired.push(info),
            Ok(Outcome::InUse) => swept.in_use += 1,
            Ok(Outcome::DeletedElsewhere) => {}
            Err(error) => swept.failures.push(error),
        }
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

    /// Deletes a result; returns false if another process does. Only one process can create the
    /// tombstone. Without a grace period the data is deleted at once, otherwise by a later sweep.
    pub(super) fn delete_result(
        &self,
        info: &ResultInfo,
        stored: &StoredEntry,
        why: RemovalReason,
    ) -> Result<bool, SpoolError> {
        let id = info.id();
        let tombstone = Tombstone::new(info, why).seal();
        let key = self.keys.tombstone(id, &stored.nonce);
        if !matches!(
            self.client.wait(self.client.create(&key, &tombstone))?,
            CreateOutcome::Created
        ) {
            return Ok(false);
        }
        // With a clock ahead of ours, the tombstone of another process may have been created and
        // deleted since the entry was read. That process deleted the entry first, so the entry is
        // read once more.
        let entry = self.client.wait(self.entry(id));
        if !matches!(&entry, Ok(Some(IndexEntry::Stored(there))) if there.nonce == stored.nonce) {
            let _ = self.delete(&key);
            return entry.map(|_| false);
        }
        // This process reports it; a later sweep deletes an entry or data that remains.
        let unpublished = self.delete(&self.keys.index(id));
        self.usage.release(&stored.nonce, Some(stored.sizes().sum()));
        self.client.local.evict(&stored.nonce);
        if unpublished.is_ok() && self.client.options.grace.is_zero() {
            for (piece, bytes) in stored.sizes().enumerate() {
                if bytes > 0 {
                    let _ = self.delete(&self.keys.data(id, &stored.nonce, piece));
                }
            }
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
        for ((id, nonce), deleted_at) in &listing.tombstones {
            let data = listing.data.get(&(*id, nonce.clone()));
            if !is_older(*deleted_at, options.grace, now) {
                continue;
            }
            if let Some(data) = data {
                // The guard keeps readers of this process away from the data.
                let Ok(_removal) = self.leases.begin_removal(*id) else { continue };
                if let Err(error) = self.delete_all(&data.keys) {
                    swept.failures.push(error);
                    continue;
                }
            }
            // The next sweep needs the tombstone to delete a remaining entry.
            let entry = listing.index.contains_key(id);
            if !entry && is_older(*deleted_at, options.remember.max(options.grace), now) {
                swept.failures.extend(self.delete(&self.keys.tombstone(*id, nonce)).err());
            }
        }
    }

    /// Deletes a placeholder entry once no writer can commit there.
    fn sweep_void(
        &self,
        listing: &BucketListing,
        id: ResultId,
        now: DateTime<Utc>,
        swept: &mut SweepReport,
    ) {
        let old = |since| is_older(since, self.client.options.orphan_after, now);
        let has_data = listing.data.keys().any(|(of, _)| *of == id);
        if !has_data && listing.index.get(&id).is_some_and(|meta| old(meta.last_modified)) {
            swept.failures.extend(self.delete(&self.keys.index(id)).err());
        }
    }

    /// Deletes data without an entry, after preventing that one appears.
    fn clear_orphan(
        &self,
        id: ResultId,
        nonce: &Nonce,
        data: &DataObjects,
    ) -> Result<bool, SpoolError> {
        let void = IndexEntry::Void(Nonce::new()).seal();
        let place = self.client.wait(self.client.create(&self.keys.index(id), &void))?;
        if let CreateOutcome::Existing(there) = place {
            match IndexEntry::read(&id.reference().to_string(), &there)? {
                // Committed since the listing.
                IndexEntry::Stored(stored) if stored.nonce == *nonce => return Ok(false),
                _ => {}
            }
        }
        self.delete_all(&data.keys).map(|()| true)
    }

    fn delete(&self, key: &Path) -> Result<(), SpoolError> {
        self.client.wait(self.client.delete(key))
    }

    fn delete_all(&self, keys: &[Path]) -> Result<(), SpoolError> {
        keys.iter().try_for_each(|key| self.delete(key))
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

/// Whether `since` is at least `age` ago. With a clock that was set back, nothing is.
fn is_older(since: DateTime<Utc>, age: Duration, now: DateTime<Utc>) -> bool {
    (now - since).to_std().is_ok_and(|passed| passed >= age)
}
