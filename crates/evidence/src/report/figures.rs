//! The figures: F1 accuracy, F2 tokens with the break-even, F3 ablations, F4 thresholds, F5 calls.
//!
//! Each shows models if there are samples of them, and scripted agents otherwise; the titles say so.

use std::collections::BTreeMap;

use super::accuracy::{FULL, ablation, ablation_rows};
use super::format::points_with_interval;
use super::samples::{SampleGroup, ScoredSample, paired};
use super::svg::{
    ChartAxis, ChartPoint, ChartSeries, ForestRow, LineForm, forest_plot, line_chart,
};
use super::usage::{RecordTokens, descriptor_tokens};
use crate::statistics::{Interval, bootstrap_mean, mean, real, real_len};
use crate::task::{CorpusKind, Family};
use crate::transcript::Ending;

/// The thresholds of F4, in tokens. The smallest result, of 50 memories, has about 7,750: below the
/// first threshold, all lines are flat.
const THRESHOLDS: [f64; 5] = [6400.0, 12_800.0, 25_600.0, 51_200.0, 102_400.0];
/// The window of which the adaptive threshold is a share.
const WINDOW_TOKENS: f64 = 200_000.0;
const ADAPTIVE_SHARE: f64 = 0.1;
/// The delivery that F4 chooses above the threshold, and the one below.
const OFFLOADED: &str = "s2-c1";
const INLINE: &str = "s5";
/// The conditions with a descriptor whose sizes F2 uses.
const BREAK_EVEN_CONDITION: &str = "s2-c1";

/// A figure with its file below `docs/evidence/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) file: &'static str,
    pub(super) svg: String,
}

/// All figures.
pub(super) fn draw(
    models: &SampleGroup<'_>,
    scripted: &SampleGroup<'_>,
    record_tokens: &RecordTokens,
) -> Vec<Figure> {
    let record_tokens = record_tokens.get(CorpusKind::Memories);
    let shown = |of_models: &SampleGroup<'_>| {
        if of_models.is_empty() { (scripted, "scripted agents") } else { (models, "models") }
    };
    let (samples, agents) = shown(&lookups(models));
    let (with_ablation, agents_with_ablation) = shown(models);
    let figure = |file, svg| Figure { file, svg };
    vec![
        figure("f1-accuracy.svg", accuracy(samples, agents)),
        figure("f2-tokens.svg", tokens(samples, agents, record_tokens)),
        figure("f3-ablation.svg", ablations(with_ablation, agents_with_ablation)),
        figure("f4-thresholds.svg", thresholds(samples, agents, record_tokens)),
        figure("f5-calls.svg", calls(samples, agents)),
    ]
}

/// The samples about ids in memories (T1), without ablations and without the paper's cap. The
/// paper's own question (T1p), which always has the same answer, is another family.
fn lookups<'a>(samples: &SampleGroup<'a>) -> SampleGroup<'a> {
    samples.filter(|sample| {
        let is_full = ablation(&sample.id.condition).is_none_or(|(_, name)| name == FULL);
        is_full
            && sample.kind == CorpusKind::Memories
            && sample.family == Family::IdLookup
            && sample.id.suite != "paper"
    })
}

/// A line for each agent and condition, with a point for each size.
fn by_size(
    samples: &SampleGroup<'_>,
    point: impl Fn(&SampleGroup<'_>) -> Option<(f64, Option<Interval>)>,
) -> Vec<ChartSeries> {
    let arms = samples.by(|sample| (sample.id.condition.as_str(), sample.id.agent.as_str()));
    let line = |((condition, agent), group): ((&str, &str), SampleGroup<'_>)| {
        let points = group.by(|sample| sample.size).into_iter().filter_map(|(size, cell)| {
            let (y, interval) = point(&cell)?;
            Some(ChartPoint { x: real_len(size), y, interval })
        });
        ChartSeries {
            name: format!("{condition}, {agent}"),
            points: points.collect(),
            form: LineForm::Marked,
        }
    };
    arms.into_iter().map(line).filter(|series| !series.points.is_empty()).collect()
}

fn size_axis(samples: &SampleGroup<'_>) -> ChartAxis {
    let sizes: Vec<f64> = samples.sizes().into_iter().map(real_len).collect();
    ChartAxis::at_values("records (n)", &sizes)
}

/// F1.
fn accuracy(samples: &SampleGroup<'_>, agents: &str) -> String {
    let samples = lookups(samples);
    let series = by_size(&samples, |cell| {
        let (share, interval) = cell.accuracy()?;
        Some((100.0 * share, Some(in_percent(interval))))
    });
    let title = format!("F1. Right answers to id lookups, {agents}");
    line_chart(&title, &size_axis(&samples), &ChartAxis::percent("right, % (95 %)"), &series)
}

fn in_percent(interval: Interval) -> Interval {
    Interval { low: 100.0 * interval.low, high: 100.0 * interval.high }
}

/// F2. The dashed lines are n·t and D + k·t, with what was measured at each size. They cross where
/// 1 − D/(n·t) − k/n is zero.
fn tokens(samples: &SampleGroup<'_>, agents: &str, record_tokens: Option<f64>) -> String {
    let lookups = lookups(samples);
    let mut series =
        by_size(&lookups, |cell| Some((cell.mean(|sample| real(sample.tokens()))?, None)));
    let computed = |name: &str, points: Vec<ChartPoint>| ChartSeries {
        name: name.to_owned(),
        points,
        form: LineForm::Computed,
    };
    let point = |size: usize, y: f64| ChartPoint { x: real_len(size), y, interval: None };
    let offloaded = lookups.filter(|sample| sample.id.condition == BREAK_EVEN_CONDITION);
    let descriptors = offloaded.by(|sample| sample.size).into_iter().filter_map(|(size, cell)| {
        let extracts = cell.mean(|sample| real(sample.score.data_tokens))?;
        Some(point(size, descriptor_tokens(&cell)? + extracts))
    });
    let descriptors: Vec<ChartPoint> = descriptors.collect();
    if let Some(record_tokens) = record_tokens.filter(|_| !descriptors.is_empty()) {
        let sizes = lookups.sizes().into_iter();
        let records = sizes.map(|size| point(size, real_len(size) * record_tokens)).collect();
        series.push(computed("n·t, all records inline", records));
        series.push(computed("D + k·t, descriptor and extracts", descriptors));
    }
    let values = series.iter().flat_map(|line| &line.points).map(|point| point.y);
    let axis = ChartAxis::powers_of_ten("tokens of a sample", values);
    let title = format!("F2. Tokens of id lookups, {agents}");
    line_chart(&title, &size_axis(&lookups), &axis, &series)
}

/// F3.
fn ablations(samples: &SampleGroup<'_>, agents: &str) -> String {
    let rows = ablation_rows(samples).into_iter().filter_map(|row| {
        let differences = paired(&row.group.accuracies(), &row.full.accuracies());
        let (estimate, interval) = (mean(&differences)?, bootstrap_mean(&differences));
        (!row.is_full()).then(|| ForestRow {
            label: format!("{}, {}, {}", row.key.suite, row.key.condition_text(), row.key.agent),
            estimate: 100.0 * estimate,
            interval: interval.map(in_percent),
            text: points_with_interval(estimate, interval),
        })
    });
    let title = format!("F3. Ablations against the full descriptor, {agents}");
    forest_plot(&title, "difference in percentage points (95 %)", &rows.collect::<Vec<_>>())
}

/// F4: the mean tokens of a task if a result above the threshold is offloaded and one below is not,
/// composed of the samples of both arms.
fn thresholds(samples: &SampleGroup<'_>, agents: &str, record_tokens: Option<f64>) -> String {
    let memories =
        samples.filter(|sample| sample.kind == CorpusKind::Memories && sample.id.suite != "paper");
    let mut series = Vec::new();
    let record_tokens = record_tokens.unwrap_or(crate::paper::RECORD_TOKENS);
    for (agent, group) in memories.by(|sample| sample.id.agent.as_str()) {
        let arm = |condition: &str| {
            let arm = group.filter(|sample| sample.id.condition == condition);
            arm.task_means(|sample| Some(real(sample.tokens())))
        };
        let (offloaded, inline) = (arm(OFFLOADED), arm(INLINE));
        let sizes = group.by(|sample| sample.id.task.as_str());
        let size = |task: &str| sizes.get(task).and_then(|group| group.sizes().first().copied());
        let tasks: Vec<ThresholdTask> = offloaded
            .iter()
            .filter_map(|(task, offloaded)| {
                Some(ThresholdTask {
                    result: real_len(size(task)?) * record_tokens,
                    offloaded: *offloaded,
                    inline: *inline.get(task)?,
                })
            })
            .collect();
        let line = |name: String, form, threshold: &dyn Fn(f64) -> f64| ChartSeries {
            name,
            points: THRESHOLDS
                .iter()
                .filter_map(|at| {
                    let values: Vec<f64> =
                        tasks.iter().map(|task| task.tokens(threshold(*at))).collect();
                    Some(ChartPoint { x: *at, y: mean(&values)?, interval: None })
                })
                .collect(),
            form,
        };
        series.push(line(agent.to_owned(), LineForm::Marked, &|at| at));
        series.push(line(format!("{agent}, adaptive"), LineForm::Computed, &|_| {
            ADAPTIVE_SHARE * WINDOW_TOKENS
        }));
    }
    series.retain(|line| !line.points.is_empty());
    let values = series.iter().flat_map(|line| &line.points).map(|point| point.y);
    let y = ChartAxis::powers_of_ten("tokens of a task", values);
    let x = ChartAxis::at_values("threshold, tokens", &THRESHOLDS);
    let title = format!("F4. Tokens by threshold, {agents}");
    line_chart(&title, &x, &y, &series)
}

/// A task that was run with both deliveries.
struct ThresholdTask {
    /// The tokens of the whole result.
    result: f64,
    offloaded: f64,
    inline: f64,
}

impl ThresholdTask {
    fn tokens(&self, threshold: f64) -> f64 {
        if self.result > threshold { self.offloaded } else { self.inline }
    }
}

/// F5: the share of samples that are answered after so many calls.
fn calls(samples: &SampleGroup<'_>, agents: &str) -> String {
    let samples = lookups(samples);
    let arms = samples.by(|sample| (sample.id.condition.as_str(), sample.id.agent.as_str()));
    let series: Vec<ChartSeries> = arms
        .into_iter()
        .map(|((condition, agent), group)| ChartSeries {
            name: format!("{condition}, {agent}"),
            points: answered_after(&group),
            form: LineForm::Steps,
        })
        .collect();
    let most = series.iter().flat_map(|line| &line.points).map(|point| point.x);
    let x = ChartAxis::counts("calls", most);
    let title = format!("F5. Id lookups answered after so many calls, {agents}");
    line_chart(&title, &x, &ChartAxis::percent("answered, %"), &series)
}

fn answered_after(group: &SampleGroup<'_>) -> Vec<ChartPoint> {
    let is_answered = |sample: &ScoredSample| sample.ending == Ending::Answered;
    let mut counts: BTreeMap<u64, usize> = BTreeMap::from([(0, 0)]);
    for sample in &group.0 {
        *counts.entry(sample.score.calls_until_answer()).or_default() +=
            usize::from(is_answered(sample));
    }
    let mut answered = 0;
    let points = counts.into_iter().map(|(calls, count)| {
        answered += count;
        let share = real_len(answered) / real_len(group.len().max(1));
        ChartPoint { x: real(calls), y: 100.0 * share, interval: None }
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{reply, samples, transcript};
    use crate::transcript::Transcript;

    #[test]
    fn the_papers_question_is_not_among_the_lookups() {
        let mut paper = transcript("s2-c1", 2);
        paper.family = Family::IdLookupPaper;
        paper.sample.suite = "paper-fair".to_owned();
        let set = samples([transcript("s2-c1", 1), paper]);
        let lookups = lookups(&SampleGroup(set.iter().collect()));
        let families: Vec<Family> = lookups.0.iter().map(|sample| sample.family).collect();
        assert_eq!(families, [Family::IdLookup]);
    }

    #[test]
    fn the_thresholds_are_between_the_sizes_of_results() {
        let sample = |condition: &str, size: usize, tokens| {
            let mut transcript = transcript(condition, size);
            transcript.corpus.size = size;
            transcript.usage.fresh_input = tokens;
            transcript
        };
        let both =
            |size: usize| [sample("s2-c1", size, 1000), sample("s5", size, 100 * size as u64)];
        let set = samples([50, 200, 500].into_iter().flat_map(both));
        let svg = thresholds(&SampleGroup(set.iter().collect()), "models", Some(155.0));
        // A result fewer is offloaded at the second, fourth and fifth threshold.
        let ys: Vec<&str> = svg
            .lines()
            .find_map(|line| line.split_once("points=\"")?.1.split_once('"'))
            .map(|(points, _)| points.split(' ').filter_map(|point| point.split(',').nth(1)))
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(ys.len(), THRESHOLDS.len());
        let mut levels = ys.clone();
        levels.dedup();
        assert_eq!(levels.len(), 4, "{ys:?}");
        assert_eq!(ys[1], ys[2], "no result has 12,800 to 25,600 tokens");
    }

    #[test]
    fn the_line_of_descriptors_is_measured_at_each_size() {
        let sample = |size: usize, extract: u64| {
            let mut descriptor = reply("list_memories", 2000);
            descriptor.write_micros = Some(1);
            let mut transcript = Transcript {
                calls: vec![descriptor, reply("lro_extract", extract)],
                ..transcript("s2-c1", size)
            };
            transcript.corpus.size = size;
            transcript
        };
        // From 2,000 to 11,000 tokens.
        let set = samples([sample(50, 0), sample(500, 9000)]);
        let svg = tokens(&SampleGroup(set.iter().collect()), "models", Some(155.0));
        assert!(svg.contains("points=\"64.0,306.4 470.0,199.0\""), "{svg}");
    }
}
