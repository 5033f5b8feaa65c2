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

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};
use rusqlite::Connection;

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
    vector_cache: Arc<RwLock<Option<Arc<Mutex<VectorCache>>>>>,
    /// The number of vectors above which the cache is approximate.
    quantized_above: usize,
    frequencies: Arc<FrequencyCache>,
}

impl SqliteStore {
    /// Opens the store at `path`. If there is none, creates the directory and a file that only its
    /// owner may read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let pool = Pool::open(path)?;
        Ok(Self {
            pool,
            vector_cache: Arc::default(),
            quantized_above: QUANTIZED_ABOVE,
            frequencies: Arc::default(),
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

#[async_trait]
impl MemoryStore for SqliteStore {
    async fn put(
        &self,
        memories: &[Memory],
        on_conflict: OnConflict,
    ) -> Result<Vec<PutOutcome>, StoreError> {
        let memories = memories.to_vec();
        self.pool.write(move |change| crud::put(change, &memories, on_conflict)).await
    }

    async fn get(&self, id: &MemoryId) -> Result<Option<Memory>, StoreError> {
        let id = id.clone();
        self.pool.read_once(move |db| crud::get(db, &id)).await
    }

    async fn get_all(&self, ids: &[MemoryId]) -> Result<Vec<Memory>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids = ids.to_vec();
        self.pool.read(move |db| crud::get_all(db, &ids)).await
    }

    async fn ids(
        &self,
        first: &MemoryId,
        last: &MemoryId,
        limit: usize,
    ) -> Result<Vec<MemoryId>, StoreError> {
        let (first, last) = (first.clone(), last.clone());
        self.pool.read_once(move |db| crud::ids(db, &first, &last, limit)).await
    }

    async fn update(
        &self,
        id: &MemoryId,
        mut change: UpdateFn,
    ) -> Result<Option<Memory>, StoreError> {
        let id = id.clone();
        self.pool.write(move |db| crud::update(db, &id, &mut change)).await
    }

    async fn delete(&self, id: &MemoryId) -> Result<bool, StoreError> {
        let id = id.clone();
        let deleted = self.pool.write(move |db| crud::delete(db, &id)).await?;
        if deleted {
            self.pool.scrub().await;
        }
        Ok(deleted)
    }

    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        list_after: Option<&ListPosition>,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<MemoryPage, StoreError> {
        let (filter, list_after) = (filter.clone(), list_after.cloned());
        let page = move |db: &Connection| {
            crud::list_after(db, &filter, order, list_after.as_ref(), limit, now)
        };
        self.pool.read_once(page).await
    }

    async fn list_from(
        &self,
        filter: &Filter,
        order: Order,
        offset: u64,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Memory>, StoreError> {
        let filter = filter.clone();
        self.pool.read_once(move |db| crud::list_from(db, &filter, order, offset, limit, now)).await
    }

    async fn count(&self, filter: &Filter, now: DateTime<Utc>) -> Result<u64, StoreError> {
        let filter = filter.clone();
        self.pool.read_once(move |db| crud::count(db, &filter, now)).await
    }

    async fn lexical(
        &self,
        terms: &Terms,
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Matches, StoreError> {
        let (terms, filter) = (terms.clone(), filter.clone());
        let frequencies = Arc::clone(&self.frequencies);
        self.pool
            .read(move |db| search::lexical(db, &frequencies, &terms, &filter, limit, now))
            .await
    }

    async fn lexical_and_read(
        &self,
        terms: &Terms,
        filter: &Filter,
        limit: usize,
        first: usize,
        now: DateTime<Utc>,
    ) -> Result<(Matches, Vec<Memory>), StoreError> {
        let (terms, filter) = (terms.clone(), filter.clone());
        let frequencies = Arc::clone(&self.frequencies);
        let query = move |db: &Connection| {
            let matches = search::lexical(db, &frequencies, &terms, &filter, limit, now)?;
            let read = crud::get_all(db, &matches.first(first))?;
            Ok((matches, read))
        };
        self.pool.read(query).await
    }

    async fn frequencies(&self, phrases: &[Phrase], cap: u64) -> Result<Vec<u64>, StoreError> {
        let phrases = phrases.to_vec();
        self.pool.read(move |db| search::frequencies(db, &phrases, cap)).await
    }

    async fn nearest(
        &self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<MemoryMatch>, StoreError> {
        let (model, vector, filter) = (model.to_owned(), vector.to_vec(), filter.clone());
        let (cached, above) = (Arc::clone(&self.vector_cache), self.quantized_above);
        let query = move |db: &Connection| {
            // Waits while another query fills the cache.
            let cache = vector_cache::cache_for_model(&cached, &model, vector.len(), above);
            vectors::nearest(db, &cache, (&model, &vector), &filter, limit, now)
        };
        self.pool.read(query).await
    }

    async fn cosines(
        &self,
        model: &str,
        vector: &[f32],
        ids: &[MemoryId],
    ) -> Result<Vec<Option<f64>>, StoreError> {
        let (model, vector, ids) = (model.to_owned(), vector.to_vec(), ids.to_vec());
        self.pool.read(move |db| vectors::cosines(db, &model, &vector, &ids)).await
    }

    async fn unembedded(
        &self,
        model: &str,
        list_after: u64,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError> {
        let model = model.to_owned();
        self.pool.read(move |db| vectors::unembedded(db, &model, list_after, limit)).await
    }

    async fn count_unembedded(&self, model: &str) -> Result<u64, StoreError> {
        let model = model.to_owned();
        self.pool.read(move |db| vectors::count_unembedded(db, &model)).await
    }

    async fn put_vectors(
        &self,
        model: &str,
        vectors: &[(u64, Vec<f32>)],
    ) -> Result<(), StoreError> {
        let (model, vectors) = (model.to_owned(), vectors.to_vec());
        self.pool.write(move |db| vectors::put(db, &model, &vectors)).await
    }

    async fn expire(&self, now: DateTime<Utc>, limit: usize) -> Result<Vec<MemoryId>, StoreError> {
        let gone = self.pool.write(move |db| maintenance::expire(db, now, limit)).await?;
        if !gone.is_empty() {
            self.pool.scrub().await;
        }
        Ok(gone)
    }

    async fn repair(&self) -> Result<RepairReport, StoreError> {
        // The search may take long, and must not block writers.
        let inconsistencies = self.pool.read(maintenance::find_inconsistencies).await?;
        if inconsistencies.is_empty() {
            return Ok(RepairReport::default());
        }
        self.pool.write(move |db| maintenance::repair(db, &inconsistencies)).await
    }

    async fn lease(
        &self,
        task: &str,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let task = task.to_owned();
        self.pool.write(move |db| maintenance::lease(db, &task, now, until)).await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        self.pool.read_once(maintenance::secret).await
    }
}
