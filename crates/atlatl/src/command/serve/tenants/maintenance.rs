//! The maintenance of all tenants: expiry, indexes, erasures and usage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atlatl_server::event::ServerEventKind;
use atlatl_server::http::Metrics;
use atlatl_server::{MaintenanceTasks, MemoryServer};

use super::{CachedTenant, TenantRegistry, apply_limits, lock};
use crate::command::proxy::OffloadStack;
use crate::command::tenants::erasure::{self, ErasureProgress, ResultStorage};
use crate::error::log_message;

/// How often the indexes of cached tenants are updated.
const INDEX_INTERVAL: Duration = Duration::from_secs(10);
/// How often indexes are checked that were not behind: the interval doubles up to the longest.
const INDEX_CHECK_INTERVALS: (Duration, Duration) =
    (Duration::from_mins(1), Duration::from_mins(8));
/// How often the embedding backlog is measured.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(30);
/// How often what tenants use is written.
const USAGE_INTERVAL: Duration = Duration::from_secs(30);
/// How often requested erasures are looked for.
const ERASURE_INTERVAL: Duration = Duration::from_secs(10);
/// How long an erasure rests after a failure, for example of the object storage.
const ERASURE_RETRY_DELAY: Duration = Duration::from_mins(1);

impl TenantRegistry {
    /// Starts the maintenance tasks for all tenants.
    pub(super) fn start_maintenance(self: &Arc<Self>, metrics: &Arc<Metrics>) -> MaintenanceTasks {
        let (tidied, indexed, erasing, measured) =
            (Arc::clone(self), Arc::clone(self), Arc::clone(self), Arc::clone(self));
        let mut tasks = MaintenanceTasks::default();
        if self.embedder.is_some() {
            let (measured, metrics) = (Arc::clone(self), Arc::clone(metrics));
            tasks.every(BACKLOG_INTERVAL, move || {
                measure_backlog(Arc::clone(&measured), Arc::clone(&metrics))
            });
        }
        tasks.every(OffloadStack::interval(&self.settings), move || tidy(Arc::clone(&tidied)));
        tasks.every(INDEX_INTERVAL, move || index(Arc::clone(&indexed)));
        tasks.every(ERASURE_INTERVAL, move || erase(Arc::clone(&erasing)));
        tasks.every(USAGE_INTERVAL, move || write_usage(Arc::clone(&measured)));
        tasks
    }
}

/// Works on requested erasures, of which each server does one at a time, until none is due. An erasure
/// that fails rests, and any server goes on with it.
async fn erase(registry: Arc<TenantRegistry>) {
    let Ok(name) = erasure::worker_name() else { return };
    let mut worker = registry.database.erasure_worker(&name);
    let storage = registry.bucket.clone().map_or(ResultStorage::None, ResultStorage::Bucket);
    loop {
        match erasure::advance(&mut worker, None, &storage, ERASURE_RETRY_DELAY).await {
            Ok(Some(ErasureProgress::Completed(done))) => {
                let memories = done.memories;
                tracing::info!(
                    tenant = done.tenant,
                    memories,
                    results = done.results,
                    "an erasure is complete"
                );
                let scope = if done.subject.is_none() { "tenant" } else { "subject" };
                let kind = ServerEventKind::ErasureCompleted {
                    tenant: done.tenant,
                    scope,
                    requested_by: done.requested_by,
                    memories,
                    results: done.results,
                };
                registry.events.publish(None, kind);
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(error = log_message(&error), "cannot work on erasures; retrying");
                return;
            }
        }
    }
}

/// Runs maintenance for every tenant. If the database is unavailable, the next run does it.
async fn tidy(registry: Arc<TenantRegistry>) {
    if let Some(bucket) = &registry.bucket {
        bucket.drop_unused_copies();
    }
    let Ok(names) = registry.database.tenants().await else { return };
    registry.forget_missing(&names);
    for name in names {
        // It may have been removed while those before it were tidied.
        let Ok(Some(row)) = registry.database.find_tenant(&name).await else { continue };
        // A cached tenant has drafts and readers that its sweep must respect.
        let cached = lock(&registry.tenants).get(&name).map(|entry| entry.tenant.clone());
        let tenant = match cached {
            Some(tenant) => Some(tenant),
            None => registry.build_tenant(&name, None).await.ok(),
        };
        if let Some(tenant) = tenant {
            apply_limits(&tenant.server, &row);
            tenant.server.tidy().await;
        }
        // The next run does it again.
        if let Err(error) = registry.database.measure_usage(&name).await {
            tracing::warn!(tenant = name, error = log_message(&error), "usage was not measured");
        }
    }
}

/// Writes what tenants used, adds changes to the counts of memories and bytes, and counts those of
/// tenants with a limit on bytes.
async fn write_usage(registry: Arc<TenantRegistry>) {
    // What cannot be written now is written the next time.
    drop(registry.usage.write(&registry.database).await);
    while matches!(registry.database.fold_usage().await, Ok(1..)) {}
    let is_bounded = |entry: &CachedTenant| entry.row.bounds.bytes.is_some();
    let bounded: Vec<String> = lock(&registry.tenants)
        .iter()
        .filter(|(_, entry)| is_bounded(entry))
        .map(|(name, _)| name.clone())
        .collect();
    for name in bounded {
        if let Err(error) = registry.database.count_missing_usage(&name).await {
            tracing::warn!(tenant = name, error = log_message(&error), "a tenant is not counted");
        }
    }
}

/// Updates the indexes of cached tenants. Those of others are updated by [`tidy`].
async fn index(registry: Arc<TenantRegistry>) {
    let cached: Vec<(String, MemoryServer)> = lock(&registry.tenants)
        .iter()
        .map(|(name, entry)| (name.clone(), entry.tenant.server.clone()))
        .collect();
    lock(&registry.index_checks).retain(|name, _| cached.iter().any(|(cached, _)| cached == name));
    for (name, server) in cached {
        let last = lock(&registry.index_checks).get(&name).copied();
        if last.is_some_and(|check| Instant::now() < check.due) {
            continue;
        }
        let were_vectors_behind = server.index_vectors().await;
        let were_words_behind = server.index_words().await;
        let interval = check_interval(last, were_vectors_behind || were_words_behind);
        let check = IndexCheck { due: Instant::now() + interval, interval };
        lock(&registry.index_checks).insert(name, check);
    }
}

/// When the indexes of a tenant are checked next.
#[derive(Clone, Copy)]
pub(super) struct IndexCheck {
    due: Instant,
    interval: Duration,
}

/// The time until the next check. It counts rows, which would be the largest cost of a server without
/// requests.
fn check_interval(last: Option<IndexCheck>, was_behind: bool) -> Duration {
    let (shortest, longest) = INDEX_CHECK_INTERVALS;
    match last {
        _ if was_behind => INDEX_INTERVAL,
        Some(last) => (last.interval * 2).clamp(shortest, longest),
        None => shortest,
    }
}

/// Measures how many memories wait for a vector.
async fn measure_backlog(registry: Arc<TenantRegistry>, metrics: Arc<Metrics>) {
    let Some(embedder) = &registry.embedder else { return };
    if let Ok(backlog) = registry.database.embedding_backlog(embedder.model()).await {
        metrics.set_embedding_backlog(backlog.memories, backlog.age_seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g49_indexes_that_are_up_to_date_are_checked_less_and_less_often() {
        let check = |interval| Some(IndexCheck { due: Instant::now(), interval });
        let minutes = Duration::from_mins;
        assert_eq!(check_interval(None, false), minutes(1));
        assert_eq!(check_interval(check(minutes(1)), false), minutes(2));
        assert_eq!(check_interval(check(minutes(5)), false), minutes(8));
        assert_eq!(check_interval(check(minutes(8)), false), minutes(8));
        assert_eq!(check_interval(check(minutes(8)), true), INDEX_INTERVAL);
        assert_eq!(check_interval(check(INDEX_INTERVAL), false), minutes(1));
    }
}
