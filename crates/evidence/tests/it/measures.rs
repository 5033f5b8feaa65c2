//! Every quantity of the paper is measured in runs with the built program.

use evidence::agents::scripted::Script;
use evidence::score::{Score, score};
use evidence::task::Family;

use crate::fixture::{Plan, SIZES, require_sandbox};

/// The tasks at each size.
const TASKS: usize = 3;

/// The scores of id lookups as the paper asks them, all of which are right.
fn scores(condition: &str, script: Script) -> Vec<Score> {
    let run = Plan::new(&[condition], &[Family::IdLookupPaper], TASKS).run(script);
    run.assert_all_right(TASKS * SIZES.len());
    for transcript in &run.transcripts {
        let score = score(transcript);
        let (answer, others) = transcript.calls.split_last().unwrap();
        assert_eq!(answer.tool, "answer");
        let tokens: u64 = others.iter().map(|call| call.reply_tokens).sum();
        assert_eq!(score.reply_tokens, tokens, "{:?}", transcript.sample);
        assert!(tokens > 0);
        assert_eq!(score.calls_until_answer(), others.len() as u64, "{:?}", transcript.sample);
    }
    run.transcripts.iter().map(score).collect()
}

#[test]
fn b3_what_is_offloaded_is_written_once_and_hardly_read() {
    require_sandbox();
    let native = scores("s2-c1", Script::OracleNativeSql);
    let shell = scores("s1-c1", Script::OracleShell);
    for score in native.iter().chain(&shell) {
        assert_eq!((score.write_micros.len(), score.descriptor_tokens.len()), (1, 1), "{score:?}");
        assert!(score.write_micros[0] > 0);
        assert!(score.access_ratio() <= 0.05, "{score:?}");
        assert_eq!(score.first_call_correct, Some(true), "{score:?}");
    }
}

#[test]
fn b3_pages_are_read_to_the_end() {
    for score in scores("s3-5", Script::Pager) {
        assert_eq!(score.records_given, score.records);
        assert_eq!(score.calls_until_answer(), score.records.div_ceil(5));
        assert_eq!(score.inline.tokens, score.reply_tokens);
        assert!(score.write_micros.is_empty());
        assert_eq!(score.goal_achievement(), None, "it has no commands");
    }
}

#[test]
fn b3_commands_are_compared_with_the_recipes() {
    for score in scores("s2-c1", Script::RecipeOnly) {
        assert_eq!(score.goal_achievement(), Some(1.0), "{score:?}");
        let alignment = score.alignment().unwrap();
        assert!((0.9..=1.0).contains(&alignment), "{score:?}");
    }
    for score in scores("s2-c1", Script::OracleNativeSql) {
        let alignment = score.alignment().unwrap();
        assert!((0.0..0.9).contains(&alignment), "no recipe counts 12 ids: {score:?}");
    }
}
