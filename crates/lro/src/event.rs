//! Event: what happened, for whoever watches.
//!
//! The same names and fields stand in the ledger, a JSON object a line.

use chrono::{DateTime, Utc};
use lro_core::tokens::Estimate;
use lro_core::{Reference, ResultId};
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// When.
    pub time: DateTime<Utc>,
    /// Which result it is about, if it is about one.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Reference>,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl Event {
    /// Something that happened to `result`.
    pub fn new(time: DateTime<Utc>, result: ResultId, kind: EventKind) -> Self {
        Self { time, result: Some(result.reference()), kind }
    }

    /// Something that happened to no result in particular.
    pub fn apart(time: DateTime<Utc>, kind: EventKind) -> Self {
        Self { time, result: None, kind }
    }
}

/// What happened. Contents are never part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event")]
#[non_exhaustive]
pub enum EventKind {
    /// A result was stored and a descriptor delivered.
    ResultOffloaded {
        /// The tool, as its server calls it: text from outside.
        tool: String,
        /// The server whose tool it is, where there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// How many records, 0 where it has none.
        records: u64,
        /// The size of the payload.
        bytes: u64,
        /// The tokens it would have taken, as far as the decision had to know.
        inline: Estimate,
        /// Whether a client would have shown its further texts beside the payload.
        all_texts: bool,
        /// The tokens of the descriptor.
        descriptor: Estimate,
        /// How long storing and describing took, in microseconds.
        took_us: u64,
    },
    /// The tokens that a stored result would have taken are known better now.
    ResultCounted {
        /// How many.
        inline: Estimate,
    },
    /// Spec L3: a result could not be stored.
    OffloadWriteFailed {
        /// The tool, as its server calls it: text from outside.
        tool: String,
        /// The error with its causes. It may name a directory of this machine, never contents.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        error: String,
    },
    /// A part of a stored result was delivered.
    ResultExtracted {
        /// The tool whose result it is: text from outside.
        tool: String,
        /// The server of that tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// The way it was asked for: `recipe`, `jq`, `sql`, `search`, `read`.
        way: String,
        /// Who reads the reply.
        reader: Reader,
        /// How many answers were given.
        given: u64,
        /// How many there are.
        total: u64,
        /// How many records the result has.
        records: u64,
        /// How many answers stand for a record or a part of one.
        records_given: u64,
        /// The tokens of the reply.
        reply: Estimate,
        /// How long it took, in microseconds.
        took_us: u64,
    },
    /// A model asked for a part of a stored result and was told why it does not get it.
    ExtractionFailed {
        /// What kind of failure, in a word.
        class: String,
        /// The tokens of what it was told.
        reply: Estimate,
    },
    /// A client was told of our tools, and of what we changed in a server's.
    ToolsListed {
        /// The server beside whose tools they stand.
        server: String,
        /// The tokens that names, descriptions and input schemas have become more.
        definitions: Estimate,
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
    /// A call was refused: it referred to a result of another server.
    ReferenceRefused {
        /// The tool that was called: text from outside.
        tool: String,
        /// The server of that tool.
        server: String,
    },
    /// A server lists a tool with the name of one of ours, which is listed under another name.
    ToolRenamed {
        /// The server.
        server: String,
        /// The name of both.
        tool: String,
        /// The name of the server's tool in the listing.
        listed_as: String,
    },
    /// Spec L2: a stored result has had its time, and is gone.
    OffloadFileExpired {
        /// The tool whose result it was: text from outside.
        tool: String,
    },
}

impl EventKind {
    /// The word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ResultOffloaded { .. } => "ResultOffloaded",
            Self::ResultCounted { .. } => "ResultCounted",
            Self::OffloadWriteFailed { .. } => "OffloadWriteFailed",
            Self::ResultExtracted { .. } => "ResultExtracted",
            Self::ExtractionFailed { .. } => "ExtractionFailed",
            Self::ToolsListed { .. } => "ToolsListed",
            Self::ResultPassed { .. } => "ResultPassed",
            Self::ReferenceRefused { .. } => "ReferenceRefused",
            Self::ToolRenamed { .. } => "ToolRenamed",
            Self::OffloadFileExpired { .. } => "OffloadFileExpired",
        }
    }
}

/// Who reads a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "there is no third kind of reader")]
pub enum Reader {
    /// A model, whose context it takes up.
    Model,
    /// A person or a program.
    Program,
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
