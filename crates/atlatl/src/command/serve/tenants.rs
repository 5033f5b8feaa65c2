//! The registry of tenants of a database, with a cache.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use atlatl_memory::{Embedder, EmbeddingBackfill, KnownTenant, Postgres, StoreError};
use atlatl_server::auth::{KeyRecord, Limit, Scopes, TokenBucket, TokenRules};
use atlatl_server::{
    MemoryServer, ServerConfig, SignedLinks, TaskSlots,
    auth::{Authenticator, Issuer, Keys},
    event::EventBus,
    http::{Metrics, Tenant, Tenants, run_for_many},
};
use lro::{MaintenanceTask, Moment};
use lro_spool::{Bucket as Storage, ObjectSpool, Quota};
use tokio::sync::Semaphore;

use super::{audit::Audit, event_sink::ServerEventSink, http, parts};
use crate::{
    access::{Door, Fetched, Principals},
    command::proxy::OffloadStack,
    error::{Error, Status},
    ledger_sink::LedgerSink,
    memory_config::{self, Place},
    object_store_config,
    settings::Settings,
};

/// For how long a tenant is taken to be as it was.
const KNOWN: Duration = Duration::from_secs(30);
/// For how long a name is taken to be nobody's.
const UNKNOWN: Duration = Duration::from_secs(5);
/// How many are known at a time; whoever was not there for the longest time goes.
const MAX_CACHED_TENANTS: usize = 500;
/// Requests of one tenant that are worked on at a time: a quarter of all.
const MAX_CONCURRENT_PER_TENANT: usize = 64;
/// Threads that make vectors, for all tenants together.
const EMBEDDING_THREADS: usize = 4;
/// How often is looked whether the index of a tenant's vectors is behind.
const INDEX: Duration = Duration::from_secs(10);

/// Serves the tenants of a database to whoever proves who they are.
pub(super) fn serve(
    settings: &Settings,
    principals: &Principals,
    door: Door,
) -> Result<Status, Error> {
    let Place::Database(database) = memory_config::place(settings)? else {
        return Err(Error::usage("server.auth: keys and oauth need a database of many tenants")
            .with_hint("--set memory.store=postgres://USER@HOST/DATABASE"));
    };
    memory_config::waited_for(&database)?;
    let config = &settings.config;
    let base = http::base(settings, &door)?;
    let metrics = Arc::new(Metrics::default());
    let watch = Arc::new(Remarked(LedgerSink::new(settings)));
    let mut events = EventBus::new(Moment::of_system)
        .with(Arc::new(ServerEventSink::new(watch)))
        .with(Arc::clone(&metrics) as _);
    if let Some(audit) = Audit::open(&config.server.audit)? {
        events = events.with(Arc::new(audit));
    }
    let resource = format!("{base}/mcp");
    let mut authenticator = Authenticator::new(resource.clone(), Moment::of_system);
    if principals.keys {
        authenticator = authenticator.with_keys(Arc::new(StoredKeys(database.clone())));
    }
    if let Some(issuer) = &principals.issuer {
        let rules = TokenRules::new(issuer, [resource], &config.server.tenant_claim);
        authenticator = authenticator.with_issuer(Issuer::new(rules, Arc::new(Fetched::new())));
    }
    let bucket = object_store_config::bucket(settings)?;
    let many = Arc::new(TenantRegistry::new(settings, database, bucket, base, events.clone())?);
    let house = many.start_maintenance().map_err(|error| Error::failure(error.to_string()))?;
    let options = http::options(settings, metrics);
    let served = http::until_told(door, options, |Door { listener, .. }, options, stopped| {
        run_for_many(many, Arc::new(authenticator), events, listener, options, stopped)
    });
    // What is under way ends with the process: every step of it may be cut short.
    std::mem::forget(house);
    served
}

/// All tenants of a database.
struct TenantRegistry {
    settings: Settings,
    database: Postgres,
    bucket: Option<Storage>,
    /// Where clients reach the server.
    base: String,
    embedder: Option<Arc<dyn Embedder>>,
    /// Makes the vectors of all tenants.
    backfill: Option<EmbeddingBackfill>,
    task_slots: TaskSlots,
    events: EventBus,
    known: Mutex<HashMap<String, Known>>,
    /// Names that are nobody's, until when.
    nobody: Mutex<HashMap<String, Instant>>,
    rates: Mutex<HashMap<String, Rate>>,
}

struct Known {
    until: Instant,
    used: Instant,
    row: KnownTenant,
    tenant: Tenant,
}

/// How often a tenant may ask, and may have asked. It outlives what else is known of the tenant, which
/// whoever wants a new start must not be able to bring about.
struct Rate {
    most: NonZeroU32,
    bucket: Arc<Mutex<TokenBucket>>,
}

impl TenantRegistry {
    fn new(
        settings: &Settings,
        database: Postgres,
        bucket: Option<Storage>,
        base: String,
        events: EventBus,
    ) -> Result<Self, Error> {
        let embedder = memory_config::embedder(settings)?;
        Ok(Self {
            backfill: embedder
                .as_ref()
                .and_then(|one| memory_config::backfill(one, EMBEDDING_THREADS)),
            embedder,
            task_slots: TaskSlots::default(),
            settings: settings.clone(),
            database,
            bucket,
            base,
            events,
            known: Mutex::default(),
            nobody: Mutex::default(),
            rates: Mutex::default(),
        })
    }

    /// What is done for every tenant when nobody asks.
    fn start_maintenance(self: &Arc<Self>) -> std::io::Result<Vec<MaintenanceTask>> {
        let (all, used) = (Arc::clone(self), Arc::clone(self));
        let interval = OffloadStack::interval(&self.settings);
        Ok(vec![
            MaintenanceTask::every(interval, move || all.tidy())?,
            MaintenanceTask::every(INDEX, move || used.index())?,
        ])
    }

    /// Where the database is away, the next round does it.
    fn tidy(&self) {
        for name in self.database.tenants().unwrap_or_default() {
            // Whoever is here has drafts and readers that a sweep has to know of.
            let here = lock(&self.known).get(&name).map(|known| known.tenant.clone());
            if let Some(tenant) = here.or_else(|| self.made(&name, None).ok()) {
                tenant.server.tidy();
            }
        }
    }

    /// Of those alone who were here: whoever writes vectors is.
    fn index(&self) {
        let here: Vec<MemoryServer> =
            lock(&self.known).values().map(|known| known.tenant.server.clone()).collect();
        for server in here {
            server.index_vectors();
        }
    }

    /// A tenant that nobody asked for before.
    fn made(&self, name: &str, embedder: Option<Arc<dyn Embedder>>) -> Result<Tenant, StoreError> {
        let store = Arc::new(self.database.tenant(name)?);
        let mut parts: ServerConfig = parts::of(&self.settings, store.clone(), self.events.clone());
        parts.embedder = embedder;
        parts.backfill.clone_from(&self.backfill);
        parts.task_slots = self.task_slots.clone();
        let Some(bucket) = &self.bucket else { return Ok(of_many(MemoryServer::new(parts))) };
        let quota = Quota::from(&self.settings.config.spool);
        let spool = ObjectSpool::new(bucket, name, quota)
            .map_err(|error| StoreError::Engine(error.into()))?;
        let links = Arc::new(SignedLinks::new(store, name, &self.base));
        let keep =
            OffloadStack::of_tenant(Arc::new(spool), links.clone(), Arc::new(self.events.clone()));
        parts::offload(&mut parts, &self.settings, &keep);
        parts.links = true;
        parts.cleanup = Some(OffloadStack::interval(&self.settings));
        let mut tenant = of_many(MemoryServer::new(parts));
        tenant.spools = Some(keep.spools());
        tenant.links = Some(links);
        Ok(tenant)
    }

    /// What a tenant has left of what it may ask.
    fn rate(&self, name: &str, most: Option<u32>) -> Option<Arc<Mutex<TokenBucket>>> {
        let most = most.and_then(NonZeroU32::new)?;
        let mut rates = lock(&self.rates);
        // All of a minute's at once, after a minute's rest.
        let new = || Arc::new(Mutex::new(TokenBucket::new(Limit::per_minute(most, most))));
        let rate = rates.entry(name.to_owned()).or_insert_with(|| Rate { most, bucket: new() });
        if rate.most != most {
            *rate = Rate { most, bucket: new() };
        }
        Some(Arc::clone(&rate.bucket))
    }

    /// Notes that a name is nobody's. Whoever makes up names makes nobody else be forgotten.
    fn note_nobody(&self, name: &str, now: Instant) {
        let gone = lock(&self.known).remove(name);
        drop(gone);
        let mut nobody = lock(&self.nobody);
        if nobody.len() >= MAX_CACHED_TENANTS {
            nobody.clear();
        }
        nobody.insert(name.to_owned(), now + UNKNOWN);
    }
}

/// One of many: it does not take all there is.
fn of_many(server: MemoryServer) -> Tenant {
    let mut tenant = Tenant::new(server);
    tenant.busy = Some(Arc::new(Semaphore::new(MAX_CONCURRENT_PER_TENANT)));
    tenant
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tenants for TenantRegistry {
    fn known(&self, name: &str) -> Option<Tenant> {
        let now = Instant::now();
        let mut all = lock(&self.known);
        let known = all.get_mut(name).filter(|known| now < known.until)?;
        known.used = now;
        Some(known.tenant.clone())
    }

    fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        let now = Instant::now();
        if lock(&self.nobody).get(name).is_some_and(|until| now < *until) {
            return Ok(None);
        }
        let Some(row) = self.database.known(name)? else {
            self.note_nobody(name, now);
            return Ok(None);
        };
        let same = |known: &Known| known.row.made == row.made;
        let here = lock(&self.known)
            .get(name)
            .filter(|known| same(known))
            .map(|known| known.tenant.clone());
        let mut tenant = match here {
            Some(tenant) => tenant,
            None => self.made(name, self.embedder.clone())?,
        };
        let mut gone = Vec::new();
        let mut all = lock(&self.known);
        // Two may come at once: the first one's stays, so that all have the same.
        match all.get(name).filter(|known| same(known)) {
            Some(first) => gone.push(std::mem::replace(&mut tenant, first.tenant.clone())),
            None if all.len() >= MAX_CACHED_TENANTS && !all.contains_key(name) => {
                let oldest =
                    all.iter().min_by_key(|(_, known)| known.used).map(|(name, _)| name.clone());
                gone.extend(oldest.and_then(|name| all.remove(&name)).map(|known| known.tenant));
            }
            None => {}
        }
        tenant.rate = self.rate(name, row.bounds.per_minute);
        tenant.server.bound(row.bounds.memories);
        let known = Known { until: now + KNOWN, used: now, row, tenant: tenant.clone() };
        gone.extend(all.insert(name.to_owned(), known).map(|known| known.tenant));
        drop(all);
        // Not under the lock: what goes with it may take a while.
        drop(gone);
        Ok(Some(tenant))
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.database.known("").map(drop)
    }
}

/// Tells the ledger, and the person of what went wrong.
struct Remarked(LedgerSink);

impl lro::EventSink for Remarked {
    fn publish(&self, event: lro::Event) {
        self.0.publish_aloud(event);
    }
}

/// The keys of the database.
struct StoredKeys(Postgres);

impl Keys for StoredKeys {
    fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError> {
        let stored = self.0.key(id)?;
        Ok(stored.and_then(|stored| {
            let scopes = Scopes::of_words(stored.scopes.iter().map(String::as_str));
            let digest = stored.digest.try_into().ok()?;
            let mut record = KeyRecord::new(id, &stored.tenant, digest, scopes);
            record.expires = stored.expires;
            record.revoked = stored.revoked;
            Some(record)
        }))
    }
}
