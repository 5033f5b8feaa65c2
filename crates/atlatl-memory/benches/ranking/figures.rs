//! Graded queries, and the quality measures of their rankings with bootstrap intervals.

use std::collections::HashMap;

use serde_json::{Value, json};
use testkit::SplitMix64;

/// The cutoff rank of every ranking.
pub(crate) const DEPTH: usize = 50;
/// The rank up to which nDCG counts.
const NDCG_DEPTH: usize = 10;
/// The number of resampled sets of queries from which an interval is taken.
const SAMPLES: usize = 2_000;
/// The names of the measures, in the order of [`Measures`].
const NAMES: [&str; 9] = [
    "recall_1",
    "recall_5",
    "recall_10",
    "recall_50",
    "mrr",
    "ndcg_10",
    "any_5",
    "any_10",
    "any_20",
];

/// A query with the memories that it should find.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) kind: String,
    /// Grades by memory: 2 answers the query, 1 is related.
    pub(crate) relevant: HashMap<u128, u8>,
}

impl Query {
    /// Returns whether the query has Chinese, Japanese or Korean characters.
    pub(crate) fn is_cjk(&self) -> bool {
        self.text
            .chars()
            .any(|c| matches!(u32::from(c), 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xAC00..=0xD7AF))
    }
}

/// The measures of one ranking, from 0 to 1 each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measures([f64; NAMES.len()]);

impl Measures {
    /// Compares the ids of a ranking, best first, with the grades of the query. Recall counts both
    /// grades.
    #[expect(clippy::cast_precision_loss, reason = "a handful of memories and 50 ranks")]
    pub(crate) fn from_ranking(query: &Query, ranking: &[u128]) -> Self {
        let is_relevant = |id: &u128| query.relevant.contains_key(id);
        let recall = |depth: usize| {
            let found = ranking.iter().take(depth).filter(|id| is_relevant(id)).count();
            found as f64 / query.relevant.len() as f64
        };
        let first = ranking.iter().take(DEPTH).position(is_relevant);
        let any = |depth: usize| f64::from(first.is_some_and(|place| place < depth));
        Self([
            recall(1),
            recall(5),
            recall(10),
            recall(DEPTH),
            first.map_or(0.0, |place| 1.0 / (place as f64 + 1.0)),
            ndcg(query, ranking),
            any(5),
            any(10),
            any(20),
        ])
    }

    /// Returns the measure with this name.
    pub(crate) fn get(&self, name: &str) -> f64 {
        NAMES.iter().position(|one| *one == name).map_or(f64::NAN, |at| self.0[at])
    }
}

/// nDCG: gains are `2^grade - 1`, discounted by the logarithm of the rank, relative to the ideal
/// order.
fn ndcg(query: &Query, ranking: &[u128]) -> f64 {
    let gain = |grades: &mut dyn Iterator<Item = u8>| {
        let discounted = grades
            .take(NDCG_DEPTH)
            .zip(2_u32..)
            .map(|(grade, place)| (f64::from(grade).exp2() - 1.0) / f64::from(place).log2());
        discounted.sum::<f64>()
    };
    let mut best: Vec<u8> = query.relevant.values().copied().collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    let grade = |id: &u128| query.relevant.get(id).copied().unwrap_or(0);
    gain(&mut ranking.iter().map(grade)) / gain(&mut best.into_iter())
}

/// The measures of one way of ranking, by query.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<Measured>);

#[derive(Debug)]
struct Measured {
    kind: String,
    is_cjk: bool,
    measures: Measures,
}

impl Figures {
    pub(crate) fn add(&mut self, query: &Query, ranking: &[u128]) {
        let measures = Measures::from_ranking(query, ranking);
        self.0.push(Measured { kind: query.kind.clone(), is_cjk: query.is_cjk(), measures });
    }

    /// Returns the means of all queries, of each kind, and of the queries in CJK if there are any.
    pub(crate) fn json(&self) -> Value {
        let mut kinds: Vec<&str> = self.0.iter().map(|one| one.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut figures = json!({"all": self.mean(|_| true)});
        for kind in kinds {
            figures[kind] = self.mean(|one| one.kind == kind);
        }
        if self.0.iter().any(|one| one.is_cjk) {
            figures["cjk"] = self.mean(|one| one.is_cjk);
        }
        figures
    }

    /// Returns the mean of each measure, and the bounds that contain it in 95 % of the
    /// resampled sets of queries.
    fn mean(&self, take: impl Fn(&Measured) -> bool) -> Value {
        let taken: Vec<Measures> =
            self.0.iter().filter(|one| take(one)).map(|one| one.measures).collect();
        let mut random = SplitMix64::new(1);
        let samples: Vec<Measures> =
            (0..SAMPLES).map(|_| mean((0..taken.len()).map(|_| *random.pick(&taken)))).collect();
        let whole = mean(taken.iter().copied());
        let mut figures = json!({"queries": taken.len()});
        for (at, name) in NAMES.into_iter().enumerate() {
            let mut resampled: Vec<f64> = samples.iter().map(|sample| sample.0[at]).collect();
            resampled.sort_by(f64::total_cmp);
            let tail = SAMPLES / 40;
            figures[name] = whole.0[at].into();
            figures[format!("{name}_ci")] = json!([resampled[tail], resampled[SAMPLES - 1 - tail]]);
        }
        figures
    }
}

/// Returns the mean of each measure.
pub(crate) fn mean(all: impl Iterator<Item = Measures>) -> Measures {
    let (mut sums, mut count) = ([0.0; NAMES.len()], 0.0);
    for one in all {
        for (sum, value) in sums.iter_mut().zip(one.0) {
            *sum += value;
        }
        count += 1.0;
    }
    Measures(sums.map(|sum| sum / count))
}
