//! The registered hypotheses and their tests.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use xtask::repository::Repository;

use super::format::{
    MISSING, MarkdownTable, decimal, or_missing, p_value, percent, percent_with_interval,
    points_with_interval,
};
use super::samples::{SampleGroup, paired, share_with_interval};
use crate::statistics::{
    Alternative, PairedDifferences, bootstrap_mean, holm, mean, real, samples_needed, score_test,
    sign_flip_test, tied_tasks_needed,
};
use crate::task::Family;

/// The file of the hypotheses.
const HYPOTHESES: &str = "bench/evidence/hypotheses.toml";

/// All hypotheses.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Registration {
    /// The date from which they may not change.
    registered: String,
    /// The level of significance.
    alpha: f64,
    /// Suites whose samples are not used.
    excluded_suites: Vec<String>,
    #[serde(rename = "hypothesis")]
    hypotheses: Vec<Hypothesis>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hypothesis {
    id: String,
    claim: String,
    families: Vec<Family>,
    left: String,
    right: Option<String>,
    test: HypothesisTest,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum HypothesisTest {
    /// The left side has more right answers.
    Greater,
    /// The sides differ.
    Differ,
    /// The left side has at most `margin` fewer right answers, and its replies have at most
    /// `max_token_ratio` of the tokens. It needs the tasks with which ties exclude the margin.
    NotWorse { margin: f64, max_token_ratio: f64 },
    /// At least this share of the answers is right.
    AtLeast { share: f64 },
}

/// The outcome of a test.
#[derive(Debug, PartialEq)]
struct TestOutcome {
    tasks: usize,
    estimate: String,
    /// The p-value, or why these samples cannot test the claim.
    p: Result<f64, String>,
}

impl TestOutcome {
    fn p(&self) -> Option<f64> {
        self.p.as_ref().ok().copied()
    }
}

impl Registration {
    /// Reads the hypotheses of the checkout.
    pub(super) fn read(repository: &Repository) -> Result<Self> {
        Self::parse(&repository.read(HYPOTHESES)?).context(HYPOTHESES)
    }

    fn parse(text: &str) -> Result<Self> {
        let registration: Self = toml::from_str(text)?;
        for hypothesis in &registration.hypotheses {
            let is_compared = !matches!(hypothesis.test, HypothesisTest::AtLeast { .. });
            ensure!(
                is_compared == hypothesis.right.is_some(),
                "{}: `right` does not fit the test",
                hypothesis.id
            );
        }
        Ok(registration)
    }

    /// The table of the tests, for each model among the samples; without one, of the claims.
    pub(super) fn table(&self, samples: &SampleGroup<'_>) -> String {
        let mut table = MarkdownTable::new(["agent", "id", "claim"])
            .numbers(["tasks", "estimate (95 %)", "p", "p, Holm"])
            .texts(["outcome"]);
        let eligible = samples.filter(|sample| !self.excluded_suites.contains(&sample.id.suite));
        let mut agents: Vec<(&str, SampleGroup<'_>)> =
            eligible.by(|sample| sample.id.agent.as_str()).into_iter().collect();
        if agents.is_empty() {
            agents.push((MISSING, SampleGroup::default()));
        }
        for (agent, samples) in agents {
            let outcomes: Vec<Option<TestOutcome>> =
                self.hypotheses.iter().map(|hypothesis| hypothesis.test(&samples)).collect();
            let p_values: Vec<f64> = outcomes
                .iter()
                .map(|outcome| outcome.as_ref().and_then(TestOutcome::p).unwrap_or(1.0))
                .collect();
            let rows = self.hypotheses.iter().zip(&outcomes).zip(holm(&p_values));
            for ((hypothesis, outcome), corrected) in rows {
                let outcome = outcome.as_ref();
                let verdict = match outcome.map(|outcome| &outcome.p) {
                    None => "not tested".to_owned(),
                    Some(Err(obstacle)) => format!("not tested: {obstacle}"),
                    Some(Ok(_)) if corrected <= self.alpha => "supported".to_owned(),
                    Some(Ok(_)) => "not supported".to_owned(),
                };
                let p = outcome.and_then(TestOutcome::p);
                table.row([
                    agent.to_owned(),
                    hypothesis.id.clone(),
                    hypothesis.claim.clone(),
                    or_missing(outcome, |outcome| outcome.tasks.to_string()),
                    or_missing(outcome, |outcome| outcome.estimate.clone()),
                    or_missing(p, p_value),
                    or_missing(p, |_| p_value(corrected)),
                    verdict,
                ]);
            }
        }
        format!(
            "Registered {}, level {}.\n\n{}\n\n40 tasks at 3 sizes with 3 repeats are 360 samples for each \
             arm. Independent samples would tell 85 from 95 % with {} and 85 from 90 % with {} samples for \
             each arm (power 80 %), so differences of 5 points are not resolved.{}",
            self.registered,
            decimal(self.alpha, 2),
            table.render_or(""),
            samples_needed(0.85, 0.95),
            samples_needed(0.85, 0.90),
            self.least_tasks(),
        )
    }

    /// Which hypotheses need how many tasks.
    fn least_tasks(&self) -> String {
        let sentences = self.hypotheses.iter().filter_map(|hypothesis| match hypothesis.test {
            HypothesisTest::NotWorse { margin, .. } => Some(format!(
                " {} needs at least {} tasks: fewer do not exclude a loss of {} points even if all \
                 of them are tied.",
                hypothesis.id,
                tied_tasks_needed(margin),
                decimal(100.0 * margin, 0),
            )),
            _ => None,
        });
        sentences.collect()
    }
}

impl Hypothesis {
    /// The outcome with the samples of one agent; `None` if a side has none.
    fn test(&self, samples: &SampleGroup<'_>) -> Option<TestOutcome> {
        let side = |condition: &str| {
            samples
                .filter(|sample| sample.is_in(condition) && self.families.contains(&sample.family))
        };
        let left = side(&self.left);
        let right = side(self.right.as_deref().unwrap_or_default());
        let differences = paired(&left.accuracies(), &right.accuracies());
        match self.test {
            HypothesisTest::Greater => compare(&differences, Alternative::Greater),
            HypothesisTest::Differ => compare(&differences, Alternative::TwoSided),
            HypothesisTest::NotWorse { margin, max_token_ratio } => {
                not_worse(&left, &right, margin, max_token_ratio)
            }
            HypothesisTest::AtLeast { share: least } => {
                let accuracies = left.accuracies();
                let (share, interval) = share_with_interval(&accuracies)?;
                Some(TestOutcome {
                    tasks: accuracies.len(),
                    estimate: percent_with_interval((share, interval)),
                    p: Ok(score_test(share, accuracies.len(), least)),
                })
            }
        }
    }
}

/// The test of a mean difference against zero.
fn compare(differences: &[f64], alternative: Alternative) -> Option<TestOutcome> {
    Some(TestOutcome {
        tasks: differences.len(),
        estimate: points_with_interval(mean(differences)?, bootstrap_mean(differences)),
        p: Ok(sign_flip_test(differences, alternative)?),
    })
}

/// The test that the left side loses at most `margin` against the right one, with at most
/// `max_token_ratio` of the tokens of its replies. Both must hold, so the larger p-value counts.
fn not_worse(
    left: &SampleGroup<'_>,
    right: &SampleGroup<'_>,
    margin: f64,
    max_token_ratio: f64,
) -> Option<TestOutcome> {
    let (accuracies, references) = (left.accuracies(), right.accuracies());
    let pairs = PairedDifferences::new(&paired(&accuracies, &references))?;
    let (tokens_p, ratio) = fewer_tokens(left, right, max_token_ratio)?;
    let shared: Vec<f64> = references
        .iter()
        .filter(|(task, _)| accuracies.contains_key(*task))
        .map(|(_, share)| *share)
        .collect();
    let least = tied_tasks_needed(margin);
    let p = if pairs.tasks() < least {
        Err(format!("{} of at least {least} tasks", pairs.tasks()))
    } else if mean(&shared)? <= margin {
        // A side without right answers has none to lose.
        Err(format!("the other side has at most {} % right answers", percent(margin)))
    } else {
        Ok(pairs.not_worse_test(margin).max(tokens_p))
    };
    Some(TestOutcome {
        tasks: pairs.tasks(),
        estimate: format!(
            "{}, tokens × {}",
            points_with_interval(pairs.mean(), Some(pairs.interval())),
            decimal(ratio, 2)
        ),
        p,
    })
}

/// The p-value of "at most this ratio of the tokens of replies", and the ratio.
fn fewer_tokens(
    left: &SampleGroup<'_>,
    right: &SampleGroup<'_>,
    max_ratio: f64,
) -> Option<(f64, f64)> {
    let (left, right) = (reply_tokens(left), reply_tokens(right));
    let pairs: Vec<(f64, f64)> =
        left.iter().filter_map(|(task, left)| Some((*left, *right.get(task)?))).collect();
    let savings: Vec<f64> = pairs.iter().map(|(left, right)| max_ratio * right - left).collect();
    let p = sign_flip_test(&savings, Alternative::Greater)?;
    let sum = |part: fn(&(f64, f64)) -> f64| pairs.iter().map(part).sum::<f64>();
    Some((p, sum(|pair| pair.0) / sum(|pair| pair.1)))
}

/// The mean tokens of the replies of each task.
fn reply_tokens<'a>(side: &SampleGroup<'a>) -> BTreeMap<&'a str, f64> {
    side.task_means(|sample| Some(real(sample.score.reply_tokens)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{reply, samples, transcript};

    #[test]
    fn the_hypotheses_of_the_checkout_are_valid() {
        let registration = Registration::read(&Repository::open().unwrap()).unwrap();
        let ids: Vec<&str> =
            registration.hypotheses.iter().map(|hypothesis| hypothesis.id.as_str()).collect();
        assert_eq!(ids, ["H1", "H2", "H3", "H4", "H5"]);
        let table = registration.table(&SampleGroup::default());
        assert_eq!(table.matches("| not tested |").count(), 5, "{table}");
        assert!(table.contains("85 from 95 % with 141"), "{table}");
        assert!(table.contains("H3 needs at least 125 tasks"), "{table}");
    }

    /// The row of H3, for tasks that are right or not with the compact and the full descriptor.
    fn h3(pairs: impl Iterator<Item = (bool, bool)>) -> String {
        let sample = |condition: &str, task, tokens, is_right: bool| {
            let mut transcript = transcript(condition, task);
            transcript.calls = vec![reply("list_memories", tokens)];
            if !is_right {
                transcript.given = None;
            }
            transcript
        };
        let set = samples(pairs.enumerate().flat_map(|(task, (left, right))| {
            [sample("s2-c6", task, 400, left), sample("s2-c1", task, 1000, right)]
        }));
        let registration = Registration::read(&Repository::open().unwrap()).unwrap();
        let table = registration.table(&SampleGroup(set.iter().collect()));
        let row = table.lines().find(|line| line.starts_with("| model | H3 |"));
        row.unwrap_or_default().to_owned()
    }

    #[test]
    fn ties_of_few_tasks_do_not_support_h3() {
        for both in [true, false] {
            let row = h3(std::iter::repeat_n((both, both), 7));
            assert!(row.ends_with("| – | – | not tested: 7 of at least 125 tasks |"), "{row}");
            assert!(row.contains("| 7 | +0.0 (−35.4 to +35.4), tokens × 0.40 |"), "{row}");
        }
    }

    #[test]
    fn h3_needs_right_answers_to_lose() {
        let row = h3(std::iter::repeat_n((false, false), 240));
        let obstacle = "not tested: the other side has at most 3.0 % right answers";
        assert!(row.ends_with(&format!("| – | – | {obstacle} |")), "{row}");
    }

    #[test]
    fn h3_is_supported_by_a_lower_end_above_the_margin() {
        let with_losses = |losses: usize| h3((0..240).map(move |task| (task >= losses, true)));
        let row = with_losses(0);
        let numbers = "| 240 | +0.0 (−1.6 to +1.6), tokens × 0.40 | 0.006 | 0.032 |";
        assert!(row.ends_with(&format!("{numbers} supported |")), "{row}");
        let row = with_losses(4);
        assert!(row.contains("| −1.7 (−4.2 to −0.1), tokens × 0.40 |"), "{row}");
        assert!(row.ends_with("| not supported |"), "{row}");
    }

    #[test]
    fn a_test_needs_its_sides() {
        let text = "registered = \"2026-01-01\"\nalpha = 0.05\nexcluded_suites = []\n\
                    [[hypothesis]]\nid = \"H1\"\nclaim = \"c\"\nfamilies = [\"join\"]\nleft = \"s1-c1\"\n\
                    test = { kind = \"differ\" }\n";
        assert!(Registration::parse(text).is_err());
        let with_right = text.replace("left", "right = \"s5\"\nleft");
        assert!(Registration::parse(&with_right).is_ok());
    }
}
