//! A cache of each tenant's storage usage.
//!
//! Known is what the last listing showed, and what this process did since. Other processes' writes
//! are seen at the next listing: at a sweep, and always before a draft is refused.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::key::Nonce;
use crate::error::Limit;
use crate::quota::{self, Quota};

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
        let usage = quota::Usage { bytes: bytes_then, files, free: u64::MAX };
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
