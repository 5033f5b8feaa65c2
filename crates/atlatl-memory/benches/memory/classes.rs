//! Queries by class: rare words, a rare word with a common one, and the commonest words.

use std::collections::{BTreeMap, BTreeSet};

use atlatl_memory::{Need, Terms};
use mif::Memory;
use testkit::SplitMix64;

use crate::questions::words;

const QUERIES: usize = 60;
/// A word is rare if at most one memory in this many has it. In this corpus these are the numbers.
const RARE: usize = 500;
/// A word is common if at least one memory in this many has it.
const COMMON: usize = 7;
/// The number of words among the commonest.
const COMMONEST: usize = 8;
/// The size up to which the goal of a class is its own.
const SMALL_STORE: usize = 100_000;
/// The goal for a larger store, in milliseconds.
const LARGE_STORE_GOAL: f64 = 150.0;

/// A class of queries.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) queries: Vec<String>,
    small_store_goal: f64,
}

impl Class {
    /// Returns the goal for the median in a store of this size, in milliseconds.
    pub(crate) fn goal(&self, memories: usize) -> f64 {
        if memories > SMALL_STORE { LARGE_STORE_GOAL } else { self.small_store_goal }
    }
}

/// Makes the queries from some of the stored memories.
pub(crate) fn classes(memories: &[Memory]) -> [Class; 3] {
    let mut frequencies: BTreeMap<&str, usize> = BTreeMap::new();
    for memory in memories {
        for word in words(memory).collect::<BTreeSet<_>>() {
            *frequencies.entry(word).or_default() += 1;
        }
    }
    let mut listed: Vec<(usize, &str)> = frequencies
        .into_iter()
        .filter(|(word, _)| !is_stop_word(word))
        .map(|(word, frequency)| (frequency, word))
        .collect();
    listed.sort_unstable_by(|a, b| b.cmp(a));
    let with = |is_it: &dyn Fn(usize) -> bool| -> Vec<&str> {
        listed.iter().filter(|(frequency, _)| is_it(*frequency)).map(|(_, word)| *word).collect()
    };
    let rare = with(&|frequency| frequency * RARE <= memories.len());
    let common = with(&|frequency| frequency * COMMON >= memories.len());
    assert!(rare.len() >= 100 && common.len() >= COMMONEST, "{} {}", rare.len(), common.len());
    let mut random = SplitMix64::new(11);
    let mut make = |query: &dyn Fn(usize, &mut SplitMix64) -> String| -> Vec<String> {
        (0..QUERIES).map(|n| query(n, &mut random)).collect()
    };
    [
        Class {
            name: "rare words",
            queries: make(&|_, random| [*random.pick(&rare), *random.pick(&rare)].join(" ")),
            small_store_goal: 20.0,
        },
        Class {
            name: "a rare and a common word",
            queries: make(&|_, random| [*random.pick(&rare), *random.pick(&common)].join(" ")),
            small_store_goal: 30.0,
        },
        Class {
            name: "the commonest words",
            queries: make(&|n, random| {
                let first = random.below(COMMONEST);
                let words = (0..2 + n % 4).map(|next| common[(first + next) % COMMONEST]);
                words.collect::<Vec<_>>().join(" ")
            }),
            small_store_goal: 60.0,
        },
    ]
}

/// A stop word beside another word is no part of the query.
fn is_stop_word(word: &str) -> bool {
    Terms::parse(&format!("{word} significant"), Need::Any).phrases.len() == 1
}
