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

use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use self::pool::Pool;
pub use self::schema::Health;
use self::search::VectorCache;
use super::listing::{Filter, ListPosition, MemoryPage, Order};
use crate::search::query::Terms;
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
}

impl SqliteStore {
    /// Opens the store at `path`. If there is none, creates the directory and a file that only its
    /// owner may read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let pool = Pool::open(path)?;
        Ok(Self { pool, vector_cache: RwLock::default() })
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
        self.pool.read(|db| search::lexical(db, terms, filter, limit, now))
    }

    fn nearest(
        &self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<MemoryMatch>, StoreError> {
        let vector_cache = search::cache_for_model(&self.vector_cache, model, vector.len());
        self.pool.read(|db| search::nearest(db, &vector_cache, vector, filter, limit, now))
    }

    fn unembedded(
        &self,
        model: &str,
        list_after: u64,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError> {
        self.pool.read(|db| search::unembedded(db, model, list_after, limit))
    }

    fn put_vectors(&self, model: &str, vectors: &[(u64, Vec<f32>)]) -> Result<(), StoreError> {
        self.pool.write(|db| search::put(db, model, vectors))
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
