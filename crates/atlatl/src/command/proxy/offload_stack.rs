//! Builds the offloader, the extractor and their spools from the settings.

use std::sync::Arc;
use std::time::Duration;

use lro::mcp::{Interceptor, Tools};
use lro::{
    Event, EventKind, EventSink, Extractor, IdSeed, LinkProvider, MaintenanceTask, Offloader,
    Spools, TokenCounter,
};
use lro_core::config::ProxyTools;
use lro_core::{Extraction, NoTokenizer, O200k, Operation, Tokens};
use lro_query::worker::Program;
use lro_spool::Spool;

use crate::command::results::view::ResultView;
use crate::{error::Error, ledger_sink::LedgerSink, settings::Settings, spool_config::Stores};

/// Spec L2: the longest time between two sweeps. It is shorter if results expire earlier.
const MAX_SWEEP_INTERVAL: Duration = Duration::from_hours(1);
/// The shortest time between two sweeps. Expired results are not returned even if they are still there.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// The name of the sweep in events.
const CLEANUP_TASK: &str = "offload_cleanup";
/// The bytes of a streamed payload that stay in memory. The message that contains it may be in memory at
/// the same time.
const MAX_PAYLOAD_IN_MEMORY: usize = 32 << 20;
/// How long the end of the process waits for results to be counted. A client kills processes that take
/// longer.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);

/// The spools of results, with the sink of their events.
pub(crate) struct OffloadStack {
    /// The directories of this machine, if it stores results.
    stores: Option<Arc<Stores>>,
    events: Arc<dyn EventSink>,
    counter: Option<Arc<TokenCounter>>,
    memory: Arc<dyn Spool>,
    other: Arc<dyn Spool>,
    /// Spools that results are read from and not stored in: further scopes, another directory.
    further: Vec<Arc<dyn Spool>>,
    links: Option<Arc<dyn LinkProvider>>,
}

/// Sends all events to the ledger, and prints failures.
struct LedgerAndConsole {
    ledger: Arc<LedgerSink>,
    counter: Arc<TokenCounter>,
}

impl OffloadStack {
    /// Stores results in directories of this machine. `source` is the command, as the source of
    /// events.
    pub(crate) fn new(
        source: &'static str,
        settings: &Settings,
        scope: Option<&str>,
    ) -> Result<Self, Error> {
        let stores = Stores::from_settings(settings, scope)?;
        let memory = stores.spool_for(&Operation::from_tool("recall_memories"));
        let other = stores.spool_for(&Operation::from_tool(""));
        let alternate = stores.alternate();
        let mut stack = Self::with_spools(source, settings, stores, memory, other)?;
        stack.further.extend(alternate);
        Ok(stack)
    }

    /// Stores results in the first of `scopes`, and reads them from all.
    pub(crate) fn with_scopes(
        source: &'static str,
        settings: &Settings,
        scopes: &[String],
    ) -> Result<Self, Error> {
        let mut scopes = scopes.iter().map(String::as_str);
        let mut stack = Self::new(source, settings, scopes.next())?;
        for scope in scopes {
            let stores = Stores::from_settings(settings, Some(scope))?;
            stack.further.push(stores.spool_for(&Operation::from_tool("")));
            stack.further.extend(stores.alternate());
        }
        Ok(stack)
    }

    /// Stores results in a spool that other servers share, and returns links to them.
    pub(crate) fn shared(
        source: &'static str,
        settings: &Settings,
        spool: Arc<dyn Spool>,
        links: Arc<dyn LinkProvider>,
    ) -> Result<Self, Error> {
        let stores = Stores::from_settings(settings, None)?;
        let mut stack = Self::with_spools(source, settings, stores, spool.clone(), spool)?;
        stack.links = Some(links);
        Ok(stack)
    }

    /// Stores results of one tenant in a shared spool, without a ledger of this machine.
    pub(crate) fn for_tenant(
        spool: Arc<dyn Spool>,
        links: Arc<dyn LinkProvider>,
        events: Arc<dyn EventSink>,
    ) -> Self {
        let (memory, other) = (spool.clone(), spool);
        let (further, links) = (Vec::new(), Some(links));
        Self { stores: None, events, counter: None, memory, other, further, links }
    }

    fn with_spools(
        source: &'static str,
        settings: &Settings,
        stores: Stores,
        memory: Arc<dyn Spool>,
        other: Arc<dyn Spool>,
    ) -> Result<Self, Error> {
        let ledger = Arc::new(LedgerSink::new(settings, source));
        let spools = Spools::new(vec![other.clone(), memory.clone()]);
        let counter = Arc::new(TokenCounter::start(spools, O200k, ledger.clone())?);
        let events = Arc::new(LedgerAndConsole { ledger, counter: counter.clone() });
        Ok(Self {
            stores: Some(Arc::new(stores)),
            events,
            counter: Some(counter),
            memory,
            other,
            further: Vec::new(),
            links: None,
        })
    }

    /// Replaces the sink of events. The new one may forward to the old one.
    pub(crate) fn tell(&mut self, events: Arc<dyn EventSink>) {
        self.events = events;
    }

    pub(crate) fn interceptor(&self, settings: &Settings) -> Interceptor {
        let offloader = |spool: &Arc<dyn Spool>| {
            let offloader = Offloader::new(spool.clone(), &settings.config)
                .with_tokenizer(O200k)
                .with_events(self.events())
                .with_extraction(match settings.config.proxy.tools {
                    ProxyTools::None => Extraction::Shell,
                    // `atlatl tools` lists the tools, or this process.
                    _ => Extraction::Native,
                })
                .with_memory_cap(MAX_PAYLOAD_IN_MEMORY);
            match &self.links {
                Some(links) => offloader.with_links(links.clone()),
                None => offloader,
            }
        };
        Interceptor::new(offloader(&self.memory), offloader(&self.other))
    }

    /// All spools that can contain a result.
    pub(crate) fn spools(&self) -> Spools {
        let mut all = vec![self.other.clone(), self.memory.clone()];
        all.extend(self.further.iter().cloned());
        Spools::new(all)
    }

    pub(crate) fn events(&self) -> Arc<dyn EventSink> {
        self.events.clone()
    }

    pub(crate) fn tools(&self, settings: &Settings) -> Tools {
        self.tools_with(ResultView::new(self.spools(), &settings.config), settings)
    }

    /// Tools beside those of another server, whose pages a client may show as well.
    pub(crate) fn tools_of_proxy(&self, settings: &Settings) -> Tools {
        let view = ResultView::new(self.spools(), &settings.config).only_shown();
        self.tools_with(view, settings)
    }

    fn tools_with(&self, view: ResultView, settings: &Settings) -> Tools {
        Tools::new(Arc::new(self.extractor(settings).with_tokenizer(O200k)))
            .with_view(Arc::new(view))
    }

    /// An extractor for programs, whose answers are limited only by the query's own bounds.
    pub(crate) fn extractor_for_programs(&self, settings: &Settings) -> Arc<Extractor> {
        let unbounded = Tokens(u64::MAX);
        Arc::new(self.extractor(settings).with_reply(unbounded).with_tokenizer(NoTokenizer))
    }

    fn extractor(&self, settings: &Settings) -> Extractor {
        let mut extractor =
            Extractor::new(self.spools(), &settings.config).with_events(self.events.clone());
        if let Some(links) = &self.links {
            extractor = extractor.with_links(links.clone());
        }
        match Program::itself() {
            Some(program) => extractor.with_program(program),
            None => extractor,
        }
    }

    /// The time between two sweeps.
    pub(crate) fn interval(settings: &Settings) -> Duration {
        let config = &settings.config;
        let ttl = config.proxy.ttl_seconds.min(config.prompt.offload.ttl_seconds);
        Duration::from_secs(ttl).clamp(MIN_SWEEP_INTERVAL, MAX_SWEEP_INTERVAL)
    }

    /// Starts a task that removes expired results from this machine as long as the process runs.
    pub(crate) fn clean(&self, settings: &Settings) {
        let interval = Self::interval(settings);
        let Some(stores) = self.stores.clone() else { return };
        let events = self.events.clone();
        let sweep = move || {
            let now = IdSeed::from_system().now;
            let swept = stores.sweep(now, &*events);
            let acted_on = swept.failures.is_empty().then_some(swept.expired.len() as u64);
            // A run without effect is not worth a line in the ledger.
            if acted_on != Some(0) {
                let task = CLEANUP_TASK.to_owned();
                let kind = EventKind::CustodialTaskFinished { task, acted_on };
                events.publish(Event::without_result(now, kind));
            }
        };
        // The task ends with the process: a sweep can be interrupted at any point.
        if let Ok(task) = MaintenanceTask::every(interval, sweep) {
            std::mem::forget(task);
        }
    }
}

impl Drop for OffloadStack {
    fn drop(&mut self) {
        if let Some(counter) = &self.counter {
            counter.finish(COUNT_TIMEOUT);
        }
    }
}

impl EventSink for LedgerAndConsole {
    fn publish(&self, event: Event) {
        self.counter.watch(&event);
        self.ledger.publish_aloud(event);
    }
}
