//! The compared ways of ranking, and the stores in which they rank.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::embed::{self, EmbedderChoice, FusionWeights, ModelDescription, Scripts};
use atlatl_memory::{
    Embedder, MemoryStore, Mode, OnConflict, RecallRequest, RecallService, SearchRequest,
    SearchResults, SearchService, SqliteStore, embed_missing,
};
use chrono::{DateTime, Utc};
use mif::Memory;
use serde_json::{Value, json};

use crate::baseline::Baseline;
use crate::figures::{DEPTH, Figures, Query};

/// An embedding model, by the name of its row.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    description: &'static str,
    pub(crate) embedder: Arc<dyn Embedder>,
}

impl Model {
    pub(crate) fn new(
        name: &'static str,
        description: &'static str,
        choice: &EmbedderChoice,
    ) -> Self {
        let embedder = embed::open(choice, None).expect("a model; .ci/models fetches it");
        Self { name, description, embedder: embedder.expect("an embedder") }
    }

    /// Returns the same model with another embedder.
    pub(crate) fn with_embedder(&self, embedder: Arc<dyn Embedder>) -> Self {
        Self { name: self.name, description: self.description, embedder }
    }

    /// Opens the models of `.ci/models`; the one that is packed with the program as `.ci/model` packs
    /// it.
    pub(crate) fn local(cache: &Path) -> Vec<Self> {
        let open = |name, description, directory| {
            Self::new(name, description, &EmbedderChoice::Local { directory })
        };
        let models = cache.join("models");
        let packed = cache.join("bench-data/models/minilm");
        let mut fusion = FusionWeights::default();
        fusion.scripts = Scripts::Latin;
        let about = ModelDescription {
            name: "all-MiniLM-L6-v2".to_owned(),
            license: "Apache-2.0".to_owned(),
            source: "sentence-transformers/all-MiniLM-L6-v2".to_owned(),
            fusion: Some(fusion),
        };
        embed::quantize(&models.join("minilm"), &packed, &about).expect("a converted model");
        vec![
            open("wordllama", "static table of words, 256 numbers", models.join("wordllama")),
            open("minilm", "the packed model: MiniLM-L6 (BERT) in 8 bits, 384 numbers", packed),
        ]
    }
}

/// A way of ranking.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// By words, as version 0.1.0 did.
    OldLexical,
    /// A recall without an embedder.
    Lexical,
    /// A search by vectors alone.
    Vector(&'a Model),
    /// A recall with an embedder.
    Hybrid(&'a Model),
}

impl<'a> Way<'a> {
    /// Returns the ways by words, and two for each model.
    pub(crate) fn all(models: &'a [Model]) -> Vec<Self> {
        let mut ways = vec![Self::OldLexical, Self::Lexical];
        ways.extend(models.iter().flat_map(|model| [Self::Vector(model), Self::Hybrid(model)]));
        ways
    }

    fn name(self) -> &'static str {
        match self {
            Self::OldLexical => "lexical 0.1.0",
            Self::Lexical => "lexical",
            Self::Vector(_) => "vector",
            Self::Hybrid(_) => "hybrid",
        }
    }

    fn model(self) -> Option<&'a Model> {
        match self {
            Self::OldLexical | Self::Lexical => None,
            Self::Vector(model) | Self::Hybrid(model) => Some(model),
        }
    }

    /// Returns whether a time that a query names affects the ranking.
    pub(crate) fn considers_time(self) -> bool {
        matches!(self, Self::Lexical | Self::Hybrid(_))
    }

    /// Returns the name of the way and its model.
    pub(crate) fn json(self) -> Value {
        let model =
            self.model().map(|model| json!({"name": model.name, "description": model.description}));
        json!({"way": self.name(), "model": model})
    }

    /// Ranks all queries, each in its own store, and measures the rankings.
    pub(crate) fn row(self, parts: &[(&Corpus, &[Query])]) -> Value {
        let mut figures = Figures::default();
        let begun = Instant::now();
        let mut count = 0.0;
        for (corpus, queries) in parts {
            for query in *queries {
                figures.add(query, &corpus.rank(self, &query.text));
                count += 1.0;
            }
        }
        let mut row = self.json();
        row["milliseconds_a_query"] = (begun.elapsed().as_secs_f64() * 1e3 / count).into();
        row["figures"] = figures.json();
        row
    }
}

/// A store with memories.
pub(crate) struct Corpus {
    pub(crate) store: Arc<dyn MemoryStore>,
    baseline: Baseline,
}

impl Corpus {
    /// Opens the store with this name in the cache, where the vectors of an earlier run are reused,
    /// and puts the memories into it.
    pub(crate) fn open(cache: &Path, name: &str, memories: &[Memory]) -> Self {
        let path: PathBuf = cache.join("bench-data").join(format!("{name}.db"));
        let store = SqliteStore::open(&path).expect("a store");
        store.put(memories, OnConflict::Keep).wait().expect("put");
        Self { store: Arc::new(store), baseline: Baseline::open(&path) }
    }

    /// Computes the missing vectors. Returns how many there were and how long it took.
    pub(crate) fn embed(&self, model: &Model) -> Value {
        let begun = Instant::now();
        let mut memories = 0;
        loop {
            match embed_missing(&*self.store, &model.embedder).wait().expect("vectors") {
                0 => break,
                n => memories += n,
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        json!({"model": model.name, "memories": memories, "seconds": seconds})
    }

    /// Returns the ids of the best memories.
    pub(crate) fn rank(&self, way: Way<'_>, query: &str) -> Vec<u128> {
        let results = match way {
            Way::OldLexical => return self.baseline.rank(query, DEPTH),
            Way::Lexical => self.recall(None, query),
            Way::Vector(model) => self.near(model, query),
            Way::Hybrid(model) => self.recall(Some(model), query),
        };
        assert_eq!(results.ranked_by.as_str(), way.name(), "{query}: {:?}", results.warning);
        results.hits.iter().map(|hit| hit.memory.id.as_u128()).collect()
    }

    fn recall(&self, model: Option<&Model>, query: &str) -> SearchResults {
        let mut request = RecallRequest::new(query, now());
        request.limit = Some(DEPTH);
        let embedder = model.map(|model| model.embedder.clone());
        RecallService::new(self.store.clone(), embedder)
            .results(&request)
            .wait()
            .expect("an answer")
    }

    fn near(&self, model: &Model, query: &str) -> SearchResults {
        let mut request = SearchRequest::new(query, now());
        request.mode = Mode::Vector;
        request.limit = Some(DEPTH);
        let service = SearchService::new(self.store.clone(), Some(model.embedder.clone()));
        service.results(&request).wait().expect("an answer")
    }
}

/// The time of every query.
pub(crate) fn now() -> DateTime<Utc> {
    "2026-11-15T12:00:00Z".parse().expect("a time")
}
