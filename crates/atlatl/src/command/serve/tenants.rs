//! Serves the tenants of a PostgreSQL database, each with its own store, limits and spool.

mod maintenance;

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use atlatl_memory::{
    BackfillQueue, ConnectionSharing, Embedder, EmbeddingBackfill, MIN_SHARED_CONNECTIONS,
    Postgres, StoreError, TenantRecord,
};
use atlatl_server::auth::{
    ApiKeyLookup, Authenticator, Fetch, Issuer, KeyRecord, RateLimit, Scopes, TokenBucket,
};
use atlatl_server::event::EventBus;
use atlatl_server::http::{Metrics, Tenant, Tenants, run_multi_tenant};
use atlatl_server::{
    DatabaseTimeLimit, Dependency, MemoryServer, MemoryServerConfig, SignedLinks, TaskSlots,
};
use chrono::{DateTime, TimeDelta, Utc};
use lro::IdSeed;
use lro_spool::{Bucket as Storage, ObjectSpool, Quota};
use tokio::sync::Semaphore;

use self::maintenance::IndexCheck;
use super::HttpRuntime;
use super::dependencies::{self, ReportedEmbedder, ReportedFetch};
use super::events::{AuditLog, EventFanOut};
use super::usage::UsageCounters;
use crate::access::{Door, Fetched, Principals};
use crate::command::keys::EXPIRY_WARNING;
use crate::command::proxy::OffloadStack;
use crate::command::serve;
use crate::error::{Error, Status};
use crate::ledger_sink::LedgerSink;
use crate::memory_config;
use crate::settings::{Settings, Sources};
use crate::spool_config::open_bucket;

/// How long a tenant is cached before its row is read again.
const TENANT_TTL: Duration = Duration::from_secs(30);
/// How long an unknown name is cached.
const UNKNOWN_TENANT_TTL: Duration = Duration::from_secs(5);
/// The maximum number of cached tenants; the least recently used one is evicted.
const MAX_CACHED_TENANTS: usize = 500;
/// The maximum number of concurrent requests of one tenant: a quarter of the total.
const MAX_CONCURRENT_PER_TENANT: usize = 64;
/// The number of embedding tasks, for all tenants together.
const EMBEDDING_WORKERS: usize = 4;
/// How often a key that expires soon is reported.
const EXPIRY_REPORT_INTERVAL: Duration = Duration::from_hours(24);

/// Serves all tenants of a database to authenticated clients.
pub(super) async fn serve_tenants(
    settings: &Settings,
    sources: Sources,
    principals: &Principals,
    endpoint: Door,
) -> Result<Status, Error> {
    let runtime = HttpRuntime::start(settings, sources)?;
    let metrics = Arc::new(Metrics::default());
    let time_limits = DatabaseTimeLimits::from_settings(settings).map(Arc::new);
    let usage = Arc::new(UsageCounters::default());
    let postgresql = dependencies::database(&metrics);
    let database = open_database(settings, time_limits.as_ref(), &usage, &postgresql)?;
    serve::sample_pool(&metrics, database.clone());
    memory_config::check_database(&database).await?;
    let config = &settings.config;
    let base = serve::base_url(settings, &endpoint)?;
    let ledger = Arc::new(ReportingLedgerSink(LedgerSink::new(settings, super::SOURCE)));
    let mut events = EventBus::new(IdSeed::from_system)
        .with(Arc::new(EventFanOut::new(ledger).without_memories().logged()))
        .with(Arc::clone(&metrics) as _);
    if let Some(audit) = AuditLog::open(&config.server.audit)? {
        events = events.with(Arc::new(audit));
    }
    let resource = format!("{base}/mcp");
    let mut authenticator = Authenticator::new(resource.clone(), IdSeed::from_system);
    if principals.keys {
        authenticator = authenticator.with_keys(Arc::new(StoredKeys::new(database.clone())));
    }
    let rules = principals.tokens.rules(settings, &resource);
    if !rules.is_empty() {
        let fetch: Arc<dyn Fetch> = Arc::new(ReportedFetch::new(Fetched::new(), &metrics));
        for rules in rules {
            authenticator = authenticator.with_issuer(Issuer::new(rules, Arc::clone(&fetch)));
        }
    }
    let requests = (!config.spool.url.is_empty()).then(|| dependencies::bucket(&metrics));
    let bucket = open_bucket(settings, requests)?;
    let embedder = memory_config::server_embedder(settings)?
        .map(|embedder| ReportedEmbedder::wrap(embedder, &metrics));
    let parts = RegistryParts { database, time_limits, usage, bucket, base, embedder };
    let registry = TenantRegistry::new(settings, parts, events.clone());
    let registry = Arc::new(registry);
    let _maintenance = registry.start_maintenance(&metrics);
    let mut options = serve::http_options(settings, metrics);
    options.database = Some(postgresql);
    let authenticator = Arc::new(authenticator);
    let cached = Arc::clone(&authenticator);
    let reload = move |_: &Settings| {
        cached.forget();
        Ok(())
    };
    runtime
        .serve_until_signal(
            endpoint,
            options,
            reload,
            async |Door { listener, .. }, options, stopped| {
                run_multi_tenant(registry, authenticator, events, listener, options, stopped).await
            },
        )
        .await
}

/// What the registry of tenants is made of.
struct RegistryParts {
    database: Postgres,
    time_limits: Option<Arc<DatabaseTimeLimits>>,
    usage: Arc<UsageCounters>,
    bucket: Option<Storage>,
    /// The URL of the server, for signed links.
    base: String,
    embedder: Option<Arc<dyn Embedder>>,
}

/// Opens the database with connections that many tenants share.
fn open_database(
    settings: &Settings,
    time_limits: Option<&Arc<DatabaseTimeLimits>>,
    usage: &Arc<UsageCounters>,
    postgresql: &Arc<Dependency>,
) -> Result<Postgres, Error> {
    let Some(mut options) = memory_config::database_options(settings)? else {
        return Err(Error::usage("server.auth: keys and oauth need a database of many tenants")
            .with_hint("--set memory.store=postgres://USER@HOST/DATABASE"));
    };
    if options.connections < MIN_SHARED_CONNECTIONS {
        return Err(Error::usage(format!(
            "memory.connections: {} are too few for many tenants: at least \
             {MIN_SHARED_CONNECTIONS} are needed, two of them for readiness and authentication",
            options.connections
        ))
        .with_hint("--set memory.connections=8"));
    }
    options.sharing = ConnectionSharing::ManyTenants;
    options.transactions = Some(dependencies::transactions(Arc::clone(postgresql)));
    let (limits, usage) = (time_limits.cloned(), Arc::clone(usage));
    options.database_time = Some(Arc::new(move |tenant, used| {
        usage.add_database_time(tenant, used);
        if let Some(limits) = &limits {
            limits.spend(tenant, used);
        }
    }));
    Ok(Postgres::new(&options)?)
}

/// The limits on database time of the tenants that were looked up. None is evicted, so that a tenant
/// cannot reset its limit by being evicted from the cache.
struct DatabaseTimeLimits {
    ms_per_second: NonZeroU32,
    tenants: Mutex<HashMap<String, Arc<DatabaseTimeLimit>>>,
}

impl DatabaseTimeLimits {
    /// The limits of `server.database_ms_per_second`; `None` without a limit.
    fn from_settings(settings: &Settings) -> Option<Self> {
        let ms_per_second = NonZeroU32::new(settings.config.server.database_ms_per_second)?;
        Some(Self { ms_per_second, tenants: Mutex::default() })
    }

    /// The limit of a tenant.
    fn tenant(&self, name: &str) -> Arc<DatabaseTimeLimit> {
        let mut tenants = lock(&self.tenants);
        let new = || Arc::new(DatabaseTimeLimit::new(self.ms_per_second));
        Arc::clone(tenants.entry(name.to_owned()).or_insert_with(new))
    }

    /// Adds time that a tenant used.
    fn spend(&self, name: &str, used: Duration) {
        let limit = lock(&self.tenants).get(name).cloned();
        if let Some(limit) = limit {
            limit.spend(used);
        }
    }
}

/// The tenants of a database, with a cache of those that were active recently.
struct TenantRegistry {
    settings: Settings,
    database: Postgres,
    bucket: Option<Storage>,
    /// The URL of the server, for signed links.
    base: String,
    embedder: Option<Arc<dyn Embedder>>,
    /// Creates missing vectors for all tenants.
    backfill: Option<EmbeddingBackfill>,
    /// Registers the embedding queue of the database, which has the memories of all tenants.
    _embedding_queue: Option<BackfillQueue>,
    task_slots: TaskSlots,
    events: EventBus,
    tenants: Mutex<HashMap<String, CachedTenant>>,
    /// When the indexes of tenants are checked next.
    index_checks: Mutex<HashMap<String, IndexCheck>>,
    /// Names without a tenant, with the end of their cache time.
    unknown_tenants: Mutex<HashMap<String, Instant>>,
    rates: Mutex<HashMap<String, TenantRate>>,
    time_limits: Option<Arc<DatabaseTimeLimits>>,
    /// What tenants used of this server.
    usage: Arc<UsageCounters>,
}

/// A cached tenant.
struct CachedTenant {
    until: Instant,
    used: Instant,
    row: TenantRecord,
    tenant: Tenant,
}

/// The rate limit of a tenant and its state. It is never evicted, so that a tenant cannot reset its
/// limit by being evicted from the cache.
struct TenantRate {
    per_minute: NonZeroU32,
    bucket: Arc<Mutex<TokenBucket>>,
}

impl TenantRegistry {
    fn new(settings: &Settings, parts: RegistryParts, events: EventBus) -> Self {
        let RegistryParts { database, time_limits, usage, bucket, base, embedder } = parts;
        let backfill =
            embedder.as_ref().and_then(|one| memory_config::start_backfill(one, EMBEDDING_WORKERS));
        let queue = backfill.as_ref().map(|all| all.register_queue(database.embedding_queue()));
        Self {
            backfill,
            _embedding_queue: queue,
            embedder,
            task_slots: TaskSlots::default(),
            settings: settings.clone(),
            database,
            bucket,
            base,
            events,
            tenants: Mutex::default(),
            index_checks: Mutex::default(),
            unknown_tenants: Mutex::default(),
            rates: Mutex::default(),
            time_limits,
            usage,
        }
    }

    /// Builds the server of a tenant.
    async fn build_tenant(
        &self,
        name: &str,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Tenant, StoreError> {
        let store = Arc::new(self.database.tenant(name)?);
        let mut server_config: MemoryServerConfig =
            serve::server_config(&self.settings, store.clone(), self.events.clone());
        server_config.embedder = embedder;
        server_config.backfill.clone_from(&self.backfill);
        server_config.task_slots = self.task_slots.clone();
        let Some(bucket) = &self.bucket else {
            return Ok(with_concurrency_limit(MemoryServer::new(server_config).await));
        };
        let quota = Quota::from(&self.settings.config.spool);
        let spool = ObjectSpool::new(bucket, name, quota)
            .map_err(|error| StoreError::Engine(error.into()))?;
        let links = Arc::new(SignedLinks::new(store, name, &self.base));
        let offload =
            OffloadStack::for_tenant(Arc::new(spool), links.clone(), Arc::new(self.events.clone()));
        serve::add_offloading(&mut server_config, &self.settings, &offload);
        server_config.links = Some(links.clone());
        server_config.cleanup = Some(OffloadStack::interval(&self.settings));
        let mut tenant = with_concurrency_limit(MemoryServer::new(server_config).await);
        tenant.spools = Some(offload.spools());
        tenant.links = Some(links);
        Ok(tenant)
    }

    /// The rate limiter of a tenant; `None` without a limit.
    fn rate(&self, name: &str, per_minute: Option<u32>) -> Option<Arc<Mutex<TokenBucket>>> {
        let per_minute = per_minute.and_then(NonZeroU32::new)?;
        let mut rates = lock(&self.rates);
        // The burst is a whole minute's budget.
        let new = || {
            Arc::new(Mutex::new(TokenBucket::new(RateLimit::per_minute(per_minute, per_minute))))
        };
        let rate = rates
            .entry(name.to_owned())
            .or_insert_with(|| TenantRate { per_minute, bucket: new() });
        if rate.per_minute != per_minute {
            *rate = TenantRate { per_minute, bucket: new() };
        }
        Some(Arc::clone(&rate.bucket))
    }

    /// Caches that a name has no tenant. The cache is separate, so that made-up names evict no
    /// tenant.
    fn cache_unknown(&self, name: &str, now: Instant) {
        let evicted = lock(&self.tenants).remove(name);
        drop(evicted);
        let mut unknown_tenants = lock(&self.unknown_tenants);
        if unknown_tenants.len() >= MAX_CACHED_TENANTS {
            unknown_tenants.clear();
        }
        unknown_tenants.insert(name.to_owned(), now + UNKNOWN_TENANT_TTL);
    }

    /// Drops cached tenants that do not exist any more, and for which no request came since.
    fn forget_missing(&self, names: &[String]) {
        let now = Instant::now();
        let mut evicted = Vec::new();
        lock(&self.tenants).retain(|name, entry| {
            let is_kept = now < entry.until || names.binary_search(name).is_ok();
            if !is_kept {
                evicted.push(entry.tenant.clone());
            }
            is_kept
        });
        // Dropped after the lock is released, because it may take a while.
        drop(evicted);
    }
}

/// Sets the limits of a tenant.
fn apply_limits(server: &MemoryServer, row: &TenantRecord) {
    server.bound(row.bounds.memories);
    server.bound_bytes(row.bounds.bytes);
    server.set_retention(row.bounds.retention_days.map(|days| TimeDelta::days(days.into())));
}

/// A tenant with a limit on concurrent requests.
fn with_concurrency_limit(server: MemoryServer) -> Tenant {
    let mut tenant = Tenant::new(server);
    tenant.busy = Some(Arc::new(Semaphore::new(MAX_CONCURRENT_PER_TENANT)));
    tenant
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Tenants for TenantRegistry {
    fn cached(&self, name: &str) -> Option<Tenant> {
        let now = Instant::now();
        let mut all = lock(&self.tenants);
        let entry = all.get_mut(name).filter(|entry| now < entry.until)?;
        entry.used = now;
        self.usage.add_request(name);
        Some(entry.tenant.clone())
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        let now = Instant::now();
        if lock(&self.unknown_tenants).get(name).is_some_and(|until| now < *until) {
            return Ok(None);
        }
        let Some(row) = self.database.find_tenant(name).await? else {
            self.cache_unknown(name, now);
            return Ok(None);
        };
        let same = |entry: &CachedTenant| entry.row.made == row.made;
        let cached = lock(&self.tenants)
            .get(name)
            .filter(|entry| same(entry))
            .map(|entry| entry.tenant.clone());
        let mut tenant = match cached {
            Some(tenant) => tenant,
            None => self.build_tenant(name, self.embedder.clone()).await?,
        };
        let mut evicted = Vec::new();
        let mut all = lock(&self.tenants);
        // Concurrent requests may build the same tenant: all use the first one.
        match all.get(name).filter(|entry| same(entry)) {
            Some(first) => evicted.push(std::mem::replace(&mut tenant, first.tenant.clone())),
            None if all.len() >= MAX_CACHED_TENANTS && !all.contains_key(name) => {
                let oldest =
                    all.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| name.clone());
                evicted.extend(oldest.and_then(|name| all.remove(&name)).map(|entry| entry.tenant));
            }
            None => {}
        }
        tenant.rate = self.rate(name, row.bounds.per_minute);
        tenant.database_time = self.time_limits.as_ref().map(|limits| limits.tenant(name));
        apply_limits(&tenant.server, &row);
        self.usage.add_request(name);
        let entry =
            CachedTenant { until: now + TENANT_TTL, used: now, row, tenant: tenant.clone() };
        evicted.extend(all.insert(name.to_owned(), entry).map(|entry| entry.tenant));
        drop(all);
        // Dropped after the lock is released, because it may take a while.
        drop(evicted);
        Ok(Some(tenant))
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.database.ready().await
    }
}

/// Writes events to the ledger and failures to standard error.
struct ReportingLedgerSink(LedgerSink);

impl lro::EventSink for ReportingLedgerSink {
    fn publish(&self, event: lro::Event) {
        self.0.publish_aloud(event);
    }
}

/// The API keys in the database.
struct StoredKeys {
    database: Postgres,
    /// When a key that expires soon was reported last.
    reported: Mutex<HashMap<String, Instant>>,
}

impl StoredKeys {
    fn new(database: Postgres) -> Self {
        Self { database, reported: Mutex::default() }
    }

    /// Reports a key that is used and expires soon, once a day.
    fn report_expiry(&self, id: &str, tenant: &str, expires: DateTime<Utc>) {
        let left = expires - memory_config::moment().now;
        if left <= TimeDelta::zero() || left > EXPIRY_WARNING {
            return;
        }
        let now = Instant::now();
        let mut reported = lock(&self.reported);
        reported.retain(|_, at| now.duration_since(*at) < EXPIRY_REPORT_INTERVAL);
        if reported.contains_key(id) {
            return;
        }
        reported.insert(id.to_owned(), now);
        drop(reported);
        tracing::warn!(key = id, tenant, hours = left.num_hours(), "an API key expires soon");
    }
}

#[async_trait]
impl ApiKeyLookup for StoredKeys {
    async fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError> {
        let stored = self.database.key(id).await?;
        Ok(stored.and_then(|stored| {
            if let Some(expires) = stored.expires.filter(|_| !stored.revoked) {
                self.report_expiry(id, &stored.tenant, expires);
            }
            let scopes = Scopes::from_words(stored.scopes.iter().map(String::as_str));
            let digest = stored.digest.try_into().ok()?;
            let mut record = KeyRecord::new(id, &stored.tenant, digest, scopes);
            record.expires = stored.expires;
            record.revoked = stored.revoked;
            Some(record)
        }))
    }
}
