//! Server: what a memory server is made of.

use std::sync::Arc;
use std::time::Duration;

use atlatl_memory::{
    BackfillQueue, CaptureService, Embedder, EmbeddingBackfill, MemoryStore, PromptIntegration,
    RecallService, SearchService, StoreError, TokenEstimator,
};
use chrono::{DateTime, SubsecRound, Utc};
use lro::Moment;
use lro::mcp::{Interceptor, Tools};

use super::handshake::{ClientInfo, Transport};
use super::limits::MemoryQuota;
use crate::event::EventBus;
use crate::signing::{Signer, StoreSigner};
use crate::tasks::{TaskSlots, Tasks};

/// How long a call may take before a client that takes tasks gets one.
const TASK_AFTER: Duration = Duration::from_secs(1);

/// What a server is put together from.
#[non_exhaustive]
pub struct MemoryServerConfig {
    /// Where memories are.
    pub store: Arc<dyn MemoryStore>,
    /// What turns text into vectors, if anything.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// What makes missing vectors in the background. Servers of one process share it; without one, a
    /// server with an embedder has its own.
    pub backfill: Option<EmbeddingBackfill>,
    /// How many tasks may run. Servers of one process share it.
    pub task_slots: TaskSlots,
    /// What keeps large results; `None` where offloading is off.
    pub interceptor: Option<Interceptor>,
    /// The tools that ask stored results.
    pub extraction: Option<Tools>,
    /// How many tokens a memory result may have, for those who ask; 0 where there is no bound.
    pub threshold_tokens: u32,
    /// Spec P1: whether clients over HTTP can open the files we write.
    pub shared_filesystem: bool,
    /// Whether stored results are given by links, to clients anywhere.
    pub links: bool,
    /// How often stored results are cleaned that all servers share, by one of them at a time.
    pub cleanup: Option<Duration>,
    /// How many tokens a text takes.
    pub estimate: TokenEstimator,
    /// Who is told what happens.
    pub events: EventBus,
    /// What time it is, and random numbers.
    pub clock: fn() -> Moment,
    /// Our version.
    pub version: String,
}

impl MemoryServerConfig {
    /// The least that a server needs: it never offloads, and nobody watches.
    pub fn new(
        store: Arc<dyn MemoryStore>,
        estimate: TokenEstimator,
        clock: fn() -> Moment,
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
            links: false,
            cleanup: None,
            estimate,
            events: EventBus::new(clock),
            clock,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// A memory server, without a transport. Cheap to clone.
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
    links: bool,
    pub(crate) cleanup: Option<Duration>,
    pub(crate) events: EventBus,
    pub(crate) clock: fn() -> Moment,
    signer: StoreSigner,
    pub(crate) tasks: Tasks,
    pub(crate) quota: MemoryQuota,
    pub(crate) version: String,
}

/// What becomes of a large set of memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It is stored, and described.
    Offload,
    /// Spec P2: it is sent whole, to a proxy that does the same.
    Whole,
    /// Spec A5: it is sent in pages.
    Pages,
}

impl MemoryServer {
    /// Puts a server together. With an embedder it begins to make the vectors that are missing. The
    /// store need not be there yet.
    pub fn new(config: MemoryServerConfig) -> Self {
        let signer = StoreSigner::new(config.store.clone());
        // What is there is fetched before anyone waits for it.
        let _ = signer.get();
        let recall = RecallService::new(config.store.clone(), config.embedder.clone());
        let backfill = config.embedder.clone().and_then(|embedder| {
            // Vectors may lag for as long as they like; recall says by what it ranked.
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
            version: config.version,
            store: config.store,
        }))
    }

    /// From now on there may be so many memories, or any number.
    pub fn bound(&self, memories: Option<u64>) {
        self.0.quota.set_limit(memories);
    }
}

impl ServerInner {
    /// What signs what clients bring back. Its key is the store's, which may not be there.
    pub(crate) fn signer(&self) -> Result<&Signer, StoreError> {
        self.signer.get()
    }

    /// What time it is. No finer than a cursor keeps it: the first page and the next must agree.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        (self.clock)().now.trunc_subsecs(6)
    }

    /// This moment, for a memory that is made.
    pub(crate) fn moment(&self) -> atlatl_memory::MemoryIdSeed {
        let Moment { now, random } = (self.clock)();
        atlatl_memory::MemoryIdSeed { now, random }
    }

    /// What becomes of a large set of memories for `client`. The table is in
    /// `docs/concepts/offloading.md`.
    pub(crate) fn delivery(&self, client: ClientInfo) -> Delivery {
        let within_reach =
            client.transport == Transport::Stdio || self.shared_filesystem || self.links;
        match self.interceptor {
            // Who keeps results itself is given them whole, whatever we could do.
            _ if client.proxy => Delivery::Whole,
            Some(_) if within_reach => Delivery::Offload,
            _ => Delivery::Pages,
        }
    }

    /// The tools that ask stored results, where `client` can have any.
    pub(crate) fn extraction_for(&self, client: ClientInfo) -> Option<&Tools> {
        self.extraction.as_ref().filter(|_| self.delivery(client) == Delivery::Offload)
    }
}
