//! The scored samples of all transcripts, and their groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xtask::repository::has_extension;

use super::settings::SettingsCheck;
use crate::condition::Condition;
use crate::score::{Score, score};
use crate::statistics::{Interval, mean, real_bool, real_len, wilson};
use crate::suite::Suite;
use crate::task::{CorpusKind, Family};
use crate::transcript::{Ending, SampleId, Transcript};

/// A sample with its score, which means nothing if the sample failed. The transcript itself is
/// dropped.
#[derive(Debug, Clone)]
pub(super) struct ScoredSample {
    pub(super) id: SampleId,
    /// The conditions that the sample belongs to: its own, and those of its suite that come to the
    /// same.
    pub(super) conditions: Vec<String>,
    pub(super) family: Family,
    pub(super) kind: CorpusKind,
    pub(super) size: usize,
    pub(super) ending: Ending,
    pub(super) score: Score,
    /// Whether the agent is a script and not a model.
    pub(super) is_scripted: bool,
}

impl ScoredSample {
    fn new(transcript: Transcript) -> Self {
        Self {
            score: score(&transcript),
            conditions: vec![transcript.sample.condition.clone()],
            id: transcript.sample,
            family: transcript.family,
            kind: transcript.corpus.kind,
            size: transcript.corpus.size,
            ending: transcript.ending,
            is_scripted: transcript.settings.model.is_none(),
        }
    }

    /// Tokens of the endpoint, or of tool replies if the agent is a script.
    pub(super) fn tokens(&self) -> u64 {
        if self.is_scripted { self.score.reply_tokens } else { self.score.model_tokens() }
    }

    /// Whether the sample belongs to a condition.
    pub(super) fn is_in(&self, condition: &str) -> bool {
        self.conditions.iter().any(|name| name == condition)
    }

    /// Whether the endpoint failed, so that there is nothing to score.
    pub(super) fn is_failed(&self) -> bool {
        self.ending == Ending::Failed
    }
}

/// Reads `transcripts`, a file or a directory of `*.jsonl` files. Fails if the samples of an agent
/// have different settings.
pub(super) fn read(transcripts: &Path) -> Result<Vec<ScoredSample>> {
    let mut settings = SettingsCheck::default();
    let mut samples = SampleSet::default();
    for file in files(transcripts)? {
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            let transcript: Transcript = serde_json::from_str(line)
                .with_context(|| format!("{}:{number}: not a transcript", file.display()))?;
            // A sample that failed before a reply does not know all settings.
            if transcript.ending != Ending::Failed {
                settings.add(&transcript, &file)?;
            }
            samples.add(transcript);
        }
    }
    Ok(samples.into_samples())
}

/// Samples by their ids.
#[derive(Debug, Default)]
pub(super) struct SampleSet(BTreeMap<SampleId, ScoredSample>);

impl SampleSet {
    /// Adds a sample. If it occurs several times, the last one counts; a run repeats those that
    /// failed, so that a failure counts only without another outcome.
    pub(super) fn add(&mut self, transcript: Transcript) {
        let sample = ScoredSample::new(transcript);
        if !sample.is_failed() || !self.0.contains_key(&sample.id) {
            self.0.insert(sample.id.clone(), sample);
        }
    }

    /// All samples, in the order of their ids.
    pub(super) fn into_samples(self) -> Vec<ScoredSample> {
        let mut samples: Vec<ScoredSample> = self.0.into_values().collect();
        let keys: BTreeSet<ConditionKey> = samples.iter().map(ConditionKey::new).collect();
        let conditions: BTreeMap<ConditionKey, Vec<String>> =
            keys.iter().map(|key| (key.clone(), key.conditions(&keys))).collect();
        for sample in &mut samples {
            if let Some(names) = conditions.get(&ConditionKey::new(sample)) {
                sample.conditions.clone_from(names);
            }
        }
        samples
    }
}

/// A condition of a suite with an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ConditionKey {
    suite: String,
    agent: String,
    family: Family,
    kind: CorpusKind,
    condition: String,
}

impl ConditionKey {
    fn new(sample: &ScoredSample) -> Self {
        Self {
            suite: sample.id.suite.clone(),
            agent: sample.id.agent.clone(),
            family: sample.family,
            kind: sample.kind,
            condition: sample.id.condition.clone(),
        }
    }

    /// The conditions that its samples belong to. One that was run by itself, which `keys` has, has
    /// samples of its own.
    fn conditions(&self, keys: &BTreeSet<Self>) -> Vec<String> {
        let mut names = equal_conditions(&self.suite, self.family, self.kind, &self.condition);
        names.retain(|name| {
            let other = Self { condition: name.clone(), ..self.clone() };
            other == *self || !keys.contains(&other)
        });
        names
    }
}

/// The conditions of a suite that come to the same as `condition`, which is the first. A suite runs
/// such conditions once.
pub(super) fn equal_conditions(
    suite: &str,
    family: Family,
    kind: CorpusKind,
    condition: &str,
) -> Vec<String> {
    let mut names = vec![condition.to_owned()];
    let (Ok(suite), Ok(condition)) = (Suite::named(suite), condition.parse::<Condition>()) else {
        return names;
    };
    for arm in suite.arms.iter().filter(|arm| arm.family == family && arm.kind == kind) {
        let name = arm.condition.name();
        if effective(arm.condition) == effective(condition) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The condition that an agent meets, without an ablation that replaces the strategy.
fn effective(condition: Condition) -> Condition {
    match condition.effective_strategy() {
        strategy if strategy == condition.strategy => condition,
        strategy => Condition::new(strategy),
    }
}

fn files(transcripts: &Path) -> Result<Vec<PathBuf>> {
    if transcripts.is_file() {
        return Ok(vec![transcripts.to_owned()]);
    }
    ensure!(
        transcripts.is_dir(),
        "no transcripts at {}; `cargo evidence run` writes them",
        transcripts.display()
    );
    let mut files = Vec::new();
    for entry in fs::read_dir(transcripts)? {
        files.push(entry?.path());
    }
    files.retain(|file| has_extension(file, "jsonl"));
    files.sort();
    Ok(files)
}

/// Samples that are compared as a whole.
#[derive(Debug, Clone, Default)]
pub(super) struct SampleGroup<'a>(pub(super) Vec<&'a ScoredSample>);

impl<'a> SampleGroup<'a> {
    /// The samples for which `keep` holds.
    pub(super) fn filter(&self, keep: impl Fn(&ScoredSample) -> bool) -> Self {
        Self(self.0.iter().copied().filter(|sample| keep(sample)).collect())
    }

    /// The groups of samples with the same key, in the order of the keys.
    pub(super) fn by<K: Ord>(&self, key: impl Fn(&'a ScoredSample) -> K) -> BTreeMap<K, Self> {
        let mut groups: BTreeMap<K, Self> = BTreeMap::new();
        for &sample in &self.0 {
            groups.entry(key(sample)).or_default().0.push(sample);
        }
        groups
    }

    /// The samples that did not fail.
    pub(super) fn scored(&self) -> Self {
        self.filter(|sample| !sample.is_failed())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The sizes of the corpora.
    pub(super) fn sizes(&self) -> BTreeSet<usize> {
        self.0.iter().map(|sample| sample.size).collect()
    }

    /// The mean of a value within each task that has it.
    pub(super) fn task_means(
        &self,
        value: impl Fn(&ScoredSample) -> Option<f64>,
    ) -> BTreeMap<&'a str, f64> {
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for sample in &self.0 {
            if let Some(value) = value(sample) {
                values.entry(sample.id.task.as_str()).or_default().push(value);
            }
        }
        values.into_iter().filter_map(|(task, values)| Some((task, mean(&values)?))).collect()
    }

    /// The mean over tasks of a value that every sample has.
    pub(super) fn mean(&self, value: impl Fn(&ScoredSample) -> f64) -> Option<f64> {
        self.mean_of_some(|sample| Some(value(sample)))
    }

    /// The mean over tasks of a value that some samples have.
    pub(super) fn mean_of_some(&self, value: impl Fn(&ScoredSample) -> Option<f64>) -> Option<f64> {
        let means: Vec<f64> = self.task_means(value).into_values().collect();
        mean(&means)
    }

    /// The share of right answers in each task.
    pub(super) fn accuracies(&self) -> BTreeMap<&'a str, f64> {
        self.task_means(|sample| Some(real_bool(sample.score.correct)))
    }

    /// The share of right answers with its interval; the unit is a task.
    pub(super) fn accuracy(&self) -> Option<(f64, Interval)> {
        share_with_interval(&self.accuracies())
    }

    /// The number of samples that ended so.
    pub(super) fn ended(&self, ending: Ending) -> usize {
        self.0.iter().filter(|sample| sample.ending == ending).count()
    }
}

/// The mean of shares within tasks, with Wilson's interval.
pub(super) fn share_with_interval(shares: &BTreeMap<&str, f64>) -> Option<(f64, Interval)> {
    let values: Vec<f64> = shares.values().copied().collect();
    let share = mean(&values)?;
    Some((share, wilson(share, values.len())))
}

/// The differences of the values of the tasks that both have.
pub(super) fn paired(left: &BTreeMap<&str, f64>, right: &BTreeMap<&str, f64>) -> Vec<f64> {
    left.iter().filter_map(|(task, value)| Some(value - right.get(task)?)).collect()
}

/// The mean number of repeats of a task.
pub(super) fn repeats(group: &SampleGroup<'_>) -> f64 {
    let tasks: BTreeSet<&str> = group.0.iter().map(|sample| sample.id.task.as_str()).collect();
    real_len(group.len()) / real_len(tasks.len().max(1))
}

/// The short name of a family.
pub(super) fn family_name(family: Family) -> &'static str {
    match family {
        Family::IdLookup => "T1 id lookup",
        Family::IdLookupPaper => "T1p id lookup, always 8",
        Family::AggregateFilter => "T2 filter",
        Family::GroupArgmax => "T3 largest group",
        Family::TopK => "T4 top three",
        Family::Temporal => "T5 date",
        Family::Join => "T6 join",
        Family::NeedleRead => "T7 sentence",
        Family::Absent => "T8 absent",
        Family::SecondQuestion => "T9 two questions",
    }
}

/// The name of a kind of corpus.
pub(super) fn kind_name(kind: CorpusKind) -> &'static str {
    match kind {
        CorpusKind::Memories => "memories",
        CorpusKind::Issues => "issues",
        CorpusKind::Log => "log",
        CorpusKind::Map => "map",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{samples, transcript, unanswered};

    fn in_suite(suite: &str, family: Family, condition: &str) -> Transcript {
        let mut transcript = transcript(condition, 1);
        transcript.sample.suite = suite.to_owned();
        transcript.family = family;
        transcript
    }

    #[test]
    fn a_failure_counts_without_another_outcome() {
        let failed = |task| unanswered("s2-c1", task, Ending::Failed);
        let set = samples([failed(1), transcript("s2-c1", 1), failed(1), failed(2)]);
        let endings: Vec<Ending> = set.iter().map(|sample| sample.ending).collect();
        assert_eq!(endings, [Ending::Answered, Ending::Failed]);
        let all = SampleGroup(set.iter().collect());
        assert_eq!((all.scored().len(), all.ended(Ending::Failed)), (1, 1));
    }

    #[test]
    fn a_condition_that_a_suite_does_not_run_has_the_samples_of_an_equal_one() {
        let lookup = |condition| in_suite("paper", Family::IdLookupPaper, condition);
        let set = samples([lookup("s3-5"), lookup("s1-c1")]);
        assert_eq!(set[0].conditions, ["s1-c1"]);
        assert_eq!(set[1].conditions, ["s3-5", "s1-c5"]);
        assert!(set[1].is_in("s1-c5"));
        // Both were run.
        let set = samples([lookup("s3-5"), lookup("s1-c5")]);
        assert_eq!(set[0].conditions, ["s1-c5"]);
        assert_eq!(set[1].conditions, ["s3-5"]);
        // The suite does not ask filters with other pages.
        let set = samples([in_suite("paper", Family::AggregateFilter, "s1-c5")]);
        assert_eq!(set[0].conditions, ["s1-c5"]);
        let set = samples([in_suite("e2", Family::IdLookup, "s1-c5")]);
        assert_eq!(set[0].conditions, ["s1-c5", "s2-c5"]);
        let set = samples([in_suite("e2", Family::IdLookup, "s3-5")]);
        assert_eq!(set[0].conditions, ["s3-5", "s1-c5", "s2-c5"]);
        let set = samples([in_suite("another", Family::IdLookup, "s1-c5")]);
        assert_eq!(set[0].conditions, ["s1-c5"]);
    }
}
