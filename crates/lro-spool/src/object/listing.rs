//! Lists all results of a tenant.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use futures_util::{StreamExt, stream};
use lro_core::ResultId;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::Shared;
use super::index_entry::{ENTRY_CAP, Entry};
use super::key::{Meaning, Nonce};
use crate::error::SpoolError;

/// How many entries are fetched at the same time.
const TOGETHER: usize = 8;
/// How much of entries is remembered.
const REMEMBERED_BYTES: u64 = 32 << 20;

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
