//! T2 and T3: counts of records that meet predicates, and the largest group among them.

use super::choice::{MAX_EQUAL_ANSWERS, sample, shuffle, spread};
use super::{Draft, TASKS_PER_FAMILY, TaskGenerator};
use crate::corpora::log::{TOPICS, UNUSED_TOPICS};
use crate::task::{Answer, Comparison, CorpusKind, Parameters, Predicate};

/// The largest count of T2.
pub(crate) const MAX_COUNT: u64 = 50;
/// The tasks of T2 whose answer is 0.
pub(crate) const ZERO_TASKS: usize = TASKS_PER_FAMILY / 10;
/// The least difference between the largest and the next group of T3.
pub(crate) const MIN_MARGIN: u64 = 2;

/// The most records that are examined to draw a suite, unless there are very many.
const MAX_EXAMINED: usize = 40_000_000;
/// The candidates of a suite that are examined in any case.
const MIN_CANDIDATES: usize = 300;

/// The least numbers of comments in questions about issues.
const COMMENTS: [u64; 9] = [1, 2, 3, 5, 8, 12, 20, 30, 36];
/// The largest least number of replicas in questions about a map.
const MAX_LEAST_REPLICAS: u64 = 11;

pub(super) fn equals(field: &str, text: &str) -> Predicate {
    let comparison = Comparison::Equals(text.to_owned());
    Predicate { field: field.to_owned(), comparison }
}

pub(super) fn at_least(field: &str, least: u64) -> Predicate {
    Predicate { field: field.to_owned(), comparison: Comparison::AtLeast(least) }
}

pub(super) fn word(field: &str, word: &str) -> Predicate {
    Predicate { field: field.to_owned(), comparison: Comparison::Word(word.to_owned()) }
}

pub(super) fn within(field: &str, namespace: &str) -> Predicate {
    let comparison = Comparison::Within(namespace.to_owned());
    Predicate { field: field.to_owned(), comparison }
}

/// A field to group by, with the predicates of the records.
pub(super) type Grouping = (&'static str, Vec<Predicate>);

impl TaskGenerator<'_> {
    /// T2.
    pub(super) fn filters(&mut self) -> Vec<Draft> {
        let parameters = match self.records.id.kind {
            CorpusKind::Memories => self.memory_filters(),
            CorpusKind::Issues => matching(self.issue_filters()),
            CorpusKind::Log => matching(self.log_filters()),
            CorpusKind::Map => matching(self.map_filters()),
        };
        self.counts(parameters, MAX_COUNT)
    }

    /// T3.
    pub(super) fn groups(&mut self) -> Vec<Draft> {
        let groupings = match self.records.id.kind {
            CorpusKind::Memories => self.memory_groupings(),
            CorpusKind::Issues => self.issue_groupings(),
            CorpusKind::Log => self.log_groupings(),
            CorpusKind::Map => self.map_groupings(),
        };
        let mut drafts = Vec::new();
        for (by, predicates) in self.limited(groupings) {
            let groups = self.records.groups(by, &predicates);
            let [(largest, count), (_, next), ..] = &groups[..] else { continue };
            if *count >= next + MIN_MARGIN {
                let answer = Answer::Text(largest.clone());
                let parameters = Parameters::Group { by: by.to_owned(), predicates };
                drafts.push(Draft { parameters, answer });
            }
        }
        spread(drafts, TASKS_PER_FAMILY, &mut self.random)
    }

    /// Tasks whose answers are counts of at most `most`, and 0 in about a tenth of them.
    pub(super) fn counts(&mut self, parameters: Vec<Parameters>, most: u64) -> Vec<Draft> {
        let parameters = self.limited(parameters);
        let drafts = self.drafts(parameters);
        let (zero, mut others): (Vec<Draft>, Vec<Draft>) =
            drafts.into_iter().partition(|draft| draft.answer == Answer::Count(0));
        others.retain(|draft| matches!(draft.answer, Answer::Count(count) if count <= most));
        let mut zero = sample(zero, MAX_EQUAL_ANSWERS, &mut self.random);
        let more_zero = zero.split_off(ZERO_TASKS.min(zero.len()));
        let mut chosen = spread(others, TASKS_PER_FAMILY - zero.len(), &mut self.random);
        chosen.extend(zero);
        // A small corpus can have too few different counts.
        chosen.extend(more_zero);
        chosen.truncate(TASKS_PER_FAMILY);
        shuffle(&mut chosen, &mut self.random);
        chosen
    }

    /// As many candidates as can be examined in a short time, in random order.
    fn limited<T>(&mut self, candidates: Vec<T>) -> Vec<T> {
        let records = self.records.records().len().max(1);
        sample(candidates, (MAX_EXAMINED / records).max(MIN_CANDIDATES), &mut self.random)
    }

    fn values(&self, field: &str) -> Vec<String> {
        self.records.distinct(field).into_iter().collect()
    }

    fn issue_filters(&self) -> Vec<Vec<Predicate>> {
        let (labels, teams) = (self.values("labels.name"), self.values("author.team"));
        let (states, logins) = (self.values("state"), self.values("author.login"));
        let mut candidates = Vec::new();
        for least in COMMENTS {
            let comments = at_least("comments.count", least);
            for state in &states {
                let state = equals("state", state);
                for label in &labels {
                    let label = equals("labels.name", label);
                    candidates.push(vec![label, state.clone(), comments.clone()]);
                }
                for team in &teams {
                    let team = equals("author.team", team);
                    candidates.push(vec![team, state.clone(), comments.clone()]);
                }
            }
            for label in &labels {
                for login in &logins {
                    let login = equals("author.login", login);
                    let label = equals("labels.name", label);
                    candidates.push(vec![login, label, comments.clone()]);
                }
            }
        }
        candidates
    }

    fn issue_groupings(&self) -> Vec<Grouping> {
        let mut restrictions = Vec::new();
        for field in ["author.team", "milestone.title", "labels.name"] {
            restrictions.extend(self.values(field).iter().map(|value| equals(field, value)));
        }
        let mut states = vec![None];
        states.extend(self.values("state").iter().map(|state| Some(equals("state", state))));
        let mut groupings = Vec::new();
        for by in ["labels.name", "assignees.login", "milestone.title", "author.login"] {
            for restriction in restrictions.iter().filter(|predicate| predicate.field != by) {
                for state in &states {
                    for least in [0, 1, 2, 3, 4, 5, 6, 8] {
                        let comments = (least > 0).then(|| at_least("comments.count", least));
                        let further = state.iter().cloned().chain(comments);
                        let predicates = [restriction.clone()].into_iter().chain(further);
                        groupings.push((by, predicates.collect()));
                    }
                }
            }
        }
        groupings
    }

    fn log_filters(&self) -> Vec<Vec<Predicate>> {
        let (levels, services) = (self.values("level"), self.values("service"));
        let hosts = self.values("host");
        let mut candidates = Vec::new();
        for (topic, _) in TOPICS.into_iter().chain(UNUSED_TOPICS) {
            let topic = word("message", topic);
            for level in &levels {
                let level = equals("level", level);
                for service in &services {
                    let service = equals("service", service);
                    let line = vec![level.clone(), service, topic.clone()];
                    for host in &hosts {
                        let mut line = line.clone();
                        line.insert(2, equals("host", host));
                        candidates.push(line);
                    }
                    candidates.push(line);
                }
            }
        }
        candidates
    }

    fn log_groupings(&self) -> Vec<Grouping> {
        let mut groupings: Vec<Grouping> = Vec::new();
        for level in &self.values("level") {
            let level = equals("level", level);
            for (topic, _) in TOPICS {
                let predicates = vec![level.clone(), word("message", topic)];
                groupings.push(("service", predicates.clone()));
                groupings.push(("host", predicates));
            }
            for service in &self.values("service") {
                groupings.push(("host", vec![level.clone(), equals("service", service)]));
            }
        }
        groupings
    }

    fn map_filters(&self) -> Vec<Vec<Predicate>> {
        let (regions, owners) = (self.values("region"), self.values("owner"));
        let mut candidates = Vec::new();
        for tier in &self.values("tier") {
            let tier = equals("tier", tier);
            for least in 1..=MAX_LEAST_REPLICAS {
                let replicas = at_least("replicas", least);
                for region in &regions {
                    let region = equals("region", region);
                    candidates.push(vec![region.clone(), tier.clone(), replicas.clone()]);
                    for owner in &owners {
                        let owner = equals("owner", owner);
                        let service = [&region, &owner, &tier, &replicas];
                        candidates.push(service.into_iter().cloned().collect());
                    }
                }
                for owner in &owners {
                    let owner = equals("owner", owner);
                    candidates.push(vec![owner, tier.clone(), replicas.clone()]);
                }
            }
        }
        candidates
    }

    fn map_groupings(&self) -> Vec<Grouping> {
        let mut groupings: Vec<Grouping> = Vec::new();
        for (by, other) in [("owner", "region"), ("region", "owner")] {
            for value in &self.values(other) {
                for tier in &self.values("tier") {
                    for least in 1..=MAX_LEAST_REPLICAS {
                        let mut predicates = vec![equals(other, value), equals("tier", tier)];
                        if least > 1 {
                            predicates.push(at_least("replicas", least));
                        }
                        groupings.push((by, predicates));
                    }
                }
            }
        }
        groupings
    }
}

fn matching(candidates: Vec<Vec<Predicate>>) -> Vec<Parameters> {
    candidates.into_iter().map(|predicates| Parameters::Matching { predicates }).collect()
}
