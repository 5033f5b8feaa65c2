//! Public question sets about conversations, from local copies: every conversation is a store, and
//! every turn a memory.
//!
//! The sets are not part of this repository, and the results have no text of them.

mod beam;
mod locomo;

use std::collections::HashMap;
use std::path::Path;

use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId, MemoryType, title_or_untitled};
use serde_json::{Value, json};

use crate::collection::digest;
use crate::figures::Query;
use crate::ways::{Corpus, Model, Way};

/// A question set.
struct QuestionSet {
    name: String,
    /// The digest of all files that were read.
    sha256: String,
    conversations: Vec<Conversation>,
}

/// A conversation with the questions about it.
#[derive(Debug, Default)]
struct Conversation {
    memories: Vec<Memory>,
    /// The ids of the memories by their names in the set.
    ids: HashMap<String, u128>,
    queries: Vec<Query>,
}

impl Conversation {
    /// Adds a turn as a memory, with the title that a capture infers.
    fn add_turn(&mut self, name: String, content: String, created: DateTime<Utc>) {
        let id = self.memories.len() as u128 + 1;
        let title = title_or_untitled(&content);
        let memory =
            Memory::new(MemoryId::from_u128(id), MemoryType::Episodic, content, created.into());
        let mut memory = memory.unwrap_or_else(|error| panic!("turn {name}: {error}"));
        memory.title = Some(title);
        self.memories.push(memory);
        assert!(self.ids.insert(name, id).is_none(), "turn {id} has the name of another");
    }

    /// Adds a question, unless the conversation has none of its sources.
    fn add_question(&mut self, text: &str, kind: &str, sources: impl Iterator<Item = String>) {
        let relevant: HashMap<u128, u8> =
            sources.filter_map(|name| self.ids.get(&name)).map(|id| (*id, 1)).collect();
        if !relevant.is_empty() {
            self.queries.push(Query { text: text.to_owned(), kind: kind.to_owned(), relevant });
        }
    }
}

/// Measures every set that has a copy in `directory`.
pub(crate) fn results(directory: &Path, cache: &Path) -> Value {
    locomo::check_reader();
    beam::check_reader();
    let sets: Vec<QuestionSet> =
        locomo::read(directory).into_iter().chain(beam::read(directory)).collect();
    assert!(
        !sets.is_empty(),
        "{} has neither data/locomo10.json (LoCoMo) nor chats/100K (BEAM)",
        directory.display()
    );
    let models = Model::local(cache);
    json!({"sets": sets.iter().map(|set| measure(set, &models, cache)).collect::<Vec<_>>()})
}

fn measure(set: &QuestionSet, models: &[Model], cache: &Path) -> Value {
    let corpora: Vec<Corpus> = set
        .conversations
        .iter()
        .enumerate()
        .map(|(n, conversation)| {
            let name = format!("retrieval-{}-{n}", &set.sha256[..16]);
            let corpus = Corpus::open(cache, &name, &conversation.memories);
            for model in models {
                corpus.embed(model);
            }
            corpus
        })
        .collect();
    let queries = set.conversations.iter().map(|conversation| conversation.queries.as_slice());
    let parts: Vec<(&Corpus, &[Query])> = corpora.iter().zip(queries).collect();
    let count = |of: fn(&Conversation) -> usize| set.conversations.iter().map(of).sum::<usize>();
    json!({
        "name": set.name,
        "sha256": set.sha256,
        "conversations": set.conversations.len(),
        "memories": count(|one| one.memories.len()),
        "queries": count(|one| one.queries.len()),
        "rows": Way::all(models).into_iter().map(|way| way.row(&parts)).collect::<Vec<_>>(),
    })
}

/// Reads the JSON files of a set in order, with the digest of all of them.
fn read_files(paths: &[std::path::PathBuf]) -> (Vec<Value>, String) {
    let mut all = Vec::new();
    let read = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|error| panic!("{} is not JSON: {error}", path.display()));
        all.extend(bytes);
        value
    };
    let values = paths.iter().map(read).collect();
    (values, digest(&all))
}
