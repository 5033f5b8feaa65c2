//! Tests of the verifier: it passes the suites, and fails each that was changed.

use super::*;
use crate::corpora::ALL;

/// The findings about tasks after a change.
fn findings_after(
    corpus: &str,
    family: Family,
    preview: &str,
    change: impl FnOnce(&mut Vec<Task>),
) -> Vec<String> {
    let corpus = generate(corpus.parse().unwrap());
    let verifier = SuiteVerifier::new(&corpus, preview.to_owned()).unwrap();
    let mut tasks = tasks::generate(&corpus, family);
    change(&mut tasks);
    verifier.findings(family, &tasks).unwrap()
}

#[test]
fn b1_all_suites_of_small_corpora_pass() {
    let small: Vec<CorpusId> = ALL
        .iter()
        .copied()
        .filter(|id| id.size <= if id.kind == CorpusKind::Log { 2_000 } else { 500 })
        .collect();
    let report = verify(&small).unwrap();
    let expected: usize = small.iter().map(|id| tasks::families(*id).len()).sum();
    assert_eq!(report.suites.len(), expected);
    for suite in &report.suites {
        assert_eq!(suite.tasks, TASKS_PER_FAMILY, "{suite}");
        assert!(suite.family.allows_constant_guess() || suite.best_guess <= 6, "{suite}");
    }
}

#[test]
fn b1_a_changed_answer_of_any_family_is_found() {
    for family in Family::ALL {
        let findings = findings_after("memories-50", family, "", |tasks| {
            tasks[3].answer = match &tasks[3].answer {
                Answer::Count(count) => Answer::Count(count + 1),
                Answer::Text(text) => Answer::Text(format!("{text}x")),
                Answer::List(answers) => Answer::List(answers[1..].to_vec()),
            };
        });
        let stated = format!("{}-memories-50-03: the task states", family.code());
        assert!(findings.iter().any(|finding| finding.starts_with(&stated)), "{findings:?}");
    }
}

#[test]
fn a_changed_answer_about_another_corpus_is_found() {
    for name in ["issues-50", "log-2k", "map-200"] {
        for family in tasks::families(name.parse().unwrap()) {
            let findings = findings_after(name, *family, "", |tasks| {
                tasks[39].answer = Answer::Text("?".to_owned());
            });
            assert!(findings[0].contains("the task states Text(\"?\")"), "{findings:?}");
        }
    }
}

#[test]
fn a_changed_record_is_found() {
    let corpus = generate("memories-50".parse().unwrap());
    let text = corpus.text().unwrap();
    let bytes = text.replace(r#""bench":{"priority":5}"#, r#""bench":{"priority":1}"#).into_bytes();
    let changed = Corpus { id: corpus.id, bytes };
    let verifier = SuiteVerifier::new(&changed, String::new()).unwrap();
    let tasks = tasks::generate(&corpus, Family::AggregateFilter);
    assert!(!verifier.findings(Family::AggregateFilter, &tasks).unwrap().is_empty());
}

#[test]
fn a_missing_record_is_found() {
    let mut corpus = generate("memories-50".parse().unwrap());
    corpus.id.size = 51;
    let error = SuiteVerifier::new(&corpus, String::new()).err().unwrap();
    assert!(error.to_string().contains("50 records by iteration and 50 by SQLite"), "{error}");
}

/// Keeps the questions different and makes the answers equal.
#[test]
fn a_suite_with_one_frequent_answer_is_found() {
    let findings = findings_after("memories-200", Family::GroupArgmax, "", |tasks| {
        let answer = tasks[0].answer.clone();
        for task in &mut tasks[..7] {
            task.answer = answer.clone();
        }
    });
    let guess = "t3 memories-200: a constant guess is right in";
    assert!(findings.iter().any(|finding| finding.starts_with(guess)), "{findings:?}");
}

/// The answers of all tasks vary, and those of the first ones do not.
#[test]
fn first_tasks_with_one_frequent_answer_are_found() {
    let findings = findings_after("memories-200", Family::IdLookup, "", |tasks| {
        tasks.sort_by_key(|task| task.answer.clone());
    });
    let of_first = |count: u32| {
        format!("t1 memories-200: a constant guess is right in 5 of the first {count} tasks")
    };
    assert_eq!(findings, [of_first(15), of_first(20)], "all 40 together are fine");
}

#[test]
fn the_constant_answers_of_the_paper_and_of_absent_records_are_allowed() {
    for family in [Family::IdLookupPaper, Family::Absent] {
        assert!(findings_after("memories-50", family, "", |_| {}).is_empty(), "{family:?}");
    }
}

#[test]
fn a_visible_answer_is_found() {
    let corpus = generate("memories-50".parse().unwrap());
    let visible = "the answer is visible in the preview";
    for family in [Family::TopK, Family::Temporal, Family::NeedleRead, Family::SecondQuestion] {
        // A preview of everything shows every title, id and sentence.
        let everything = corpus.text().unwrap().replace("\\n", " ");
        let findings = findings_after("memories-50", family, &everything, |_| {});
        assert!(findings.iter().any(|finding| finding.ends_with(visible)), "{family:?}");
        assert!(findings_after("memories-50", family, "", |_| {}).is_empty(), "{family:?}");
    }
    // Numbers and the names of groups are in every preview, and say nothing.
    for family in [Family::Join, Family::GroupArgmax] {
        let everything = corpus.text().unwrap();
        assert!(findings_after("memories-50", family, everything, |_| {}).is_empty());
    }
}

#[test]
fn missing_and_repeated_tasks_are_found() {
    let missing = findings_after("memories-50", Family::Join, "", |tasks| {
        tasks.pop();
    });
    assert!(missing[0].starts_with("t6 memories-50: 39 tasks"), "{missing:?}");
    let repeated = findings_after("memories-50", Family::Join, "", |tasks| {
        tasks[1] = tasks[0].clone();
    });
    assert!(repeated[0].contains("occurs twice"), "{repeated:?}");
}

#[test]
fn the_form_of_a_family_is_checked() {
    let findings = findings_after("memories-50", Family::IdLookupPaper, "", |tasks| {
        let Parameters::Ids { ids } = &mut tasks[0].parameters else { return };
        ids.pop();
    });
    assert!(findings.iter().any(|finding| finding.contains("not 12 different ids")));
    // A suite of another family.
    let filters = findings_after("memories-50", Family::Absent, "", |tasks| {
        let corpus = generate("memories-50".parse().unwrap());
        *tasks = tasks::generate(&corpus, Family::Join);
    });
    assert!(filters.iter().any(|finding| finding.contains("not a task of t8")));
}

#[test]
fn an_error_lists_what_is_wrong() {
    let id: CorpusId = "memories-50".parse().unwrap();
    let everything = |corpus: &Corpus| corpus.text().unwrap().to_owned();
    let error = verify_with_preview(&[id], everything).unwrap_err().to_string();
    assert!(error.starts_with("the tasks are not usable:\nt4-memories-50-"), "{error}");
}
