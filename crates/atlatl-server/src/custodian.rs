//! Custodian: what a server does for its memories when nobody asks: `memory_expiry` and
//! `index_repair`. Stored results have `offload_cleanup`, which belongs to whoever keeps them.

use std::time::Duration;

use chrono::TimeDelta;
use lro::Custodian;

use crate::event::EventKind;
use crate::server::MemoryServer;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// Memories that are removed in one transaction.
const BATCH: usize = 500;

impl MemoryServer {
    /// Starts the tasks; they end when what this returns is dropped.
    pub fn keep_house(&self) -> std::io::Result<[Custodian; 2]> {
        let (expiry, repair) = (self.clone(), self.clone());
        Ok([
            Custodian::sweeping(HOUR, move || expiry.memory_expiry())?,
            Custodian::sweeping(DAY, move || repair.index_repair())?,
        ])
    }

    /// Removes what has outlived its time.
    fn memory_expiry(&self) {
        self.take("memory_expiry", HOUR, || {
            let mut removed = 0;
            loop {
                let gone = self.0.store.expire((self.0.clock)().now, BATCH)?;
                for id in &gone {
                    self.0.events.publish(None, EventKind::MemoryDeleted { id: id.clone() });
                }
                removed += gone.len() as u64;
                if gone.len() < BATCH {
                    return Ok(removed);
                }
            }
        });
    }

    /// Mends indexes that are not in step.
    fn index_repair(&self) {
        self.take("index_repair", DAY, || {
            let repaired = self.0.store.repair()?;
            Ok(repaired.missing + repaired.orphaned)
        });
    }

    /// Runs `task` unless another process did so less than half an interval ago.
    fn take(
        &self,
        task: &'static str,
        interval: Duration,
        run: impl Fn() -> Result<u64, atlatl_memory::StoreError>,
    ) {
        let now = (self.0.clock)().now;
        let lease = TimeDelta::from_std(interval / 2).unwrap_or_default();
        if !matches!(self.0.store.lease(task, now, now + lease), Ok(true)) {
            return;
        }
        let acted_on = run().ok();
        self.0.events.publish(None, EventKind::CustodialTaskFinished { task, acted_on });
    }
}
