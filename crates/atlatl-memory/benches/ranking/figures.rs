//! Quality measures of a ranking.

use serde_json::{Value, json};

use crate::collection::Query;

const DEPTH: usize = 10;
/// The cutoff rank.
pub(crate) const FOUND: usize = 50;

/// The measures of one ranking, over all queries and by kind.
#[derive(Default)]
pub(crate) struct Figures(Vec<(String, bool, f64, f64)>);

impl Figures {
    pub(crate) fn add(&mut self, query: &Query, ranking: &[u128]) {
        let cjk = query.text.chars().any(is_cjk);
        self.0.push((query.kind.clone(), cjk, ndcg(query, ranking), recall(query, ranking)));
    }

    pub(crate) fn json(&self) -> Value {
        let mut figures = json!({"all": self.mean(|_, _| true), "cjk": self.mean(|_, cjk| cjk)});
        for kind in ["keyword", "question", "paraphrase"] {
            figures[kind] = self.mean(|of, _| of == kind);
        }
        figures
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean over hundreds")]
    fn mean(&self, take: impl Fn(&str, bool) -> bool) -> Value {
        let taken: Vec<_> = self.0.iter().filter(|(kind, cjk, ..)| take(kind, *cjk)).collect();
        let n = taken.len().max(1) as f64;
        json!({
            "queries": taken.len(),
            "ndcg_10": taken.iter().map(|one| one.2).sum::<f64>() / n,
            "recall_50": taken.iter().map(|one| one.3).sum::<f64>() / n,
        })
    }
}

/// nDCG: gains are `2^grade - 1`, discounted by the logarithm of the rank, relative to the ideal
/// order.
fn ndcg(query: &Query, ranking: &[u128]) -> f64 {
    let gain = |grades: &mut dyn Iterator<Item = u8>| {
        let discounted = grades
            .take(DEPTH)
            .zip(2_u32..)
            .map(|(grade, place)| (f64::from(grade).exp2() - 1.0) / f64::from(place).log2());
        discounted.sum::<f64>()
    };
    let mut best: Vec<u8> = query.relevant.values().copied().collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    let grade = |id: &u128| query.relevant.get(id).copied().unwrap_or(0);
    gain(&mut ranking.iter().map(grade)) / gain(&mut best.into_iter())
}

/// Recall: the share of relevant memories of either grade among the first hits.
#[expect(clippy::cast_precision_loss, reason = "a handful")]
fn recall(query: &Query, ranking: &[u128]) -> f64 {
    let first = &ranking[..ranking.len().min(FOUND)];
    let found = query.relevant.keys().filter(|id| first.contains(id)).count();
    found as f64 / query.relevant.len() as f64
}

/// Chinese, Japanese or Korean.
fn is_cjk(c: char) -> bool {
    matches!(u32::from(c), 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xAC00..=0xD7AF)
}
