//! The recipes compared with the real `jq`.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use lro_core::Detail;
use lro_query::Bytes;
use lro_query::recipe::{AnswerFormat, RecipeNumber, RecipeOutcome, RecipeParams, RecipeQuery};
use serde_json::Value;
use testkit::SplitMix64;

use crate::jq::{self, Case, DETAILS, as_doubles};
use crate::records::{Set, odd_set};

/// The number of sets per run of `jq`.
const BATCH: usize = 250;

fn cases() -> usize {
    std::env::var("ATLATL_SOAK_CASES").map_or(200, |cases| cases.parse().unwrap())
}

/// The answers and the outcome of a query.
pub(crate) fn ask(set: &Set, question: &RecipeQuery) -> (Vec<String>, RecipeOutcome) {
    let (file, begin) = set.file();
    let mut answers = Vec::new();
    let ran = question
        .run(&Bytes(&file), begin, &mut |answer| {
            answers.push(String::from_utf8(answer.to_vec()).unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
    (answers, ran)
}

/// Text as a string, JSON as a value; `jq` reads a lone surrogate as U+FFFD.
fn values(answers: &[String], form: AnswerFormat) -> Vec<Value> {
    let json = |answer: &String| serde_json::from_str(&answer.replace(r"\udc00", r"\ufffd"));
    answers
        .iter()
        .map(|answer| match form {
            AnswerFormat::Text => Value::String(answer.clone()),
            _ => as_doubles(&json(answer).unwrap()),
        })
        .collect()
}

fn number(number: u8) -> RecipeNumber {
    RecipeNumber::new(u64::from(number)).unwrap()
}

fn same_as_jq(cases: &[Case], threads: usize) -> usize {
    let expected = jq::answers(cases);
    let mut compared = 0;
    for (case, expected) in cases.iter().zip(&expected) {
        for ((level, recipe), expected) in expected {
            let detail = DETAILS[*level];
            let question = RecipeQuery::new(number(*recipe), detail, case.params.clone()).unwrap();
            let question = question.threads(NonZeroUsize::new(threads).unwrap());
            let (answers, ran) = ask(&case.set, &question);
            let context = || {
                let optional = case.set.optional;
                format!("recipe {recipe}, {detail}, {:?}, {optional:?}", case.params)
            };
            if values(&answers, ran.format) != *expected {
                let ours = answers.join("\n");
                let records = case.set.lines.join("\n");
                let expected: Vec<String> = expected.iter().map(Value::to_string).collect();
                panic!("{}\n{records}\nours:\n{ours}\njq:\n{}", context(), expected.join("\n"));
            }
            assert_eq!(ran.total.number(), expected.len() as u64, "{}", context());
            assert_eq!(ran.records, case.set.lines.len() as u64, "{}", context());
            compared += expected.len();
        }
    }
    compared
}

fn params(random: &mut SplitMix64) -> RecipeParams {
    let mut params = RecipeParams::default();
    if random.chance(30) {
        return params;
    }
    for (name, values) in [
        ("namespace", &["_semantic", "_sem", "", "_semantic/decisions", "_é", "x\"$p"][..]),
        ("memory_type", &["semantic", "episodic", "", "7"]),
        ("tag", &["TAG", "tag", "", "日", "\\(1)"]),
        (
            "keyword",
            &[
                "keyword",
                "KEY",
                "^a",
                "b$",
                "^$",
                "[0-9]+",
                "É",
                "日本",
                "a.b",
                "(foo|bar)",
                "x{2,3}",
                r"\bkey",
                r"key\b",
                r"\s",
                "",
                r"\.",
                "k.y",
                r"\w+d",
                r"\$",
                "^(a|b)+$",
                "Ω",
                "[^a]b",
                r"\d{4}",
                r"a\s*$",
                "🙂|語",
            ],
        ),
    ] {
        params.set(name, *random.pick(values)).unwrap();
    }
    params
}

/// Generated sets, all levels, all recipes, parameters of every kind.
#[test]
fn r7_odd_sets_are_answered_as_by_jq() {
    let total = cases();
    let mut random = SplitMix64::new(42);
    let (mut done, mut compared) = (0, 0);
    while done < total {
        let batch: Vec<Case> = (0..BATCH.min(total - done))
            .map(|_| Case { set: odd_set(&mut random), params: params(&mut random) })
            .collect();
        compared += same_as_jq(&batch, 1);
        done += batch.len();
    }
    assert!(compared > total * 20, "{compared} answers are too few to show anything");
    eprintln!("soak: {done} sets, 30 recipes each, {compared} answers equal to jq's");
}

fn sparse_memories() -> Set {
    let memories = testkit::corpus::sparse_memories(2300, 42);
    let set = Set::stored(&testkit::corpus::lines(&memories, mif::DetailLevel::Full));
    assert!(set.file().0.len() > 1 << 20, "more than one chunk");
    set
}

/// Enough records for several chunks and threads.
#[test]
fn n2_memories_are_answered_as_by_jq_on_several_threads() {
    let mut params = RecipeParams::default();
    params.set("keyword", "the (plan|error|deploy)").unwrap();
    params.set("tag", "postgres").unwrap();
    same_as_jq(&[Case { set: sparse_memories(), params }], 3);
}

#[test]
fn n6_the_same_question_gives_the_same_bytes_however_many_threads() {
    let set = sparse_memories();
    for recipe in 1..=10 {
        let asked = |threads| {
            let question =
                RecipeQuery::new(number(recipe), Detail::Full, RecipeParams::default()).unwrap();
            ask(&set, &question.threads(NonZeroUsize::new(threads).unwrap()))
        };
        let first = asked(1);
        for threads in [1, 2, 3, 8] {
            assert!(asked(threads) == first, "recipe {recipe} on {threads} threads");
        }
    }
}
