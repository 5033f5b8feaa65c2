//! Tables of extraction commands (T-D): their classes, and whether the answers are right.

use super::accuracy::RowKey;
use super::format::{MarkdownTable, decimal, or_missing, percent, percent_with_interval};
use super::samples::SampleGroup;
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

/// The share of right answers by the class of the last command before the answer, so that alignment is
/// not mistaken for success.
pub(super) fn accuracy_by_class(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let mut table = MarkdownTable::new(["agent", "class of the last command"])
        .numbers(["samples", "tasks", "right, %"]);
    let with_commands = samples.filter(|sample| !sample.score.commands.is_empty());
    let groups = with_commands.by(|sample| {
        let last = sample.score.commands.last().map(|command| command.class);
        (sample.id.agent.as_str(), last)
    });
    for ((agent, class), group) in groups {
        table.row([
            agent.to_owned(),
            class.map_or_else(String::new, |class| class.name().to_owned()),
            group.len().to_string(),
            group.accuracies().len().to_string(),
            or_missing(group.accuracy(), percent_with_interval),
        ]);
    }
    table.render_or(otherwise)
}
