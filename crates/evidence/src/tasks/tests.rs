//! Tests of the tasks.

use std::collections::BTreeMap;

use super::choice::{MAX_EQUAL_ANSWERS, ordered, spread};
use super::*;
use crate::corpora;
use crate::task::{Comparison, Predicate};

fn tasks(corpus: &str, family: Family) -> Vec<Task> {
    generate(&corpora::generate(corpus.parse().unwrap()), family)
}

fn uses(tasks: &[Task]) -> BTreeMap<&Answer, usize> {
    let mut uses = BTreeMap::new();
    for task in tasks {
        *uses.entry(&task.answer).or_default() += 1;
    }
    uses
}

#[test]
fn tasks_are_the_same_each_time_and_differ_between_suites() {
    let first = tasks("memories-50", Family::AggregateFilter);
    assert_eq!(first, tasks("memories-50", Family::AggregateFilter));
    let other = tasks("memories-200", Family::AggregateFilter);
    assert_ne!(first[0].parameters, other[0].parameters);
    assert_eq!(first[7].id, "t2-memories-50-07");
}

#[test]
fn a_family_that_a_corpus_does_not_have_is_empty() {
    assert!(tasks("issues-50", Family::Temporal).is_empty());
    assert!(families("memories-50000".parse().unwrap()).is_empty());
    let broken = Corpus { id: "memories-50".parse().unwrap(), bytes: b"{".to_vec() };
    assert!(generate(&broken, Family::IdLookup).is_empty());
}

#[test]
fn the_numbers_of_present_ids_vary_and_are_always_8_in_the_paper() {
    let lookups = tasks("memories-50", Family::IdLookup);
    let uses = uses(&lookups);
    let expected: Vec<Answer> = (3..=11).map(Answer::Count).collect();
    assert!(uses.keys().copied().eq(&expected), "{uses:?}");
    assert!(uses.values().all(|count| *count <= MAX_EQUAL_ANSWERS), "{uses:?}");
    let paper = tasks("memories-50", Family::IdLookupPaper);
    assert_eq!(paper.len(), TASKS_PER_FAMILY);
    assert!(paper.iter().all(|task| task.answer == Answer::Count(8)));
}

#[test]
fn tasks_without_a_match_are_mixed_into_other_families() {
    for family in [Family::TopK, Family::Temporal] {
        let tasks = tasks("memories-200", family);
        let none = tasks.iter().filter(|task| task.answer == crate::reference::no_match());
        assert_eq!(none.count(), ZERO_TASKS, "{family:?}");
    }
    let filters = tasks("memories-200", Family::AggregateFilter);
    let zero = filters.iter().filter(|task| task.answer == Answer::Count(0));
    assert_eq!(zero.count(), ZERO_TASKS);
}

#[test]
fn tasks_are_read_back_from_their_lines() {
    for family in Family::ALL {
        let written = tasks("memories-50", family);
        let lines = to_lines(&written).unwrap();
        let read: Vec<Task> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, written, "{family:?}");
    }
    assert_eq!(file_name("log-20k".parse().unwrap(), Family::NeedleRead), "tasks-t7-log-20k.jsonl");
}

#[test]
fn predicates_are_written_by_the_name_of_their_comparison() {
    let parameters = Parameters::Group {
        by: "tags".to_owned(),
        predicates: vec![Predicate {
            field: "namespace".to_owned(),
            comparison: Comparison::Within("_semantic".to_owned()),
        }],
    };
    assert_eq!(
        serde_json::to_string(&parameters).unwrap(),
        r#"{"kind":"group","by":"tags","predicates":[{"field":"namespace","comparison":{"within":"_semantic"}}]}"#
    );
}

#[test]
fn chosen_answers_differ_as_far_as_possible() {
    let draft = |count: u64| Draft {
        parameters: Parameters::Message { request: count.to_string() },
        answer: Answer::Count(count),
    };
    let mut candidates: Vec<Draft> = (0..100).map(|_| draft(1)).collect();
    candidates.extend((2..10).map(draft));
    let mut random = SplitMix64::new(1);
    let chosen = spread(candidates.clone(), 9, &mut random);
    let mut answers: Vec<Answer> = chosen.into_iter().map(|draft| draft.answer).collect();
    answers.sort();
    assert_eq!(answers, (1..10).map(Answer::Count).collect::<Vec<_>>());
    // One answer cannot fill a suite.
    assert_eq!(spread(candidates, 40, &mut random).len(), 8 + MAX_EQUAL_ANSWERS);
}

#[test]
fn the_first_tasks_of_a_suite_have_different_answers() {
    let drafts = |answers: &[u64]| -> Vec<Draft> {
        let draft = |(position, count): (usize, &u64)| Draft {
            parameters: Parameters::Message { request: position.to_string() },
            answer: Answer::Count(*count),
        };
        answers.iter().enumerate().map(draft).collect()
    };
    // Sorted answers, 5 of each.
    let sorted: Vec<u64> = (0..40).map(|position| position / 5).collect();
    let chosen = ordered(drafts(&sorted));
    assert_eq!(chosen.len(), 40, "none is lost");
    for (first, most) in [(15, 2), (20, 3), (40, 5)] {
        let equal = |draft: &Draft| {
            chosen[..first].iter().filter(|other| other.answer == draft.answer).count()
        };
        assert_eq!(chosen[..first].iter().map(equal).max(), Some(most));
    }
    // Nothing moves without need.
    let different: Vec<u64> = (0..40).collect();
    let parameters = |drafts: Vec<Draft>| -> Vec<Parameters> {
        drafts.into_iter().map(|draft| draft.parameters).collect()
    };
    assert_eq!(parameters(ordered(drafts(&different))), parameters(drafts(&different)));
}

#[test]
fn questions_say_what_is_counted() {
    let predicates = vec![
        Predicate { field: "state".to_owned(), comparison: Comparison::Equals("open".to_owned()) },
        Predicate { field: "comments.count".to_owned(), comparison: Comparison::AtLeast(3) },
    ];
    let parameters = Parameters::Matching { predicates };
    assert_eq!(
        question::text(Family::AggregateFilter, CorpusKind::Issues, &parameters),
        "How many issues have `state` \"open\" and have `comments.count` of at least 3? \
         Answer with the number."
    );
}
