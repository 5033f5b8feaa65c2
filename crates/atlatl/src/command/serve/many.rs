//! Many: the tenants of a database, each with its own memories and results.

use std::{
    collections::HashMap,
    net::TcpListener,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use atlatl_access::{Bucket as Rate, KeyRecord, Limit, Scopes, TokenRules};
use atlatl_memory::{Bounds, Embedder, Postgres, StoreError};
use atlatl_server::{
    MemoryServer, Parts, SignedLinks,
    access::{Doorman, Issuer, Keys},
    event::EventBus,
    http::{Metrics, Tenant, Tenants, run_for_many},
};
use lro::{Custodian, Moment};
use lro_spool::{Bucket, ObjectSpool, Quota};

use super::{audit::Audit, http, parts, told::Told};
use crate::{
    access::Principals,
    command::proxy::Keep,
    error::{Error, Status},
    fetched::Fetched,
    memories::{self, Place},
    objects,
    settings::Settings,
    watch::Watch,
};

/// For how long a tenant is taken to be as it was.
const KNOWN: Duration = Duration::from_secs(30);
/// For how long a name is taken to be nobody's.
const UNKNOWN: Duration = Duration::from_secs(5);
/// How many are known at a time; whoever was not there for the longest time goes.
const MOST: usize = 500;
/// How often is looked whether the index of a tenant's vectors is behind.
const INDEX: Duration = Duration::from_secs(10);

/// Serves the tenants of a database to whoever proves who they are.
pub(super) fn serve(
    settings: &Settings,
    principals: &Principals,
    listener: TcpListener,
) -> Result<Status, Error> {
    let Place::Database(database) = memories::place(settings)? else {
        return Err(Error::usage("server.auth: keys and oauth need a database of many tenants")
            .with_hint("--set memory.store=postgres://USER@HOST/DATABASE"));
    };
    memories::waited_for(&database)?;
    let config = &settings.config;
    let url = http::url(&listener)?;
    let base = match &*config.server.public_url {
        "" => url.clone(),
        named => named.trim_end_matches('/').to_owned(),
    };
    let metrics = Arc::new(Metrics::default());
    let watch = Arc::new(Watch::new(settings));
    let mut events = EventBus::new(Moment::of_system)
        .with(Arc::new(Told::new(watch)))
        .with(Arc::clone(&metrics) as _);
    if !config.server.audit.is_empty() {
        events = events.with(Arc::new(Audit::open(&config.server.audit)?));
    }
    let resource = format!("{base}/mcp");
    let mut doorman = Doorman::new(resource.clone(), Moment::of_system);
    if principals.keys {
        doorman = doorman.with_keys(Arc::new(StoredKeys(database.clone())));
    }
    if let Some(issuer) = &principals.issuer {
        let rules = TokenRules::new(issuer, [resource], &config.server.tenant_claim);
        doorman = doorman.with_issuer(Issuer::new(rules, Arc::new(Fetched::new())));
    }
    let bucket = objects::bucket(settings)?;
    let many = Arc::new(Many::new(settings, database, bucket, base, events.clone())?);
    let house = many.keep_house().map_err(|error| Error::failure(error.to_string()))?;
    let served = http::until_told(&url, http::options(settings, metrics), |options, stopped| {
        run_for_many(many, Arc::new(doorman), events, listener, options, stopped)
    });
    // What is under way ends with the process: every step of it may be cut short.
    std::mem::forget(house);
    served
}

/// All tenants of a database.
struct Many {
    settings: Settings,
    database: Postgres,
    bucket: Option<Bucket>,
    /// Where clients reach the server.
    base: String,
    embedder: Option<Arc<dyn Embedder>>,
    events: EventBus,
    known: Mutex<HashMap<String, Known>>,
}

struct Known {
    until: Instant,
    used: Instant,
    bounds: Option<Bounds>,
    tenant: Option<Tenant>,
}

impl Many {
    fn new(
        settings: &Settings,
        database: Postgres,
        bucket: Option<Bucket>,
        base: String,
        events: EventBus,
    ) -> Result<Self, Error> {
        Ok(Self {
            embedder: memories::embedder(settings)?,
            settings: settings.clone(),
            database,
            bucket,
            base,
            events,
            known: Mutex::default(),
        })
    }

    /// What is done for every tenant when nobody asks.
    fn keep_house(self: &Arc<Self>) -> std::io::Result<Vec<Custodian>> {
        let (all, used) = (Arc::clone(self), Arc::clone(self));
        let interval = Keep::interval(&self.settings);
        Ok(vec![
            Custodian::sweeping(interval, move || all.tidy())?,
            Custodian::sweeping(INDEX, move || used.index())?,
        ])
    }

    /// Where the database is away, the next round does it.
    fn tidy(&self) {
        for name in self.database.tenants().unwrap_or_default() {
            if let Ok(tenant) = self.made(&name, None) {
                tenant.server.tidy();
            }
        }
    }

    /// Of those alone who were here: whoever writes vectors is.
    fn index(&self) {
        let here: Vec<MemoryServer> = self
            .lock()
            .values()
            .filter_map(|known| Some(known.tenant.as_ref()?.server.clone()))
            .collect();
        for server in here {
            server.index_vectors();
        }
    }

    /// A tenant that nobody asked for before.
    fn made(&self, name: &str, embedder: Option<Arc<dyn Embedder>>) -> Result<Tenant, StoreError> {
        let store = Arc::new(self.database.tenant(name)?);
        let mut parts: Parts = parts::of(&self.settings, store.clone(), self.events.clone());
        parts.embedder = embedder;
        let Some(bucket) = &self.bucket else { return Ok(Tenant::new(MemoryServer::new(parts))) };
        let quota = Quota::from(&self.settings.config.spool);
        let spool = ObjectSpool::new(bucket, name, quota)
            .map_err(|error| StoreError::Engine(error.into()))?;
        let links = Arc::new(SignedLinks::new(store, name, &self.base));
        let keep = Keep::of_tenant(Arc::new(spool), links.clone(), Arc::new(self.events.clone()));
        parts::offload(&mut parts, &self.settings, &keep);
        parts.links = true;
        parts.cleanup = Some(Keep::interval(&self.settings));
        let mut tenant = Tenant::new(MemoryServer::new(parts));
        tenant.spools = Some(keep.spools());
        tenant.links = Some(links);
        Ok(tenant)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tenants for Many {
    fn known(&self, name: &str) -> Option<Tenant> {
        let now = Instant::now();
        let mut all = self.lock();
        let known = all.get_mut(name).filter(|known| now < known.until)?;
        known.used = now;
        known.tenant.clone()
    }

    fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        let now = Instant::now();
        if let Some(known) = self.lock().get(name).filter(|known| now < known.until) {
            return Ok(known.tenant.clone());
        }
        let bounds = self.database.bounds(name)?;
        let before = self.lock().remove(name);
        let tenant = match (bounds, before) {
            (None, _) => None,
            (Some(bounds), Some(Known { tenant: Some(tenant), bounds: Some(had), .. }))
                if had == bounds =>
            {
                Some(tenant)
            }
            (Some(bounds), before) => {
                let mut tenant = match before.and_then(|known| known.tenant) {
                    Some(tenant) => tenant,
                    None => self.made(name, self.embedder.clone())?,
                };
                tenant.server.bound(bounds.memories);
                tenant.rate = bounds.per_minute.and_then(NonZeroU32::new).map(|most| {
                    // All of a minute's at once, after a minute's rest.
                    Arc::new(Mutex::new(Rate::new(Limit::per_minute(most, most))))
                });
                Some(tenant)
            }
        };
        let mut all = self.lock();
        if all.len() >= MOST {
            let oldest =
                all.iter().min_by_key(|(_, known)| known.used).map(|(name, _)| name.clone());
            oldest.map(|name| all.remove(&name));
        }
        let until = now + if tenant.is_some() { KNOWN } else { UNKNOWN };
        let known = Known { until, used: now, bounds, tenant: tenant.clone() };
        // Two may come at once: the first one's stays, so that all have the same.
        let known = all.entry(name.to_owned()).or_insert(known);
        Ok(known.tenant.clone())
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.database.bounds("").map(drop)
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
