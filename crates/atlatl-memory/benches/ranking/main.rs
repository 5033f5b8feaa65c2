//! Ranking quality by words, by vectors and by both, with two real models and a scripted endpoint.
//!
//! `cargo xtask bench ranking` runs it on the collections of this repository, and
//! `cargo xtask bench retrieval DIR` on local copies of public ones, whose directory
//! `ATLATL_RETRIEVAL_DIR` names. Both keep the results. Prints one JSON object. `ATLATL_CACHE` has
//! the models (`.ci/models` puts them there) and keeps the vectors.

#![expect(clippy::print_stdout, reason = "its output is its result")]

mod baseline;
mod collection;
mod endpoint;
mod figures;
mod months;
mod retrieval;
mod tuning;
mod typos;
mod ways;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::collection::Collection;
use self::ways::{Corpus, Model, Way};

fn main() {
    let cache = std::env::var_os("ATLATL_CACHE").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache/atlatl"),
        PathBuf::from,
    );
    let results = match std::env::var_os("ATLATL_RETRIEVAL_DIR") {
        Some(directory) => retrieval::results(Path::new(&directory), &cache),
        None => ranking(&cache),
    };
    println!("{results:#}");
}

/// Measures the collections of this repository.
fn ranking(cache: &Path) -> Value {
    let (collection, gold) = Collection::ranking();
    let notes = Collection::notes();
    let open = |name: &str, collection: &Collection| {
        let name = format!("{name}-{}", &collection.sha256[..16]);
        Corpus::open(cache, &name, &collection.memories)
    };
    let (corpus, notes_corpus) = (open("ranking", &collection), open("notes", &notes));
    let mut models = Model::local(cache);
    let (_server, endpoint) = endpoint::start(&models[0]);
    models.push(endpoint);
    let filled: Vec<Value> = models
        .iter()
        .map(|model| {
            notes_corpus.embed(model);
            corpus.embed(model)
        })
        .collect();
    let ways = Way::all(&models);
    let rows = |corpus: &Corpus, collection: &Collection| {
        let parts = [(corpus, collection.queries.as_slice())];
        ways.iter().map(|way| way.row(&parts)).collect::<Vec<_>>()
    };
    let tuned =
        [(&corpus, collection.queries.as_slice()), (&notes_corpus, notes.queries.as_slice())];
    let [.., minilm, _] = &models[..] else { unreachable!("three models") };
    json!({
        "gold": gold,
        "memories": collection.memories.len(),
        "queries": collection.queries.len(),
        "sha256": collection.sha256,
        "filled": filled,
        "rows": rows(&corpus, &collection),
        "notes": {
            "memories": notes.memories.len(),
            "queries": notes.queries.len(),
            "sha256": notes.sha256,
            "rows": rows(&notes_corpus, &notes),
            "missed": missed(&notes_corpus, &notes, Way::Hybrid(minilm)),
        },
        "months": months::results(cache, &notes_corpus, &models),
        "typos": typos::results(
            &corpus,
            &collection.queries,
            &[Way::OldLexical, Way::Lexical, Way::Hybrid(minilm)],
        ),
        "tuning": models[..2].iter().map(|model| tuning::cross_validate(model, &tuned))
            .collect::<Vec<_>>(),
    })
}

/// Returns the queries without a relevant memory among the first five.
fn missed(corpus: &Corpus, collection: &Collection, way: Way<'_>) -> Vec<Value> {
    let rank = |query: &figures::Query| {
        let ranking = corpus.rank(way, &query.text);
        ranking.iter().position(|id| query.relevant.contains_key(id)).map(|place| place + 1)
    };
    let ranks = collection.queries.iter().map(|query| (query, rank(query)));
    ranks
        .filter(|(_, rank)| rank.is_none_or(|rank| rank > 5))
        .map(|(query, rank)| json!({"query": query.text, "kind": query.kind, "rank": rank}))
        .collect()
}
