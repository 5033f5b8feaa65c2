//! Rank fusion and time decay.

use std::cmp::Ordering;
use std::collections::HashMap;

use mif::MemoryId;

use crate::store::Match;

/// How much the first places of a ranking count against those behind them. The usual value: the two
/// rankings' scores cannot be compared, their places can.
const DAMPING: f64 = 60.0;

/// A memory on its way into the answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) id: MemoryId,
    pub(crate) score: f64,
    pub(crate) lexical: Option<f64>,
    pub(crate) vector: Option<f64>,
    pub(crate) fades: bool,
}

/// Reciprocal rank fusion: each ranking gives a memory `1 / (60 + place)`.
pub(crate) fn fused(lexical: &[Match], vector: &[Match]) -> Vec<Ranked> {
    let mut places: HashMap<u128, usize> = HashMap::with_capacity(lexical.len() + vector.len());
    let mut all: Vec<Ranked> = Vec::with_capacity(lexical.len() + vector.len());
    for (ranking, is_lexical) in [(lexical, true), (vector, false)] {
        for (place, found) in ranking.iter().enumerate() {
            let slot = *places.entry(found.id.as_u128()).or_insert_with(|| {
                all.push(Ranked {
                    id: found.id.clone(),
                    score: 0.0,
                    lexical: None,
                    vector: None,
                    fades: found.fades,
                });
                all.len() - 1
            });
            let ranked = &mut all[slot];
            // Places beyond 2^52 do not occur.
            #[expect(clippy::cast_precision_loss, reason = "a place in a list in memory")]
            let place = place as f64;
            ranked.score += 1.0 / (DAMPING + 1.0 + place);
            *(if is_lexical { &mut ranked.lexical } else { &mut ranked.vector }) =
                Some(found.score);
        }
    }
    all
}

/// The best first, their scores made such that the best has 1.
pub(crate) fn settled(mut ranked: Vec<Ranked>) -> Vec<Ranked> {
    ranked.sort_by(|a, b| order((a.score, &a.id), (b.score, &b.id)));
    let best = ranked.first().map_or(0.0, |first| first.score);
    if best > 0.0 {
        for one in &mut ranked {
            one.score /= best;
        }
    }
    ranked
}

/// The order of answers.
pub(crate) fn order(a: (f64, &MemoryId), b: (f64, &MemoryId)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ids: &[u128]) -> Vec<Match> {
        ids.iter().map(|id| Match::new(MemoryId::from_u128(*id), 1.0, false)).collect()
    }

    #[test]
    fn what_both_rankings_know_comes_first_and_the_best_has_1() {
        let ranked = settled(fused(&found(&[1, 2, 3]), &found(&[3, 4])));
        let ids: Vec<u128> = ranked.iter().map(|one| one.id.as_u128()).collect();
        assert_eq!(ids, [3, 1, 2, 4]);
        assert!((ranked[0].score - 1.0).abs() < f64::EPSILON);
        assert!(ranked.windows(2).all(|two| two[0].score >= two[1].score));
        assert_eq!((ranked[0].lexical, ranked[0].vector), (Some(1.0), Some(1.0)));
        assert_eq!((ranked[1].lexical, ranked[1].vector), (Some(1.0), None));
    }

    #[test]
    fn nothing_found_is_nothing() {
        assert!(settled(fused(&[], &[])).is_empty());
    }
}
