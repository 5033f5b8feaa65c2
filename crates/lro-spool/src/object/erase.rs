//! Erasure of a tenant's results: everything below its prefix, or all results stored before a time.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use object_store::ObjectMeta;
use object_store::path::Path;

use super::bucket::{Bucket, StoreClient};
use super::key::{InvalidTenant, KeyKind, Keys};
use crate::error::SpoolError;

/// The number of objects that are deleted in one step: what one request lists.
const STEP_LEN: usize = 1000;
/// The number of results that are deleted in one step, with a request each to find its objects.
const STEP_RESULTS: usize = 100;

/// What a step deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErasedResults {
    /// The number of results.
    pub results: u64,
    /// The bytes of all objects.
    pub bytes: u64,
    /// Whether nothing was left to delete.
    pub is_complete: bool,
}

/// Erases the results of one tenant. It blocks the calling thread, and knows nothing of readers: they
/// find that a result does not exist.
#[derive(Debug)]
pub struct ResultEraser {
    client: Arc<StoreClient>,
    keys: Keys,
}

impl Bucket {
    /// Returns the eraser of a tenant, which need not exist any more.
    pub fn eraser(&self, tenant: &str) -> Result<ResultEraser, InvalidTenant> {
        let keys = Keys::new(&self.0.prefix, tenant)?;
        Ok(ResultEraser { client: Arc::clone(&self.0), keys })
    }
}

impl ResultEraser {
    /// Deletes up to a thousand objects below the prefix of the tenant, whatever they are. The tenant
    /// must not write any more. Repeat it until nothing is left.
    pub fn erase_some(&self) -> Result<ErasedResults, SpoolError> {
        let found = self.client.wait(self.client.list_some(self.keys.all(), STEP_LEN))?;
        let mut erased =
            ErasedResults { is_complete: found.is_empty(), ..ErasedResults::default() };
        let mut keys = Vec::with_capacity(found.len());
        for meta in found {
            match self.keys.parse(&meta.location) {
                Some(KeyKind::Index(_)) => erased.results += 1,
                Some(KeyKind::Data(_, nonce)) => self.client.local.evict(&nonce),
                Some(KeyKind::Tombstone(..)) | None => {}
            }
            erased.bytes += meta.size;
            keys.push(meta.location);
        }
        self.delete(&keys)?;
        Ok(erased)
    }

    /// Deletes some of the results that were stored before a time, by the clock of the store, of a tenant
    /// that may be in use. Drafts are kept. Repeat it until nothing is left.
    pub fn erase_results(&self, before: DateTime<Utc>) -> Result<ErasedResults, SpoolError> {
        // The oldest come first, since ids are ordered by time; but not in every store.
        let index = self.keys.index_prefix();
        let is_old = |meta: &ObjectMeta| meta.last_modified < before;
        let mut found = self.client.wait(self.client.list_some(&index, STEP_LEN))?;
        if found.len() >= STEP_LEN && !found.iter().any(is_old) {
            found = self.client.wait(self.client.list(&index))?;
        }
        let entries: Vec<_> = found
            .into_iter()
            .filter(is_old)
            .filter_map(|meta| match self.keys.parse(&meta.location) {
                Some(KeyKind::Index(id)) => Some((id, meta)),
                _ => None,
            })
            .take(STEP_RESULTS)
            .collect();
        if entries.is_empty() {
            return self.erase_expired();
        }
        let mut erased = ErasedResults::default();
        let (mut data, mut index) = (Vec::new(), Vec::new());
        for (id, entry) in entries {
            for meta in self.client.wait(self.client.list(&self.keys.data_prefix(id)))? {
                if let Some(KeyKind::Data(_, nonce)) = self.keys.parse(&meta.location) {
                    self.client.local.evict(&nonce);
                }
                erased.bytes += meta.size;
                data.push(meta.location);
            }
            erased.results += 1;
            erased.bytes += entry.size;
            index.push(entry.location);
        }
        // First the data: if this is interrupted, the entries are found again.
        self.delete(&data)?;
        self.delete(&index)?;
        Ok(erased)
    }

    /// Deletes the data of results that expired or were deleted, which a sweep keeps for a while for their
    /// readers.
    fn erase_expired(&self) -> Result<ErasedResults, SpoolError> {
        let tombstones = self.client.wait(self.client.list(&self.keys.tombstones_prefix()))?;
        let mut erased = ErasedResults { is_complete: true, ..ErasedResults::default() };
        for tombstone in tombstones {
            let Some(KeyKind::Tombstone(id, gone)) = self.keys.parse(&tombstone.location) else {
                continue;
            };
            let mut data = Vec::new();
            for meta in self.client.wait(self.client.list(&self.keys.data_prefix(id)))? {
                match self.keys.parse(&meta.location) {
                    Some(KeyKind::Data(_, nonce)) if nonce == gone => {
                        self.client.local.evict(&nonce);
                        erased.bytes += meta.size;
                        data.push(meta.location);
                    }
                    _ => {}
                }
            }
            self.delete(&data)?;
        }
        Ok(erased)
    }

    /// Deletes objects in batches. Fails if one of them may still exist.
    fn delete(&self, keys: &[Path]) -> Result<(), SpoolError> {
        let undeleted = self.client.wait(self.client.delete_all(keys));
        undeleted.into_iter().next().map_or(Ok(()), |undeleted| Err(undeleted.error))
    }
}
