//! Fusion of words and vectors into one score.
//!
//! ```text
//! share = BM25 score / score of a perfect match        from 0 to 1; words that no memory has lower it
//! words = share² / (share + knee)                      few matching words count little, many fully
//! near  = cosine / cosine of the nearest               every candidate has its true cosine
//! score = words + weight · near
//! ```
//!
//! A memory of the time that the query names gains 0.1, also without vectors, where a score is a
//! share.
//!
//! Ranks, as in reciprocal rank fusion, do not say how well the words fit: the best of many bad
//! matches would count as much as a perfect one. Decision 0032 has the alternatives.

use std::cmp::Ordering;
use std::collections::HashMap;

use mif::MemoryId;

use super::MatchedBy;
use super::query::is_unsegmented;
use crate::embed::{FusionWeights, Scripts};
use crate::store::{Matches, MemoryMatch, UNRANKED_SCORE};

/// The number of matches by words that are combined with vectors and with the time that the query
/// names. The words of later matches count only if the memory is not among the nearest, and their
/// vectors and times do not count, so that a score does not depend on the number of candidates.
pub(crate) const COMBINED: usize = 1_000;
/// The weight of the nearest vector for a query in a script that the model does not know.
const UNKNOWN_SCRIPT_WEIGHT: f64 = 0.05;
/// What a memory of the time that the query names gains, relative to a perfect match of words.
const TIME_BONUS: f64 = 0.1;
/// The cosine, relative to the nearest, from which on a memory with matching words also matches by
/// meaning: every vector has some similarity.
const MIN_MEANING: f64 = 0.5;

/// A memory with its combined score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RankedMatch {
    pub(crate) id: MemoryId,
    pub(crate) score: f64,
    pub(crate) lexical: Option<f64>,
    pub(crate) vector: Option<f64>,
    pub(crate) decays: bool,
    /// Whether its times are compared with the time that the query names.
    pub(crate) is_dated: bool,
}

/// The vectors that are compared with a query.
#[derive(Debug)]
pub(crate) struct Nearest {
    /// The memories with the nearest vectors, nearest first.
    best: Vec<MemoryMatch>,
    /// The cosines of other memories.
    others: HashMap<u128, f64>,
    weights: FusionWeights,
    is_known_script: bool,
}

impl Nearest {
    /// Creates the vectors of a model with these weights. `best` are the nearest, `others` the
    /// cosines of further candidates.
    pub(crate) fn new(
        best: Vec<MemoryMatch>,
        others: HashMap<u128, f64>,
        weights: FusionWeights,
        query: &str,
    ) -> Self {
        let is_known_script = weights.scripts == Scripts::Any || is_latin(query);
        Self { best, others, weights, is_known_script }
    }

    /// Returns why a candidate matches. For a script that the model does not know, vectors are a
    /// reason only if there is no other.
    pub(crate) fn matched_by(&self, candidate: &RankedMatch) -> MatchedBy {
        let is_near = self.is_known_script && self.near(candidate.vector) >= MIN_MEANING;
        match candidate.lexical {
            None => MatchedBy::Meaning,
            Some(_) if is_near => MatchedBy::Both,
            Some(_) => MatchedBy::Words,
        }
    }

    /// Returns a cosine relative to the nearest, from 0 on.
    fn near(&self, cosine: Option<f64>) -> f64 {
        let top = self.best.first().map_or(0.0, |nearest| nearest.score);
        cosine.filter(|_| top > 0.0).map_or(0.0, |cosine| (cosine / top).max(0.0))
    }

    fn combine(&self, share: f64, cosine: Option<f64>) -> f64 {
        let near = self.near(cosine);
        if !self.is_known_script {
            return share + UNKNOWN_SCRIPT_WEIGHT * near;
        }
        let words = if share > 0.0 { share * share / (share + self.weights.knee) } else { 0.0 };
        words + self.weights.vector * near
    }
}

/// Returns whether a model of Latin script knows the characters of `text`: none is of a script
/// without spaces, and most letters are Latin.
fn is_latin(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let (latin, others): (Vec<char>, Vec<char>) =
        letters.partition(|c| matches!(c, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}'));
    latin.len() >= others.len() && !text.chars().any(is_unsegmented)
}

/// Returns the score of a perfect match, or of the best if it is unknown.
fn full_score(matches: &Matches) -> f64 {
    if matches.full_score > 0.0 {
        matches.full_score
    } else {
        matches.best.first().map_or(0.0, |best| best.score)
    }
}

/// Returns the share of a perfect match that a score is.
fn share(matches: &Matches, score: f64) -> f64 {
    let full = full_score(matches);
    if full > 0.0 { (score / full).clamp(0.0, 1.0) } else { 0.0 }
}

/// Returns what a memory of the time that the query names gains, in the scale of [`fuse`].
pub(crate) fn time_bonus(matches: &Matches, near: Option<&Nearest>) -> f64 {
    if near.is_some() { TIME_BONUS } else { TIME_BONUS * full_score(matches) }
}

/// Returns whether the match by words at this place is combined with vectors and times. Matches
/// without a rank are not, because whether there are any depends on the number of candidates.
fn is_combined(place: usize, found: &MemoryMatch) -> bool {
    place < COMBINED && found.score > UNRANKED_SCORE
}

/// Combines the matches by words and the nearest vectors, in no particular order. Without vectors
/// the score is that of the words.
pub(crate) fn fuse(matches: &Matches, near: Option<&Nearest>) -> Vec<RankedMatch> {
    let of_words = |n: usize, found: &MemoryMatch, score: f64, vector: Option<f64>| RankedMatch {
        id: found.id.clone(),
        score,
        lexical: Some(found.score),
        vector,
        decays: found.decays,
        is_dated: is_combined(n, found) || vector.is_some(),
    };
    let Some(near) = near else {
        let ranked = matches.best.iter().enumerate();
        return ranked.map(|(n, found)| of_words(n, found, found.score, None)).collect();
    };
    let mut nearest: HashMap<u128, &MemoryMatch> =
        near.best.iter().map(|found| (found.id.as_u128(), found)).collect();
    let mut all = Vec::with_capacity(matches.best.len() + near.best.len());
    for (n, found) in matches.best.iter().enumerate() {
        let id = found.id.as_u128();
        let mut share = share(matches, found.score);
        let mut cosine = nearest.remove(&id).map(|near| near.score);
        if is_combined(n, found) {
            cosine = cosine.or_else(|| near.others.get(&id).copied());
        } else if cosine.is_some() {
            share = 0.0;
        }
        all.push(of_words(n, found, near.combine(share, cosine), cosine));
    }
    // In the order of the ranking, not of the map.
    for found in near.best.iter().filter(|found| nearest.contains_key(&found.id.as_u128())) {
        all.push(RankedMatch {
            id: found.id.clone(),
            score: near.combine(0.0, Some(found.score)),
            lexical: None,
            vector: Some(found.score),
            decays: found.decays,
            is_dated: true,
        });
    }
    all
}

/// Returns whether the first `limit` of a sorted ranking stay the same however many more matches by
/// words are ranked: no other match can have the score of the last of them.
pub(crate) fn is_settled(
    ranked: &[RankedMatch],
    matches: &Matches,
    near: Option<&Nearest>,
    limit: usize,
) -> bool {
    let Some(last) = limit.checked_sub(1) else { return true };
    let (Some(last), Some(worst)) = (ranked.get(last), matches.best.last()) else { return false };
    let bound = match near {
        None => worst.score,
        Some(near) => near.combine(share(matches, worst.score), None),
    };
    last.score > bound
}

/// Scales the scores of a sorted ranking so that the best is 1.
pub(crate) fn scale_scores(ranked: &mut [RankedMatch]) {
    let best = ranked.first().map_or(0.0, |first| first.score);
    if best > 0.0 {
        for one in ranked {
            one.score /= best;
        }
    }
}

/// The sort order of hits: score descending, then id.
pub(crate) fn compare_hits(a: (f64, &MemoryId), b: (f64, &MemoryId)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(scores: &[(u128, f64)]) -> Vec<MemoryMatch> {
        let found = |&(id, score)| MemoryMatch::new(MemoryId::from_u128(id), score, false);
        scores.iter().map(found).collect()
    }

    /// Matches by words with these shares.
    fn words(shares: &[(u128, f64)]) -> Matches {
        let total = shares.len() as u64;
        Matches::new(found(shares), total).with_statistics(1.0, Vec::new())
    }

    fn near(best: &[(u128, f64)], others: &[(u128, f64)], query: &str) -> Nearest {
        let weights = FusionWeights { scripts: Scripts::Latin, ..FusionWeights::default() };
        Nearest::new(found(best), others.iter().copied().collect(), weights, query)
    }

    fn order(matches: &Matches, near: Option<&Nearest>) -> Vec<u128> {
        let mut ranked = fuse(matches, near);
        ranked.sort_by(|a, b| compare_hits((a.score, &a.id), (b.score, &b.id)));
        scale_scores(&mut ranked);
        assert!(ranked.first().is_none_or(|best| (best.score - 1.0).abs() < f64::EPSILON));
        ranked.iter().map(|one| one.id.as_u128()).collect()
    }

    #[test]
    fn a_good_match_of_words_beats_the_nearest_vector() {
        let near = near(&[(2, 0.6), (1, 0.3)], &[], "query");
        assert_eq!(order(&words(&[(1, 0.7)]), Some(&near)), [1, 2]);
        let ranked = fuse(&words(&[(1, 0.7)]), Some(&near));
        assert_eq!((ranked[0].lexical, ranked[0].vector), (Some(0.7), Some(0.3)));
        assert_eq!((ranked[1].lexical, ranked[1].vector), (None, Some(0.6)));
    }

    #[test]
    fn the_nearest_vector_beats_a_stray_word() {
        let near = near(&[(2, 0.45)], &[(1, 0.3)], "query");
        assert_eq!(order(&words(&[(1, 0.08)]), Some(&near)), [2, 1]);
    }

    #[test]
    fn matches_of_words_without_a_vector_keep_their_order() {
        let near = near(&[(9, 0.5)], &[(3, -0.2)], "query");
        assert_eq!(order(&words(&[(1, 0.5), (2, 0.4), (3, 0.3)]), Some(&near)), [1, 2, 9, 3]);
        assert_eq!(order(&words(&[(1, 0.5), (2, 0.4)]), None), [1, 2]);
        assert!(order(&Matches::default(), None).is_empty());
    }

    #[test]
    fn scripts_that_the_model_does_not_know_are_ranked_by_words() {
        let matches = words(&[(1, 0.08)]);
        let best = [(2, 0.45), (1, 0.1)];
        assert_eq!(order(&matches, Some(&near(&best, &[], "数据库"))), [1, 2]);
        assert_eq!(order(&matches, Some(&near(&best, &[], "Настройка базы"))), [1, 2]);
        assert_eq!(order(&matches, Some(&near(&best, &[], "café au lait"))), [2, 1]);
    }

    #[test]
    fn a_match_says_why() {
        use MatchedBy::{Both, Meaning, Words};

        let matches = words(&[(1, 0.5), (2, 0.4), (3, 0.3)]);
        let reasons = |query: &str| {
            let near = near(&[(4, 0.6), (1, 0.4)], &[(2, 0.29)], query);
            let mut ranked = fuse(&matches, Some(&near));
            ranked.sort_by(|a, b| a.id.cmp(&b.id));
            ranked.iter().map(|one| near.matched_by(one)).collect::<Vec<_>>()
        };
        assert_eq!(reasons("query"), [Both, Words, Words, Meaning]);
        assert_eq!(reasons("数据库"), [Words, Words, Words, Meaning]);
    }

    #[test]
    fn a_page_is_settled_if_no_other_match_can_enter_it() {
        let settled = |shares: &[(u128, f64)], near: Option<&Nearest>, limit| {
            let matches = words(shares);
            let mut ranked = fuse(&matches, near);
            ranked.sort_by(|a, b| compare_hits((a.score, &a.id), (b.score, &b.id)));
            is_settled(&ranked, &matches, near, limit)
        };
        let shares = [(1, 0.9), (2, 0.5), (3, 0.5), (4, 0.5)];
        assert!(settled(&shares, None, 1) && settled(&shares, None, 0));
        assert!(!settled(&shares, None, 2), "a fifth may have the same score");
        assert!(!settled(&shares, None, 5), "there may be a fifth");
        let near = near(&[(8, 0.5), (9, 0.4)], &[], "query");
        assert!(settled(&[(1, 0.9), (2, 0.1)], Some(&near), 3));
        assert!(!settled(&[(1, 0.9), (2, 0.1)], Some(&near), 4));
    }

    #[test]
    fn a_score_does_not_depend_on_the_number_of_candidates() {
        let shares: Vec<(u128, f64)> = (1..=1_500)
            .map(|id| (id, 0.5 / f64::from(u32::try_from(id).expect("small"))))
            .collect();
        let near = near(&[(1_200, 0.5), (1_001, 0.4), (10, 0.3)], &[], "query");
        let score = |candidates: usize, id: u128| {
            let ranked = fuse(&words(&shares[..candidates]), Some(&near));
            let one = ranked.iter().find(|one| one.id.as_u128() == id).expect("a candidate");
            (one.score.to_bits(), one.is_dated)
        };
        for id in [1, 10, 1_001, 1_200] {
            assert_eq!(score(1_000, id), score(1_500, id), "{id}");
        }
        assert!(score(1_500, 1_200).1, "one of the nearest");
        assert!(!score(1_500, 1_100).1, "it is no candidate of a smaller ranking");
    }

    #[test]
    fn a_named_time_counts_a_tenth_of_a_perfect_match() {
        let (matches, near) = (words(&[(1, 0.5)]), near(&[(2, 0.5)], &[], "query"));
        let mut of_engine = matches.clone();
        of_engine.full_score = 40.0;
        let bonuses = [
            (time_bonus(&matches, Some(&near)), 0.1),
            (time_bonus(&of_engine, Some(&near)), 0.1),
            (time_bonus(&of_engine, None), 4.0),
            (time_bonus(&Matches::new(found(&[(1, 3.0)]), 1), None), 0.3),
            (time_bonus(&Matches::default(), None), 0.0),
        ];
        for (bonus, expected) in bonuses {
            assert!((bonus - expected).abs() < 1e-12, "{bonus} {expected}");
        }
    }
}
