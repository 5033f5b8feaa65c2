//! The hashes of the corpora and of their tasks, which are checked in instead of the files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use xtask::repository::Repository;

use super::{Corpus, generate};
use crate::task::CorpusId;
use crate::tasks;

/// The file with the hashes, in the checkout.
pub const HASHES_FILE: &str = "bench/evidence/hashes.toml";

const HEADER: &str = "\
# SHA-256 of every generated corpus and of its tasks. `cargo evidence corpora --update` writes this
# file. A change of a corpus or of a task makes earlier transcripts incomparable: it must be meant.

";

/// The checked-in hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Hashes {
    /// By the name of the corpus.
    corpora: BTreeMap<String, String>,
    /// By the name of the corpus; of the tasks of all its families, one per line.
    tasks: BTreeMap<String, String>,
}

impl Hashes {
    fn read(repository: &Repository) -> Result<Self> {
        let text = repository.read(HASHES_FILE)?;
        toml::from_str(&text).with_context(|| HASHES_FILE.to_owned())
    }

    fn add(&mut self, corpus: &Corpus) -> Result<()> {
        let name = corpus.id.to_string();
        self.corpora.insert(name.clone(), sha256(&corpus.bytes));
        if !tasks::families(corpus.id).is_empty() {
            self.tasks.insert(name, sha256(task_lines(corpus)?.as_bytes()));
        }
        Ok(())
    }
}

/// The tasks of all families of a corpus, one per line.
fn task_lines(corpus: &Corpus) -> Result<String> {
    let mut lines = String::new();
    for family in tasks::families(corpus.id) {
        lines += &tasks::to_lines(&tasks::generate(corpus, *family))?;
    }
    Ok(lines)
}

/// The hash as hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Generates the corpora and their tasks and compares them with the checked-in hashes. Returns the
/// differences.
pub fn hash_findings(repository: &Repository, ids: &[CorpusId]) -> Result<Vec<String>> {
    let expected = Hashes::read(repository)?;
    let mut actual = Hashes::default();
    let mut findings = Vec::new();
    for id in ids {
        actual.add(&generate(*id))?;
    }
    let tables = [
        ("corpora", &expected.corpora, &actual.corpora),
        ("tasks", &expected.tasks, &actual.tasks),
    ];
    for (table, expected, actual) in tables {
        for (name, hash) in actual {
            match expected.get(name) {
                Some(known) if known == hash => {}
                Some(known) => findings.push(format!(
                    "{HASHES_FILE}: {table}.{name}: expected {known}, generated {hash}"
                )),
                None => findings.push(format!("{HASHES_FILE}: {table}.{name} is missing")),
            }
        }
    }
    Ok(findings)
}

/// Generates the corpora and their tasks and writes the hashes. Hashes of other corpora are
/// removed.
pub fn update_hashes(repository: &Repository, ids: &[CorpusId]) -> Result<()> {
    let mut hashes = Hashes::default();
    for id in ids {
        hashes.add(&generate(*id))?;
    }
    let path = repository.path(HASHES_FILE);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
    }
    let text = format!("{HEADER}{}", toml::to_string(&hashes)?);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
