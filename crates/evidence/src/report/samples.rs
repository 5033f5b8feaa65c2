//! The scored samples of all transcripts, and their groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xtask::repository::has_extension;

use crate::score::{Score, score};
use crate::statistics::{Interval, mean, real_len, wilson};
use crate::task::{CorpusKind, Family};
use crate::transcript::{Ending, SampleId, Transcript};

/// A sample with its score. The transcript itself is not kept.
#[derive(Debug, Clone)]
pub(super) struct ScoredSample {
    pub(super) id: SampleId,
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
            id: transcript.sample,
            family: transcript.family,
            kind: transcript.corpus.kind,
            size: transcript.corpus.size,
            ending: transcript.ending,
            is_scripted: true,
        }
    }

    /// Tokens of the endpoint, or of tool replies if the agent is a script.
    pub(super) fn tokens(&self) -> u64 {
        if self.is_scripted { self.score.reply_tokens } else { self.score.model_tokens() }
    }
}

/// Reads `transcripts`, a file or a directory of `*.jsonl` files.
///
/// A sample that failed is not scored. If a sample occurs several times, the last one counts.
pub(super) fn read(transcripts: &Path) -> Result<Vec<ScoredSample>> {
    let mut samples = BTreeMap::new();
    for file in files(transcripts)? {
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            let transcript: Transcript = serde_json::from_str(line)
                .with_context(|| format!("{}:{number}: not a transcript", file.display()))?;
            if transcript.ending != Ending::Failed {
                let sample = ScoredSample::new(transcript);
                samples.insert(sample.id.clone(), sample);
            }
        }
    }
    let mut samples: Vec<ScoredSample> = samples.into_values().collect();
    // Only models use tokens of an endpoint, though not in a sample that failed at once.
    let models: BTreeSet<String> = samples
        .iter()
        .filter(|sample| sample.score.model_tokens() > 0)
        .map(|sample| sample.id.agent.clone())
        .collect();
    for sample in &mut samples {
        sample.is_scripted = !models.contains(&sample.id.agent);
    }
    Ok(samples)
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
        self.task_means(|sample| Some(if sample.score.correct { 1.0 } else { 0.0 }))
    }

    /// The share of right answers with its interval; the unit is a task.
    pub(super) fn accuracy(&self) -> Option<(f64, Interval)> {
        share_with_interval(&self.accuracies())
    }

    /// The number of samples that ended so.
    pub(super) fn ended(&self, ending: Ending) -> usize {
        self.0.iter().filter(|sample| sample.ending == ending).count()
    }

    /// The values of all samples, for quantiles.
    pub(super) fn values(&self, value: impl Fn(&ScoredSample) -> f64) -> Vec<f64> {
        self.0.iter().map(|sample| value(sample)).collect()
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
