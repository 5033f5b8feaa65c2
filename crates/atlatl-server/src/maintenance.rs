//! Maintenance tasks: `memory_expiry`, `memory_retention`, `index_repair`, `vector_index`,
//! `search_index`, and `offload_cleanup` if all servers share the store of results.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atlatl_memory::StoreError;
use chrono::TimeDelta;
use futures_util::FutureExt;
use tokio::task::AbortHandle;

use crate::event::ServerEventKind;
use crate::limits;
use crate::server::MemoryServer;
use crate::tools::Tool;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// The interval between checks of the indexes.
const INDEX_INTERVAL: Duration = Duration::from_secs(10);
/// The maximum duration of one run.
const INDEX_RUN_LIMIT: Duration = Duration::from_secs(3);
/// The number of memories deleted per transaction.
const EXPIRY_BATCH_LEN: usize = 500;
/// How long a run deletes memories by retention. The next one continues.
const MAX_RETENTION_RUN: Duration = Duration::from_secs(30);
/// The longest pause between two batches of it.
const MAX_RETENTION_PAUSE: Duration = Duration::from_secs(2);

/// The maintenance tasks of a server. They end when this is dropped; a task can be interrupted at any
/// step.
#[derive(Debug, Default)]
pub struct MaintenanceTasks(Vec<AbortHandle>);

impl MaintenanceTasks {
    /// Adds a task that runs now and then at every interval. A panic ends a run only.
    pub fn every<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        interval: Duration,
        run: impl Fn() -> F + Send + 'static,
    ) {
        self.spawn(async move {
            loop {
                let _ = AssertUnwindSafe(run()).catch_unwind().await;
                tokio::time::sleep(interval).await;
            }
        });
    }

    /// Adds a task that runs until it ends.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.push(tokio::spawn(task).abort_handle());
    }
}

impl Drop for MaintenanceTasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl MemoryServer {
    /// Starts the tasks on the current runtime. They end when the returned handle is dropped.
    pub fn start_maintenance(&self) -> MaintenanceTasks {
        let (expiry, repair, vectors, words, cleanup) =
            (self.clone(), self.clone(), self.clone(), self.clone(), self.clone());
        let mut tasks = MaintenanceTasks::default();
        tasks.every(HOUR, move || memory_expiry(expiry.clone()));
        tasks.every(DAY, move || index_repair(repair.clone()));
        tasks.every(INDEX_INTERVAL, move || vector_index(vectors.clone()).map(drop));
        tasks.every(INDEX_INTERVAL, move || search_index(words.clone()).map(drop));
        if let Some(interval) = self.0.cleanup {
            tasks.every(interval, move || offload_cleanup(cleanup.clone(), interval));
        }
        tasks
    }

    /// Runs the due tasks now, unless another process did recently. It is used for tenants, which
    /// have no tasks of their own.
    pub async fn tidy(&self) {
        memory_expiry(self.clone()).await;
        memory_retention(self.clone()).await;
        index_repair(self.clone()).await;
        search_index(self.clone()).await;
        vector_index(self.clone()).await;
        if let Some(interval) = self.0.cleanup {
            offload_cleanup(self.clone(), interval).await;
        }
    }

    /// Updates the vector index, in the same way. Returns whether it was behind.
    pub async fn index_vectors(&self) -> bool {
        vector_index(self.clone()).await
    }

    /// Updates the full-text index, in the same way. Returns whether it was behind.
    pub async fn index_words(&self) -> bool {
        search_index(self.clone()).await
    }

    /// Runs `task`, unless another process did less than half an interval ago.
    async fn run_leased(
        &self,
        task: &'static str,
        interval: Duration,
        run: impl Future<Output = Result<u64, StoreError>>,
    ) {
        let now = (self.0.clock)().now;
        let lease = TimeDelta::from_std(interval / 2).unwrap_or_default();
        if !matches!(self.0.store.lease(task, now, now + lease).await, Ok(true)) {
            return;
        }
        let acted_on = match run.await {
            Ok(number) => {
                if number > 0 {
                    tracing::debug!(task, items = number, "maintenance task finished");
                }
                Some(number)
            }
            Err(error) => {
                tracing::warn!(task, error = %error, "maintenance task failed; retrying");
                None
            }
        };
        self.0.events.publish(None, ServerEventKind::CustodialTaskFinished { task, acted_on });
    }
}

/// Spec L2: deletes expired results, and publishes an event for each.
async fn offload_cleanup(server: MemoryServer, interval: Duration) {
    if server.0.interceptor.is_none() {
        return;
    }
    let sweep = async {
        let inner = Arc::clone(&server.0);
        let swept = limits::blocking(move || {
            // All tools share one spool.
            let offloader = inner.interceptor.as_ref()?.offloader(Tool::Recall.name());
            Some(offloader.sweep((inner.clock)().now))
        });
        match swept.await {
            Ok(Some(Ok(swept))) => Ok(swept.expired.len() as u64),
            Ok(Some(Err(error))) => Err(StoreError::Engine(error.into())),
            Ok(None) => Ok(0),
            Err(error) => Err(StoreError::Engine(error.into())),
        }
    };
    server.run_leased("offload_cleanup", interval, sweep).await;
}

/// Deletes expired memories.
async fn memory_expiry(server: MemoryServer) {
    let expire = async {
        let mut removed = 0;
        loop {
            let gone = server.0.store.expire((server.0.clock)().now, EXPIRY_BATCH_LEN).await?;
            for id in &gone {
                server.0.events.publish(None, ServerEventKind::MemoryDeleted { id: id.clone() });
            }
            removed += gone.len() as u64;
            if gone.len() < EXPIRY_BATCH_LEN {
                return Ok(removed);
            }
        }
    };
    server.run_leased("memory_expiry", HOUR, expire).await;
}

/// Deletes memories that were not changed for longer than the retention of their tenant.
async fn memory_retention(server: MemoryServer) {
    let Some(retention) = server.0.retention() else { return };
    let retire = async {
        let (mut removed, begun) = (0, Instant::now());
        loop {
            let before = (server.0.clock)().now - retention;
            let batch = Instant::now();
            let gone = server.0.store.retire(before, EXPIRY_BATCH_LEN).await?;
            for id in &gone {
                server.0.events.publish(None, ServerEventKind::MemoryDeleted { id: id.clone() });
            }
            removed += gone.len() as u64;
            if gone.is_empty() || begun.elapsed() > MAX_RETENTION_RUN {
                return Ok(removed);
            }
            // Most of the database's time belongs to requests.
            tokio::time::sleep(batch.elapsed().min(MAX_RETENTION_PAUSE)).await;
        }
    };
    server.run_leased("memory_retention", HOUR, retire).await;
}

/// Repairs inconsistent indexes.
async fn index_repair(server: MemoryServer) {
    let repair = async {
        let repaired = server.0.store.repair().await?;
        Ok(repaired.missing + repaired.orphaned)
    };
    server.run_leased("index_repair", DAY, repair).await;
}

/// Updates a vector index that writers do not update. If none is behind, nothing is written or
/// published. Returns whether one was.
async fn vector_index(server: MemoryServer) -> bool {
    if !matches!(server.0.store.is_index_behind().await, Ok(true)) {
        return false;
    }
    let advance = async {
        let (begun, mut done) = (Instant::now(), 0);
        while begun.elapsed() < INDEX_RUN_LIMIT {
            match server.0.store.advance_index().await? {
                0 => break,
                more => done += more,
            }
        }
        Ok(done)
    };
    server.run_leased("vector_index", INDEX_INTERVAL, advance).await;
    true
}

/// Indexes what servers of a previous version wrote, and counts words. If nothing is to be done,
/// nothing is written or published. Returns whether something was.
async fn search_index(server: MemoryServer) -> bool {
    if !matches!(server.0.store.is_search_index_behind().await, Ok(true)) {
        return false;
    }
    let advance = async {
        let (begun, mut done) = (Instant::now(), 0);
        while begun.elapsed() < INDEX_RUN_LIMIT {
            match server.0.store.advance_search_index().await? {
                0 => break,
                more => done += more,
            }
        }
        Ok(done)
    };
    server.run_leased("search_index", INDEX_INTERVAL, advance).await;
    true
}
