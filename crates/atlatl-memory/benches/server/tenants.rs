//! A thousand tenants, a few large and most small.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{MemoryStore, OnConflict, PostgresStore};
use mif::Memory;

use crate::database::Database;
use crate::supply::Supply;

pub(crate) const COUNT: usize = 1000;
/// The number of threads that fill the tables.
pub(crate) const FILLING: usize = 4;
/// The batch size of filling.
const BATCH_LEN: usize = 500;
/// The share of the n-th tenant is proportional to 1 / (n + this), so that the largest has 3 % of
/// all.
const LEVEL: f64 = 6.0;

pub(crate) struct Tenants {
    stores: Vec<PostgresStore>,
    /// The number of memories of each tenant.
    filled: Vec<AtomicUsize>,
}

impl Tenants {
    pub(crate) fn new(database: &Database) -> Self {
        let store = |n| database.postgres.tenant(&format!("tenant {n}")).expect("a name");
        Self {
            stores: (0..COUNT).map(store).collect(),
            filled: (0..COUNT).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Some of the ten largest, in rotation.
    pub(crate) fn large(&self, n: usize) -> &PostgresStore {
        &self.stores[n % 10]
    }

    /// Some of the two hundred around the median, in rotation.
    pub(crate) fn median(&self, n: usize) -> &PostgresStore {
        &self.stores[COUNT / 2 - 100 + n % 200]
    }

    /// Fills up to `size` in all. Returns how many were added, and the sizes of the largest and the
    /// median tenant.
    pub(crate) fn fill(&self, supply: &mut Supply, size: usize) -> (usize, usize, usize) {
        let mut batches: Vec<(usize, Vec<Memory>)> = Vec::new();
        let mut new = 0;
        for (tenant, filled) in self.filled.iter().enumerate() {
            let wanted = share(tenant, size);
            let had = filled.swap(wanted, Ordering::Relaxed);
            let mut missing = wanted.saturating_sub(had);
            new += missing;
            while missing > 0 {
                let some = missing.min(BATCH_LEN);
                batches.push((tenant, supply.take(some)));
                missing -= some;
                // Few enough at a time to need little memory.
                if batches.len() == 400 {
                    self.put(std::mem::take(&mut batches));
                }
            }
        }
        self.put(batches);
        let has = |tenant: usize| self.filled[tenant].load(Ordering::Relaxed);
        (new, has(0), has(COUNT / 2))
    }

    fn put(&self, batches: Vec<(usize, Vec<Memory>)>) {
        let left = Mutex::new(batches);
        let fill = || {
            loop {
                let Some((tenant, memories)) = left.lock().expect("no panic").pop() else { return };
                self.stores[tenant].put(&memories, OnConflict::Keep).wait().expect("put");
            }
        };
        thread::scope(|scope| (0..FILLING).for_each(|_| drop(scope.spawn(fill))));
    }
}

/// Returns how many of `size` memories the tenant at this rank has, from 0.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a few million"
)]
fn share(tenant: usize, size: usize) -> usize {
    let weight = |n: usize| 1.0 / (n as f64 + 1.0 + LEVEL);
    let all: f64 = (0..COUNT).map(weight).sum();
    (size as f64 * weight(tenant) / all).round() as usize
}
