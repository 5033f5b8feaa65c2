//! Event: what happened, for whoever watches.

use chrono::{DateTime, Utc};
use lro_core::ResultId;
use lro_core::tokens::Estimate;
use lro_spool::Listed;

/// Something that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// When.
    pub time: DateTime<Utc>,
    /// Which result it is about.
    pub result: ResultId,
    /// What.
    pub kind: EventKind,
}

impl Event {
    /// Something that happened to `result`.
    pub fn new(time: DateTime<Utc>, result: ResultId, kind: EventKind) -> Self {
        Self { time, result, kind }
    }
}

/// What happened. Contents are never part of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EventKind {
    /// A result was stored and a descriptor delivered.
    ResultOffloaded {
        /// The tool, as its server calls it: text from outside.
        tool: String,
        /// The server whose tool it is, where there are several.
        server: Option<String>,
        /// How many records, 0 where it has none.
        records: u64,
        /// The tokens it would have taken.
        inline: Estimate,
        /// The size of the descriptor that was delivered.
        descriptor_bytes: u64,
    },
    /// Spec L3: a result could not be stored.
    OffloadWriteFailed {
        /// The tool, as its server calls it: text from outside.
        tool: String,
        /// Why, with its causes.
        error: String,
    },
    /// A part of a stored result was delivered.
    ResultExtracted {
        /// The tool whose result it is: text from outside.
        tool: String,
        /// The way it was asked for: `recipe`, `jq`, `sql`, `search`, `read`.
        way: &'static str,
        /// How many answers were given.
        given: u64,
        /// How many there are.
        total: u64,
        /// How many records the result has.
        records: u64,
        /// The tokens of the reply.
        reply_tokens: u64,
    },
    /// A stored result went into a call of another tool.
    ResultPassed {
        /// The tool it went into: text from outside.
        tool: String,
        /// The server of that tool.
        server: String,
        /// How much went.
        bytes: u64,
    },
    /// Spec L2: a stored result has had its time, and is gone.
    OffloadFileExpired(Box<Listed>),
}

/// Receives events. It must not block for long: delivery waits for it.
pub trait EventSink: Send + Sync {
    /// Takes note.
    fn publish(&self, event: Event);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn publish(&self, _: Event) {}
}
