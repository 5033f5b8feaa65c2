//! Counts of a tenant's memories and of the common terms among them, from which candidates are selected.

use std::collections::HashMap;

use super::cells::{LEVELS, Term};
use super::units::{QueryUnits, Unit};

/// The number of memories from which on a term is common: `atlatl.count_terms` counts those.
const MIN_COMMON: u64 = 501;
/// The number of memories of a rare term that is assumed for the budget.
pub(super) const RARE_FREQUENCY: f64 = 50.0;

/// How many memories contain a common term.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CommonTerm {
    pub(super) frequency: f64,
    /// The number of memories at each level or above.
    pub(super) tails: [f64; LEVELS],
}

impl CommonTerm {
    /// Creates a term from its frequency and the number of memories at each level.
    pub(super) fn new(frequency: i32, levels: &[i32]) -> Self {
        let mut tails = [0.0; LEVELS];
        let mut sum = 0.0;
        for level in (0..LEVELS).rev() {
            sum += f64::from(levels.get(level).copied().unwrap_or_default());
            tails[level] = sum;
        }
        Self { frequency: f64::from(frequency), tails }
    }
}

/// What is known of a tenant's memories.
#[derive(Debug, Clone, Default)]
pub(super) struct IndexStatistics {
    /// The number of memories.
    pub(super) memories: f64,
    /// The common terms of the query and of the filter. All others are rare.
    pub(super) common: HashMap<Term, CommonTerm>,
}

impl IndexStatistics {
    /// Returns whether a term was taken for rare that is not: a word that `frequencies` of the
    /// candidates contain, or, if the candidates do not tell, a word of a phrase or a filter.
    pub(super) fn lacks_counts(
        &self,
        query: &QueryUnits,
        filter: &[Term],
        frequencies: &[u64],
    ) -> bool {
        let is_rare = |term: &Term| !self.common.contains_key(term);
        let is_uncounted = |(unit, frequency): (&Unit, &u64)| {
            let can_be_common = *frequency >= MIN_COMMON || !unit.texts.is_empty();
            can_be_common && unit.lists.iter().flatten().any(is_rare)
        };
        query.units.iter().zip(frequencies).any(is_uncounted) || filter.iter().any(is_rare)
    }

    /// Returns the share of memories that have all terms of a filter, if the terms are independent.
    pub(super) fn filter_share(&self, filter: &[Term]) -> f64 {
        let memories = self.memories.max(1.0);
        let share = |term: &Term| match self.common.get(term) {
            Some(common) => (common.frequency / memories).clamp(1e-6, 1.0),
            None => (RARE_FREQUENCY / memories).min(1.0),
        };
        filter.iter().map(share).product()
    }
}
