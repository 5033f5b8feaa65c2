//! Agents that know the right query answer everything, and a constant guess does not.

use evidence::agents::scripted::Script;
use evidence::task::{Answer, Family};

use crate::fixture::{FAMILIES, Plan, SIZES, require_sandbox, right};

/// The tasks of each family.
const TASKS: usize = 8;

#[test]
fn sql_answers_every_task() {
    let plan = Plan::new(&["s2-c1"], &FAMILIES, TASKS);
    let run = plan.run(Script::OracleNativeSql);
    run.assert_all_right(FAMILIES.len() * TASKS * SIZES.len());
    for transcript in &run.transcripts {
        let two_questions = u32::from(transcript.family == Family::SecondQuestion);
        assert_eq!(transcript.turns, 3 + two_questions, "{:?}", transcript.sample);
        let listed = &transcript.calls[0];
        assert!(listed.write_micros.is_some(), "each conversation stores its result");
        assert_eq!(listed.records_given, 0);
        assert!(listed.reply_tokens < 3000, "{} tokens", listed.reply_tokens);
    }
}

#[test]
fn jq_answers_every_task() {
    let plan = Plan::new(&["s2-c1"], &FAMILIES, TASKS);
    plan.run(Script::OracleNativeJq).assert_all_right(FAMILIES.len() * TASKS * SIZES.len());
}

#[test]
fn one_language_is_enough() {
    let families = [Family::IdLookup, Family::AggregateFilter];
    let samples = families.len() * TASKS * SIZES.len();
    let sql = Plan::new(&["s2-sql-c1"], &families, TASKS);
    sql.run(Script::OracleNativeSql).assert_all_right(samples);
    let jq = Plan::new(&["s2-jq-c1"], &families, TASKS);
    jq.run(Script::OracleNativeJq).assert_all_right(samples);
    // The other language is not offered.
    for (plan, script) in [(sql, Script::OracleNativeJq), (jq, Script::OracleNativeSql)] {
        let run = plan.run(script);
        assert!(run.transcripts.is_empty());
        assert_eq!(run.summary.skipped.values().sum::<usize>(), samples, "{:?}", run.summary);
    }
}

#[test]
fn a_shell_answers_every_task() {
    require_sandbox();
    let plan = Plan::new(&["s1-c1"], &FAMILIES, TASKS);
    plan.run(Script::OracleShell).assert_all_right(FAMILIES.len() * TASKS * SIZES.len());
}

#[test]
fn a_shell_answers_every_task_from_the_file_of_a_host() {
    require_sandbox();
    let plan = Plan::new(&["s8"], &FAMILIES, TASKS / 2);
    let run = plan.run(Script::OracleShell);
    run.assert_all_right(FAMILIES.len() * TASKS / 2 * SIZES.len());
    let listed = &run.transcripts[0].calls[0];
    assert!(listed.reply.starts_with("Output too large ("), "{}", listed.reply);
    assert!(listed.reply.len() < 2500, "a preview of 2 KB");
}

#[test]
fn recipes_with_parameters_answer_every_task() {
    let tasks = TASKS / 2;
    // Two questions that each need all records take more turns than the cap of other agents allows.
    let families: Vec<Family> =
        FAMILIES.into_iter().filter(|family| *family != Family::SecondQuestion).collect();
    let plan = Plan::new(&["s2-c1"], &families, tasks);
    plan.run(Script::RecipeOnly).assert_all_right(families.len() * tasks * SIZES.len());
}

#[test]
fn a_constant_guess_is_right_in_the_paper_and_not_here() {
    let plan = Plan::new(&["s2-c1"], &[Family::IdLookupPaper, Family::IdLookup], 40);
    let run = plan.run(Script::Guesser);
    for size in SIZES {
        let of = |family| run.at(size).filter(move |transcript| transcript.family == family);
        assert_eq!(right(of(Family::IdLookupPaper)), (40, 40));
        let (guessed, all) = right(of(Family::IdLookup));
        assert_eq!(all, 40);
        assert!(guessed * 100 <= all * 15, "{guessed} of {all} at {size}");
        assert!(of(Family::IdLookup).all(|sample| sample.given == Some(Answer::Count(8))));
    }
}
