//! Chooses tasks among candidates.

use std::collections::BTreeMap;

use testkit::SplitMix64;

use super::{Draft, TASKS_PER_FAMILY};
use crate::task::Answer;

/// The most tasks of a family with the same answer: a constant guess is right in 15 % at most.
pub(crate) const MAX_EQUAL_ANSWERS: usize = TASKS_PER_FAMILY * 15 / 100;

/// Brings items into a random order.
pub(super) fn shuffle<T>(items: &mut [T], random: &mut SplitMix64) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}

/// Draws at most `count` items.
pub(super) fn sample<T>(mut items: Vec<T>, count: usize, random: &mut SplitMix64) -> Vec<T> {
    shuffle(&mut items, random);
    items.truncate(count);
    items
}

/// Draws at most `count` drafts whose answers are as different as possible, and never more than
/// [`MAX_EQUAL_ANSWERS`] with the same one.
pub(super) fn spread(
    mut candidates: Vec<Draft>,
    count: usize,
    random: &mut SplitMix64,
) -> Vec<Draft> {
    shuffle(&mut candidates, random);
    let mut uses: BTreeMap<Answer, usize> = BTreeMap::new();
    let mut chosen = Vec::with_capacity(count);
    for most in 1..=MAX_EQUAL_ANSWERS {
        let mut others = Vec::new();
        for draft in candidates {
            let used = uses.entry(draft.answer.clone()).or_default();
            if chosen.len() < count && *used < most {
                *used += 1;
                chosen.push(draft);
            } else {
                others.push(draft);
            }
        }
        candidates = others;
    }
    chosen
}
