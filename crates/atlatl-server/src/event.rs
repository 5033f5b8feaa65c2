//! Event: what happens in a server, for whoever watches.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::MemoryId;

// Former names, until every crate of the workspace uses the new ones.
#[doc(hidden)]
pub use self::{ServerEvent as Event, ServerEventKind as EventKind, ServerEventSink as EventSink};

/// Something that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerEvent {
    /// Its name: a ULID.
    pub id: String,
    /// When.
    pub time: DateTime<Utc>,
    /// Which program it happened in.
    pub source: &'static str,
    /// What it belongs to: the request, or the result it is about.
    pub correlation: Option<String>,
    /// What.
    pub kind: ServerEventKind,
}

/// What happened. Contents are never part of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerEventKind {
    /// Something about a stored result.
    Offload(lro::Event),
    /// A memory was made or changed, and is durable.
    MemoryCaptured {
        /// Which.
        id: MemoryId,
    },
    /// Memories were given out.
    MemoryRecalled {
        /// By which tool.
        tool: &'static str,
        /// How many.
        count: u64,
        /// How many there are.
        total_matches: u64,
    },
    /// A memory is gone.
    MemoryDeleted {
        /// Which.
        id: MemoryId,
    },
    /// Someone was let in to change something, or to see what is counted.
    AccessUsed {
        /// Whose memories.
        tenant: String,
        /// Who: the id of a key, or the subject of a token.
        subject: String,
        /// What they asked for, in words of ours.
        action: String,
    },
    /// Someone was not let in, or was not allowed what they asked for.
    AccessDenied {
        /// Why, in a word of ours.
        reason: &'static str,
        /// Whose memories, where that is known.
        tenant: Option<String>,
        /// Who, where that is known.
        subject: Option<String>,
    },
    /// A custodial task has run.
    CustodialTaskFinished {
        /// Which.
        task: &'static str,
        /// On how many things it acted; `None` where it failed.
        acted_on: Option<u64>,
    },
}

impl ServerEventKind {
    /// The word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Offload(event) => event.kind.name(),
            Self::MemoryCaptured { .. } => "MemoryCaptured",
            Self::MemoryRecalled { .. } => "MemoryRecalled",
            Self::MemoryDeleted { .. } => "MemoryDeleted",
            Self::AccessUsed { .. } => "AccessUsed",
            Self::AccessDenied { .. } => "AccessDenied",
            Self::CustodialTaskFinished { .. } => "CustodialTaskFinished",
        }
    }
}

/// Receives events. It must not block for long: requests wait for it.
pub trait ServerEventSink: Send + Sync {
    /// Takes note.
    fn publish(&self, event: &ServerEvent);
}

/// Hands every event to every sink.
#[derive(Clone)]
pub struct EventBus {
    sinks: Vec<Arc<dyn ServerEventSink>>,
    clock: fn() -> lro::Moment,
}

impl EventBus {
    /// Nobody listens yet. `clock` says when something happens, and makes names.
    pub fn new(clock: fn() -> lro::Moment) -> Self {
        Self { sinks: Vec::new(), clock }
    }

    /// Adds a listener.
    pub fn with(mut self, sink: Arc<dyn ServerEventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Tells everyone.
    pub fn publish(&self, correlation: Option<String>, kind: ServerEventKind) {
        let at = (self.clock)();
        let unix_ms = u64::try_from(at.now.timestamp_millis()).unwrap_or_default();
        let event = ServerEvent {
            id: ulid::Ulid::from_parts(unix_ms, at.random).to_string(),
            time: at.now,
            source: "atlatl-server",
            correlation,
            kind,
        };
        for sink in &self.sinks {
            sink.publish(&event);
        }
    }
}

/// What happens to stored results is told as well.
impl lro::EventSink for EventBus {
    fn publish(&self, event: lro::Event) {
        let correlation = event.result.map(|result| result.to_string());
        Self::publish(self, correlation, ServerEventKind::Offload(event));
    }
}
