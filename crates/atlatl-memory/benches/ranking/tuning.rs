//! Cross-validation of the two constants by which words and vectors are combined.
//!
//! The constants are chosen on four fifths of the queries of this repository and measured on the
//! fifth that was left out. Public sets take no part. Queries in CJK are left out: a model of
//! Latin script weighs little there, whatever the constants are.

use std::collections::HashMap;

use atlatl_memory::{Filter, MAX_HITS, Need, Terms};
use serde_json::{Value, json};

use crate::figures::{DEPTH, Measures, Query, mean};
use crate::ways::{Corpus, Model, now};

const FOLDS: usize = 5;
/// The nearest memories that are candidates whatever their words.
const NEAREST: usize = 200;
const KNEES: [f64; 4] = [0.03, 0.05, 0.07, 0.1];
const VECTOR_WEIGHTS: [f64; 6] = [0.2, 0.25, 0.3, 0.35, 0.4, 0.5];

/// The share of a query's words below which a match counts less than proportionally, and the weight
/// of the nearest vector relative to a perfect match of words.
#[derive(Clone, Copy)]
struct Setting {
    knee: f64,
    vector: f64,
}

/// A memory with its share of a perfect match by words, and its cosine relative to the nearest.
struct Candidate {
    id: u128,
    share: f64,
    near: f64,
}

/// Cross-validates over the queries of all `parts` together.
pub(crate) fn cross_validate(model: &Model, parts: &[(&Corpus, &[Query], usize)]) -> Value {
    let settings: Vec<Setting> = KNEES
        .into_iter()
        .flat_map(|knee| VECTOR_WEIGHTS.map(|vector| Setting { knee, vector }))
        .collect();
    // For each query the measures of every setting.
    let measured: Vec<Vec<Measures>> = parts
        .iter()
        .flat_map(|(corpus, queries, memories)| {
            queries.iter().map(move |query| (*corpus, query, *memories))
        })
        .filter(|(_, query, _)| !query.is_cjk())
        .map(|(corpus, query, memories)| {
            let candidates = candidates(corpus, model, query, memories);
            let measures =
                |setting: &Setting| Measures::from_ranking(query, &ranking(&candidates, *setting));
            settings.iter().map(measures).collect()
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

fn ranking(candidates: &[Candidate], setting: Setting) -> Vec<u128> {
    let score = |one: &Candidate| {
        let words =
            if one.share > 0.0 { one.share.powi(2) / (one.share + setting.knee) } else { 0.0 };
        words + setting.vector * one.near
    };
    let mut scored: Vec<(f64, u128)> = candidates.iter().map(|one| (score(one), one.id)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scored.into_iter().take(DEPTH).map(|(_, id)| id).collect()
}

/// Returns all memories that match by words, and the nearest ones.
fn candidates(corpus: &Corpus, model: &Model, query: &Query, memories: usize) -> Vec<Candidate> {
    let (filter, terms) = (Filter::default(), Terms::parse(&query.text, Need::Any));
    let words = corpus.store.lexical(&terms, &filter, MAX_HITS, now()).expect("an answer");
    let full_score = full_score(corpus, &terms, memories);
    let vector = model.embedder.embed_query(&query.text).expect("a vector");
    let nearest = corpus
        .store
        .nearest(model.embedder.model(), &vector, &filter, memories, now())
        .expect("an answer");
    let top = nearest.first().map_or(1.0, |first| first.score);
    let mut shares: HashMap<u128, f64> = words
        .best
        .iter()
        .map(|one| (one.id.as_u128(), (one.score / full_score).min(1.0)))
        .collect();
    nearest
        .iter()
        .enumerate()
        .filter_map(|(place, one)| {
            let id = one.id.as_u128();
            let share = shares.remove(&id);
            let is_candidate = place < NEAREST || share.is_some();
            let near = (one.score / top).max(0.0);
            is_candidate.then(|| Candidate { id, share: share.unwrap_or_default(), near })
        })
        .collect()
}

/// Returns the BM25 score of a memory that contains all phrases often: `k1 + 1` times the sum of
/// their weights. Phrases that no memory contains count too.
#[expect(clippy::cast_precision_loss, reason = "thousands of memories")]
fn full_score(corpus: &Corpus, terms: &Terms, memories: usize) -> f64 {
    let weights = terms.phrases.iter().map(|phrase| {
        let mut one = terms.clone();
        one.phrases = vec![phrase.clone()];
        let found = corpus.store.lexical(&one, &Filter::default(), 1, now()).expect("an answer");
        let (all, with) = (memories as f64, found.total as f64);
        ((all - with + 0.5) / (with + 0.5)).ln().max(1e-6)
    });
    2.2 * weights.sum::<f64>()
}
