//! Maintenance tasks: `memory_expiry`, `index_repair`, `vector_index`, and `offload_cleanup` if all
//! servers share the store of results.

use std::time::{Duration, Instant};

use atlatl_memory::StoreError;
use chrono::TimeDelta;
use lro::MaintenanceTask;

use crate::event::ServerEventKind;
use crate::server::MemoryServer;
use crate::tools::Tool;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// The interval between checks of the vector index.
const INDEX_INTERVAL: Duration = Duration::from_secs(10);
/// The maximum duration of one run, which a stopping server waits for.
const INDEX_RUN_LIMIT: Duration = Duration::from_secs(3);
/// The number of memories deleted per transaction.
const EXPIRY_BATCH_LEN: usize = 500;

impl MemoryServer {
    /// Starts the tasks. They end when the returned handles are dropped.
    pub fn start_maintenance(&self) -> std::io::Result<Vec<MaintenanceTask>> {
        let (expiry, repair, index, cleanup) =
            (self.clone(), self.clone(), self.clone(), self.clone());
        let mut house = vec![
            MaintenanceTask::every(HOUR, move || expiry.memory_expiry())?,
            MaintenanceTask::every(DAY, move || repair.index_repair())?,
            MaintenanceTask::every(INDEX_INTERVAL, move || index.vector_index())?,
        ];
        if let Some(interval) = self.0.cleanup {
            house
                .push(MaintenanceTask::every(interval, move || cleanup.offload_cleanup(interval))?);
        }
        Ok(house)
    }

    /// Runs the due tasks now, unless another process did recently. It is used for tenants, which
    /// have no tasks of their own.
    pub fn tidy(&self) {
        self.memory_expiry();
        self.index_repair();
        if let Some(interval) = self.0.cleanup {
            self.offload_cleanup(interval);
        }
    }

    /// Updates the vector index, in the same way.
    pub fn index_vectors(&self) {
        self.vector_index();
    }

    /// Spec L2: deletes expired results, and publishes an event for each.
    fn offload_cleanup(&self, interval: Duration) {
        let Some(interceptor) = &self.0.interceptor else { return };
        self.run_leased("offload_cleanup", interval, || {
            // All tools share one spool.
            let swept = interceptor.offloader(Tool::Recall.name()).sweep((self.0.clock)().now);
            let swept = swept.map_err(|error| StoreError::Engine(error.into()))?;
            Ok(swept.expired.len() as u64)
        });
    }

    /// Deletes expired memories.
    fn memory_expiry(&self) {
        self.run_leased("memory_expiry", HOUR, || {
            let mut removed = 0;
            loop {
                let gone = self.0.store.expire((self.0.clock)().now, EXPIRY_BATCH_LEN)?;
                for id in &gone {
                    self.0.events.publish(None, ServerEventKind::MemoryDeleted { id: id.clone() });
                }
                removed += gone.len() as u64;
                if gone.len() < EXPIRY_BATCH_LEN {
                    return Ok(removed);
                }
            }
        });
    }

    /// Repairs inconsistent indexes.
    fn index_repair(&self) {
        self.run_leased("index_repair", DAY, || {
            let repaired = self.0.store.repair()?;
            Ok(repaired.missing + repaired.orphaned)
        });
    }

    /// Updates a vector index that writers do not update. If none is behind, nothing is written or
    /// published.
    fn vector_index(&self) {
        if !matches!(self.0.store.is_index_behind(), Ok(true)) {
            return;
        }
        self.run_leased("vector_index", INDEX_INTERVAL, || {
            let (begun, mut done) = (Instant::now(), 0);
            while begun.elapsed() < INDEX_RUN_LIMIT {
                match self.0.store.advance_index()? {
                    0 => break,
                    more => done += more,
                }
            }
            Ok(done)
        });
    }

    /// Runs `task`, unless another process did less than half an interval ago.
    fn run_leased(
        &self,
        task: &'static str,
        interval: Duration,
        run: impl Fn() -> Result<u64, StoreError>,
    ) {
        let now = (self.0.clock)().now;
        let lease = TimeDelta::from_std(interval / 2).unwrap_or_default();
        if !matches!(self.0.store.lease(task, now, now + lease), Ok(true)) {
            return;
        }
        let acted_on = run().ok();
        self.0.events.publish(None, ServerEventKind::CustodialTaskFinished { task, acted_on });
    }
}
