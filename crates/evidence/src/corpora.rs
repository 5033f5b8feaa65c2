//! The corpora: tool results of known content, generated and never committed.
//!
//! A corpus is the same on every machine: all choices come from [`SplitMix64`] with the seed 42,
//! and all numbers are integers until they are written. The specification names `ChaCha8`; the
//! generator of `testkit` has a published sequence as well, is already used by every other
//! generated text of this workspace, and needs no further dependency. The choices need no
//! cryptographic quality.
//!
//! The records of a smaller corpus are the first records of a larger one.

mod hashes;
mod issues;
pub(crate) mod log;
mod map;
pub(crate) mod memories;
pub(crate) mod text;
pub(crate) mod time;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, anyhow};
use serde_json::{Map, Value};
use testkit::SplitMix64;

pub use self::hashes::{HASHES_FILE, hash_findings, sha256, update_hashes};
use crate::task::{CorpusId, CorpusKind};

/// The seed of every corpus.
const SEED: u64 = 42;

/// Every corpus of the experiments, smallest first within a kind.
pub const ALL: &[CorpusId] = &[
    corpus_id(CorpusKind::Memories, 50),
    corpus_id(CorpusKind::Memories, 200),
    corpus_id(CorpusKind::Memories, 500),
    corpus_id(CorpusKind::Memories, 5_000),
    corpus_id(CorpusKind::Memories, 50_000),
    corpus_id(CorpusKind::Issues, 50),
    corpus_id(CorpusKind::Issues, 200),
    corpus_id(CorpusKind::Issues, 500),
    corpus_id(CorpusKind::Issues, 5_000),
    corpus_id(CorpusKind::Log, 2_000),
    corpus_id(CorpusKind::Log, 20_000),
    corpus_id(CorpusKind::Log, 200_000),
    corpus_id(CorpusKind::Map, 200),
    corpus_id(CorpusKind::Map, 2_000),
];

const fn corpus_id(kind: CorpusKind, size: usize) -> CorpusId {
    CorpusId { kind, size }
}

/// A generated tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corpus {
    /// Its id.
    pub id: CorpusId,
    /// The serialized result: one MIF object per line for memories, an object with `items` for
    /// issues, lines for a log, and an object with one member per record for a map.
    pub bytes: Vec<u8>,
}

/// Generates a corpus. Any size is possible, also one that [`ALL`] does not list.
pub fn generate(id: CorpusId) -> Corpus {
    let mut random = SplitMix64::new(SEED);
    let text = match id.kind {
        CorpusKind::Memories => memories::generate(id.size, &mut random),
        CorpusKind::Issues => issues::generate(id.size, &mut random),
        CorpusKind::Log => log::generate(id.size, &mut random),
        CorpusKind::Map => map::generate(id.size, &mut random),
    };
    Corpus { id, bytes: text.into_bytes() }
}

impl Corpus {
    /// The serialized result as text.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.bytes).with_context(|| format!("{} is not text", self.id))
    }

    /// The records: objects for memories and issues, strings for the lines of a log, and the
    /// members of a map as objects with their name in `key`.
    pub fn records(&self) -> Result<Vec<Value>> {
        let text = self.text()?;
        let invalid = || format!("{} is not JSON", self.id);
        match self.id.kind {
            CorpusKind::Memories => {
                text.lines().map(|line| serde_json::from_str(line).with_context(invalid)).collect()
            }
            CorpusKind::Log => Ok(text.lines().map(Value::from).collect()),
            CorpusKind::Issues => {
                let mut document: Value = serde_json::from_str(text).with_context(invalid)?;
                match document.get_mut("items").map(Value::take) {
                    Some(Value::Array(items)) => Ok(items),
                    _ => Err(anyhow!("{} has no array `items`", self.id)),
                }
            }
            CorpusKind::Map => {
                let members: Map<String, Value> =
                    serde_json::from_str(text).with_context(invalid)?;
                Ok(members.into_iter().map(with_key).collect())
            }
        }
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        let extension = match self.id.kind {
            CorpusKind::Memories => "jsonl",
            CorpusKind::Issues | CorpusKind::Map => "json",
            CorpusKind::Log => "log",
        };
        format!("{}.{extension}", self.id)
    }

    /// Writes it to a file in `directory`. Returns the path.
    pub fn write(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join(self.file_name());
        fs::write(&path, &self.bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

fn with_key((key, value): (String, Value)) -> Value {
    let mut record = Map::new();
    record.insert("key".to_owned(), Value::String(key));
    if let Value::Object(members) = value {
        record.extend(members);
    }
    Value::Object(record)
}

impl CorpusKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Memories, Self::Issues, Self::Log, Self::Map];

    /// The name, as in the names of files and tasks.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memories => "memories",
            Self::Issues => "issues",
            Self::Log => "log",
            Self::Map => "map",
        }
    }

    /// The field with the sentences of a record. A log has none.
    pub fn text_field(self) -> Option<&'static str> {
        match self {
            Self::Memories => Some("content"),
            Self::Issues => Some("body"),
            Self::Map => Some("notes"),
            Self::Log => None,
        }
    }
}

impl fmt::Display for CorpusKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name: `memories-200`. The lines of a log are counted in thousands: `log-20k`.
impl fmt::Display for CorpusId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == CorpusKind::Log && self.size.is_multiple_of(1_000) {
            write!(f, "{}-{}k", self.kind, self.size / 1_000)
        } else {
            write!(f, "{}-{}", self.kind, self.size)
        }
    }
}

impl FromStr for CorpusId {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = || anyhow!("`{text}` is not a corpus; expected a name such as memories-200");
        let (kind, size) = text.split_once('-').ok_or_else(expected)?;
        let is_named = |candidate: &CorpusKind| candidate.as_str() == kind;
        let kind = CorpusKind::ALL.into_iter().find(is_named).ok_or_else(expected)?;
        let (digits, factor) = match size.strip_suffix('k') {
            Some(thousands) => (thousands, 1_000),
            None => (size, 1),
        };
        let number: usize = digits.parse().map_err(|_| expected())?;
        let size = number.checked_mul(factor).ok_or_else(expected)?;
        Ok(Self { kind, size })
    }
}

#[cfg(test)]
mod tests;
