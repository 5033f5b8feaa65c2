//! A store wrapper with a hook before each call, for fault injection.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use crate::blocking;
use crate::listing::{Filter, ListPosition, MemoryPage, Order};
use crate::search::query::{Phrase, Terms};
use crate::store::{
    Matches, MemoryMatch, MemoryStore, OnConflict, PutOutcome, RepairReport, StoreError,
    Unembedded, UpdateFn,
};

/// A store that calls a function with the name of each method before it runs the method. The
/// function may wait, fail or panic.
pub struct Hooked<F> {
    store: Arc<dyn MemoryStore>,
    hook: Arc<F>,
}

impl<F: Fn(&'static str) -> Result<(), StoreError> + Send + Sync + 'static> Hooked<F> {
    /// Wraps `store` with `hook`.
    pub fn new(store: Arc<dyn MemoryStore>, hook: F) -> Self {
        Self { store, hook: Arc::new(hook) }
    }

    /// Calls the hook on a blocking thread, because it may wait.
    async fn call(&self, name: &'static str) -> Result<(), StoreError> {
        let hook = Arc::clone(&self.hook);
        let called = blocking::run(move || hook(name)).await;
        called.map_err(|shutdown| StoreError::Engine(shutdown.into()))?
    }
}

/// Delegates each method to the wrapped store.
macro_rules! hooked {
    ($(fn $name:ident(&self $(, $argument:ident: $kind:ty)* $(,)?) -> $gives:ty;)*) => {
        #[async_trait]
        impl<F: Fn(&'static str) -> Result<(), StoreError> + Send + Sync + 'static> MemoryStore for Hooked<F> {
            $(async fn $name(&self $(, $argument: $kind)*) -> Result<$gives, StoreError> {
                self.call(stringify!($name)).await?;
                self.store.$name($($argument),*).await
            })*
        }
    };
}

hooked! {
    fn put(&self, memories: &[Memory], on_conflict: OnConflict) -> Vec<PutOutcome>;
    fn get(&self, id: &MemoryId) -> Option<Memory>;
    fn get_all(&self, ids: &[MemoryId]) -> Vec<Memory>;
    fn ids(&self, first: &MemoryId, last: &MemoryId, limit: usize) -> Vec<MemoryId>;
    fn update(&self, id: &MemoryId, change: UpdateFn) -> Option<Memory>;
    fn delete(&self, id: &MemoryId) -> bool;
    fn list(
        &self,
        filter: &Filter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
        now: DateTime<Utc>,
    ) -> MemoryPage;
    fn list_from(
        &self,
        filter: &Filter,
        order: Order,
        offset: u64,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Vec<Memory>;
    fn count(&self, filter: &Filter, now: DateTime<Utc>) -> u64;
    fn lexical(&self, terms: &Terms, filter: &Filter, limit: usize, now: DateTime<Utc>) -> Matches;
    fn frequencies(&self, phrases: &[Phrase], cap: u64) -> Vec<u64>;
    fn nearest(
        &self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Vec<MemoryMatch>;
    fn cosines(&self, model: &str, vector: &[f32], ids: &[MemoryId]) -> Vec<Option<f64>>;
    fn unembedded(&self, model: &str, after: u64, limit: usize) -> Vec<Unembedded>;
    fn count_unembedded(&self, model: &str) -> u64;
    fn put_vectors(&self, model: &str, vectors: &[(u64, Vec<f32>)]) -> ();
    fn expire(&self, now: DateTime<Utc>, limit: usize) -> Vec<MemoryId>;
    fn repair(&self) -> RepairReport;
    fn is_index_behind(&self) -> bool;
    fn advance_index(&self) -> u64;
    fn is_search_index_behind(&self) -> bool;
    fn advance_search_index(&self) -> u64;
    fn lease(&self, task: &str, now: DateTime<Utc>, until: DateTime<Utc>) -> bool;
    fn secret(&self) -> [u8; 32];
}
