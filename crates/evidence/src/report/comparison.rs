//! The paper beside ours, cell by cell (T-H), and what follows from the paper's own numbers.

use super::format::{
    MISSING, MarkdownTable, condition_cell, decimal, grouped, or_missing, p_value, percent,
};
use super::samples::{SampleGroup, equal_conditions};
use crate::paper::{self, PaperRow, Quantity};
use crate::statistics::{fisher_exact, real};
use crate::task::{CorpusKind, Family};

/// The suites with the paper's conditions: with its cap, and with one that lets each strategy finish.
const SUITES: [&str; 2] = ["paper", "paper-fair"];

/// T-H for E1 to E3: a row for each condition and quantity. A cell of the paper has both models, a
/// cell of ours all sizes. Rows of conditions that come to the same show the same samples.
pub(super) fn beside_ours(samples: &SampleGroup<'_>) -> String {
    let ours = samples.filter(|sample| {
        sample.kind == CorpusKind::Memories
            && SUITES.contains(&sample.id.suite.as_str())
            && sample.family == Family::IdLookupPaper
    });
    let arms = ours.by(|sample| (sample.id.agent.as_str(), sample.id.suite.as_str()));
    let sizes = paper::SIZES.map(|size| size.to_string());
    let paper_titles = sizes.each_ref().map(|size| format!("the paper, n = {size}"));
    let arm_title =
        |(agent, suite): &(&str, &str)| format!("{agent}, `{suite}`, n = {}", sizes.join(" / "));
    let arm_titles: Vec<String> = arms.keys().map(arm_title).collect();
    let mut table = MarkdownTable::new(["experiment", "condition", "ours", "quantity"])
        .numbers(paper_titles.iter().map(String::as_str))
        .numbers(arm_titles.iter().map(String::as_str));
    for row in paper::ROWS {
        let [first, second] = row.values;
        let mut cells = vec![
            row.experiment.name().to_owned(),
            row.name.to_owned(),
            ours_cell(Family::IdLookupPaper, row.condition),
            quantity_name(row.quantity).to_owned(),
        ];
        cells.extend(first.into_iter().zip(second).map(|(first, second)| {
            format!("{} / {}", quantity(row.quantity, first), quantity(row.quantity, second))
        }));
        cells.extend(arms.values().map(|arm| {
            let values = paper::SIZES.map(|size| {
                let cell = arm.filter(|sample| sample.is_in(row.condition) && sample.size == size);
                or_missing(measured(row, &cell), |value| quantity(row.quantity, value))
            });
            values.join(" / ")
        }));
        table.row(cells);
    }
    let [first, second] = paper::MODELS;
    format!("The paper's models are {first} / {second}.\n\n{}", table.render_or(""))
}

/// Our condition, and the others of the paper's suites that come to the same.
fn ours_cell(family: Family, condition: &str) -> String {
    let [suite, _] = SUITES;
    let equal = equal_conditions(suite, family, CorpusKind::Memories, condition);
    condition_cell(condition, &equal)
}

fn quantity_name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Accuracy => "right, %",
        Quantity::Kilotokens => "tokens, k",
        Quantity::GoalAchievement => "goal achievement, %",
        Quantity::Alignment => "alignment",
    }
}

fn quantity(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Accuracy | Quantity::GoalAchievement => decimal(value, 1),
        Quantity::Kilotokens => decimal(value, 0),
        Quantity::Alignment => decimal(value, 3),
    }
}

/// Our value of a cell, in the unit of the paper.
fn measured(row: &PaperRow, cell: &SampleGroup<'_>) -> Option<f64> {
    match row.quantity {
        Quantity::Accuracy => cell.accuracy().map(|(share, _)| 100.0 * share),
        Quantity::Kilotokens => {
            // All tasks of the cell, repeats averaged.
            let tokens = cell.task_means(|sample| Some(real(sample.tokens())));
            (!tokens.is_empty()).then(|| tokens.values().sum::<f64>() / 1000.0)
        }
        Quantity::GoalAchievement => {
            cell.mean_of_some(|sample| sample.score.goal_achievement()).map(|share| 100.0 * share)
        }
        Quantity::Alignment => cell.mean_of_some(|sample| sample.score.alignment()),
    }
}

/// T-H for E4: filter tasks, all sizes together.
pub(super) fn filters_beside_ours(samples: &SampleGroup<'_>) -> String {
    let ours = samples.filter(|sample| {
        sample.kind == CorpusKind::Memories
            && SUITES.contains(&sample.id.suite.as_str())
            && sample.family == Family::AggregateFilter
    });
    let arms = ours.by(|sample| (sample.id.agent.as_str(), sample.id.suite.as_str()));
    let titles: Vec<String> =
        arms.keys().map(|(agent, suite)| format!("{agent}, `{suite}`")).collect();
    let mut table = MarkdownTable::new(["condition", "ours", "quantity"])
        .numbers(["the paper"])
        .numbers(titles.iter().map(String::as_str));
    for row in &paper::FILTER_ROWS {
        let cell = |value: &dyn Fn(&SampleGroup<'_>) -> Option<String>| -> Vec<String> {
            let cells = arms
                .values()
                .map(|group| value(&group.filter(|sample| sample.is_in(row.condition))));
            cells.map(|cell| cell.unwrap_or_else(|| MISSING.to_owned())).collect()
        };
        let mut add = |quantity: &str, paper: String, ours: Vec<String>| {
            let condition = ours_cell(Family::AggregateFilter, row.condition);
            let first = [row.name.to_owned(), condition, quantity.to_owned(), paper];
            table.row(first.into_iter().chain(ours));
        };
        add(
            "right, %",
            decimal(row.accuracy, 1),
            cell(&|group| group.accuracy().map(|(share, _)| percent(share))),
        );
        add(
            "reply tokens",
            grouped(real(row.content_tokens)),
            cell(&|group| group.mean(|sample| real(sample.score.reply_tokens)).map(grouped)),
        );
        add(
            "model tokens",
            grouped(real(row.model_tokens)),
            cell(&|group| group.mean(|sample| real(sample.score.model_tokens())).map(grouped)),
        );
    }
    table.render_or("")
}

/// What the paper's own numbers say once the same condition is pooled.
pub(super) fn pooled() -> String {
    let mut table = MarkdownTable::new(["condition", "cells"]).numbers([
        "right",
        "samples",
        "%",
        "p against full (Fisher)",
    ]);
    let full = paper::pooled("s1-c1");
    for (condition, cells) in [
        ("s1-c1", "E1 LRO, E2 C1, E3 Recipe"),
        ("s1-c2", "E2 C2, E3 NoRecipe"),
        ("s1-c3", "E2 C3"),
        ("s1-c4", "E2 C4"),
        ("s1-c5", "E2 C5"),
    ] {
        let count = paper::pooled(condition);
        let p = fisher_exact([full.outcomes(), count.outcomes()]);
        table.row([
            format!("`{condition}`"),
            cells.to_owned(),
            count.right.to_string(),
            count.samples.to_string(),
            decimal(count.percent(), 1),
            if count == full { MISSING.to_owned() } else { p_value(p) },
        ]);
    }
    let possible = |samples: u64| paper::is_possible(12.9, samples);
    let impossible = [15, 30, 45, 60, 75, 90].into_iter().all(|samples| !possible(samples));
    let remark = if impossible {
        "The paper's accuracy of filter tasks, 12.9 %, is no number of right answers in one to six cells \
         of 15 tasks."
    } else {
        "The paper's accuracy of filter tasks, 12.9 %, is possible."
    };
    let caveat = "The p-values are not corrected, and the samples are of the same 15 tasks.";
    format!("{}\n\n{remark} {caveat}", table.render_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{samples, transcript};

    #[test]
    fn equal_conditions_show_the_same_samples() {
        let mut pages = transcript("s3-5", 1);
        pages.sample.suite = "paper".to_owned();
        pages.family = Family::IdLookupPaper;
        let set = samples([pages]);
        let text = beside_ours(&SampleGroup(set.iter().collect()));
        let row = |first: &str| {
            text.lines().find(|line| line.starts_with(first)).unwrap_or_default().to_owned()
        };
        assert!(row("| E1 | Inline (5/page) |").ends_with("| 100.0 / – / – |"), "{text}");
        assert!(row("| E2 | C5 inline |").ends_with("| 100.0 / – / – |"), "{text}");
    }

    #[test]
    fn the_papers_numbers_are_pooled() {
        let text = pooled();
        for expected in [
            "| `s1-c1` | E1 LRO, E2 C1, E3 Recipe | 230 | 270 | 85.2 | – |",
            "| `s1-c2` | E2 C2, E3 NoRecipe | 166 | 180 | 92.2 | 0.026 |",
            "| `s1-c4` | E2 C4 | 86 | 90 | 95.6 | 0.009 |",
            "12.9 %, is no number",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn the_paper_is_printed_without_our_samples() {
        let text = beside_ours(&SampleGroup::default());
        let lro = "| E1 | LRO | `s1-c1` | right, % | 93.3 / 73.3 | 93.3 / 86.7 | 86.7 / 73.3 |";
        assert!(text.contains(lro), "{text}");
        let inline = "| E2 | C5 inline | `s1-c5` = `s3-5` | right, % | 0.0 / 0.0 | 0.0 / 6.7 |";
        assert!(text.contains(inline), "{text}");
        let last = "| alignment | 0.758 / 0.500 | 0.633 / 0.456 | 0.750 / 0.417 |";
        assert!(text.ends_with(last), "{text}");
        let filters = filters_beside_ours(&SampleGroup::default());
        assert!(filters.contains("| C5 inline | `s1-c5` | model tokens | 661,071 |"), "{filters}");
    }
}
