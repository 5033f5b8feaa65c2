//! Correction of words that no memory contains, by one edit.
//!
//! The index contains stems, and an edit of a word is not always one edit of its stem: `deplyo` is
//! one edit from `deploy`, whose stem is `deploi`. So the edits of the word as written are looked up
//! in the index, some hundred for a word. That needs no vocabulary beside the index, which would
//! have to be kept in step and would outlive deleted memories.
//!
//! A word that no memory contains may also be right. If the embedding model has a token for it, it is
//! not corrected: its vector says more than a word of similar spelling.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::query::{Need, Phrase, Terms, is_unsegmented};
use super::time_expression::is_time_word;
use super::tokenizer::tokenize;
use crate::embed::Embedder;
use crate::store::{MemoryStore, StoreError};

/// The lengths of words that are corrected, in characters.
const LENGTHS: RangeInclusive<usize> = 3..=24;
/// The minimum length of words that are corrected if other words of the query match. A shorter word
/// is similar to too many others: the correction would match more than it helps.
const MIN_LEN_AMONG_OTHERS: usize = 5;
/// The minimum length of words for which letters are replaced and removed.
const MIN_LEN_FOR_ALL_EDITS: usize = 4;
/// The maximum number of words of a query that are corrected.
const MAX_CORRECTED: usize = 4;
/// The maximum number of words that replace one.
const MAX_REPLACEMENTS: usize = 2;
/// Higher frequencies count as equal.
const FREQUENCY_CAP: u64 = 1_000;

/// A word that no memory contains, and the words that were searched in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Correction {
    /// The word as it was written.
    pub written: String,
    /// The words that were searched instead, most likely first.
    pub used: Vec<String>,
}

/// Replaces the unknown words of a query by similar words that memories contain. `unknown` are the
/// indexes of the phrases that no memory contains; words that the embedder knows stay. Returns
/// `None` if there is nothing to replace.
pub(crate) async fn correct(
    store: &dyn MemoryStore,
    terms: &Terms,
    unknown: &[usize],
    embedder: Option<&dyn Embedder>,
) -> Result<Option<(Terms, Vec<Correction>)>, StoreError> {
    let has_others = terms.need == Need::Any && unknown.len() < terms.phrases.len();
    let mut corrected = terms.clone();
    let mut corrections = Vec::new();
    let is_right =
        |word: &str| embedder.is_some_and(|embedder| embedder.knows_word(&word.to_lowercase()));
    let is_candidate = |&&index: &&usize| {
        terms
            .phrases
            .get(index)
            .is_some_and(|phrase| is_correctable(phrase, has_others) && !is_right(&phrase.words))
    };
    for &index in unknown.iter().filter(is_candidate).take(MAX_CORRECTED) {
        let phrase = &mut corrected.phrases[index];
        let used = replacements(store, &phrase.words, has_others).await?;
        if !used.is_empty() {
            phrase.alternatives.clone_from(&used);
            corrections.push(Correction { written: phrase.words.clone(), used });
        }
    }
    Ok((!corrections.is_empty()).then_some((corrected, corrections)))
}

/// Returns whether a phrase is one word of letters, not quoted, of a fitting length. The words of
/// time expressions are right although no memory contains them: `march` is not meant as `match`.
fn is_correctable(phrase: &Phrase, has_others: bool) -> bool {
    let length = phrase.words.chars().count();
    let is_word = |c: char| c.is_alphabetic() && !is_unsegmented(c);
    !phrase.quoted
        && !phrase.prefix
        && LENGTHS.contains(&length)
        && (!has_others || length >= MIN_LEN_AMONG_OTHERS)
        && phrase.words.chars().all(is_word)
        && !is_time_word(&phrase.words)
}

/// Returns the words of the index that differ from `word` by one edit, most likely first: those with
/// the same first letter, which people rarely miss, then the more frequent.
async fn replacements(
    store: &dyn MemoryStore,
    word: &str,
    same_first_letter: bool,
) -> Result<Vec<String>, StoreError> {
    let word = word.to_lowercase();
    let first = word.chars().next();
    let has_first = |other: &str| other.chars().next() == first;
    // One word for each stem, since the index does not distinguish them: the shortest that is not
    // the bare stem, such as `service` for `servic`.
    let mut by_stem: BTreeMap<String, (bool, usize, String)> = BTreeMap::new();
    for neighbor in neighbors(&word) {
        let Some(stem) = tokenize(&neighbor).next() else { continue };
        if has_first(&neighbor) || !same_first_letter {
            let candidate = (neighbor == stem, neighbor.len(), neighbor);
            let best = by_stem.entry(stem).or_insert_with(|| candidate.clone());
            if candidate < *best {
                *best = candidate;
            }
        }
    }
    let phrases: Vec<Phrase> =
        by_stem.into_values().map(|(.., neighbor)| Phrase::new(neighbor, false)).collect();
    let frequencies = store.frequencies(&phrases, FREQUENCY_CAP).await?;
    let mut present: Vec<(String, u64)> = phrases
        .into_iter()
        .map(|phrase| phrase.words)
        .zip(frequencies)
        .filter(|(_, frequency)| *frequency > 0)
        .collect();
    present.sort_by_key(|(other, frequency)| (Reverse(has_first(other)), Reverse(*frequency)));
    present.truncate(MAX_REPLACEMENTS);
    Ok(present.into_iter().map(|(other, _)| other).collect())
}

/// Returns the words that differ from a lowercase word by one edit: two letters exchanged, one
/// missing, one too many, or one replaced.
fn neighbors(word: &str) -> BTreeSet<String> {
    let letters: Vec<char> = word.chars().collect();
    let alphabet = alphabet(&letters);
    let mut neighbors = BTreeSet::new();
    for at in 1..letters.len() {
        let mut exchanged = letters.clone();
        exchanged.swap(at - 1, at);
        neighbors.insert(exchanged.into_iter().collect());
    }
    for at in 0..=letters.len() {
        let (before, after) = letters.split_at(at);
        let edit = |letter: Option<char>, after: &[char]| -> String {
            before.iter().copied().chain(letter).chain(after.iter().copied()).collect()
        };
        neighbors.extend(alphabet.clone().map(|letter| edit(Some(letter), after)));
        if let [_, after @ ..] = after
            && letters.len() >= MIN_LEN_FOR_ALL_EDITS
        {
            neighbors.insert(edit(None, after));
            neighbors.extend(alphabet.clone().map(|letter| edit(Some(letter), after)));
        }
    }
    neighbors.remove(word);
    neighbors
}

/// Returns the letters to try, those of the word's script. For other scripts there are none, and
/// letters are only exchanged and removed.
fn alphabet(letters: &[char]) -> RangeInclusive<char> {
    let all_in = |first: char, last: char| letters.iter().all(|c| (first..=last).contains(c));
    let (first, last) = if letters.iter().all(|c| c.is_alphabetic() && *c < '\u{250}') {
        ('a', 'z')
    } else if all_in('а', 'ё') {
        ('а', 'ё')
    } else if all_in('ά', 'ώ') {
        ('ά', 'ώ')
    } else {
        // An empty range.
        ('b', 'a')
    };
    first..=last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_differ_by_one_edit() {
        let has = |word: &str, other: &str| neighbors(word).contains(other);
        assert!(has("deplyo", "deploy"), "exchanged");
        assert!(has("depoy", "deploy") && has("eploy", "deploy") && has("deplo", "deploy"));
        assert!(has("deplooy", "deploy") && has("ddeploy", "deploy"), "one too many");
        assert!(has("deplot", "deploy") && has("xeploy", "deploy"), "replaced");
        assert!(has("opn", "open") && !has("opn", "on") && !has("opn", "own"));
        assert!(has("ёлкв", "ёлка") && has("καφέα", "καφέ"));
        assert!(has("cafè", "caf") && has("naïev", "naïve"));
        assert!(!has("deploy", "deploy"));
        let many = neighbors("kubernetes").len();
        assert!((500..600).contains(&many), "{many}");
    }

    #[test]
    fn what_is_quoted_or_no_word_stays() {
        let correctable = |query: &str, has_others| {
            let terms = Terms::parse(query, Need::Any);
            is_correctable(&terms.phrases[0], has_others)
        };
        assert!(correctable("deplyo", false) && correctable("deplyo", true));
        assert!(correctable("opn", false) && !correctable("opn", true));
        for query in ["\"deplyo\"", "ab", "word7", "7.8.4", "e-mail", "数据", "库", "March"] {
            assert!(!correctable(query, false), "{query}");
        }
        assert!(!correctable(&"a".repeat(25), false));
    }
}
