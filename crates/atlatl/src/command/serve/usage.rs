//! Counts what tenants use of this server, and adds it to their daily usage in the database.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atlatl_memory::{Postgres, StoreError, TenantUse};

/// What tenants used since it was written last. If the process is killed, that is lost.
#[derive(Debug, Default)]
pub(super) struct UsageCounters(Mutex<HashMap<String, Use>>);

#[derive(Debug, Default, Clone, Copy)]
struct Use {
    requests: u64,
    database_time: Duration,
}

impl UsageCounters {
    /// Counts a request.
    pub(super) fn add_request(&self, tenant: &str) {
        self.change(tenant, |used| used.requests += 1);
    }

    /// Adds time for which a transaction had a connection. Those of no tenant are not counted.
    pub(super) fn add_database_time(&self, tenant: &str, time: Duration) {
        if !tenant.is_empty() {
            self.change(tenant, |used| used.database_time += time);
        }
    }

    /// Writes what was counted. After a failure it is written the next time.
    pub(super) async fn write(&self, database: &Postgres) -> Result<(), StoreError> {
        let taken = std::mem::take(&mut *self.lock());
        let mut used: Vec<TenantUse> = taken
            .iter()
            .map(|(tenant, used)| TenantUse {
                tenant: tenant.clone(),
                requests: used.requests,
                database_ms: u64::try_from(used.database_time.as_millis()).unwrap_or(u64::MAX),
            })
            .collect();
        used.sort_by(|one, other| one.tenant.cmp(&other.tenant));
        let written = database.add_usage(&used).await;
        if written.is_err() {
            for (tenant, former) in taken {
                self.change(&tenant, |used| {
                    used.requests += former.requests;
                    used.database_time += former.database_time;
                });
            }
        }
        written
    }

    fn change(&self, tenant: &str, change: impl FnOnce(&mut Use)) {
        let mut counters = self.lock();
        match counters.get_mut(tenant) {
            Some(used) => change(used),
            None => change(counters.entry(tenant.to_owned()).or_default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Use>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g48_use_is_counted_by_tenant() {
        let counters = UsageCounters::default();
        counters.add_request("a");
        counters.add_request("a");
        counters.add_request("b");
        counters.add_database_time("a", Duration::from_millis(3));
        counters.add_database_time("", Duration::from_millis(3));
        let used = counters.lock();
        assert_eq!((used["a"].requests, used["b"].requests, used.len()), (2, 1, 2));
        assert_eq!(used["a"].database_time, Duration::from_millis(3));
    }
}
