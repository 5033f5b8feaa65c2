//! Maintenance tasks of the server: `memory_expiry`, `index_repair`, `vector_index`, and `offload_cleanup` if stored
//! results are in a store that all servers share.

use std::time::{Duration, Instant};

use atlatl_memory::StoreError;
use chrono::TimeDelta;
use lro::MaintenanceTask;

use crate::event::ServerEventKind;
use crate::server::MemoryServer;
use crate::tools::Tool;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// How often is looked whether an index of vectors is behind.
const INDEX_INTERVAL: Duration = Duration::from_secs(10);
/// For how long vectors go into it without a pause: a server that ends waits for no longer.
const INDEX_RUN_LIMIT: Duration = Duration::from_secs(3);
/// Memories that are removed in one transaction.
const EXPIRY_BATCH_LEN: usize = 500;

impl MemoryServer {
    /// Starts the tasks; they end when what this returns is dropped.
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

    /// Does now what is due, unless another process did so lately: for one of many tenants, who have no
    /// tasks of their own.
    pub fn tidy(&self) {
        self.memory_expiry();
        self.index_repair();
        if let Some(interval) = self.0.cleanup {
            self.offload_cleanup(interval);
        }
    }

    /// Brings the index of vectors up to date, the same way.
    pub fn index_vectors(&self) {
        self.vector_index();
    }

    /// Spec L2: removes stored results that have expired, and tells of each.
    fn offload_cleanup(&self, interval: Duration) {
        let Some(interceptor) = &self.0.interceptor else { return };
        self.run_leased("offload_cleanup", interval, || {
            // Whatever the tool, results lie in the same place.
            let swept = interceptor.offloader(Tool::Recall.name()).sweep((self.0.clock)().now);
            let swept = swept.map_err(|error| StoreError::Engine(error.into()))?;
            Ok(swept.expired.len() as u64)
        });
    }

    /// Removes what has outlived its time.
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

    /// Mends indexes that are not in step.
    fn index_repair(&self) {
        self.run_leased("index_repair", DAY, || {
            let repaired = self.0.store.repair()?;
            Ok(repaired.missing + repaired.orphaned)
        });
    }

    /// Brings an index of vectors up to date that no writer writes into. Where none is behind, nothing
    /// is written and nothing told.
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

    /// Runs `task` unless another process did so less than half an interval ago.
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
