//! Tables of right answers: by strategy (T-A), by ablation (T-C), and of filter tasks (T-E).

use std::collections::BTreeSet;

use super::format::{
    MISSING, MarkdownTable, condition_cell, decimal, grouped, or_missing, percent,
    percent_with_interval, points_with_interval,
};
use super::samples::{SampleGroup, family_name, kind_name, paired, repeats};
use crate::statistics::{bootstrap_mean, mean, real, real_bool, real_len};
use crate::task::{CorpusKind, Family};
use crate::transcript::Ending;

/// What identifies a row of most tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey<'a> {
    pub(super) suite: &'a str,
    pub(super) family: Family,
    pub(super) kind: CorpusKind,
    pub(super) condition: &'a str,
    pub(super) agent: &'a str,
    /// The conditions that have these samples.
    conditions: &'a [String],
    /// Whether the agent is a script and not a model.
    is_scripted: bool,
}

impl<'a> RowKey<'a> {
    /// The groups of samples with the same key.
    pub(super) fn groups(samples: &SampleGroup<'a>) -> Vec<(Self, SampleGroup<'a>)> {
        let groups = samples.by(|sample| Self {
            suite: &sample.id.suite,
            family: sample.family,
            kind: sample.kind,
            condition: &sample.id.condition,
            agent: &sample.id.agent,
            conditions: &sample.conditions,
            is_scripted: sample.is_scripted,
        });
        groups.into_iter().collect()
    }

    /// The titles of its cells.
    pub(super) const TITLES: [&'static str; 4] = ["suite", "tasks", "condition", "agent"];

    /// Its cells.
    pub(super) fn cells(&self) -> Vec<String> {
        let tasks = match self.kind {
            CorpusKind::Memories => family_name(self.family).to_owned(),
            kind => format!("{}, {}", family_name(self.family), kind_name(kind)),
        };
        let agent = if self.is_scripted {
            format!("{} (scripted)", self.agent)
        } else {
            self.agent.to_owned()
        };
        let condition = condition_cell(self.condition, self.conditions);
        vec![self.suite.to_owned(), tasks, condition, agent]
    }

    /// The condition with the others that have the same samples, as plain text.
    pub(super) fn condition_text(&self) -> String {
        condition_cell(self.condition, self.conditions).replace('`', "")
    }
}

/// The titles of columns by size.
pub(super) fn size_titles(sizes: &BTreeSet<usize>) -> Vec<String> {
    sizes.iter().map(|size| format!("n = {}", grouped(real_len(*size)))).collect()
}

/// T-A: the share of right answers by condition and size, and how the other samples ended. Samples
/// that failed are counted, and not scored.
pub(super) fn by_strategy(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let sizes = samples.sizes();
    let titles = size_titles(&sizes);
    let mut table = MarkdownTable::new(RowKey::TITLES)
        .numbers(["samples", "repeats"])
        .numbers(titles.iter().map(String::as_str))
        .numbers(ENDINGS.map(|(title, _)| title));
    for (key, group) in RowKey::groups(samples) {
        let scored = group.scored();
        let mut cells = key.cells();
        cells.extend([scored.len().to_string(), decimal(repeats(&scored), 1)]);
        cells.extend(sizes.iter().map(|size| {
            let cell = scored.filter(|sample| sample.size == *size);
            or_missing(cell.accuracy(), percent_with_interval)
        }));
        cells.extend(ENDINGS.map(|(_, ending)| group.ended(ending).to_string()));
        table.row(cells);
    }
    table.render_or(otherwise)
}

/// The right answers of scripted agents by suite and kind of result, over all conditions and families.
pub(super) fn by_script(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let sizes = samples.sizes();
    let titles = size_titles(&sizes);
    let mut table = MarkdownTable::new(["agent", "suite", "results"])
        .numbers(["conditions", "samples"])
        .numbers(titles.iter().map(String::as_str))
        .numbers(["first call right, %", "errors", "cap", "no answer"]);
    let groups =
        samples.by(|sample| (sample.id.agent.as_str(), sample.id.suite.as_str(), sample.kind));
    for ((agent, suite, kind), group) in groups {
        let conditions = group.by(|sample| sample.id.condition.as_str()).len();
        let first = group.mean_of_some(|sample| sample.score.first_call_correct.map(real_bool));
        let errors: u64 = group.0.iter().flat_map(|sample| sample.score.errors.values()).sum();
        let mut cells = vec![agent.to_owned(), suite.to_owned(), kind_name(kind).to_owned()];
        cells.extend([conditions.to_string(), group.len().to_string()]);
        cells.extend(sizes.iter().map(|size| {
            let cell = group.filter(|sample| sample.size == *size);
            or_missing(cell.accuracy(), percent_with_interval)
        }));
        cells.extend([
            or_missing(first, percent),
            errors.to_string(),
            group.ended(Ending::Cap).to_string(),
            group.ended(Ending::NoAnswer).to_string(),
        ]);
        table.row(cells);
    }
    table.render_or(otherwise)
}

/// The endings without an answer, with the titles of their columns.
const ENDINGS: [(&str, Ending); 6] = [
    ("cap", Ending::Cap),
    ("overflow", Ending::ContextOverflow),
    ("refused", Ending::Refused),
    ("output limit", Ending::OutputLimit),
    ("no answer", Ending::NoAnswer),
    ("failed", Ending::Failed),
];

/// The strategy and the ablation of a condition such as `s2-sql-c6`; `None` without an ablation.
pub(super) fn ablation(condition: &str) -> Option<(&str, &str)> {
    condition.rsplit_once('-').filter(|(_, ablation)| {
        let number = ablation.strip_prefix('c').unwrap_or_default();
        number.starts_with(|first: char| first.is_ascii_digit())
    })
}

/// The ablation that the others are compared with.
pub(super) const FULL: &str = "c1";

/// A condition of T-C and F3, compared with the full descriptor.
#[derive(Debug)]
pub(super) struct AblationRow<'a> {
    pub(super) key: RowKey<'a>,
    pub(super) group: SampleGroup<'a>,
    /// The samples with the full descriptor.
    pub(super) full: SampleGroup<'a>,
}

impl AblationRow<'_> {
    /// Whether the row is the full descriptor itself.
    pub(super) fn is_full(&self) -> bool {
        ablation(self.key.condition).is_some_and(|(_, name)| name == FULL)
    }
}

/// The conditions with an ablation, where the full descriptor was run too. Samples of several
/// conditions are compared with the full descriptor of each.
pub(super) fn ablation_rows<'a>(samples: &SampleGroup<'a>) -> Vec<AblationRow<'a>> {
    let mut groups: Vec<(RowKey<'a>, SampleGroup<'a>)> = Vec::new();
    for (key, group) in RowKey::groups(samples) {
        let rows = key.conditions.iter().map(|condition| RowKey { condition, ..key });
        groups.extend(rows.map(|key| (key, group.clone())));
    }
    groups.sort_by_key(|(key, _)| *key);
    let full_of = |key: &RowKey<'_>| {
        let (strategy, _) = ablation(key.condition)?;
        let full = format!("{strategy}-{FULL}");
        let same = |other: &RowKey<'_>| {
            (other.suite, other.family, other.kind, other.agent)
                == (key.suite, key.family, key.kind, key.agent)
                && other.condition == full
        };
        groups.iter().find(|(other, _)| same(other)).map(|(_, group)| group.clone())
    };
    let rows = groups.iter().filter_map(|(key, group)| {
        Some(AblationRow { key: *key, group: group.clone(), full: full_of(key)? })
    });
    rows.collect()
}

/// T-C: the share of right answers by ablation, pooled and by size, and the difference to the full
/// descriptor, paired by task.
pub(super) fn by_ablation(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let sizes = samples.sizes();
    let titles = size_titles(&sizes);
    let mut table = MarkdownTable::new(RowKey::TITLES)
        .numbers(["all n", "difference to c1", "reply tokens", "of those of c1"])
        .numbers(titles.iter().map(String::as_str));
    for row in ablation_rows(samples) {
        let mut cells = row.key.cells();
        cells.push(or_missing(row.group.accuracy(), percent_with_interval));
        let differences = paired(&row.group.accuracies(), &row.full.accuracies());
        let difference = mean(&differences).filter(|_| !row.is_full());
        cells.push(or_missing(difference, |difference| {
            points_with_interval(difference, bootstrap_mean(&differences))
        }));
        let tokens = |group: &SampleGroup<'_>| group.mean(|sample| real(sample.score.reply_tokens));
        cells.push(or_missing(tokens(&row.group), grouped));
        let ratio = tokens(&row.group).zip(tokens(&row.full)).filter(|(_, full)| *full > 0.0);
        cells.push(or_missing(ratio, |(tokens, full)| decimal(tokens / full, 2)));
        cells.extend(sizes.iter().map(|size| {
            let cell = row.group.filter(|sample| sample.size == *size);
            or_missing(cell.accuracy(), percent_with_interval)
        }));
        table.row(cells);
    }
    table.render_or(otherwise)
}

/// T-E: filter tasks, with the tokens of replies and of the model as the paper prints them.
pub(super) fn filters(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let mut table = MarkdownTable::new(RowKey::TITLES).numbers([
        "samples",
        "right, %",
        "cap",
        "reply tokens",
        "model tokens",
    ]);
    let filters = samples.filter(|sample| sample.family == Family::AggregateFilter);
    for (key, group) in RowKey::groups(&filters) {
        let model_tokens = group.mean(|sample| real(sample.score.model_tokens()));
        let mut cells = key.cells();
        cells.extend([
            group.len().to_string(),
            or_missing(group.accuracy(), percent_with_interval),
            group.ended(Ending::Cap).to_string(),
            or_missing(group.mean(|sample| real(sample.score.reply_tokens)), grouped),
            model_tokens.filter(|tokens| *tokens > 0.0).map_or(MISSING.to_owned(), grouped),
        ]);
        table.row(cells);
    }
    table.render_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{samples, transcript, unanswered};
    use crate::report::samples::ScoredSample;
    use crate::task::Answer;

    fn group(samples: &[ScoredSample]) -> SampleGroup<'_> {
        SampleGroup(samples.iter().collect())
    }

    #[test]
    fn conditions_have_ablations() {
        assert_eq!(ablation("s1-c1"), Some(("s1", "c1")));
        assert_eq!(ablation("s2-sql-c6"), Some(("s2-sql", "c6")));
        assert_eq!(ablation("s1-c2g"), Some(("s1", "c2g")));
        assert_eq!(ablation("s3-50"), None);
        assert_eq!(ablation("s4-paper"), None);
        assert_eq!(ablation("s5"), None);
    }

    #[test]
    fn failed_samples_are_counted_and_not_scored() {
        let set = samples([
            transcript("s2-c1", 1),
            unanswered("s2-c1", 2, Ending::OutputLimit),
            unanswered("s2-c1", 3, Ending::Failed),
            unanswered("s2-c6", 1, Ending::Failed),
        ]);
        let table = by_strategy(&group(&set), "");
        let titles = "| cap | overflow | refused | output limit | no answer | failed |";
        assert!(table.contains(titles), "{table}");
        let row = "| `s2-c1` | model | 2 | 1.0 | 50.0 (9.5–90.5) | 0 | 0 | 0 | 1 | 0 | 1 |";
        assert!(table.contains(row), "{table}");
        let row = "| `s2-c6` | model | 0 | 0.0 | – | 0 | 0 | 0 | 0 | 0 | 1 |";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn scripted_agents_are_pooled_by_suite_and_kind() {
        let in_kind = |condition: &str, task, kind, given| {
            let mut transcript = transcript(condition, task);
            transcript.corpus.kind = kind;
            transcript.sample.task = format!("{kind:?}-{task}");
            transcript.given = given;
            transcript
        };
        let right = Some(Answer::Count(7));
        let set = samples([
            in_kind("s2-c1", 1, CorpusKind::Memories, right.clone()),
            in_kind("s2-c6", 1, CorpusKind::Memories, right.clone()),
            in_kind("s2-c1", 1, CorpusKind::Log, right),
            in_kind("s2-c1", 2, CorpusKind::Log, Some(Answer::Count(8))),
        ]);
        let table = by_script(&group(&set), "");
        assert_eq!(
            table,
            "| agent | suite | results | conditions | samples | n = 50 | first call right, % | errors | cap | no answer |\n\
             |---|---|---|--:|--:|--:|--:|--:|--:|--:|\n\
             | model | e1 | memories | 2 | 2 | 100.0 (20.7–100.0) | – | 0 | 0 | 0 |\n\
             | model | e1 | log | 1 | 2 | 50.0 (9.5–90.5) | – | 0 | 0 | 0 |"
        );
        assert_eq!(by_script(&group(&[]), "none"), "none");
    }

    #[test]
    fn one_set_of_samples_is_compared_under_each_of_its_names() {
        let set = samples(["s1-c1", "s2-c1", "s1-c5"].map(|condition| {
            let mut transcript = transcript(condition, 1);
            transcript.sample.suite = "e2".to_owned();
            transcript
        }));
        let table = by_ablation(&group(&set), "");
        assert!(table.contains("| `s1-c5` = `s2-c5` | model |"), "{table}");
        assert!(table.contains("| `s2-c5` = `s1-c5` | model |"), "{table}");
        assert!(table.contains("| +0.0 (no variation) |"), "{table}");
    }

    #[test]
    fn a_script_is_named_as_such() {
        let mut scripted = transcript("s2-c1", 1);
        scripted.settings.model = None;
        let set = samples([scripted]);
        let table = by_strategy(&group(&set), "");
        assert!(table.contains("| model (scripted) |"), "{table}");
    }
}
