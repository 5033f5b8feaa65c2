//! Tables of extraction commands (T-D): their classes, and whether the answers are right.

use super::accuracy::RowKey;
use super::format::{MarkdownTable, decimal, or_missing, percent, percent_with_interval};
use super::samples::{SampleGroup, ScoredSample};
use crate::score::CommandClass;

/// T-D: the number of commands of each class, goal achievement and alignment in the paper's form.
pub(super) fn classes(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let mut table = MarkdownTable::new(RowKey::TITLES)
        .numbers(["commands"])
        .numbers(CommandClass::ALL.map(CommandClass::name))
        .numbers(["goal achievement, %", "alignment"]);
    let with_commands = samples.filter(|sample| !sample.score.commands.is_empty());
    for (key, group) in RowKey::groups(&with_commands) {
        let commands = || group.0.iter().flat_map(|sample| &sample.score.commands);
        let mut cells = key.cells();
        cells.push(commands().count().to_string());
        cells.extend(
            CommandClass::ALL.map(|class| {
                commands().filter(|command| command.class == class).count().to_string()
            }),
        );
        cells.extend([
            or_missing(group.mean_of_some(|sample| sample.score.goal_achievement()), percent),
            or_missing(group.mean_of_some(|sample| sample.score.alignment()), |alignment| {
                decimal(alignment, 3)
            }),
        ]);
        table.row(cells);
    }
    table.render_or(otherwise)
}

/// The share of right answers by the class of the last command before the answer, so that alignment
/// is not mistaken for success. Conditions and families differ in both, so each has its own rows.
pub(super) fn accuracy_by_class(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let mut table = MarkdownTable::new(RowKey::TITLES)
        .texts(["class of the last command"])
        .numbers(["samples", "task count", "right, %"]);
    let with_commands = samples.filter(|sample| !sample.score.commands.is_empty());
    for (key, group) in RowKey::groups(&with_commands) {
        let last = |sample: &ScoredSample| sample.score.commands.last().map(|last| last.class);
        for (class, group) in group.by(last) {
            let mut cells = key.cells();
            cells.extend([
                class.map_or_else(String::new, |class| class.name().to_owned()),
                group.len().to_string(),
                group.accuracies().len().to_string(),
                or_missing(group.accuracy(), percent_with_interval),
            ]);
            table.row(cells);
        }
    }
    table.render_or(otherwise)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::fixture::{reply, samples, transcript};
    use crate::task::Family;

    #[test]
    fn families_and_conditions_are_not_pooled() {
        let search = |condition: &str, family| {
            let mut call = reply("bash", 10);
            call.arguments = json!({"command": "grep -c x f"});
            let mut transcript = transcript(condition, 1);
            (transcript.calls, transcript.family) = (vec![call], family);
            transcript
        };
        let mut wrong = search("s1-c1", Family::AggregateFilter);
        wrong.given = None;
        wrong.sample.task = "t2-memories-50-01".to_owned();
        let set = samples([search("s1-c1", Family::IdLookup), wrong]);
        let table = accuracy_by_class(&SampleGroup(set.iter().collect()), "");
        let lookup = "| T1 id lookup | `s1-c1` | model | novel | 1 | 1 | 100.0 (20.7–100.0) |";
        let filter = "| T2 filter | `s1-c1` | model | novel | 1 | 1 | 0.0 (0.0–79.3) |";
        assert!(table.contains(lookup) && table.contains(filter), "{table}");
    }
}
