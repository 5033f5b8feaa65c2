//! What was not run: the suites minus the transcripts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Result;

use super::format::{MISSING, MarkdownTable, grouped};
use super::samples::{SampleGroup, ScoredSample, family_name, kind_name};
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

/// The part of the document: how much of each suite was run with which model, the missing samples
/// of each model, and every arm that no model ran. `attempts` are the samples of models, with those
/// that failed.
pub(super) fn render(planned: &[PlannedArm], attempts: &SampleGroup<'_>) -> String {
    let agents = attempts.by(|sample| sample.id.agent.as_str());
    let mut suites: BTreeMap<&str, Vec<&PlannedArm>> = BTreeMap::new();
    for arm in planned {
        suites.entry(&arm.suite).or_default().push(arm);
    }
    let mut summary =
        MarkdownTable::new(["suite"]).numbers(["arms", "tasks"]).numbers(agents.keys().copied());
    for (suite, arms) in &suites {
        let tasks: usize = arms.iter().map(|arm| arm.tasks).sum();
        let mut cells =
            vec![format!("`{suite}`"), arms.len().to_string(), grouped(real_len(tasks))];
        cells.extend(agents.values().map(|attempts| {
            let states = arms.iter().map(|arm| ArmState::new(arm, attempts));
            let tasks: usize = states.map(|state| state.complete_tasks).sum();
            match repeats(suite, attempts) {
                0 => MISSING.to_owned(),
                repeats => format!("{} × {repeats}", grouped(real_len(tasks))),
            }
        }));
        summary.row(cells);
    }
    let heading = if agents.is_empty() {
        "**No model has been run in these suites.** Except for the questions below, every number of \
         this page that is not the paper's comes from scripted agents."
    } else {
        "Tasks × repeats by suite. A task counts if a model ran all of its repeats."
    };
    let mut parts = vec![heading.to_owned(), summary.render_or("")];
    parts.extend(agents.iter().map(|(agent, attempts)| missing_samples(agent, &suites, attempts)));
    let scored = attempts.scored();
    let is_run = |arm: &PlannedArm| scored.0.iter().any(|sample| arm.has(sample));
    let list = list(planned.iter().filter(|arm| !is_run(arm)).map(|arm| (arm, String::new())));
    parts.push(match list.as_str() {
        "" => "Models ran every arm.".to_owned(),
        list => format!("Arms that no model ran:\n\n{list}"),
    });
    parts.join("\n\n")
}

impl PlannedArm {
    /// Whether a sample belongs to the arm.
    fn has(&self, sample: &ScoredSample) -> bool {
        sample.id.suite == self.suite
            && sample.family == self.family
            && sample.kind == self.kind
            && sample.is_in(&self.condition)
            && sample.size == self.size
    }
}

/// The number of repeats of each task of a suite, as far as the samples of an agent tell.
fn repeats(suite: &str, attempts: &SampleGroup<'_>) -> usize {
    let of_suite = attempts.0.iter().filter(|sample| sample.id.suite == suite);
    let last = of_suite.map(|sample| sample.id.repeat).max();
    last.map_or(0, |last| last as usize + 1)
}

/// What an agent ran of an arm.
#[derive(Debug, PartialEq, Eq)]
struct ArmState {
    /// The tasks with all repeats.
    complete_tasks: usize,
    /// The samples that were planned.
    samples: usize,
    /// Those that were not run, or failed.
    missing: usize,
}

impl ArmState {
    fn new(arm: &PlannedArm, attempts: &SampleGroup<'_>) -> Self {
        let repeats = repeats(&arm.suite, attempts);
        let mut tasks: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for sample in attempts.scored().0.iter().filter(|sample| arm.has(sample)) {
            tasks.entry(&sample.id.task).or_default().insert(sample.id.repeat);
        }
        let complete = tasks.values().filter(|numbers| numbers.len() == repeats).count();
        let scored: usize = tasks.values().map(BTreeSet::len).sum();
        let samples = arm.tasks * repeats;
        Self {
            complete_tasks: complete.min(arm.tasks),
            samples,
            missing: samples.saturating_sub(scored),
        }
    }
}

/// The samples that a model did not run in the suites that it ran, and the names of the others.
fn missing_samples(
    agent: &str,
    suites: &BTreeMap<&str, Vec<&PlannedArm>>,
    attempts: &SampleGroup<'_>,
) -> String {
    let is_run = |suite: &str| repeats(suite, attempts) > 0;
    let mut missing = Vec::new();
    for arm in suites.iter().filter(|(suite, _)| is_run(suite)).flat_map(|(_, arms)| arms) {
        let state = ArmState::new(arm, attempts);
        let part = if state.missing < state.samples {
            format!(" ({} of {} samples)", state.missing, state.samples)
        } else {
            String::new()
        };
        if state.missing > 0 {
            missing.push((*arm, part));
        }
    }
    let list = list(missing.into_iter());
    let mut text = match list.as_str() {
        "" => format!("No samples of {agent} are missing in the suites that it ran."),
        list => format!("Missing samples of {agent} in the suites that it ran:\n\n{list}"),
    };
    let others = suites.keys().filter(|suite| !is_run(suite));
    let others: Vec<String> = others.map(|suite| format!("`{suite}`")).collect();
    if !others.is_empty() {
        let _ = write!(text, "\n\n{agent} did not run: {}.", others.join(", "));
    }
    text
}

/// A list item for each suite and family with its arms. A remark follows the size of an arm.
fn list<'a>(arms: impl Iterator<Item = (&'a PlannedArm, String)>) -> String {
    type Groups<'p> = BTreeMap<(&'p str, Family, CorpusKind), BTreeMap<&'p str, Vec<String>>>;
    let mut groups: Groups<'a> = BTreeMap::new();
    for (arm, remark) in arms {
        let conditions = groups.entry((&arm.suite, arm.family, arm.kind)).or_default();
        let size = format!("{}{remark}", grouped(real_len(arm.size)));
        conditions.entry(&arm.condition).or_default().push(size);
    }
    let mut items = Vec::new();
    for ((suite, family, kind), conditions) in groups {
        // Conditions with the same sizes are named together.
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
    use crate::report::fixture::{samples, transcript};
    use crate::transcript::{Ending, Transcript};

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
        assert!(text.starts_with("**No model has been run in these suites.**"), "{text}");
        assert!(text.contains("| `e1` | 4 | 160 |"), "{text}");
        assert!(
            text.ends_with("- `e1`, T1 id lookup, memories: `s1-c1`, `s5` at n = 50; 200."),
            "{text}"
        );
    }

    #[test]
    fn a_task_counts_with_all_of_its_repeats() {
        let repeated = |condition: &str, task, repeat| {
            let mut transcript = transcript(condition, task);
            transcript.sample.repeat = repeat;
            transcript
        };
        let mut other = transcript("s5", 1);
        other.sample.agent = "other".to_owned();
        let set = samples([
            repeated("s1-c1", 1, 0),
            repeated("s1-c1", 1, 1),
            repeated("s1-c1", 2, 0),
            Transcript { given: None, ending: Ending::Failed, ..repeated("s1-c1", 2, 1) },
            other,
        ]);
        let small = |condition| PlannedArm { tasks: 2, ..arm(condition, 50) };
        let kinds = PlannedArm { suite: "kinds".to_owned(), ..arm("s8", 50) };
        let planned = [small("s1-c1"), small("s5"), kinds];
        let text = render(&planned, &SampleGroup(set.iter().collect()));
        assert!(text.contains("| suite | arms | tasks | model | other |"), "{text}");
        assert!(text.contains("| `e1` | 2 | 4 | 1 × 2 | 1 × 1 |"), "{text}");
        assert!(text.contains("| `kinds` | 1 | 40 | – | – |"), "{text}");
        let of_model = "Missing samples of model in the suites that it ran:\n\n- `e1`, T1 id \
             lookup, memories: `s5` at n = 50; `s1-c1` at n = 50 (1 of 4 samples).\n\nmodel did \
             not run: `kinds`.";
        assert!(text.contains(of_model), "{text}");
        let of_other = "Missing samples of other in the suites that it ran:\n\n- `e1`, T1 id \
             lookup, memories: `s1-c1` at n = 50; `s5` at n = 50 (1 of 2 samples).";
        assert!(text.contains(of_other), "{text}");
        let list = "- `kinds`, T1 id lookup, memories: `s8` at n = 50.";
        assert!(text.ends_with(&format!("Arms that no model ran:\n\n{list}")), "{text}");
    }

    #[test]
    fn all_suites_are_planned() {
        let planned = planned_arms().unwrap();
        for name in NAMES {
            assert!(planned.iter().any(|arm| arm.suite == name), "{name}");
        }
    }
}
