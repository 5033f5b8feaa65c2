//! The registered hypotheses and their tests.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use xtask::repository::Repository;

use super::format::{
    MISSING, MarkdownTable, decimal, or_missing, p_value, percent_with_interval,
    points_with_interval,
};
use super::samples::{SampleGroup, paired, share_with_interval};
use crate::statistics::{
    Alternative, bootstrap_mean, holm, mean, real, samples_needed, score_test, sign_flip_test,
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
    /// `max_token_ratio` of the tokens.
    NotWorse { margin: f64, max_token_ratio: f64 },
    /// At least this share of the answers is right.
    AtLeast { share: f64 },
}

/// The outcome of a test.
#[derive(Debug, PartialEq)]
struct TestOutcome {
    tasks: usize,
    estimate: String,
    p: f64,
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
        let used = samples.filter(|sample| !self.excluded_suites.contains(&sample.id.suite));
        let mut agents: Vec<(&str, SampleGroup<'_>)> =
            used.by(|sample| sample.id.agent.as_str()).into_iter().collect();
        if agents.is_empty() {
            agents.push((MISSING, SampleGroup::default()));
        }
        for (agent, samples) in agents {
            let outcomes: Vec<Option<TestOutcome>> =
                self.hypotheses.iter().map(|hypothesis| hypothesis.test(&samples)).collect();
            let p_values: Vec<f64> = outcomes
                .iter()
                .map(|outcome| outcome.as_ref().map_or(1.0, |outcome| outcome.p))
                .collect();
            let rows = self.hypotheses.iter().zip(&outcomes).zip(holm(&p_values));
            for ((hypothesis, outcome), corrected) in rows {
                let outcome = outcome.as_ref();
                let verdict = match outcome {
                    None => "not tested",
                    Some(_) if corrected <= self.alpha => "supported",
                    Some(_) => "not supported",
                };
                table.row([
                    agent.to_owned(),
                    hypothesis.id.clone(),
                    hypothesis.claim.clone(),
                    or_missing(outcome, |outcome| outcome.tasks.to_string()),
                    or_missing(outcome, |outcome| outcome.estimate.clone()),
                    or_missing(outcome, |outcome| p_value(outcome.p)),
                    or_missing(outcome, |_| p_value(corrected)),
                    verdict.to_owned(),
                ]);
            }
        }
        format!(
            "Registered {}, level {}.\n\n{}\n\n40 tasks at 3 sizes with 3 repeats are 360 samples for each \
             arm. Independent samples would tell 85 from 95 % with {} and 85 from 90 % with {} samples for \
             each arm (power 80 %), so differences of 5 points are not resolved.",
            self.registered,
            decimal(self.alpha, 2),
            table.render_or(""),
            samples_needed(0.85, 0.95),
            samples_needed(0.85, 0.90),
        )
    }
}

impl Hypothesis {
    /// The outcome with the samples of one agent; `None` if a side has none.
    fn test(&self, samples: &SampleGroup<'_>) -> Option<TestOutcome> {
        let side = |condition: &str| {
            samples.filter(|sample| {
                sample.id.condition == condition && self.families.contains(&sample.family)
            })
        };
        let left = side(&self.left);
        let right = side(self.right.as_deref().unwrap_or_default());
        let differences = paired(&left.accuracies(), &right.accuracies());
        match self.test {
            HypothesisTest::Greater => compared(&differences, &differences, Alternative::Greater),
            HypothesisTest::Differ => compared(&differences, &differences, Alternative::TwoSided),
            HypothesisTest::NotWorse { margin, max_token_ratio } => {
                let shifted: Vec<f64> =
                    differences.iter().map(|difference| difference + margin).collect();
                let mut outcome = compared(&differences, &shifted, Alternative::Greater)?;
                let (p, ratio) = fewer_tokens(&left, &right, max_token_ratio)?;
                outcome.p = outcome.p.max(p);
                outcome.estimate.push_str(", tokens × ");
                outcome.estimate.push_str(&decimal(ratio, 2));
                Some(outcome)
            }
            HypothesisTest::AtLeast { share: least } => {
                let accuracies = left.accuracies();
                let (share, interval) = share_with_interval(&accuracies)?;
                Some(TestOutcome {
                    tasks: accuracies.len(),
                    estimate: percent_with_interval((share, interval)),
                    p: score_test(share, accuracies.len(), least),
                })
            }
        }
    }
}

/// The test of `tested`, with the mean of `differences` as the estimate.
fn compared(differences: &[f64], tested: &[f64], alternative: Alternative) -> Option<TestOutcome> {
    Some(TestOutcome {
        tasks: differences.len(),
        estimate: points_with_interval(mean(differences)?, bootstrap_mean(differences)?),
        p: sign_flip_test(tested, alternative)?,
    })
}

/// The p-value of "at most this ratio of the tokens of replies", and the ratio.
fn fewer_tokens(
    left: &SampleGroup<'_>,
    right: &SampleGroup<'_>,
    max_ratio: f64,
) -> Option<(f64, f64)> {
    let used = left.task_means(|sample| Some(real(sample.score.reply_tokens)));
    let full = right.task_means(|sample| Some(real(sample.score.reply_tokens)));
    let pairs: Vec<(f64, f64)> =
        used.iter().filter_map(|(task, used)| Some((*used, *full.get(task)?))).collect();
    let saved: Vec<f64> = pairs.iter().map(|(used, full)| max_ratio * full - used).collect();
    let p = sign_flip_test(&saved, Alternative::Greater)?;
    let sum = |part: fn(&(f64, f64)) -> f64| pairs.iter().map(part).sum::<f64>();
    Some((p, sum(|pair| pair.0) / sum(|pair| pair.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hypotheses_of_the_checkout_are_valid() {
        let registration = Registration::read(&Repository::open().unwrap()).unwrap();
        let ids: Vec<&str> =
            registration.hypotheses.iter().map(|hypothesis| hypothesis.id.as_str()).collect();
        assert_eq!(ids, ["H1", "H2", "H3", "H4", "H5"]);
        let table = registration.table(&SampleGroup::default());
        assert_eq!(table.matches("| not tested |").count(), 5, "{table}");
        assert!(table.contains("85 from 95 % with 141"), "{table}");
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
