//! How far the guidance of a descriptor leads by its words alone.

use evidence::agents::scripted::Script;
use evidence::score::score;
use evidence::task::Family;
use evidence::transcript::Ending;

use crate::fixture::{GateRun, Plan, SIZES, described, require_sandbox};

const FAMILIES: [Family; 3] = [Family::IdLookup, Family::AggregateFilter, Family::GroupArgmax];
const TASKS: usize = 5;

/// The example is sent as it is, works, and does not answer questions by chance.
fn assert_examples_work(run: &GateRun, conditions: usize) {
    assert_eq!(run.transcripts.len(), conditions * FAMILIES.len() * TASKS * SIZES.len());
    let mut determined = 0;
    for transcript in &run.transcripts {
        assert_eq!(transcript.ending, Ending::NoAnswer, "{}", described(transcript));
        assert_eq!(transcript.calls.len(), 2, "{}", described(transcript));
        let example = &transcript.calls[1];
        assert!(!example.is_error, "{}", described(transcript));
        assert!(!example.reply.trim().is_empty(), "{}", described(transcript));
        determined += usize::from(score(transcript).first_call_correct == Some(true));
    }
    // The examples browse and count; none filters. A few answers coincide with a total.
    let all = run.transcripts.len();
    assert!(determined * 100 <= all * 20, "{determined} of {all}");
}

#[test]
fn examples_of_the_guidance_work_with_native_tools() {
    let conditions = ["s2-c1", "s2-c3", "s2-c6", "s2-c7", "s2-c10"];
    let run = Plan::new(&conditions, &FAMILIES, TASKS).run(Script::Naive);
    assert_examples_work(&run, conditions.len());
}

#[test]
fn examples_of_the_guidance_work_in_a_shell() {
    require_sandbox();
    let conditions = ["s1-c1", "s1-c6", "s1-c10"];
    let run = Plan::new(&conditions, &FAMILIES, TASKS).run(Script::Naive);
    assert_examples_work(&run, conditions.len());
}

fn assert_no_examples(conditions: &[&str]) {
    let run = Plan::new(conditions, &[Family::IdLookup], 1).run(Script::Naive);
    assert_eq!(run.transcripts.len(), conditions.len() * SIZES.len());
    for transcript in &run.transcripts {
        assert_eq!((transcript.calls.len(), transcript.ending), (1, Ending::NoAnswer));
    }
}

#[test]
fn without_guidance_there_is_no_example() {
    assert_no_examples(&["s2-c4", "s2-c9"]);
}

/// Most examples for native tools are recipes. What is left works.
#[test]
fn without_recipes_an_example_with_native_tools_works_if_there_is_one() {
    let run = Plan::new(&["s2-c2"], &FAMILIES, TASKS).run(Script::Naive);
    assert_eq!(run.transcripts.len(), FAMILIES.len() * TASKS * SIZES.len());
    for transcript in &run.transcripts {
        assert_eq!(transcript.ending, Ending::NoAnswer, "{}", described(transcript));
        assert!(transcript.calls.len() <= 2, "{}", described(transcript));
        assert!(transcript.calls.iter().all(|call| !call.is_error), "{}", described(transcript));
    }
}

/// All examples for a shell are recipes.
#[test]
fn without_recipes_there_is_no_example_in_a_shell() {
    require_sandbox();
    assert_no_examples(&["s1-c2", "s1-c4"]);
}
