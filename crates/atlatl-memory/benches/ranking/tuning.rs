//! Cross-validation of the two constants by which words and vectors are combined.
//!
//! The constants are chosen on four fifths of the queries of this repository and measured on the
//! fifth that was left out. Public sets take no part. Queries in CJK are left out: a model of
//! Latin script weighs little there, whatever the constants are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use atlatl_memory::{EmbedError, Embedder, FusionWeights};
use serde_json::{Value, json};

use crate::figures::{Measures, Query, mean};
use crate::ways::{Corpus, Model, Way};

const FOLDS: usize = 5;
const KNEES: [f64; 4] = [0.03, 0.05, 0.07, 0.1];
const VECTOR_WEIGHTS: [f64; 6] = [0.2, 0.25, 0.3, 0.35, 0.4, 0.5];

/// The share of a query's words below which a match counts less than proportionally, and the weight
/// of the nearest vector relative to a perfect match of words.
#[derive(Clone, Copy)]
struct Setting {
    knee: f64,
    vector: f64,
}

/// Cross-validates over the queries of all `parts` together.
pub(crate) fn cross_validate(model: &Model, parts: &[(&Corpus, &[Query])]) -> Value {
    let settings: Vec<Setting> = KNEES
        .into_iter()
        .flat_map(|knee| VECTOR_WEIGHTS.map(|vector| Setting { knee, vector }))
        .collect();
    let vectors = Arc::default();
    let models: Vec<Model> = settings
        .iter()
        .map(|&setting| {
            let embedder = model.embedder.clone();
            model.with_embedder(Arc::new(Weighted {
                embedder,
                setting,
                vectors: Arc::clone(&vectors),
            }))
        })
        .collect();
    // For each query the measures of every setting.
    let measured: Vec<Vec<Measures>> = parts
        .iter()
        .flat_map(|(corpus, queries)| queries.iter().map(move |query| (*corpus, query)))
        .filter(|(_, query)| !query.is_cjk())
        .map(|(corpus, query)| {
            let rank = |model| corpus.rank(Way::Hybrid(model), &query.text);
            models.iter().map(|model| Measures::from_ranking(query, &rank(model))).collect()
        })
        .collect();
    let over = |setting: usize, take: &dyn Fn(usize) -> bool| {
        let rows = measured.iter().enumerate().filter(|(query, _)| take(query % FOLDS));
        mean(rows.map(|(_, row)| row[setting]))
    };
    let quality = |measures: Measures| measures.get("recall_10") + measures.get("ndcg_10");
    let chosen: Vec<usize> = (0..FOLDS)
        .map(|fold| {
            let others = |setting: usize| quality(over(setting, &|of| of != fold));
            (0..settings.len())
                .max_by(|a, b| others(*a).total_cmp(&others(*b)))
                .expect("there are settings")
        })
        .collect();
    let held_out = mean(measured.iter().enumerate().map(|(query, row)| row[chosen[query % FOLDS]]));
    let report = |setting: Setting, measures: Measures| {
        json!({
            "knee": setting.knee,
            "vector": setting.vector,
            "recall_10": measures.get("recall_10"),
            "ndcg_10": measures.get("ndcg_10"),
        })
    };
    json!({
        "model": model.name,
        "queries": measured.len(),
        "folds": chosen.iter().enumerate()
            .map(|(fold, setting)| report(settings[*setting], over(*setting, &|of| of == fold)))
            .collect::<Vec<_>>(),
        "held_out": {
            "recall_10": held_out.get("recall_10"),
            "ndcg_10": held_out.get("ndcg_10"),
        },
        "settings": settings.iter().enumerate()
            .map(|(at, setting)| report(*setting, over(at, &|_| true)))
            .collect::<Vec<_>>(),
    })
}

/// The embedder of a model with other weights, and the vectors of the queries so far.
struct Weighted {
    embedder: Arc<dyn Embedder>,
    setting: Setting,
    vectors: Arc<Mutex<HashMap<String, Vec<f32>>>>,
}

impl Embedder for Weighted {
    fn model(&self) -> &str {
        self.embedder.model()
    }

    fn dimensions(&self) -> usize {
        self.embedder.dimensions()
    }

    fn fusion(&self) -> FusionWeights {
        let mut weights = self.embedder.fusion();
        weights.knee = self.setting.knee;
        weights.vector = self.setting.vector;
        weights
    }

    fn knows_word(&self, word: &str) -> bool {
        self.embedder.knows_word(word)
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embedder.embed(texts)
    }

    fn embed_query(&self, query: &str) -> Result<Vec<f32>, EmbedError> {
        let mut vectors = self.vectors.lock().expect("no panic");
        if let Some(vector) = vectors.get(query) {
            return Ok(vector.clone());
        }
        let vector = self.embedder.embed_query(query)?;
        vectors.insert(query.to_owned(), vector.clone());
        Ok(vector)
    }
}
