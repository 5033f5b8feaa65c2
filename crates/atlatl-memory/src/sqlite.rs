//! A [`MemoryStore`] in one `SQLite` file, for one user and any number of processes.
//!
//! Every version of a memory has its own key, and keys only grow: an update inserts a new row. Data
//! stored beside a memory, such as its vector, therefore belongs to exactly one version, and the
//! memories that wait for a vector are those with a key above the last embedded one.

mod crud;
mod error;
mod maintenance;
mod pool;
mod schema;
mod search;
mod statistics;
mod vector_cache;
mod vectors;

use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use self::pool::Pool;
pub use self::schema::Health;
use self::statistics::FrequencyCache;
use self::vector_cache::{QUANTIZED_ABOVE, VectorCache};
use super::listing::{Filter, ListPosition, MemoryPage, Order};
use crate::search::query::{Phrase, Terms};
use crate::store::{
    Matches, MemoryMatch, MemoryStore, OnConflict, PutOutcome, RepairReport, StoreError,
    Unembedded, UpdateFn,
};

/// A store in an `SQLite` file.
#[derive(Debug)]
pub struct SqliteStore {
    pool: Pool,
    /// The vectors of the model that was queried last.
    vector_cache: RwLock<Option<Arc<Mutex<VectorCache>>>>,
    /// The number of vectors above which the cache is approximate.
    quantized_above: usize,
    frequencies: FrequencyCache,
}

impl SqliteStore {
    /// Opens the store at `path`. If there is none, creates the directory and a file that only its
    /// owner may read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let pool = Pool::open(path)?;
        Ok(Self {
            pool,
            vector_cache: RwLock::default(),
            quantized_above: QUANTIZED_ABOVE,
            frequencies: FrequencyCache::default(),
        })
    }

    /// Checks the store at `path` without changing it, and counts the memories that have no vector
    /// of `model`. Returns `None` if there is no file.
    pub fn check(path: &Path, model: Option<&str>) -> Result<Option<Health>, StoreError> {
        schema::check(path, model)
    }

    /// Opens a store with a limit on the size of the file, in pages, to test the behavior on a full
    /// disk.
    #[cfg(feature = "contract")]
    pub fn open_bounded(path: &Path, pages: i64) -> Result<Self, StoreError> {
        let store = Self::open(path)?;
        store.pool.limit_pages(pages)?;
        Ok(store)
    }

    /// Opens a store that compares vectors at 8 bits if there are more than `quantized_above`, to
    /// test and measure both forms.
    #[cfg(feature = "contract")]
    pub fn open_quantized(path: &Path, quantized_above: usize) -> Result<Self, StoreError> {
        Ok(Self { quantized_above, ..Self::open(path)? })
    }
}

impl MemoryStore for SqliteStore {
    fn put(
        &self,
        memories: &[Memory],
        on_conflict: OnConflict,
    ) -> Result<Vec<PutOutcome>, StoreError> {
        self.pool.write(|change| crud::put(change, memories, on_conflict))
    }

    fn get(&self, id: &MemoryId) -> Result<Option<Memory>, StoreError> {
        self.pool.read_once(|db| crud::get(db, id))
    }

    fn get_all(&self, ids: &[MemoryId]) -> Result<Vec<Memory>, StoreError> {
        self.pool.read(|db| crud::get_all(db, ids))
    }

    fn ids(
        &self,
        first: &MemoryId,
        last: &MemoryId,
        limit: usize,
    ) -> Result<Vec<MemoryId>, StoreError> {
        self.pool.read_once(|db| crud::ids(db, first, last, limit))
    }

    fn update(&self, id: &MemoryId, change: UpdateFn<'_>) -> Result<Option<Memory>, StoreError> {
        self.pool.write(|db| crud::update(db, id, change))
    }

    fn delete(&self, id: &MemoryId) -> Result<bool, StoreError> {
        let deleted = self.pool.write(|db| crud::delete(db, id))?;
        if deleted {
            self.pool.scrub();
        }
        Ok(deleted)
    }

    fn list(
        &self,
        filter: &Filter,
        order: Order,
        list_after: Option<&ListPosition>,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<MemoryPage, StoreError> {
        self.pool.read_once(|db| crud::list_after(db, filter, order, list_after, limit, now))
    }

    fn list_from(
        &self,
        filter: &Filter,
        order: Order,
        offset: u64,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Memory>, StoreError> {
        self.pool.read_once(|db| crud::list_from(db, filter, order, offset, limit, now))
    }

    fn count(&self, filter: &Filter, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.pool.read_once(|db| crud::count(db, filter, now))
    }

    fn lexical(
        &self,
        terms: &Terms,
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Matches, StoreError> {
        let frequencies = &self.frequencies;
        self.pool.read(|db| search::lexical(db, frequencies, terms, filter, limit, now))
    }

    fn frequencies(&self, phrases: &[Phrase], cap: u64) -> Result<Vec<u64>, StoreError> {
        self.pool.read(|db| search::frequencies(db, phrases, cap))
    }

    fn nearest(
        &self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<MemoryMatch>, StoreError> {
        let (cached, above) = (&self.vector_cache, self.quantized_above);
        let cache = vector_cache::cache_for_model(cached, model, vector.len(), above);
        self.pool.read(|db| vectors::nearest(db, &cache, (model, vector), filter, limit, now))
    }

    fn cosines(
        &self,
        model: &str,
        vector: &[f32],
        ids: &[MemoryId],
    ) -> Result<Vec<Option<f64>>, StoreError> {
        self.pool.read(|db| vectors::cosines(db, model, vector, ids))
    }

    fn unembedded(
        &self,
        model: &str,
        list_after: u64,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError> {
        self.pool.read(|db| vectors::unembedded(db, model, list_after, limit))
    }

    fn count_unembedded(&self, model: &str) -> Result<u64, StoreError> {
        self.pool.read(|db| vectors::count_unembedded(db, model))
    }

    fn put_vectors(&self, model: &str, vectors: &[(u64, Vec<f32>)]) -> Result<(), StoreError> {
        self.pool.write(|db| vectors::put(db, model, vectors))
    }

    fn expire(&self, now: DateTime<Utc>, limit: usize) -> Result<Vec<MemoryId>, StoreError> {
        let gone = self.pool.write(|db| maintenance::expire(db, now, limit))?;
        if !gone.is_empty() {
            self.pool.scrub();
        }
        Ok(gone)
    }

    fn repair(&self) -> Result<RepairReport, StoreError> {
        // The search may take long, and must not block writers.
        let inconsistencies = self.pool.read(maintenance::find_inconsistencies)?;
        if inconsistencies.is_empty() {
            return Ok(RepairReport::default());
        }
        self.pool.write(|db| maintenance::repair(db, &inconsistencies))
    }

    fn lease(
        &self,
        task: &str,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        self.pool.write(|db| maintenance::lease(db, task, now, until))
    }

    fn secret(&self) -> Result<[u8; 32], StoreError> {
        self.pool.read_once(maintenance::secret)
    }
}
