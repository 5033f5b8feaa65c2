//! Sweep: what has expired, what dead writers left, and room for what comes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::ResultId;
use object_store::path::Path;

use super::bucket::Created;
use super::index::{Claim, Data, Entry, Inventory, Stored, Why};
use super::key::Nonce;
use super::{Busy, Shared};
use crate::error::SpoolError;
use crate::spool::{Listed, Swept};

/// What a sweep does with one result whose time is up.
enum Outcome {
    TakenAway,
    InUse,
    /// By another sweep, which tells of it.
    Theirs,
}

impl Shared {
    pub(super) fn sweep(&self, now: DateTime<Utc>) -> Result<Swept, SpoolError> {
        let inventory = self.inventory()?;
        let mut swept = Swept { expired: self.gone.take_untold(), ..Swept::default() };
        // The bytes of these are accounted for.
        let mut known: HashSet<Nonce> = HashSet::new();
        // What belongs to these is not known.
        let mut unread: HashSet<ResultId> = HashSet::new();
        for (id, entry) in self.entries(&inventory) {
            match entry.as_deref() {
                Ok(Entry::Stored(stored)) => {
                    known.insert(stored.nonce.clone());
                    self.sweep_stored(&inventory, id, stored, now, &mut swept);
                }
                Ok(Entry::Void(_)) => self.sweep_void(&inventory, id, now, &mut swept),
                Err(error) => {
                    unread.insert(id);
                    if !matches!(error, SpoolError::NotFound { .. }) {
                        swept.failures.extend(entry.err());
                    }
                }
            }
        }
        self.sweep_gone(&inventory, now, &mut swept);
        for ((id, nonce), data) in &inventory.data {
            let is_gone = inventory.gone.contains_key(&(*id, nonce.clone()));
            if is_gone || known.contains(nonce) || unread.contains(id) || self.is_draft(nonce) {
                continue;
            }
            if is_older(data.written, self.remote.options.orphan_after, now) {
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
        inventory: &Inventory,
        id: ResultId,
        stored: &Stored,
        now: DateTime<Utc>,
        swept: &mut Swept,
    ) {
        let claimed = inventory.gone.get(&(id, stored.nonce.clone()));
        if let Some(claimed) = claimed {
            // Whoever took it away died before its entry was gone, or is about to remove it.
            if is_older(*claimed, self.remote.options.orphan_after, now) {
                swept.failures.extend(self.delete(&self.keys.index(id)).err());
            }
            return;
        }
        let Ok(listed) = stored.listed() else { return };
        if !listed.sidecar.is_expired(id, now) {
            return;
        }
        match self.expire(&listed, stored) {
            Ok(Outcome::TakenAway) => swept.expired.push(listed),
            Ok(Outcome::InUse) => swept.in_use += 1,
            Ok(Outcome::Theirs) => {}
            Err(error) => swept.failures.push(error),
        }
    }

    fn expire(&self, listed: &Listed, stored: &Stored) -> Result<Outcome, SpoolError> {
        let _removal = match self.holds.remove(listed.id()) {
            Ok(removal) => removal,
            Err(Busy::Read) => return Ok(Outcome::InUse),
            Err(Busy::BeingRemoved) => return Ok(Outcome::Theirs),
        };
        if !self.take_away(listed, stored, Why::Expired)? {
            return Ok(Outcome::Theirs);
        }
        self.gone.remember(listed);
        Ok(Outcome::TakenAway)
    }

    /// Takes a result away; false where someone else does. Of several only one can create the claim.
    /// Without a grace period its bytes go at once, otherwise with a later sweep.
    pub(super) fn take_away(
        &self,
        listed: &Listed,
        stored: &Stored,
        why: Why,
    ) -> Result<bool, SpoolError> {
        let id = listed.id();
        let claim = Claim::new(listed, why).seal();
        let key = self.keys.gone(id, &stored.nonce);
        if !matches!(self.remote.wait(self.remote.create(&key, &claim))?, Created::ByUs) {
            return Ok(false);
        }
        // By a clock that is ahead, another one's claim may have come and gone since the entry was
        // seen. Its entry went first, so it is looked at once more.
        let seen = self.remote.wait(self.entry(id));
        if !matches!(&seen, Ok(Some(Entry::Stored(there))) if there.nonce == stored.nonce) {
            let _ = self.delete(&key);
            return seen.map(|_| false);
        }
        // It is ours to tell of; an entry or bytes that stay now go with a later sweep.
        let shown = self.delete(&self.keys.index(id));
        self.usage.release(&stored.nonce, Some(stored.sizes().sum()));
        self.remote.local.forget(&stored.nonce);
        if shown.is_ok() && self.remote.options.grace.is_zero() {
            for (piece, bytes) in stored.sizes().enumerate() {
                if bytes > 0 {
                    let _ = self.delete(&self.keys.data(id, &stored.nonce, piece));
                }
            }
        }
        Ok(true)
    }

    /// Removes the bytes of what was taken away once the grace period is over, and later the word
    /// of it.
    fn sweep_gone(&self, inventory: &Inventory, now: DateTime<Utc>, swept: &mut Swept) {
        let options = &self.remote.options;
        for ((id, nonce), taken) in &inventory.gone {
            let data = inventory.data.get(&(*id, nonce.clone()));
            if !is_older(*taken, options.grace, now) {
                continue;
            }
            if let Some(data) = data {
                // A removal keeps readers of this process away from what goes.
                let Ok(_removal) = self.holds.remove(*id) else { continue };
                if let Err(error) = self.delete_all(&data.keys) {
                    swept.failures.push(error);
                    continue;
                }
            }
            // An entry that is still there is looked at by the next sweep, which needs the claim.
            let entry = inventory.index.contains_key(id);
            if !entry && is_older(*taken, options.remember.max(options.grace), now) {
                swept.failures.extend(self.delete(&self.keys.gone(*id, nonce)).err());
            }
        }
    }

    /// Removes an entry that keeps its place free, once nobody can want to commit there.
    fn sweep_void(
        &self,
        inventory: &Inventory,
        id: ResultId,
        now: DateTime<Utc>,
        swept: &mut Swept,
    ) {
        let old = |since| is_older(since, self.remote.options.orphan_after, now);
        let has_data = inventory.data.keys().any(|(of, _)| *of == id);
        if !has_data && inventory.index.get(&id).is_some_and(|meta| old(meta.last_modified)) {
            swept.failures.extend(self.delete(&self.keys.index(id)).err());
        }
    }

    /// Removes bytes that no entry speaks of, after making sure that none will.
    fn clear_orphan(&self, id: ResultId, nonce: &Nonce, data: &Data) -> Result<bool, SpoolError> {
        let void = Entry::Void(Nonce::new()).seal();
        let place = self.remote.wait(self.remote.create(&self.keys.index(id), &void))?;
        if let Created::ByOthers(there) = place {
            match Entry::read(&id.reference().to_string(), &there)? {
                // Committed since the listing.
                Entry::Stored(stored) if stored.nonce == *nonce => return Ok(false),
                _ => {}
            }
        }
        self.delete_all(&data.keys).map(|()| true)
    }

    fn delete(&self, key: &Path) -> Result<(), SpoolError> {
        self.remote.wait(self.remote.delete(key))
    }

    fn delete_all(&self, keys: &[Path]) -> Result<(), SpoolError> {
        keys.iter().try_for_each(|key| self.delete(key))
    }

    /// Counts a draft that is to be committed. Where a quota is broken: what has expired goes,
    /// oldest first, as far as needed.
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
        let inventory = self.inventory()?;
        let Err(mut limit) = reserve() else { return Ok(()) };
        let mut candidates: Vec<(DateTime<Utc>, Arc<Entry>)> = Vec::new();
        for (id, entry) in self.entries(&inventory) {
            // What cannot be looked at is no candidate.
            let Ok(entry) = entry else { continue };
            if let Entry::Stored(stored) = &*entry
                && stored.sidecar.is_expired(id, now)
                && !inventory.gone.contains_key(&(id, stored.nonce.clone()))
            {
                candidates.push((stored.sidecar.expires_at, Arc::clone(&entry)));
            }
        }
        candidates.sort_by_key(|(expires_at, _)| *expires_at);
        for (_, entry) in candidates {
            let Entry::Stored(stored) = &*entry else { continue };
            let Ok(listed) = stored.listed() else { continue };
            if let Ok(Outcome::TakenAway) = self.expire(&listed, stored) {
                self.gone.tell_later(listed);
                match reserve() {
                    Ok(()) => return Ok(()),
                    Err(still) => limit = still,
                }
            }
        }
        Err(full(limit))
    }
}

/// A clock that was set back shows a time before: then nothing is old.
fn is_older(since: DateTime<Utc>, age: Duration, now: DateTime<Utc>) -> bool {
    (now - since).to_std().is_ok_and(|passed| passed >= age)
}
