//! Selection of candidates: which cells of the index have the best memories of a query.
//!
//! All memories with a rare term are candidates. Of common terms, the memories are in which one
//! weighs most, or two together weigh as much: the level from which on is lowered until about as
//! many memories are expected as the budget has. Candidates are scored exactly, so a selection can
//! miss a memory and never misjudges one.

use std::collections::BTreeMap;

use super::cells::{LEVELS, Term, weight_at};
use super::index_statistics::{CommonTerm, IndexStatistics, RARE_FREQUENCY};
use super::units::{QueryUnits, Unit, join_lists};
use crate::search::query::Need;

/// The number of candidates to expect if any word may match.
const ANY_BUDGET: f64 = 500.0;
/// The same for large tenants.
const LARGE_ANY_BUDGET: f64 = 1_000.0;
/// The number of memories from which on a tenant is large.
const LARGE_TENANT: f64 = 200_000.0;
/// The number of candidates to expect if all words must match.
const ALL_BUDGET: f64 = 1_000.0;
/// The number of candidates to expect for phrases, most of which do not contain them.
const PHRASE_BUDGET: f64 = 2_000.0;
/// By how much the budget grows with every round.
const BUDGET_GROWTH: f64 = 4.0;
/// The maximum budget.
const MAX_BUDGET: f64 = 16_000.0;
/// The maximum budget for a filter that few memories meet.
const MAX_FILTERED_BUDGET: f64 = 12_000.0;
/// The maximum number of memories of a filter that are all candidates.
const MAX_FILTER_SOURCE: f64 = 4_000.0;
/// The minimum number of candidates that are read.
const MIN_READ: f64 = 8_000.0;
/// The maximum number of rare terms whose memories are candidates if all words must match.
const MAX_RARE_SOURCES: usize = 8;
/// The maximum number of common terms from which pairs are built.
const MAX_PAIRED: usize = 4;
/// The maximum number of pairs of levels for two terms.
const MAX_ARMS_PER_PAIR: usize = 3;
/// How much more often than by chance two words of a query occur together.
const CORRELATION: f64 = 1.5;
/// The number of steps of the search for a threshold.
const THRESHOLD_STEPS: u32 = 16;

/// The candidates of a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Selection {
    /// A memory with one of these cells is a candidate.
    pub(super) cells: Vec<i32>,
    /// A memory with one of each list of cells of an arm is a candidate too.
    pub(super) arms: Vec<String>,
    /// The maximum number of candidates that are read.
    pub(super) max_candidates: i64,
    /// Whether every match is a candidate.
    pub(super) is_complete: bool,
    /// Whether a further round has a larger budget.
    pub(super) can_grow: bool,
    /// The frequency of each unit; `None` if it is to be counted among the candidates.
    pub(super) frequencies: Vec<Option<f64>>,
}

/// Selects the candidates of a query. Every round selects more.
pub(super) fn select(
    query: &QueryUnits,
    filter: &[Term],
    statistics: &IndexStatistics,
    round: u32,
) -> Selection {
    let base = match query.need {
        _ if query.has_phrases() => PHRASE_BUDGET,
        Need::All => ALL_BUDGET,
        Need::Any if statistics.memories > LARGE_TENANT => LARGE_ANY_BUDGET,
        Need::Any => ANY_BUDGET,
    };
    let grown = base * BUDGET_GROWTH.powi(i32::try_from(round).unwrap_or(i32::MAX));
    let budget = grown.min(MAX_BUDGET);
    let share = statistics.filter_share(filter);
    let filtered =
        if share > 0.5 { budget } else { (budget / share).min(MAX_FILTERED_BUDGET.max(budget)) };
    let selector = Selector { query, statistics, budget: filtered, round };
    let mut selection = match query.need {
        Need::Any => selector.any(),
        Need::All => selector.all(),
    };
    if !selection.is_complete
        && let Some(source) = filter_source(filter, statistics)
    {
        selection = selector.select_filter(source);
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 32,000")]
    let max_candidates = MIN_READ.max(2.0 * filtered) as i64;
    Selection { max_candidates, can_grow: grown < MAX_BUDGET, ..selection }
}

/// Returns the rarest term of a filter, if its memories are few enough to be candidates.
fn filter_source(filter: &[Term], statistics: &IndexStatistics) -> Option<Term> {
    let frequency = |term: &Term| statistics.common.get(term).map_or(0.0, |term| term.frequency);
    let rarest = filter.iter().copied().min_by(|a, b| frequency(a).total_cmp(&frequency(b)))?;
    let most = MAX_FILTER_SOURCE.min(statistics.memories / 2.0);
    (frequency(&rarest) <= most).then_some(rarest)
}

/// A list of alternative terms, one of which a memory must have.
struct Source<'a> {
    terms: &'a [Term],
    /// The sum of the common terms; `None` if all are rare.
    common: Option<CommonTerm>,
    /// The inverse document frequency.
    weight: f64,
}

impl Source<'_> {
    fn frequency(&self) -> f64 {
        self.common.as_ref().map_or(RARE_FREQUENCY, |common| common.frequency)
    }

    fn is_rare(&self) -> bool {
        self.common.is_none()
    }

    /// Returns the number of memories at a level or above.
    fn tail(&self, level: usize) -> f64 {
        let tails = self.common.as_ref().map(|common| &common.tails);
        tails.and_then(|tails| tails.get(level)).copied().unwrap_or_default()
    }
}

/// Two sources, each from a level on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    sources: (usize, usize),
    levels: (usize, usize),
}

/// What a threshold selects from common sources.
struct Thresholded {
    singles: Vec<(usize, usize)>,
    pairs: Vec<Pair>,
    expected: f64,
}

struct Selector<'a> {
    query: &'a QueryUnits,
    statistics: &'a IndexStatistics,
    budget: f64,
    round: u32,
}

impl<'a> Selector<'a> {
    fn source(&self, terms: &'a [Term]) -> Source<'a> {
        let common: Vec<&CommonTerm> =
            terms.iter().filter_map(|term| self.statistics.common.get(term)).collect();
        let sum = common.iter().fold(None, |sum: Option<CommonTerm>, one| {
            let mut sum = sum.unwrap_or(CommonTerm { frequency: 0.0, tails: [0.0; LEVELS] });
            sum.frequency += one.frequency;
            for (sum, one) in sum.tails.iter_mut().zip(one.tails) {
                *sum += one;
            }
            Some(sum)
        });
        let frequency = sum.as_ref().map_or(RARE_FREQUENCY, |sum| sum.frequency);
        let without = (self.statistics.memories - frequency).max(0.0);
        let weight = ((without + 0.5) / (frequency + 0.5)).ln().max(1e-6);
        Source { terms, common: sum, weight }
    }

    /// Returns the cells of a source from a level on. Rare alternatives count at every level.
    fn cells(&self, source: &Source<'_>, level: usize) -> Vec<i32> {
        let of_term = |term: &Term| {
            let is_common = self.statistics.common.contains_key(term);
            term.cells_from(if is_common { level } else { 0 })
        };
        source.terms.iter().flat_map(of_term).collect()
    }

    /// Returns the frequency of a unit that is one common word.
    fn known_frequency(&self, unit: &'a Unit) -> Option<f64> {
        let (list, true) = (unit.lists.first()?, unit.texts.is_empty()) else { return None };
        self.source(list).common.map(|common| common.frequency.min(self.statistics.memories))
    }

    fn known_frequencies(&self) -> Vec<Option<f64>> {
        self.query.units.iter().map(|unit| self.known_frequency(unit)).collect()
    }

    /// Selects candidates that have at least one unit.
    fn any(&self) -> Selection {
        let mut selection = Selection {
            is_complete: true,
            frequencies: self.known_frequencies(),
            ..Selection::default()
        };
        let mut spent = 0.0;
        let mut common = Vec::new();
        let mut rarest: Vec<(&Unit, Source<'_>)> =
            self.query.units.iter().filter_map(|unit| Some((unit, self.rarest(unit)?))).collect();
        rarest.sort_by(|(_, a), (_, b)| a.frequency().total_cmp(&b.frequency()));
        for (unit, source) in rarest {
            if source.is_rare() || spent + source.frequency() <= self.budget {
                spent += source.frequency();
                selection.cells.extend(self.cells(&source, 0));
            } else if unit.lists.len() > 1 {
                let (arm, level) = self.phrase_arm(unit, &[]);
                selection.arms.push(arm);
                selection.is_complete &= level == 0;
            } else {
                common.push(source);
            }
        }
        if !common.is_empty() {
            self.add_common(common, Need::Any, &mut selection);
        }
        selection
    }

    /// Returns the list of a unit that the fewest memories have.
    fn rarest(&self, unit: &'a Unit) -> Option<Source<'a>> {
        let sources = unit.lists.iter().map(|list| self.source(list));
        sources.min_by(|a, b| {
            a.is_rare().cmp(&b.is_rare()).reverse().then(a.frequency().total_cmp(&b.frequency()))
        })
    }

    /// Selects candidates that have all units.
    fn all(&self) -> Selection {
        let mut lists: Vec<&[Term]> =
            self.query.units.iter().flat_map(|unit| unit.lists.iter().map(Vec::as_slice)).collect();
        lists.sort_unstable();
        lists.dedup();
        let mut sources: Vec<Source<'_>> =
            lists.into_iter().map(|list| self.source(list)).collect();
        sources.sort_by(|a, b| a.frequency().total_cmp(&b.frequency()));
        let mut selection = Selection {
            is_complete: true,
            frequencies: self.known_frequencies(),
            ..Selection::default()
        };
        let rare: Vec<&Source<'_>> = sources.iter().filter(|source| source.is_rare()).collect();
        if !rare.is_empty() {
            // A first round with too many candidates is repeated with one source.
            let most = if self.round == 0 { MAX_RARE_SOURCES } else { 1 };
            let cells = rare.into_iter().take(most).flat_map(|source| self.cells(source, 0));
            selection.cells.extend(cells);
            return selection;
        }
        let Some(rarest) = sources.first() else { return selection };
        let most = if sources.len() == 1 { 4.0 } else { 2.0 } * self.budget;
        if rarest.frequency() <= most {
            selection.cells = self.cells(rarest, 0);
            return selection;
        }
        let rarest_phrase =
            self.query.units.iter().filter(|unit| unit.lists.len() > 1).min_by(|a, b| {
                let frequency = |unit| self.rarest(unit).map_or(0.0, |source| source.frequency());
                frequency(a).total_cmp(&frequency(b))
            });
        if let Some(phrase) = rarest_phrase {
            let (arm, level) = self.phrase_arm(phrase, &sources);
            selection.arms.push(arm);
            selection.is_complete = level == 0;
            return selection;
        }
        self.add_common(sources, Need::All, &mut selection);
        selection
    }

    /// Selects all memories of a filter, and those of rare units for their frequencies.
    fn select_filter(&self, filter: Term) -> Selection {
        let rare = self.query.units.iter().filter_map(|unit| self.rarest(unit));
        let rare = rare.filter(Source::is_rare).take(MAX_RARE_SOURCES);
        let cells = rare.flat_map(|source| self.cells(&source, 0));
        Selection {
            cells: filter.cells_from(0).chain(cells).collect(),
            is_complete: true,
            frequencies: self.known_frequencies(),
            ..Selection::default()
        }
    }

    /// Returns the arm of a phrase of common words, and its level. The phrase occurs at most as often
    /// as each of its words, so that all words have its level or a higher one. `others` must match
    /// too.
    fn phrase_arm(&self, phrase: &'a Unit, others: &[Source<'a>]) -> (String, usize) {
        let mut words: Vec<Source<'_>> =
            phrase.lists.iter().map(|list| self.source(list)).collect();
        words.sort_by(|a, b| a.frequency().total_cmp(&b.frequency()));
        let others: Vec<&Source<'_>> = others
            .iter()
            .filter(|other| words.iter().all(|word| word.terms != other.terms))
            .collect();
        let chance = self.chance(others.iter().copied());
        let expected = |level: usize| {
            let pair = words.iter().take(2).map(|word| word.tail(level));
            let memories = self.statistics.memories.max(1.0);
            pair.reduce(|a, b| a * b / memories * CORRELATION).unwrap_or_default() * chance
        };
        let level = (0..LEVELS).find(|&level| expected(level) <= self.budget);
        let level = level.unwrap_or(LEVELS - 1);
        let words = words.iter().map(|word| self.cells(word, level));
        let arm = join_lists(words.chain(others.iter().map(|other| self.cells(other, 0))));
        (arm, level)
    }

    /// Returns the probability that a memory of other terms has these too.
    fn chance<'s>(&self, sources: impl Iterator<Item = &'s Source<'s>>) -> f64 {
        let memories = self.statistics.memories.max(1.0);
        sources.map(|source| (CORRELATION * source.frequency() / memories).min(1.0)).product()
    }

    /// Adds the memories in which common terms weigh most.
    fn add_common(&self, mut sources: Vec<Source<'_>>, need: Need, selection: &mut Selection) {
        sources.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let paired = sources.len().min(MAX_PAIRED);
        let is_pair_only = need == Need::All && sources.len() > 1;
        let pairs: Vec<(usize, usize)> = if is_pair_only {
            vec![(0, 1)]
        } else {
            (0..paired).flat_map(|a| (a + 1..paired).map(move |b| (a, b))).collect()
        };
        let chance = if is_pair_only { self.chance(sources[2..].iter()) } else { 1.0 };
        let common = Common { sources: &sources[..paired], pairs, is_pair_only, chance };
        let memories = self.statistics.memories.max(1.0);
        let top = 2.2 * 1.01 * sources.iter().take(2).map(|source| source.weight).sum::<f64>();
        let (mut low, mut high) = (0.0, top);
        for _ in 0..THRESHOLD_STEPS {
            let middle = f64::midpoint(low, high);
            if common.at(middle, memories).expected > self.budget {
                low = middle;
            } else {
                high = middle;
            }
        }
        let Thresholded { singles, pairs, .. } = common.at(high, memories);
        let pairs = thin(pairs);
        // A word in more than half of all memories weighs almost nothing: a low threshold may still
        // exclude it.
        selection.is_complete &= if is_pair_only {
            pairs.iter().any(|pair| pair.levels == (0, 0))
        } else {
            singles.iter().filter(|(_, level)| *level == 0).count() == sources.len()
        };
        for (source, level) in singles {
            selection.cells.extend(self.cells(&sources[source], level));
        }
        for Pair { sources: (a, b), levels } in pairs {
            let lists = [self.cells(&sources[a], levels.0), self.cells(&sources[b], levels.1)];
            let others = if is_pair_only { &sources[2..] } else { &[] };
            let others = others.iter().map(|other| self.cells(other, 0));
            selection.arms.push(join_lists(lists.into_iter().chain(others)));
        }
    }
}

/// Common sources, the one with the highest weight first.
struct Common<'a> {
    sources: &'a [Source<'a>],
    /// The pairs that are considered.
    pairs: Vec<(usize, usize)>,
    /// Whether memories must have both terms of the pair.
    is_pair_only: bool,
    /// The probability that a memory of a pair has the other terms that it needs.
    chance: f64,
}

impl Common<'_> {
    /// Selects what may reach the score `threshold`.
    fn at(&self, threshold: f64, memories: f64) -> Thresholded {
        let score = |source: usize, level: usize| self.sources[source].weight * weight_at(level);
        let mut selected = Thresholded { singles: Vec::new(), pairs: Vec::new(), expected: 0.0 };
        if !self.is_pair_only {
            for source in 0..self.sources.len() {
                if let Some(level) = (0..LEVELS).find(|&level| score(source, level) >= threshold) {
                    selected.singles.push((source, level));
                    selected.expected += self.sources[source].tail(level);
                }
            }
        }
        for &(a, b) in &self.pairs {
            let mut last = None;
            for of_a in 0..LEVELS {
                let is_enough = |score: f64| score >= threshold && !self.is_pair_only;
                let rows = self.sources[a].tail(of_a);
                if rows <= 0.0 || is_enough(score(a, of_a)) {
                    break;
                }
                let of_b = (0..LEVELS).find(|&of_b| score(a, of_a) + score(b, of_b) >= threshold);
                let Some(of_b) = of_b.filter(|&of_b| !is_enough(score(b, of_b))) else { continue };
                let other_rows = self.sources[b].tail(of_b);
                if other_rows <= 0.0 {
                    continue;
                }
                let at_level = rows - self.sources[a].tail(of_a + 1);
                selected.expected += at_level * other_rows / memories * CORRELATION * self.chance;
                if last.is_none_or(|last| of_b < last) {
                    selected.pairs.push(Pair { sources: (a, b), levels: (of_a, of_b) });
                    last = Some(of_b);
                }
            }
        }
        selected
    }
}

/// Merges pairs of the same sources until few are left, which cover all of them.
fn thin(pairs: Vec<Pair>) -> Vec<Pair> {
    let mut by_sources: BTreeMap<(usize, usize), Vec<(usize, usize)>> = BTreeMap::new();
    for Pair { sources, levels } in pairs {
        by_sources.entry(sources).or_default().push(levels);
    }
    for levels in by_sources.values_mut() {
        while levels.len() > MAX_ARMS_PER_PAIR {
            // The first level grows from pair to pair, and the second falls.
            let cost = |n: &usize| {
                let ((a, b), (next_a, next_b)) = (levels[*n], levels[n + 1]);
                (next_a - a) * (b - next_b)
            };
            let Some(n) = (0..levels.len() - 1).min_by_key(cost) else { break };
            let next = levels.remove(n + 1);
            levels[n].1 = next.1;
        }
    }
    let pairs = by_sources.into_iter();
    pairs
        .flat_map(|(sources, levels)| {
            levels.into_iter().map(move |levels| Pair { sources, levels })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::query::Terms;

    fn query(text: &str, need: Need) -> QueryUnits {
        QueryUnits::from_terms("t", &Terms::parse(text, need))
    }

    /// Words with these frequencies, in a tenant of 100,000 memories.
    fn statistics(words: &[(&str, i32)]) -> IndexStatistics {
        let common = words.iter().map(|&(word, frequency)| {
            // Most memories have a word once: the middle levels.
            let levels: Vec<i32> = (0..16)
                .map(|level| match level {
                    2..=4 => frequency / 4,
                    5 | 6 => frequency / 10,
                    7 | 8 => frequency / 50,
                    9 => frequency / 100,
                    _ => 0,
                })
                .collect();
            (Term::word("t", word), CommonTerm::new(frequency, &levels))
        });
        IndexStatistics { memories: 100_000.0, common: common.collect() }
    }

    fn has(selection: &Selection, word: &str, level: usize) -> bool {
        Term::word("t", word).cells_from(level).all(|cell| selection.cells.contains(&cell))
    }

    #[test]
    fn all_memories_of_rare_words_are_candidates() {
        let some = select(&query("zebra xylophone", Need::Any), &[], &statistics(&[]), 0);
        assert!(has(&some, "zebra", 0) && has(&some, "xylophon", 0));
        assert!(some.is_complete && some.arms.is_empty());
        assert_eq!((some.frequencies, some.max_candidates), (vec![None, None], 8_000));
        let all = select(&query("zebra xylophone", Need::All), &[], &statistics(&[]), 1);
        assert_eq!(all.cells.len(), LEVELS, "a later round reads one list");
    }

    #[test]
    fn of_common_words_the_heaviest_are_candidates() {
        let statistics = statistics(&[("deploi", 40_000), ("servic", 30_000)]);
        let some = select(&query("deploy service zebra", Need::Any), &[], &statistics, 0);
        let lowest = |word| (0..LEVELS).find(|&level| has(&some, word, level));
        assert_eq!(lowest("zebra"), Some(0));
        assert_eq!((lowest("deploi"), lowest("servic")), (None, None), "both weigh more");
        assert!(!some.is_complete && (1..=MAX_ARMS_PER_PAIR).contains(&some.arms.len()));
        assert_eq!(some.frequencies, [Some(40_000.0), Some(30_000.0), None]);
        let more = select(&query("deploy service zebra", Need::Any), &[], &statistics, 1);
        assert!(more.cells.len() >= some.cells.len() && more.can_grow);
        let all = select(&query("deploy service", Need::All), &[], &statistics, 0);
        assert!(all.cells.is_empty() && !all.arms.is_empty() && !all.is_complete);
        assert!(all.arms.iter().all(|arm| arm.matches(';').count() == 1), "{:?}", all.arms);
        let rare = select(&query("deploy zebra", Need::All), &[], &statistics, 0);
        assert!(has(&rare, "zebra", 0) && rare.cells.len() == LEVELS && rare.is_complete);
    }

    #[test]
    fn counts_are_lacking_if_a_word_without_one_is_frequent() {
        let statistics = statistics(&[("deploi", 40_000), ("servic", 30_000)]);
        let lacks = |text: &str, filter: &[Term], frequencies: &[u64]| {
            statistics.lacks_counts(&query(text, Need::Any), filter, frequencies)
        };
        assert!(lacks("deploy zebra", &[], &[40_000, 501]));
        assert!(!lacks("deploy zebra", &[], &[40_000, 500]), "it is rare");
        assert!(lacks("\"deploy zebra\"", &[], &[3]), "zebra may be frequent");
        assert!(!lacks("deploy \"deploy service\"", &[], &[40_000, 3]), "nothing to count");
        assert!(lacks("deploy", &[Term::sample("t", 1)], &[40_000]));
    }

    #[test]
    fn a_selection_without_a_word_of_no_weight_is_not_complete() {
        let statistics = statistics(&[
            ("cach", 10_000),
            ("deploi", 12_000),
            ("servic", 60_000),
            ("node", 70_000),
        ]);
        let some = select(&query("cache deploy service", Need::Any), &[], &statistics, 3);
        assert!(has(&some, "cach", 0) && has(&some, "deploi", 0) && !has(&some, "servic", 0));
        assert!(!some.is_complete, "60,000 memories are no candidates");
        let some = select(&query("cache deploy", Need::Any), &[], &statistics, 3);
        assert!(has(&some, "cach", 0) && has(&some, "deploi", 0) && some.is_complete);
        let all = select(&query("service node", Need::All), &[], &statistics, 3);
        assert!(!all.is_complete, "about 63,000 memories have both");
    }

    #[test]
    fn a_phrase_has_the_level_of_its_words() {
        let statistics = statistics(&[("deploi", 40_000), ("servic", 30_000), ("cach", 20_000)]);
        let one = select(&query("\"deploy service\" cache", Need::All), &[], &statistics, 0);
        assert_eq!((one.arms.len(), one.arms[0].matches(';').count()), (1, 2));
        assert_eq!(one.frequencies, [None, Some(20_000.0)]);
        let any = select(&query("\"deploy service\"", Need::Any), &[], &statistics, 0);
        assert_eq!((any.arms.len(), any.arms[0].matches(';').count()), (1, 1));
        assert!(!any.is_complete);
    }

    #[test]
    fn a_narrow_filter_is_the_source() {
        let mut statistics = statistics(&[("deploi", 40_000), ("servic", 30_000)]);
        let query = query("deploy service", Need::Any);
        let narrow = Term::sample("t", 1);
        let some = select(&query, &[narrow], &statistics, 0);
        assert!(some.is_complete && some.arms.is_empty(), "a filter that is rare");
        assert_eq!(some.cells, narrow.cells_from(0).collect::<Vec<_>>());
        statistics.common.insert(narrow, CommonTerm::new(20_000, &[20_000]));
        let wide = select(&query, &[narrow], &statistics, 0);
        assert!(
            !wide.is_complete
                && wide.cells.len() >= select(&query, &[], &statistics, 0).cells.len()
        );
        assert!((&statistics.filter_share(&[narrow]) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn few_arms_cover_many() {
        let pair = |a, b| Pair { sources: (0, 1), levels: (a, b) };
        let all: Vec<Pair> = (0..6).map(|n| pair(n, 9 - n)).collect();
        let few = thin(all.clone());
        assert_eq!(few.len(), MAX_ARMS_PER_PAIR);
        let is_covered = |one: &Pair| {
            few.iter().any(|few| few.levels.0 <= one.levels.0 && few.levels.1 <= one.levels.1)
        };
        assert!(all.iter().all(is_covered));
    }
}
