//! Hooked: a store with a hook before each call, for the injection of faults.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};

use crate::listing::{Filter, Listed, Order, Position};
use crate::search::query::Terms;
use crate::store::{
    Change, Clash, Match, Matches, MemoryStore, Put, Repaired, StoreError, Unembedded,
};

/// A store that calls a function with the name of each method before the method. The function may wait,
/// fail or panic.
pub struct Hooked<F> {
    store: Arc<dyn MemoryStore>,
    hook: F,
}

impl<F: Fn(&'static str) -> Result<(), StoreError> + Send + Sync> Hooked<F> {
    /// The same store with `hook` before each call.
    pub fn new(store: Arc<dyn MemoryStore>, hook: F) -> Self {
        Self { store, hook }
    }
}

/// Hands each method on to the store below.
macro_rules! hooked {
    ($(fn $name:ident(&self $(, $argument:ident: $kind:ty)* $(,)?) -> $gives:ty;)*) => {
        impl<F: Fn(&'static str) -> Result<(), StoreError> + Send + Sync> MemoryStore for Hooked<F> {
            $(fn $name(&self $(, $argument: $kind)*) -> Result<$gives, StoreError> {
                (self.hook)(stringify!($name))?;
                self.store.$name($($argument),*)
            })*
        }
    };
}

hooked! {
    fn put(&self, memories: &[Memory], clash: Clash) -> Vec<Put>;
    fn get(&self, id: &MemoryId) -> Option<Memory>;
    fn get_all(&self, ids: &[MemoryId]) -> Vec<Memory>;
    fn ids(&self, first: &MemoryId, last: &MemoryId, limit: usize) -> Vec<MemoryId>;
    fn update(&self, id: &MemoryId, change: Change<'_>) -> Option<Memory>;
    fn delete(&self, id: &MemoryId) -> bool;
    fn list(
        &self,
        filter: &Filter,
        order: Order,
        after: Option<&Position>,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Listed;
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
    fn nearest(
        &self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Vec<Match>;
    fn unembedded(&self, model: &str, after: u64, limit: usize) -> Vec<Unembedded>;
    fn put_vectors(&self, model: &str, vectors: &[(u64, Vec<f32>)]) -> ();
    fn expire(&self, now: DateTime<Utc>, limit: usize) -> Vec<MemoryId>;
    fn repair(&self) -> Repaired;
    fn is_index_behind(&self) -> bool;
    fn advance_index(&self) -> u64;
    fn lease(&self, task: &str, now: DateTime<Utc>, until: DateTime<Utc>) -> bool;
    fn secret(&self) -> [u8; 32];
}
