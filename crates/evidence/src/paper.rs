//! The numbers of the paper, to be printed beside ours, and what follows from them.
//!
//! The models are Claude Haiku 4.5 and GPT-5-mini; a cell is 15 tasks of one model at one size.

use self::Experiment::{E1, E2, E3};
use self::Quantity::{Accuracy, Alignment, GoalAchievement, Kilotokens};
use crate::statistics::real;

/// The models, in the order of [`PaperRow::values`].
pub const MODELS: [&str; 2] = ["Claude Haiku 4.5", "GPT-5-mini"];
/// The sizes of the corpus, in records.
pub const SIZES: [usize; 3] = [50, 200, 500];
/// The tasks of a cell.
pub const TASKS: u64 = 15;
/// The tokens of a descriptor, as the paper assumes.
pub const DESCRIPTOR_TOKENS: f64 = 800.0;
/// The tokens of a record.
pub const RECORD_TOKENS: f64 = 155.0;
/// The median time to write a result, in milliseconds.
pub const WRITE_MILLIS: f64 = 23.9;
/// The largest share of the records that an agent read.
pub const MAX_ACCESS_RATIO: f64 = 0.021;

/// An experiment of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Experiment {
    /// Delivery strategies.
    E1,
    /// Descriptor ablation.
    E2,
    /// Recipes.
    E3,
}

impl Experiment {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::E1 => "E1",
            Self::E2 => "E2",
            Self::E3 => "E3",
        }
    }
}

/// The quantity of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// The share of right answers, in percent.
    Accuracy,
    /// The tokens of all requests of a cell, in thousands.
    Kilotokens,
    /// The share of extraction commands that follow a recipe, in percent.
    GoalAchievement,
    /// The similarity of extraction commands to the recipes, from 0 to 1.
    Alignment,
}

/// A row of a table: one condition, both models, all sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperRow {
    /// The experiment.
    pub experiment: Experiment,
    /// The condition, as the paper calls it.
    pub name: &'static str,
    /// The same condition of ours, as in a transcript.
    pub condition: &'static str,
    /// What the values are.
    pub quantity: Quantity,
    /// The values: a row for each of [`MODELS`], a column for each of [`SIZES`].
    pub values: [[f64; 3]; 2],
}

const fn row(
    experiment: Experiment,
    name: &'static str,
    condition: &'static str,
    quantity: Quantity,
    values: [[f64; 3]; 2],
) -> PaperRow {
    PaperRow { experiment, name, condition, quantity, values }
}

/// All rows of E1 to E3.
pub const ROWS: &[PaperRow] = &[
    row(E1, "LRO", "s1-c1", Accuracy, [[93.3, 93.3, 86.7], [73.3, 86.7, 73.3]]),
    row(E1, "Inline (5/page)", "s3-5", Accuracy, [[0.0, 0.0, 0.0], [0.0, 6.7, 0.0]]),
    row(E1, "Inline+Code", "s4-paper", Accuracy, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    row(E1, "Summary", "s6", Accuracy, [[46.7, 33.3, 13.3], [100.0, 33.3, 40.0]]),
    row(E1, "Truncation", "s7", Accuracy, [[40.0, 26.7, 6.7], [80.0, 80.0, 100.0]]),
    row(E1, "LRO", "s1-c1", Kilotokens, [[188.0, 171.0, 147.0], [350.0, 197.0, 269.0]]),
    row(E1, "Inline (5/page)", "s3-5", Kilotokens, [[147.0, 301.0, 390.0], [1105.0, 474.0, 659.0]]),
    row(E1, "Inline+Code", "s4-paper", Kilotokens, [[198.0, 289.0, 415.0], [1717.0, 512.0, 724.0]]),
    row(E1, "Summary", "s6", Kilotokens, [[83.0, 206.0, 315.0], [67.0, 233.0, 474.0]]),
    row(E1, "Truncation", "s7", Kilotokens, [[662.0, 245.0, 233.0], [507.0, 150.0, 158.0]]),
    row(E2, "C1 full", "s1-c1", Accuracy, [[86.7, 93.3, 100.0], [73.3, 86.7, 66.7]]),
    row(E2, "C2 no recipes", "s1-c2", Accuracy, [[100.0, 100.0, 93.3], [80.0, 100.0, 86.7]]),
    row(E2, "C3 no schema", "s1-c3", Accuracy, [[86.7, 100.0, 100.0], [66.7, 73.3, 86.7]]),
    row(E2, "C4 bare", "s1-c4", Accuracy, [[100.0, 100.0, 100.0], [80.0, 100.0, 93.3]]),
    row(E2, "C5 inline", "s1-c5", Accuracy, [[0.0, 0.0, 0.0], [0.0, 6.7, 0.0]]),
    row(E3, "Recipe", "s1-c1", Accuracy, [[93.3, 86.7, 73.3], [73.3, 100.0, 93.3]]),
    row(E3, "NoRecipe", "s1-c2", Accuracy, [[93.3, 86.7, 100.0], [86.7, 93.3, 86.7]]),
    row(E3, "Recipe", "s1-c1", GoalAchievement, [[100.0, 100.0, 100.0], [73.3, 66.7, 66.7]]),
    row(E3, "NoRecipe", "s1-c2", GoalAchievement, [[98.3, 100.0, 100.0], [53.3, 53.3, 46.7]]),
    row(E3, "Recipe", "s1-c1", Alignment, [[0.783, 0.800, 0.824], [0.683, 0.667, 0.578]]),
    row(E3, "NoRecipe", "s1-c2", Alignment, [[0.758, 0.633, 0.750], [0.500, 0.456, 0.417]]),
];

/// A row of E4: filter tasks, all cells together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FilterRow {
    /// The condition, as the paper calls it.
    pub name: &'static str,
    /// The same condition of ours.
    pub condition: &'static str,
    /// The share of right answers, in percent.
    pub accuracy: f64,
    /// The tokens of tool replies.
    pub content_tokens: u64,
    /// The tokens of all requests.
    pub model_tokens: u64,
}

/// All rows of E4.
pub const FILTER_ROWS: [FilterRow; 5] = [
    filter_row("C1 full", "s1-c1", 12.9, 38_497, 321_597),
    filter_row("C2 no recipes", "s1-c2", 12.9, 35_409, 291_537),
    filter_row("C3 no schema", "s1-c3", 12.9, 41_819, 345_560),
    filter_row("C4 bare", "s1-c4", 12.9, 42_354, 341_761),
    filter_row("C5 inline", "s1-c5", 0.0, 70_548, 661_071),
];

const fn filter_row(
    name: &'static str,
    condition: &'static str,
    accuracy: f64,
    content_tokens: u64,
    model_tokens: u64,
) -> FilterRow {
    FilterRow { name, condition, accuracy, content_tokens, model_tokens }
}

/// Table 1: the numbers of records, which the paper does not print.
pub const SAVING_SIZES: [usize; 4] = [50, 100, 250, 500];
/// Table 1: access ratio, and the saving in percent for each of [`SAVING_SIZES`].
pub const SAVINGS: [(f64, [f64; 4]); 6] = [
    (0.01, [88.7, 93.8, 96.9, 98.0]),
    (0.02, [87.7, 92.8, 95.9, 97.0]),
    (0.05, [84.7, 89.8, 92.9, 94.0]),
    (0.10, [79.7, 84.8, 87.9, 89.0]),
    (0.25, [64.7, 69.8, 72.9, 74.0]),
    (0.50, [39.7, 44.8, 47.9, 49.0]),
];

/// Right answers of all samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PooledCount {
    /// Right answers.
    pub right: u64,
    /// Samples.
    pub samples: u64,
}

impl PooledCount {
    /// Right and wrong samples, as a row of [`crate::statistics::fisher_exact`].
    pub fn outcomes(self) -> [u64; 2] {
        [self.right, self.samples - self.right]
    }

    /// The share in percent.
    pub fn percent(self) -> f64 {
        100.0 * real(self.right) / real(self.samples)
    }
}

/// The same condition under several names, in all experiments on ID lookup.
pub fn pooled(condition: &str) -> PooledCount {
    let rows = ROWS.iter().filter(|row| row.condition == condition && row.quantity == Accuracy);
    let cells = rows.flat_map(|row| row.values.iter().flatten());
    let cells: Vec<u64> = cells.map(|percent| right(*percent)).collect();
    PooledCount { right: cells.iter().sum(), samples: TASKS * cells.len() as u64 }
}

/// The right answers of a cell, from its rounded percentage.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of 15 tasks is between 0 and 15"
)]
fn right(percent: f64) -> u64 {
    (percent / 100.0 * real(TASKS)).round() as u64
}

/// Whether a percentage with one decimal is a whole number of right answers among `samples`.
pub fn is_possible(percent: f64, samples: u64) -> bool {
    (0..=samples).any(|right| {
        let exact = 100.0 * real(right) / real(samples);
        ((exact * 10.0).round() - percent * 10.0).abs() < 1e-6
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::fisher_exact;

    fn accuracy(experiment: Experiment, name: &str) -> PooledCount {
        let row = ROWS.iter().find(|row| {
            row.experiment == experiment && row.name == name && row.quantity == Accuracy
        });
        let right = row.unwrap().values.iter().flatten().map(|percent| right(*percent)).sum();
        PooledCount { right, samples: 90 }
    }

    #[test]
    fn every_cell_is_a_number_of_15_tasks() {
        for row in ROWS.iter().filter(|row| row.quantity == Accuracy) {
            for percent in row.values.iter().flatten() {
                assert!(is_possible(*percent, TASKS), "{row:?}: {percent}");
            }
        }
    }

    #[test]
    fn the_same_condition_was_run_three_times() {
        assert_eq!(accuracy(E1, "LRO").right, 76);
        assert_eq!(accuracy(E2, "C1 full").right, 76);
        assert_eq!(accuracy(E3, "Recipe").right, 78);
        assert_eq!(pooled("s1-c1"), PooledCount { right: 230, samples: 270 });
        assert_eq!(pooled("s1-c2"), PooledCount { right: 166, samples: 180 });
        assert_eq!(pooled("s1-c4"), PooledCount { right: 86, samples: 90 });
    }

    #[test]
    fn recipes_are_the_suspect() {
        let p = |left: &str, right: &str| {
            fisher_exact([pooled(left).outcomes(), pooled(right).outcomes()])
        };
        assert!((p("s1-c1", "s1-c4") - 0.009).abs() < 0.000_5);
        assert!((p("s1-c1", "s1-c2") - 0.026).abs() < 0.000_5);
    }

    #[test]
    fn the_accuracy_of_filters_is_impossible() {
        for samples in [15, 30, 45, 60, 75, 90] {
            assert!(!is_possible(12.9, samples), "{samples}");
        }
        for samples in [31, 62, 70, 85, 93] {
            assert!(is_possible(12.9, samples), "{samples}");
        }
    }

    #[test]
    fn the_means_of_e2_are_those_printed() {
        let means = [
            ("C1 full", 84.4),
            ("C2 no recipes", 93.3),
            ("C3 no schema", 85.6),
            ("C4 bare", 95.6),
            ("C5 inline", 1.1),
        ];
        for (name, printed) in means {
            assert!((accuracy(E2, name).percent() - printed).abs() < 0.05, "{name}");
        }
    }

    #[test]
    fn the_ratios_of_tokens_are_those_printed() {
        let tokens = |name: &str| {
            let mut rows = ROWS.iter().filter(|row| row.quantity == Kilotokens);
            rows.find(|row| row.name == name).unwrap().values
        };
        let (offloaded, inline) = (tokens("LRO"), tokens("Inline (5/page)"));
        let printed = [[1.28, 0.57, 0.38], [0.32, 0.42, 0.41]];
        for ((ours, theirs), ratio) in
            offloaded.iter().flatten().zip(inline.iter().flatten()).zip(printed.iter().flatten())
        {
            assert!((ours / theirs - ratio).abs() < 0.005, "{ours} / {theirs}");
        }
    }
}
