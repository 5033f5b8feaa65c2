//! The compared rankings.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use atlatl_memory::embed::{self, EmbedderChoice};
use atlatl_memory::{
    Embedder, MemoryStore, Mode, OnConflict, RankedBy, RecallRequest, RecallService, SearchRequest,
    SearchResults, SearchService, SqliteStore, embed_missing,
};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::collection::{Collection, Query};
use crate::figures::{FOUND, Figures};

/// The models, by directory and name.
const MODELS: [(&str, &str); 2] =
    [("wordllama", "static table of words, 256 numbers"), ("minilm", "MiniLM-L6 (BERT), 384")];

pub(crate) fn rows(collection: &Collection, cache: &Path) -> Vec<Value> {
    let folder = cache.join("bench-data");
    let path = folder.join(format!("ranking-{}.db", &collection.sha256[..16]));
    let store: Arc<dyn MemoryStore> = Arc::new(SqliteStore::open(&path).expect("a store"));
    store.put(&collection.memories, OnConflict::Keep).expect("put");
    let mut rows = vec![row(collection, "lexical", None, |query| recall(&store, None, query))];
    for (name, what) in MODELS {
        let directory = cache.join("models").join(name);
        let model = embed::open(&EmbedderChoice::Local { directory }, None);
        let model = model.expect("a model; .ci/models fetches it").expect("a choice of one");
        let filled = filled(&*store, &*model);
        let mut vector = row(collection, "vector", Some(name), |query| near(&store, &model, query));
        vector["model"]["what"] = json!(what);
        vector["model"]["filled"] = filled;
        rows.push(vector);
        rows.push(row(collection, "hybrid", Some(name), |query| {
            recall(&store, Some(&model), query)
        }));
    }
    rows
}

fn row(
    collection: &Collection,
    way: &str,
    model: Option<&str>,
    mut rank: impl FnMut(&Query) -> SearchResults,
) -> Value {
    let mut figures = Figures::default();
    let begun = Instant::now();
    for query in &collection.queries {
        let found = rank(query);
        assert_eq!(found.ranked_by.as_str(), way, "{:?}", found.warning);
        let ids: Vec<u128> = found.hits.iter().map(|hit| hit.memory.id.as_u128()).collect();
        figures.add(query, &ids);
    }
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    #[expect(clippy::cast_precision_loss, reason = "hundreds")]
    let each = milliseconds / collection.queries.len() as f64;
    json!({
        "way": way,
        "model": {"name": model},
        "milliseconds_a_query": each,
        "figures": figures.json(),
    })
}

fn recall(
    store: &Arc<dyn MemoryStore>,
    model: Option<&Arc<dyn Embedder>>,
    query: &Query,
) -> SearchResults {
    let mut request = RecallRequest::new(&query.text, now());
    request.limit = Some(FOUND);
    RecallService::new(store.clone(), model.cloned()).results(&request).expect("an answer")
}

fn near(store: &Arc<dyn MemoryStore>, model: &Arc<dyn Embedder>, query: &Query) -> SearchResults {
    let mut request = SearchRequest::new(&query.text, now());
    request.mode = Mode::Vector;
    request.limit = Some(FOUND);
    let service = SearchService::new(store.clone(), Some(model.clone()));
    let found = service.results(&request).expect("an answer");
    assert_eq!(found.ranked_by, RankedBy::Vector, "{:?}", found.warning);
    found
}

/// Makes missing vectors; those of an earlier run are reused.
fn filled(store: &dyn MemoryStore, model: &dyn Embedder) -> Value {
    let begun = Instant::now();
    let mut memories = 0;
    loop {
        match embed_missing(store, model).expect("vectors") {
            0 => break,
            n => memories += n,
        }
    }
    json!({"memories": memories, "seconds": begun.elapsed().as_secs_f64()})
}

fn now() -> DateTime<Utc> {
    "2026-11-15T12:00:00Z".parse().expect("a time")
}
