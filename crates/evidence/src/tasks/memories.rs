//! The families that only memories have, and their candidates for T2 and T3.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, SecondsFormat};

use super::choice::{sample, shuffle, spread};
use super::predicates::{Grouping, ZERO_TASKS, at_least, equals, within, word};
use super::{Draft, TASKS_PER_FAMILY, TaskGenerator};
use crate::corpora::memories::UNUSED_TAGS;
use crate::corpora::text::{PRODUCTS, UNMENTIONED_PRODUCTS};
use crate::corpora::time::{DAY_MILLIS, DAYS, START_MILLIS, rfc3339};
use crate::reference::iteration::PRIORITY_FIELD;
use crate::reference::no_match;
use crate::task::{Answer, Parameters};

/// The titles of T4.
const TOP_TITLES: usize = 3;
/// The candidates of T5 for each tag.
const DATES_PER_TAG: usize = 8;
/// Every how many of them the last record is asked for.
const LAST_INTERVAL: usize = 4;
/// The tasks of T8 about a count; the others are about titles and times.
const ABSENT_COUNTS: usize = 10;

const PRIORITIES: std::ops::RangeInclusive<u8> = 1..=5;
/// The field with the names of products and persons.
const ENTITY_FIELD: &str = "entities.name";

/// A date of the corpora, as RFC 3339.
fn date(day: usize) -> String {
    rfc3339(START_MILLIS + day as u64 * DAY_MILLIS, SecondsFormat::Secs)
}

impl TaskGenerator<'_> {
    /// The namespaces and their parents.
    fn namespaces(&self) -> BTreeSet<String> {
        let namespaces = self.records.distinct("namespace");
        let parents = namespaces.iter().filter_map(|namespace| namespace.split_once('/'));
        let parents: Vec<String> = parents.map(|(parent, _)| parent.to_owned()).collect();
        namespaces.into_iter().chain(parents).collect()
    }

    /// The candidates of T2.
    pub(super) fn memory_filters(&self) -> Vec<Parameters> {
        let mut candidates = Vec::new();
        for namespace in self.namespaces() {
            for min_priority in PRIORITIES {
                for product in PRODUCTS.iter().chain(&UNMENTIONED_PRODUCTS) {
                    candidates.push(Parameters::Filter {
                        namespace: namespace.clone(),
                        min_priority,
                        word: product.name.to_owned(),
                    });
                }
            }
        }
        candidates
    }

    /// The candidates of T3.
    pub(super) fn memory_groupings(&self) -> Vec<Grouping> {
        let mut restrictions = Vec::new();
        for product in &PRODUCTS {
            for by in ["namespace", "tags"] {
                restrictions.push((by, word("content", product.name)));
                restrictions.push((by, equals(ENTITY_FIELD, product.name)));
            }
        }
        for namespace in self.namespaces() {
            let restriction = within("namespace", &namespace);
            restrictions.extend(["tags", ENTITY_FIELD].map(|by| (by, restriction.clone())));
        }
        for tag in self.records.distinct("tags") {
            let restriction = equals("tags", &tag);
            restrictions.extend(["namespace", ENTITY_FIELD].map(|by| (by, restriction.clone())));
        }
        let mut groupings: Vec<Grouping> = Vec::new();
        for (by, restriction) in restrictions {
            for min_priority in PRIORITIES {
                let mut predicates = vec![restriction.clone()];
                // Every memory has at least the lowest priority.
                if min_priority > 1 {
                    predicates.push(at_least(PRIORITY_FIELD, u64::from(min_priority)));
                }
                groupings.push((by, predicates));
            }
        }
        groupings
    }

    /// T4. A tenth of the tags is unused.
    pub(super) fn tops(&mut self) -> Vec<Draft> {
        let tags = self.records.distinct("tags");
        let mut drafts = self.drafts(top_candidates(tags.iter().map(String::as_str)));
        drafts.retain(|draft| {
            let is_full =
                matches!(&draft.answer, Answer::List(titles) if titles.len() == TOP_TITLES);
            is_full && !self.is_shown(&draft.answer)
        });
        let mut chosen = spread(drafts, TASKS_PER_FAMILY - ZERO_TASKS, &mut self.random);
        let absent = self.absent_tops();
        chosen.extend(sample(absent, ZERO_TASKS, &mut self.random));
        shuffle(&mut chosen, &mut self.random);
        chosen
    }

    fn absent_tops(&self) -> Vec<Draft> {
        let mut drafts = self.drafts(top_candidates(UNUSED_TAGS.into_iter()));
        drafts.retain(|draft| draft.answer == no_match());
        drafts
    }

    /// T5. A tenth of the questions has no match.
    pub(super) fn times(&mut self) -> Vec<Draft> {
        let mut parameters = Vec::new();
        for tag in self.records.distinct("tags") {
            for index in 0..DATES_PER_TAG {
                let after = date(self.random.below(DAYS));
                let last = index % LAST_INTERVAL == LAST_INTERVAL - 1;
                parameters.push(Parameters::Time { after, tag: tag.clone(), last });
            }
        }
        let unique = self.ids_with_unique_times();
        let mut drafts = self.drafts(parameters);
        drafts.retain(|draft| {
            let is_unique = matches!(&draft.answer, Answer::Text(id) if unique.contains(id));
            is_unique && !self.is_shown(&draft.answer)
        });
        let mut chosen = spread(drafts, TASKS_PER_FAMILY - ZERO_TASKS, &mut self.random);
        let absent = self.absent_times();
        chosen.extend(sample(absent, ZERO_TASKS, &mut self.random));
        shuffle(&mut chosen, &mut self.random);
        chosen
    }

    /// The ids of the memories that no other was created at the same time as.
    fn ids_with_unique_times(&self) -> BTreeSet<String> {
        let mut ids: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for record in self.records.records() {
            ids.entry(record.texts("created").concat()).or_default().push(record.id());
        }
        let single = ids.into_values().filter(|ids| ids.len() == 1);
        single.flatten().map(str::to_owned).collect()
    }

    /// Questions about unused tags, and about used ones from the day after their last record.
    fn absent_times(&mut self) -> Vec<Draft> {
        let mut parameters = Vec::new();
        for tag in UNUSED_TAGS {
            for last in [false, true] {
                let after = date(self.random.below(DAYS));
                parameters.push(Parameters::Time { after, tag: tag.to_owned(), last });
            }
        }
        for (tag, day) in self.last_days() {
            if day + 1 < DAYS {
                let last = self.random.chance(50);
                parameters.push(Parameters::Time { after: date(day + 1), tag, last });
            }
        }
        let mut drafts = self.drafts(parameters);
        drafts.retain(|draft| draft.answer == no_match());
        drafts
    }

    /// The day of the last record with each tag.
    fn last_days(&self) -> BTreeMap<String, usize> {
        let mut days: BTreeMap<String, usize> = BTreeMap::new();
        for record in self.records.records() {
            let created = record.texts("created").concat();
            let Ok(time) = DateTime::parse_from_rfc3339(&created) else { continue };
            let millis = u64::try_from(time.timestamp_millis()).unwrap_or_default();
            let day = millis.saturating_sub(START_MILLIS) / DAY_MILLIS;
            let day = usize::try_from(day).unwrap_or(DAYS);
            for tag in record.texts("tags") {
                let last = days.entry(tag.to_owned()).or_default();
                *last = day.max(*last);
            }
        }
        days
    }

    /// T6.
    pub(super) fn joins(&mut self) -> Vec<Draft> {
        let mut parameters = Vec::new();
        for namespace in self.namespaces() {
            for min_priority in PRIORITIES {
                for min_source_priority in PRIORITIES {
                    parameters.push(Parameters::Related {
                        namespace: namespace.clone(),
                        min_priority,
                        min_source_priority,
                    });
                }
            }
        }
        self.counts(parameters, u64::MAX)
    }

    /// T8: counts of nothing, and questions about titles and times without a match.
    pub(super) fn absences(&mut self) -> Vec<Draft> {
        let mut counts = self.drafts(self.memory_filters());
        counts.retain(|draft| draft.answer == Answer::Count(0));
        let (tops, times) = (self.absent_tops(), self.absent_times());
        let half = (TASKS_PER_FAMILY - ABSENT_COUNTS) / 2;
        let mut chosen = sample(counts, ABSENT_COUNTS, &mut self.random);
        chosen.extend(sample(tops, half, &mut self.random));
        chosen.extend(sample(times, half, &mut self.random));
        shuffle(&mut chosen, &mut self.random);
        chosen
    }

    /// T9: a count with a time, and a group with titles.
    pub(super) fn pairs(&mut self) -> Vec<Draft> {
        let counts_with_times = self.filters().into_iter().zip(self.times());
        let groups_with_tops = self.groups().into_iter().zip(self.tops());
        let half = TASKS_PER_FAMILY / 2;
        let pairs = counts_with_times.take(half).chain(groups_with_tops.take(half));
        let mut drafts: Vec<Draft> = pairs.map(|(first, second)| both(first, second)).collect();
        shuffle(&mut drafts, &mut self.random);
        drafts
    }
}

fn both(first: Draft, second: Draft) -> Draft {
    Draft {
        parameters: Parameters::Both {
            first: Box::new(first.parameters),
            second: Box::new(second.parameters),
        },
        answer: Answer::List(vec![first.answer, second.answer]),
    }
}

/// The candidates of T4 for some tags.
fn top_candidates<'t>(tags: impl Iterator<Item = &'t str>) -> Vec<Parameters> {
    let candidate = |tag: &str, min_priority| Parameters::Top {
        tag: tag.to_owned(),
        min_priority,
        n: TOP_TITLES,
    };
    tags.flat_map(|tag| PRIORITIES.map(move |min_priority| candidate(tag, min_priority))).collect()
}
