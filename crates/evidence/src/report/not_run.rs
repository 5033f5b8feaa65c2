//! What was not run: the suites minus the transcripts.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::format::{MarkdownTable, grouped};
use super::samples::{SampleGroup, family_name, kind_name};
use crate::statistics::real_len;
use crate::suite::{NAMES, Suite};
use crate::task::{CorpusKind, Family};

/// An arm of a suite at one size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlannedArm {
    pub(super) suite: String,
    pub(super) family: Family,
    pub(super) kind: CorpusKind,
    pub(super) condition: String,
    pub(super) size: usize,
    /// The tasks, each of which is a sample at least.
    pub(super) tasks: usize,
}

/// The arms of all suites.
pub(super) fn planned_arms() -> Result<Vec<PlannedArm>> {
    let mut planned = Vec::new();
    for name in NAMES {
        let suite = Suite::named(name)?;
        for arm in suite.distinct_arms() {
            planned.extend(suite.default_sizes(arm.kind).iter().map(|size| PlannedArm {
                suite: name.to_owned(),
                family: arm.family,
                kind: arm.kind,
                condition: arm.condition.name(),
                size: *size,
                tasks: suite.tasks,
            }));
        }
    }
    planned.sort();
    Ok(planned)
}

/// The part of the document: how much of each suite was run with which model, and every arm that no
/// model ran.
pub(super) fn render(planned: &[PlannedArm], models: &SampleGroup<'_>) -> String {
    let agents: BTreeSet<&str> = models.0.iter().map(|sample| sample.id.agent.as_str()).collect();
    let mut summary =
        MarkdownTable::new(["suite"]).numbers(["arms", "tasks"]).numbers(agents.iter().copied());
    let mut suites: BTreeMap<&str, Vec<&PlannedArm>> = BTreeMap::new();
    for arm in planned {
        suites.entry(&arm.suite).or_default().push(arm);
    }
    for (suite, arms) in &suites {
        let tasks: usize = arms.iter().map(|arm| arm.tasks).sum();
        let mut cells =
            vec![format!("`{suite}`"), arms.len().to_string(), grouped(real_len(tasks))];
        cells.extend(agents.iter().map(|agent| {
            let run: usize = arms.iter().map(|arm| tasks_run(arm, models, Some(*agent))).sum();
            format!("{} tasks", grouped(real_len(run)))
        }));
        summary.row(cells);
    }
    let heading = if agents.is_empty() {
        "**No model has been run.** Every number of this page that is not the paper's comes from \
         scripted agents."
    } else {
        "Tasks that a model ran at least once, by suite:"
    };
    let list = missing(planned, models);
    let list = if list.is_empty() {
        "Models ran every task of every arm.".to_owned()
    } else {
        format!("Arms that no model ran, or of which tasks are missing:\n\n{list}")
    };
    format!("{heading}\n\n{}\n\n{list}", summary.render_or(""))
}

/// The number of tasks of an arm that were run, by any model or by one.
fn tasks_run(arm: &PlannedArm, models: &SampleGroup<'_>, agent: Option<&str>) -> usize {
    let run = models.filter(|sample| {
        sample.id.suite == arm.suite
            && sample.family == arm.family
            && sample.kind == arm.kind
            && sample.id.condition == arm.condition
            && sample.size == arm.size
            && agent.is_none_or(|agent| sample.id.agent == agent)
    });
    run.accuracies().len().min(arm.tasks)
}

/// A list item for each suite and family with its missing arms.
fn missing(planned: &[PlannedArm], models: &SampleGroup<'_>) -> String {
    type Missing<'a> = BTreeMap<(&'a str, Family, CorpusKind), BTreeMap<&'a str, Vec<String>>>;
    let mut groups: Missing<'_> = BTreeMap::new();
    for arm in planned {
        let run = tasks_run(arm, models, None);
        if run == arm.tasks {
            continue;
        }
        let conditions = groups.entry((&arm.suite, arm.family, arm.kind)).or_default();
        let size = grouped(real_len(arm.size));
        let size = match run {
            0 => size,
            run => format!("{size} ({} of {} tasks)", arm.tasks - run, arm.tasks),
        };
        conditions.entry(&arm.condition).or_default().push(size);
    }
    let mut items = Vec::new();
    for ((suite, family, kind), conditions) in groups {
        // Conditions that miss the same sizes are named together.
        let mut by_sizes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (condition, sizes) in conditions {
            by_sizes.entry(sizes.join("; ")).or_default().push(format!("`{condition}`"));
        }
        let arms: Vec<String> = by_sizes
            .into_iter()
            .map(|(sizes, conditions)| format!("{} at n = {sizes}", conditions.join(", ")))
            .collect();
        items.push(format!(
            "- `{suite}`, {}, {}: {}.",
            family_name(family),
            kind_name(kind),
            arms.join("; ")
        ));
    }
    items.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(condition: &str, size: usize) -> PlannedArm {
        PlannedArm {
            suite: "e1".to_owned(),
            family: Family::IdLookup,
            kind: CorpusKind::Memories,
            condition: condition.to_owned(),
            size,
            tasks: 40,
        }
    }

    #[test]
    fn without_transcripts_nothing_was_run() {
        let planned = [arm("s1-c1", 50), arm("s1-c1", 200), arm("s5", 50), arm("s5", 200)];
        let text = render(&planned, &SampleGroup::default());
        assert!(text.starts_with("**No model has been run.**"), "{text}");
        assert!(text.contains("| `e1` | 4 | 160 |"), "{text}");
        assert!(
            text.ends_with("- `e1`, T1 id lookup, memories: `s1-c1`, `s5` at n = 50; 200."),
            "{text}"
        );
    }

    #[test]
    fn all_suites_are_planned() {
        let planned = planned_arms().unwrap();
        for name in NAMES {
            assert!(planned.iter().any(|arm| arm.suite == name), "{name}");
        }
    }
}
