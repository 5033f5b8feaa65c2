//! Server events and their sinks.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::MemoryId;

/// An event of the server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerEvent {
    /// The id: a ULID.
    pub id: String,
    /// The time.
    pub time: DateTime<Utc>,
    /// The program.
    pub source: &'static str,
    /// The request or the result that it belongs to.
    pub correlation: Option<String>,
    /// What happened.
    pub kind: ServerEventKind,
}

/// The kind of an event. It never includes contents of memories.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerEventKind {
    /// An event about a stored result.
    Offload(Box<lro::Event>),
    /// A memory was created or updated, and is durable.
    MemoryCaptured {
        /// The id of the memory.
        id: MemoryId,
    },
    /// Memories were returned.
    MemoryRecalled {
        /// The tool.
        tool: &'static str,
        /// The number of returned memories.
        count: u64,
        /// The total number of matches.
        total_matches: u64,
    },
    /// A memory was deleted.
    MemoryDeleted {
        /// The id of the memory.
        id: MemoryId,
    },
    /// A principal was authorized to write, or to read metrics.
    AccessUsed {
        /// The tenant.
        tenant: String,
        /// The subject: the id of a key, or the subject of a token.
        subject: String,
        /// The requested action.
        action: String,
    },
    /// A request was denied.
    AccessDenied {
        /// The reason.
        reason: &'static str,
        /// The configured name of the issuer of a refused token.
        issuer: Option<String>,
        /// The tenant, if it is known.
        tenant: Option<String>,
        /// The subject, if it is known.
        subject: Option<String>,
    },
    /// A tenant, or what one of its principals wrote, was erased.
    ErasureCompleted {
        /// The tenant.
        tenant: String,
        /// What was erased: `tenant` or `subject`.
        scope: &'static str,
        /// Who requested it.
        requested_by: String,
        /// The number of erased memories.
        memories: u64,
        /// The number of erased results.
        results: u64,
    },
    /// A maintenance task has run.
    CustodialTaskFinished {
        /// The name of the task.
        task: &'static str,
        /// The number of processed items; `None` if it failed.
        acted_on: Option<u64>,
    },
}

impl ServerEventKind {
    /// Returns the name of the event.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Offload(event) => event.kind.name(),
            Self::MemoryCaptured { .. } => "MemoryCaptured",
            Self::MemoryRecalled { .. } => "MemoryRecalled",
            Self::MemoryDeleted { .. } => "MemoryDeleted",
            Self::AccessUsed { .. } => "AccessUsed",
            Self::AccessDenied { .. } => "AccessDenied",
            Self::ErasureCompleted { .. } => "ErasureCompleted",
            Self::CustodialTaskFinished { .. } => "CustodialTaskFinished",
        }
    }
}

/// Receives events. It must not block for long, since requests wait for it.
pub trait ServerEventSink: Send + Sync {
    /// Handles an event.
    fn publish(&self, event: &ServerEvent);
}

/// Sends every event to every sink.
#[derive(Clone)]
pub struct EventBus {
    sinks: Vec<Arc<dyn ServerEventSink>>,
    clock: fn() -> lro::IdSeed,
}

impl EventBus {
    /// Creates a bus without sinks. `clock` provides times and ids.
    pub fn new(clock: fn() -> lro::IdSeed) -> Self {
        Self { sinks: Vec::new(), clock }
    }

    /// Adds a sink.
    pub fn with(mut self, sink: Arc<dyn ServerEventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// A new unique id.
    pub(crate) fn new_id(&self) -> String {
        id(&(self.clock)())
    }

    /// Publishes an event.
    pub fn publish(&self, correlation: Option<String>, kind: ServerEventKind) {
        let at = (self.clock)();
        let id = id(&at);
        // An event that no request caused correlates with itself.
        let correlation = Some(correlation.unwrap_or_else(|| id.clone()));
        let event = ServerEvent { id, time: at.now, source: "atlatl-server", correlation, kind };
        for sink in &self.sinks {
            sink.publish(&event);
        }
    }
}

fn id(seed: &lro::IdSeed) -> String {
    let unix_ms = u64::try_from(seed.now.timestamp_millis()).unwrap_or_default();
    ulid::Ulid::from_parts(unix_ms, seed.random).to_string()
}

/// Events about stored results are published too.
impl lro::EventSink for EventBus {
    fn publish(&self, event: lro::Event) {
        let correlation = event.correlation.clone();
        Self::publish(self, correlation, ServerEventKind::Offload(Box::new(event)));
    }
}
