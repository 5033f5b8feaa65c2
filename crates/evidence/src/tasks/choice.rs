//! Chooses tasks among candidates.

use std::collections::BTreeMap;

use testkit::SplitMix64;

use super::{Draft, SUITE_SIZES, TASKS_PER_FAMILY};
use crate::task::Answer;

/// The most of so many tasks with the same answer: a constant guess is right in 15 % at most.
pub(crate) const fn max_equal_answers(tasks: usize) -> usize {
    tasks * 15 / 100
}

/// The most tasks of a family with the same answer.
pub(super) const MAX_EQUAL_ANSWERS: usize = max_equal_answers(TASKS_PER_FAMILY);

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

/// Moves drafts so that the bound of equal answers holds for the first tasks of every suite, too, as
/// far as there are enough different answers.
pub(super) fn ordered(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut ordered: Vec<Draft> = Vec::with_capacity(drafts.len());
    let mut later = drafts;
    for size in SUITE_SIZES {
        for draft in std::mem::take(&mut later) {
            let equal = ordered.iter().filter(|other| other.answer == draft.answer).count();
            if ordered.len() < size && equal < max_equal_answers(size) {
                ordered.push(draft);
            } else {
                later.push(draft);
            }
        }
    }
    ordered.extend(later);
    ordered
}
