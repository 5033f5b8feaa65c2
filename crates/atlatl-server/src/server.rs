//! The memory server and its configuration.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atlatl_memory::{
    BackfillQueue, CaptureService, Embedder, EmbeddingBackfill, Filter, MemoryStore,
    PromptIntegration, RecallService, SearchService, StoreError, TokenEstimator,
};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use lro::IdSeed;
use lro::mcp::{Interceptor, Tools};

use super::client::{ClientInfo, Transport};
use super::limits::{ByteQuota, MemoryQuota};
use crate::event::EventBus;
use crate::signing::{SignedLinks, Signer, StoreSigner};
use crate::tasks::{TaskSlots, Tasks};
use crate::tools::response::ToolError;

/// How long a call may take before it becomes a task, for clients that support tasks.
const TASK_AFTER: Duration = Duration::from_secs(1);

/// The configuration of a memory server.
#[non_exhaustive]
pub struct MemoryServerConfig {
    /// The store of memories.
    pub store: Arc<dyn MemoryStore>,
    /// The embedder, if there is one.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// The background worker for missing vectors. Servers of one process share it; without one, a
    /// server with an embedder starts its own.
    pub backfill: Option<EmbeddingBackfill>,
    /// The limit on running tasks, shared by the servers of a process.
    pub task_slots: TaskSlots,
    /// Offloads large results; `None` if offloading is off.
    pub interceptor: Option<Interceptor>,
    /// The tools that query stored results.
    pub extraction: Option<Tools>,
    /// The threshold in tokens that clients are shown; 0 for none.
    pub threshold_tokens: u32,
    /// Spec P1: whether HTTP clients can open the files of this server.
    pub shared_filesystem: bool,
    /// The signed links by which stored results are delivered, if they are.
    pub links: Option<Arc<SignedLinks>>,
    /// The interval at which stored results of all servers are cleaned up, by one server at a time.
    pub cleanup: Option<Duration>,
    /// The token estimator.
    pub estimate: TokenEstimator,
    /// Receives the events of the server.
    pub events: EventBus,
    /// The clock and the source of randomness.
    pub clock: fn() -> IdSeed,
    /// The version of the program.
    pub version: String,
}

impl MemoryServerConfig {
    /// Creates the minimal configuration: no offloading, no event sinks.
    pub fn new(
        store: Arc<dyn MemoryStore>,
        estimate: TokenEstimator,
        clock: fn() -> IdSeed,
    ) -> Self {
        Self {
            store,
            embedder: None,
            backfill: None,
            task_slots: TaskSlots::default(),
            interceptor: None,
            extraction: None,
            threshold_tokens: 0,
            shared_filesystem: false,
            links: None,
            cleanup: None,
            estimate,
            events: EventBus::new(clock),
            clock,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// A memory server without a transport. Cheap to clone.
#[derive(Clone)]
pub struct MemoryServer(pub(crate) Arc<ServerInner>);

pub(crate) struct ServerInner {
    pub(crate) store: Arc<dyn MemoryStore>,
    pub(crate) capture: CaptureService,
    pub(crate) recall: RecallService,
    pub(crate) search: SearchService,
    pub(crate) prompt: PromptIntegration,
    pub(crate) estimate: TokenEstimator,
    pub(crate) backfill: Option<BackfillQueue>,
    pub(crate) interceptor: Option<Interceptor>,
    pub(crate) extraction: Option<Tools>,
    pub(crate) threshold_tokens: u32,
    shared_filesystem: bool,
    links: Option<Arc<SignedLinks>>,
    pub(crate) cleanup: Option<Duration>,
    pub(crate) events: EventBus,
    pub(crate) clock: fn() -> IdSeed,
    signer: StoreSigner,
    pub(crate) tasks: Tasks,
    pub(crate) quota: MemoryQuota,
    pub(crate) byte_quota: ByteQuota,
    /// How long a memory is kept after its last change; `None` for ever.
    retention: Mutex<Option<TimeDelta>>,
    pub(crate) version: String,
}

/// How a large set of memories is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Stored, with a descriptor in the response.
    Offload,
    /// Spec P2: sent whole, to a proxy that offloads itself.
    Whole,
    /// Spec A5: sent in pages.
    Pages,
}

impl MemoryServer {
    /// Creates a server. With an embedder it starts to make missing vectors. The store need not be
    /// reachable yet.
    pub async fn new(config: MemoryServerConfig) -> Self {
        let signer = StoreSigner::new(config.store.clone());
        // If the store is reachable, its secret is read before the first request.
        let _ = signer.get().await;
        let recall = RecallService::new(config.store.clone(), config.embedder.clone());
        let backfill = config.embedder.clone().and_then(|embedder| {
            // Vectors may lag; a recall reports how it ranked.
            let own = || EmbeddingBackfill::start(embedder, 1, |_| {}).ok();
            let backfill = config.backfill.clone().or_else(own)?;
            Some(backfill.register(config.store.clone()))
        });
        Self(Arc::new(ServerInner {
            capture: CaptureService::new(config.store.clone()),
            search: SearchService::new(config.store.clone(), config.embedder),
            prompt: PromptIntegration::new(recall.clone(), config.estimate.clone()),
            estimate: config.estimate,
            recall,
            backfill,
            interceptor: config.interceptor,
            extraction: config.extraction,
            threshold_tokens: config.threshold_tokens,
            shared_filesystem: config.shared_filesystem,
            links: config.links,
            cleanup: config.cleanup,
            events: config.events,
            clock: config.clock,
            signer,
            tasks: Tasks::new(TASK_AFTER, config.task_slots),
            quota: MemoryQuota::default(),
            byte_quota: ByteQuota::default(),
            retention: Mutex::default(),
            version: config.version,
            store: config.store,
        }))
    }

    /// Limits the number of memories from now on; `None` for no limit.
    pub fn bound(&self, memories: Option<u64>) {
        self.0.quota.set_limit(memories);
    }

    /// Limits the bytes of all memories from now on, if the store counts them; `None` for no limit.
    pub fn bound_bytes(&self, bytes: Option<u64>) {
        self.0.byte_quota.set_limit(bytes);
    }

    /// Sets how long a memory is kept after its last change; `None` for ever.
    pub fn set_retention(&self, retention: Option<TimeDelta>) {
        *self.0.retention.lock().unwrap_or_else(PoisonError::into_inner) = retention;
    }
}

impl ServerInner {
    /// Returns the signer of client-held state. Its key is in the store, which may be unreachable.
    pub(crate) async fn signer(&self) -> Result<&Signer, StoreError> {
        self.signer.get().await
    }

    /// Reads the key of signed links, which are created on blocking threads. Without it a stored
    /// result is delivered without a link.
    pub(crate) async fn load_link_key(&self) {
        if let Some(links) = &self.links {
            let _ = links.load_key().await;
        }
    }

    /// Returns how long a memory is kept after its last change.
    pub(crate) fn retention(&self) -> Option<TimeDelta> {
        *self.retention.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves quota for one memory.
    pub(crate) async fn reserve_memory(&self) -> Result<(), ToolError> {
        self.byte_quota.check(self.store.stored_bytes()).await?;
        let mut any = Filter::default();
        any.status = None;
        self.quota.take(self.store.count(&any, self.now())).await
    }

    /// Returns the current time with the precision of a cursor, so that all pages agree.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        (self.clock)().now.trunc_subsecs(6)
    }

    /// Returns the seed of a new memory's id.
    pub(crate) fn moment(&self) -> atlatl_memory::MemoryIdSeed {
        let IdSeed { now, random } = (self.clock)();
        atlatl_memory::MemoryIdSeed { now, random }
    }

    /// Returns how a large set of memories is delivered to `client`. The table is in
    /// `docs/concepts/offloading.md`.
    pub(crate) fn delivery(&self, client: ClientInfo) -> Delivery {
        let within_reach =
            client.transport == Transport::Stdio || self.shared_filesystem || self.links.is_some();
        match self.interceptor {
            // A client that offloads itself gets everything inline.
            _ if client.proxy => Delivery::Whole,
            Some(_) if within_reach => Delivery::Offload,
            _ => Delivery::Pages,
        }
    }

    /// Returns the extraction tools, if `client` can use them.
    pub(crate) fn extraction_for(&self, client: ClientInfo) -> Option<&Tools> {
        self.extraction.as_ref().filter(|_| self.delivery(client) == Delivery::Offload)
    }
}
