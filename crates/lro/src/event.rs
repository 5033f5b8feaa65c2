//! Events and the ledger, a JSONL file of events for statistics.
//!
//! Events never contain the contents of results. The ledger has the same names and fields, one JSON
//! object per line. Several processes append to it at the same time, each line in one write under a
//! shared lock. A process that removes old lines replaces the file under the exclusive lock; the
//! others notice that their file is no longer the one at that path.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use chrono::{DateTime, Utc};
use lro_core::tokens::Estimate;
use lro_core::{ClientLimit, Reference, ResultId};
use serde::{Deserialize, Serialize};

use crate::delivery::IdSeed;

/// The longest correlation in characters: a client chooses the ids of its requests.
const MAX_CORRELATION_CHARS: usize = 64;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// The id: a ULID. A sink that writes events sets it if it is empty.
    #[serde(default)]
    pub id: String,
    /// The time of the event.
    pub time: DateTime<Utc>,
    /// The program or command that published it. A sink that writes events sets it if it is empty.
    #[serde(default)]
    pub source: String,
    /// The request or the result that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// The result that the event is about, if any.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Reference>,
    /// The kind of event, with its fields.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl Event {
    /// An event about `result`.
    pub fn new(time: DateTime<Utc>, result: ResultId, kind: EventKind) -> Self {
        let reference = result.reference();
        let correlation = Some(reference.to_string());
        Self { result: Some(reference), correlation, ..Self::without_result(time, kind) }
    }

    /// An event that is not about one result.
    pub fn without_result(time: DateTime<Utc>, kind: EventKind) -> Self {
        Self {
            id: String::new(),
            time,
            source: String::new(),
            correlation: None,
            result: None,
            kind,
        }
    }

    /// The event as a part of the request `id`, if that is known.
    pub(crate) fn in_request(mut self, id: Option<&str>) -> Self {
        if let Some(id) = id {
            self.correlation = Some(lro_core::excerpt(id, MAX_CORRELATION_CHARS));
        }
        self
    }

    /// The event with an id, `source` and a correlation, unless it has them.
    pub fn identified(mut self, source: &str) -> Self {
        if self.id.is_empty() {
            self.id = IdSeed { now: self.time, ..IdSeed::from_system() }.result_id().to_string();
        }
        if self.source.is_empty() {
            source.clone_into(&mut self.source);
        }
        // An event that no request caused correlates with itself.
        if self.correlation.is_none() {
            self.correlation = Some(self.id.clone());
        }
        self
    }
}

/// The kind of an event. Never contains the contents of results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event")]
#[non_exhaustive]
pub enum EventKind {
    /// A result was stored and a descriptor delivered.
    ResultOffloaded {
        /// The tool name, as its server lists it: untrusted text.
        tool: String,
        /// The server of the tool, if there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// The number of records; 0 if it has none.
        records: u64,
        /// The program, if the tool runs a command line: untrusted text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<String>,
        /// The size of the payload.
        bytes: u64,
        /// The tokens it would have taken, counted as far as the decision required.
        inline: Estimate,
        /// How much of it the client would have shown, if its limit is known: `visible_tokens` of more than
        /// `limit` tokens, or `visible_bytes` of more than `limit` bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_limit: Option<ClientLimit>,
        /// Whether a client would have shown its further texts in addition to the payload.
        all_texts: bool,
        /// The tokens of the descriptor.
        descriptor: Estimate,
        /// Whether an identical result was stored already, and is referred to again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reused: bool,
        /// The duration of storing and describing, in microseconds.
        took_us: u64,
    },
    /// The tokens of a stored result were counted.
    ResultCounted {
        /// The tokens it would have taken.
        inline: Estimate,
    },
    /// Spec L3: a result could not be stored.
    OffloadWriteFailed {
        /// The tool name, as its server lists it: untrusted text.
        tool: String,
        /// The error with its causes. It may name a local directory, never contents.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        error: String,
    },
    /// A part of a stored result was delivered.
    ResultExtracted {
        /// The tool that returned the result: untrusted text.
        tool: String,
        /// The server of that tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// The kind of query: `recipe`, `jq`, `sql`, `search`, `read`.
        way: String,
        /// Who reads the reply.
        reader: Reader,
        /// The number of answers in the reply.
        given: u64,
        /// The total number of answers.
        total: u64,
        /// The number of records in the result.
        records: u64,
        /// The number of answers that are a record or a part of one.
        records_given: u64,
        /// The tokens of the reply.
        reply: Estimate,
        /// The duration, in microseconds.
        took_us: u64,
    },
    /// A model queried a stored result and got an error.
    ExtractionFailed {
        /// The error class.
        class: String,
        /// The tokens of the error message.
        reply: Estimate,
    },
    /// A client listed the tools of a server, with the extraction tools and our changes.
    ToolsListed {
        /// The server.
        server: String,
        /// The additional tokens of names, descriptions and input schemas.
        definitions: Estimate,
    },
    /// A stored result was passed to another tool.
    ResultPassed {
        /// The called tool: untrusted text.
        tool: String,
        /// The server of that tool.
        server: String,
        /// The size of the passed content.
        bytes: u64,
    },
    /// A call was rejected because it referred to a result of another server.
    ReferenceRefused {
        /// The called tool: untrusted text.
        tool: String,
        /// The server of that tool.
        server: String,
    },
    /// A server's tool has the name of an extraction tool, and is listed under another name.
    ToolRenamed {
        /// The server.
        server: String,
        /// The name of both.
        tool: String,
        /// The name of the server's tool in the listing.
        listed_as: String,
    },
    /// Spec L2: a stored result expired and was removed.
    OffloadFileExpired {
        /// The tool that returned the result: untrusted text.
        tool: String,
    },
    /// A memory was created or updated, and is durable.
    MemoryCaptured {
        /// The id of the memory.
        memory: String,
    },
    /// Memories were returned.
    MemoryRecalled {
        /// The tool.
        tool: String,
        /// The number of returned memories.
        count: u64,
        /// The total number of matches.
        total_matches: u64,
    },
    /// A memory was deleted, or expired.
    MemoryDeleted {
        /// The id of the memory.
        memory: String,
    },
    /// A maintenance task has run and changed something, or failed.
    CustodialTaskFinished {
        /// The name of the task.
        task: String,
        /// The number of processed items; null if it failed.
        acted_on: Option<u64>,
    },
}

impl EventKind {
    /// The name of the kind.
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
            Self::MemoryCaptured { .. } => "MemoryCaptured",
            Self::MemoryRecalled { .. } => "MemoryRecalled",
            Self::MemoryDeleted { .. } => "MemoryDeleted",
            Self::CustodialTaskFinished { .. } => "CustodialTaskFinished",
        }
    }
}

/// Who reads a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a reply is read by a model or by a program")]
pub enum Reader {
    /// A model; the reply takes space in its context window.
    Model,
    /// A person or a program.
    Program,
}

/// Receives events. An implementation must not block for long, because delivery waits for it.
pub trait EventSink: Send + Sync {
    /// Handles an event.
    fn publish(&self, event: Event);
}

/// Discards all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn publish(&self, _: Event) {}
}

/// A log file of events, one JSON object per line.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    source: String,
    file: Mutex<File>,
}

impl Ledger {
    /// Opens or creates the ledger at `path`, readable only by its owner.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = Mutex::new(open_for_append(path)?);
        Ok(Self { path: path.to_owned(), source: "lro".to_owned(), file })
    }

    /// Sets the source of events that have none; `lro` by default.
    pub fn with_source(mut self, source: &str) -> Self {
        source.clone_into(&mut self.source);
        self
    }

    /// The events in the ledger at `path`, in the order of writing; an error for each invalid line.
    pub fn read(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Event>>> {
        let lines = BufReader::new(File::open(path)?).split(b'\n');
        Ok(lines.map(|line| Ok(serde_json::from_slice(&line?)?)))
    }

    /// Removes events before `time`, and invalid lines. Cheap if there are none, because the oldest
    /// line is first. Does nothing if another process holds the lock.
    pub fn forget_before(&self, time: DateTime<Utc>) -> io::Result<()> {
        if !self.begins_before(time)? {
            return Ok(());
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.try_lock().is_err() {
            return Ok(());
        }
        // Another process may have replaced the file already.
        let replaced = if is_at(&file, &self.path) { self.rewrite(time) } else { Ok(()) };
        file.unlock()?;
        replaced?;
        *file = open_for_append(&self.path)?;
        Ok(())
    }

    /// Whether the first valid line is older than `time`.
    fn begins_before(&self, time: DateTime<Utc>) -> io::Result<bool> {
        let mut events = Self::read(&self.path)?.filter_map(Result::ok);
        Ok(events.next().is_some_and(|first| first.time < time))
    }

    fn rewrite(&self, since: DateTime<Utc>) -> io::Result<()> {
        let mut rewritten =
            tempfile::NamedTempFile::new_in(self.path.parent().unwrap_or(Path::new(".")))?;
        {
            let mut out = BufWriter::new(rewritten.as_file_mut());
            for line in BufReader::new(File::open(&self.path)?).split(b'\n') {
                let line = line?;
                if serde_json::from_slice::<Event>(&line).is_ok_and(|event| event.time >= since) {
                    out.write_all(&line)?;
                    out.write_all(b"\n")?;
                }
            }
            out.flush()?;
        }
        // A symbolic link to the ledger stays a link.
        rewritten.persist(fs::canonicalize(&self.path)?)?;
        Ok(())
    }

    fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..MAX_APPEND_ATTEMPTS {
            // Without file locks, the line is written anyway.
            let locked = file.lock_shared().is_ok();
            let current = is_at(&file, &self.path);
            let written = if current { file.write_all(line) } else { Ok(()) };
            if locked {
                file.unlock()?;
            }
            if current {
                return written;
            }
            *file = open_for_append(&self.path)?;
        }
        Ok(())
    }
}

/// The attempts to append a line while other processes replace the file.
const MAX_APPEND_ATTEMPTS: usize = 3;

fn open_for_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Whether `file` is still the file at `path`.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |of: io::Result<fs::Metadata>| of.ok().map(|m| (m.dev(), m.ino()));
    let there = identity(fs::metadata(path));
    there.is_some() && there == identity(file.metadata())
}

impl EventSink for Ledger {
    fn publish(&self, event: Event) {
        let event = event.identified(&self.source);
        let Ok(mut line) = serde_json::to_vec(&event) else { return };
        line.push(b'\n');
        // A failed write of statistics must not affect a delivery.
        let _ = self.append(&line);
    }
}
