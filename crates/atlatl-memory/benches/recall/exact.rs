//! Exact BM25 over all memories of a tenant, with the words, weights of fields and constants of the
//! stores.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use atlatl_memory::{MemoryMatch, Need};

use crate::memories::{self, Attributes, Corpus, OTHER_WORD};
use crate::queries::Query;

/// The number of best matches that are compared.
pub(crate) const COMPARED: usize = 10;
const K1: f64 = 1.2;
const B: f64 = 0.75;
const MIN_IDF: f64 = 1e-6;
/// The maximum number of occurrences that count.
const MAX_COUNT: u32 = 255;
/// Scores that differ by less, in proportion, are equal: sums depend on their order.
const TIE: f64 = 1e-9;

/// The words of all memories.
#[derive(Default)]
pub(crate) struct ExactIndex {
    words: Vec<u32>,
    /// Where the words of each memory end.
    ends: Vec<usize>,
    lengths: Vec<u32>,
    pub(crate) attributes: Vec<Attributes>,
    /// The number of memories that contain each word.
    frequencies: Vec<u32>,
    total_len: u64,
}

/// The memories that contain each word, with the number of occurrences.
pub(crate) type Postings = HashMap<u32, Vec<(u32, u32)>>;

impl ExactIndex {
    /// Adds the memories of a range.
    pub(crate) fn extend(&mut self, corpus: &Corpus, range: Range<usize>) {
        assert_eq!(self.len(), range.start, "memories are added in order");
        self.frequencies.resize(corpus.text.vocabulary_len(), 0);
        let mut distinct: Vec<u32> = Vec::new();
        for n in range {
            let begin = self.words.len();
            let (length, attributes) = corpus.words(n, &mut self.words);
            self.ends.push(self.words.len());
            self.lengths.push(u32::try_from(length).expect("few words"));
            self.attributes.push(attributes);
            self.total_len += length as u64;
            distinct.clear();
            distinct.extend(self.words[begin..].iter().filter(|word| **word != OTHER_WORD));
            distinct.sort_unstable();
            distinct.dedup();
            for word in &distinct {
                self.frequencies[*word as usize] += 1;
            }
        }
    }

    /// The number of memories.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The mean number of words of a memory.
    #[expect(clippy::cast_precision_loss, reason = "fewer words than an `f64` counts exactly")]
    pub(crate) fn mean_len(&self) -> f64 {
        self.total_len as f64 / self.len().max(1) as f64
    }

    /// The number of memories that contain a word.
    pub(crate) fn frequency(&self, word: u32) -> usize {
        self.frequencies.get(word as usize).map_or(0, |frequency| *frequency as usize)
    }

    /// The words of a memory in their order, with borders between fields.
    pub(crate) fn words(&self, n: usize) -> &[u32] {
        let begin = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.words[begin..self.ends[n]]
    }

    /// Finds the memories of all words of some queries.
    pub(crate) fn postings(&self, queries: &[Query]) -> Postings {
        let wanted: BTreeSet<u32> =
            queries.iter().flat_map(|query| query.units.iter().flatten().copied()).collect();
        let mut is_wanted = vec![false; self.frequencies.len()];
        for &word in &wanted {
            is_wanted[word as usize] = true;
        }
        let mut postings: Postings = wanted.iter().map(|&word| (word, Vec::new())).collect();
        let mut hits = Vec::new();
        for n in 0..self.len() {
            hits.clear();
            let words = self.words(n).iter().copied();
            hits.extend(words.filter(|&word| word != OTHER_WORD && is_wanted[word as usize]));
            hits.sort_unstable();
            for same in hits.chunk_by(|a, b| a == b) {
                let list = postings.get_mut(&same[0]).expect("a wanted word");
                list.push((number(n), number(same.len()).min(MAX_COUNT)));
            }
        }
        postings
    }

    /// Returns the memories that contain the words of a unit in sequence, with the number of
    /// occurrences.
    fn occurrences(&self, unit: &[u32], postings: &Postings) -> Vec<(u32, u32)> {
        let list = |word: &u32| postings.get(word).map_or(&[][..], Vec::as_slice);
        match unit {
            [] => Vec::new(),
            [word] => list(word).to_vec(),
            words => {
                let shortest = words.iter().map(list).min_by_key(|list| list.len());
                let count = |n: u32| {
                    let runs = self.words(n as usize).windows(words.len());
                    number(runs.filter(|run| *run == words).count())
                };
                let shortest = shortest.unwrap_or_default().iter();
                shortest.map(|&(n, _)| (n, count(n))).filter(|(_, count)| *count > 0).collect()
            }
        }
    }

    /// Finds the best matches of a query.
    pub(crate) fn best(&self, query: &Query, postings: &Postings) -> ExactAnswer {
        let mean_len = self.mean_len();
        let mut scores = vec![0.0_f64; self.len()];
        let mut matched = vec![0_usize; self.len()];
        for unit in &query.units {
            let found = self.occurrences(unit, postings);
            let idf = idf(self.len(), found.len());
            for (n, count) in found {
                let n = n as usize;
                let count = f64::from(count);
                let norm = K1 * (1.0 - B + B * f64::from(self.lengths[n]) / mean_len);
                scores[n] += idf * (K1 + 1.0) * count / (count + norm);
                matched[n] += 1;
            }
        }
        let required = if query.terms.need == Need::All { query.units.len() } else { 1 };
        let is_match = |n: &usize| {
            matched[*n] >= required && query.restriction.admits(*n, &self.attributes[*n])
        };
        let matching: Vec<usize> = (0..self.len()).filter(is_match).collect();
        let mut best: Vec<f64> = matching.iter().map(|&n| scores[n]).collect();
        best.sort_unstable_by(|a, b| b.total_cmp(a));
        best.truncate(COMPARED);
        let least = best.last().copied().unwrap_or_default() * (1.0 - TIE);
        let right = matching.into_iter().filter(|&n| scores[n] >= least).collect();
        ExactAnswer { expected: best.len(), right }
    }
}

/// The best matches of a query.
pub(crate) struct ExactAnswer {
    /// The number of best matches, at most [`COMPARED`].
    pub(crate) expected: usize,
    /// The numbers of the memories that score as much as the last of them, or more.
    right: HashSet<usize>,
}

impl ExactAnswer {
    /// Returns the share of the best matches that are the first ones of `found`.
    #[expect(clippy::cast_precision_loss, reason = "at most ten")]
    pub(crate) fn overlap(&self, found: &[MemoryMatch]) -> f64 {
        let first = found.iter().take(COMPARED).map(|one| memories::number(&one.id));
        let right = first.filter(|n| self.right.contains(n)).count();
        right.min(self.expected) as f64 / self.expected.max(1) as f64
    }
}

/// Returns the inverse document frequency of a unit.
#[expect(clippy::cast_precision_loss, reason = "fewer memories than an `f64` counts exactly")]
fn idf(memories: usize, frequency: usize) -> f64 {
    let without = memories.saturating_sub(frequency) as f64;
    ((without + 0.5) / (frequency as f64 + 0.5)).ln().max(MIN_IDF)
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("fewer memories than a u32 counts")
}
