//! Builds the offloader, the extractor and their spools from the settings.

use std::{sync::Arc, time::Duration};

use lro::mcp::{Interceptor, Tools};
use lro::{
    Counter, Event, EventSink, Extractor, Links, MaintenanceTask, Moment, Offloader, Spools,
};
use lro_core::{Extraction, NoTokenizer, O200k, Operation, Tokens};
use lro_query::worker::Program;
use lro_spool::Spool;

use crate::{error::Error, ledger_sink::LedgerSink, settings::Settings, spool_config::Stores};

/// Spec L2: how often is cleaned, unless results live shorter.
const HOUR: Duration = Duration::from_hours(1);
/// More often would be work for nothing: what has expired is not given out anyway.
const MINUTE: Duration = Duration::from_mins(1);

/// A payload that arrives in pieces goes to disk beyond this: the message it came in may lie in
/// memory at the same time.
const PAYLOAD_IN_MEMORY: usize = 32 << 20;

/// Where results are kept, and who is told of it.
pub(crate) struct OffloadStack {
    /// Where results of this machine are; none where it keeps none.
    stores: Option<Arc<Stores>>,
    events: Arc<dyn EventSink>,
    counter: Option<Arc<Counter>>,
    memory: Arc<dyn Spool>,
    other: Arc<dyn Spool>,
    /// Spools that results are read from and not stored in: further scopes, another directory.
    further: Vec<Arc<dyn Spool>>,
    links: Option<Arc<dyn Links>>,
}

/// Tells the ledger of everything and the person of what went wrong.
struct LedgerAndConsole {
    watch: Arc<LedgerSink>,
    counter: Arc<Counter>,
}

/// How long the end of a process waits for results to be counted: a client kills what takes longer.
const COUNTING: Duration = Duration::from_secs(1);

impl OffloadStack {
    /// Results lie in directories of this machine.
    pub(crate) fn new(settings: &Settings, scope: Option<&str>) -> Result<Self, Error> {
        let stores = Stores::from_settings(settings, scope)?;
        let memory = stores.of_operation(&Operation::of_tool("recall_memories"));
        let other = stores.of_operation(&Operation::of_tool(""));
        let alternate = stores.alternate();
        let mut keep = Self::in_spools(settings, stores, memory, other)?;
        keep.further.extend(alternate);
        Ok(keep)
    }

    /// The same, in the first of `scopes`; those of the others can be read as well.
    pub(crate) fn with_scopes(settings: &Settings, scopes: &[String]) -> Result<Self, Error> {
        let mut scopes = scopes.iter().map(String::as_str);
        let mut keep = Self::new(settings, scopes.next())?;
        for scope in scopes {
            let stores = Stores::from_settings(settings, Some(scope))?;
            keep.further.push(stores.of_operation(&Operation::of_tool("")));
            keep.further.extend(stores.alternate());
        }
        Ok(keep)
    }

    /// Results lie in a place that other servers share, and are given by links.
    pub(crate) fn shared(
        settings: &Settings,
        spool: Arc<dyn Spool>,
        links: Arc<dyn Links>,
    ) -> Result<Self, Error> {
        let stores = Stores::from_settings(settings, None)?;
        let mut keep = Self::in_spools(settings, stores, spool.clone(), spool)?;
        keep.links = Some(links);
        Ok(keep)
    }

    /// The same for one tenant of many, whose results nobody counts in a ledger of this machine.
    pub(crate) fn of_tenant(
        spool: Arc<dyn Spool>,
        links: Arc<dyn Links>,
        events: Arc<dyn EventSink>,
    ) -> Self {
        let (memory, other) = (spool.clone(), spool);
        let (further, links) = (Vec::new(), Some(links));
        Self { stores: None, events, counter: None, memory, other, further, links }
    }

    fn in_spools(
        settings: &Settings,
        stores: Stores,
        memory: Arc<dyn Spool>,
        other: Arc<dyn Spool>,
    ) -> Result<Self, Error> {
        let watch = Arc::new(LedgerSink::new(settings));
        let spools = Spools::new(vec![other.clone(), memory.clone()]);
        let counter = Arc::new(Counter::start(spools, O200k, watch.clone())?);
        let events = Arc::new(LedgerAndConsole { watch, counter: counter.clone() });
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

    /// Tells someone else, who may tell the ledger and the person in turn.
    pub(crate) fn tell(&mut self, events: Arc<dyn EventSink>) {
        self.events = events;
    }

    pub(crate) fn interceptor(&self, settings: &Settings) -> Interceptor {
        let offloader = |spool: &Arc<dyn Spool>| {
            let offloader = Offloader::new(spool.clone(), &settings.config)
                .with_tokenizer(O200k)
                .with_events(self.events())
                // Also where a server of their own offers the tools: that is what it is for.
                .with_extraction(Extraction::Native)
                .with_memory_cap(PAYLOAD_IN_MEMORY);
            match &self.links {
                Some(links) => offloader.with_links(links.clone()),
                None => offloader,
            }
        };
        Interceptor::new(offloader(&self.memory), offloader(&self.other))
    }

    /// Every place that a result can be in.
    pub(crate) fn spools(&self) -> Spools {
        let mut all = vec![self.other.clone(), self.memory.clone()];
        all.extend(self.further.iter().cloned());
        Spools::new(all)
    }

    pub(crate) fn events(&self) -> Arc<dyn EventSink> {
        self.events.clone()
    }

    pub(crate) fn tools(&self, settings: &Settings) -> Tools {
        Tools::new(Arc::new(self.extractor(settings).with_tokenizer(O200k)))
    }

    /// Answers for a program: as long as the query's own bounds let them be.
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

    /// How often is cleaned.
    pub(crate) fn interval(settings: &Settings) -> Duration {
        let config = &settings.config;
        let lives = config.proxy.ttl_seconds.min(config.prompt.offload.ttl_seconds);
        Duration::from_secs(lives).clamp(MINUTE, HOUR)
    }

    /// Removes what has expired from this machine, now and again, as long as the process lives.
    pub(crate) fn clean(&self, settings: &Settings) {
        let interval = Self::interval(settings);
        let Some(stores) = self.stores.clone() else { return };
        let events = self.events.clone();
        let sweep = move || drop(stores.sweep(Moment::of_system().now, &*events));
        // It ends with the process: a sweep may be cut short at any point.
        if let Ok(custodian) = MaintenanceTask::every(interval, sweep) {
            std::mem::forget(custodian);
        }
    }
}

impl Drop for OffloadStack {
    fn drop(&mut self) {
        if let Some(counter) = &self.counter {
            counter.finish(COUNTING);
        }
    }
}

impl EventSink for LedgerAndConsole {
    fn publish(&self, event: Event) {
        self.counter.watch(&event);
        self.watch.publish_aloud(event);
    }
}
