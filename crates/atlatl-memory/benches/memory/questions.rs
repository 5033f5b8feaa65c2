//! Queries: one to four words of the corpus, from rare to common.

use std::collections::BTreeMap;

use mif::Memory;
use testkit::SplitMix64;

const QUESTIONS: usize = 200;

/// Queries for a recall, in which any word matches. Every other query draws words by frequency, so
/// that most are common; the others draw from the vocabulary, so that most are rare.
pub(crate) fn any(memories: &[Memory]) -> Vec<String> {
    let occurring: Vec<&str> = memories.iter().flat_map(words).collect();
    let mut listed: BTreeMap<&str, u32> = BTreeMap::new();
    for word in &occurring {
        *listed.entry(word).or_default() += 1;
    }
    let listed: Vec<&str> = listed.into_keys().collect();
    let mut random = SplitMix64::new(7);
    (0..QUESTIONS)
        .map(|i| {
            let from = if i % 2 == 0 { &occurring } else { &listed };
            let words: Vec<&str> = (0..=i / 2 % 4).map(|_| *random.pick(from)).collect();
            words.join(" ")
        })
        .collect()
}

/// Queries for a search, in which all words must match. They come from one memory, so that there is
/// a hit.
pub(crate) fn all(memories: &[Memory]) -> Vec<String> {
    let mut random = SplitMix64::new(8);
    (0..QUESTIONS)
        .map(|i| {
            let words: Vec<&str> = words(random.pick(memories)).collect();
            let words: Vec<&str> = (0..=i % 4).map(|_| *random.pick(&words)).collect();
            words.join(" ")
        })
        .collect()
}

/// The words of the title and the content.
pub(crate) fn words(memory: &Memory) -> impl Iterator<Item = &str> {
    let title = memory.title.as_deref().unwrap_or_default();
    let all = title.split(|c: char| !c.is_alphanumeric());
    all.chain(memory.content.split(|c: char| !c.is_alphanumeric())).filter(|word| word.len() > 2)
}
