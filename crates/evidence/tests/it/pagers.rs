//! Agents that read everything: right without the paper's cap, and never within it.

use std::collections::BTreeSet;

use evidence::agents::scripted::Script;
use evidence::runner::least_turns;
use evidence::suite::TurnCap;
use evidence::task::Family;
use evidence::tasks;
use evidence::transcript::{Ending, Transcript};
use evidence::world::World;

use crate::fixture::{
    FAMILIES, Plan, SIZES, condition, described, memories, program, require_sandbox, right,
};

/// The tasks of each family.
const TASKS: usize = 3;

fn turns(transcript: &Transcript, page: usize) -> u32 {
    // A page each, and the answer.
    u32::try_from(transcript.corpus.size / page).unwrap() + 1
}

#[test]
fn b2_pages_answer_every_task_if_they_can_be_read_to_the_end() {
    for (name, page) in [("s3-5", 5), ("s3-50", 50)] {
        let run = Plan::new(&[name], &FAMILIES, TASKS).run(Script::Pager);
        run.assert_all_right(FAMILIES.len() * TASKS * SIZES.len());
        for transcript in &run.transcripts {
            assert_eq!(transcript.turns, turns(transcript, page), "{:?}", transcript.sample);
            assert_eq!(transcript.max_turns, (3 * turns(transcript, page)).max(40));
            let records: u64 = transcript.calls.iter().map(|call| call.records_given).sum();
            assert_eq!(records, transcript.corpus.size as u64, "everything was read");
        }
    }
}

#[test]
fn b2_the_whole_result_or_the_whole_file_answers_every_task() {
    let run = Plan::new(&["s5", "s7"], &FAMILIES, TASKS).run(Script::Pager);
    run.assert_all_right(2 * FAMILIES.len() * TASKS * SIZES.len());
    for transcript in
        run.transcripts.iter().filter(|transcript| transcript.sample.condition == "s5")
    {
        assert_eq!(transcript.turns, 2, "{}", described(transcript));
    }
}

#[test]
fn b2_c5_and_python_are_pages_of_five() {
    require_sandbox();
    let families = [Family::IdLookup, Family::AggregateFilter];
    // The first two are one world, which runs once.
    let conditions = ["s1-c5", "s2-c5", "s4-paper", "s4-pages", "s4-pages-50"];
    let run = Plan::new(&conditions, &families, TASKS).run(Script::Pager);
    run.assert_all_right(4 * families.len() * TASKS * SIZES.len());
    let mut recorded = BTreeSet::new();
    for transcript in &run.transcripts {
        let name = transcript.sample.condition.as_str();
        let page = if name == "s4-pages-50" { 50 } else { 5 };
        assert_eq!(transcript.turns, turns(transcript, page), "{:?}", transcript.sample);
        recorded.insert(name);
    }
    assert!(recorded.into_iter().eq(["s3-5", "s4-pages", "s4-pages-50", "s4-paper"]));
}

#[test]
fn b2_c5_is_the_same_world_as_pages_of_five() {
    let corpus = memories(50);
    let open = |name| World::open(&program(), &condition(name), &corpus).unwrap();
    let pages = open("s3-5");
    for name in ["s1-c5", "s2-c5"] {
        assert_eq!(open(name).tools(), pages.tools(), "{name}");
        assert_eq!(condition(name).system_text(), condition("s3-5").system_text(), "{name}");
    }
}

#[test]
fn b2_twenty_messages_are_not_enough_for_pages_of_five() {
    let capped = Plan::new(&["s3-5"], &[Family::IdLookupPaper], 15).run(Script::PagerCapped);
    assert_eq!(capped.transcripts.len(), 15 * SIZES.len());
    // The same by the suite: an exact pager collapses as the models of the paper did.
    let mut plan = Plan::new(&["s1-c5"], &[Family::IdLookupPaper], 15);
    plan.cap = TurnCap::Messages(20);
    let by_suite = plan.run(Script::Pager);
    assert_eq!(by_suite.transcripts.len(), 15 * SIZES.len());
    for transcript in capped.transcripts.iter().chain(&by_suite.transcripts) {
        assert_eq!((transcript.max_turns, transcript.turns), (10, 10));
        assert_eq!(transcript.ending, Ending::Cap, "{}", described(transcript));
    }
    assert_eq!(right(capped.at(200)), (0, 15));
    // 10 pages are read with 50 records, and the answer is one message too many.
    assert_eq!(right(capped.at(50)), (0, 15));
}

#[test]
fn b2_summaries_answer_lookups_only() {
    let run = Plan::new(&["s6"], &[Family::IdLookup], 10).run(Script::SummaryPager);
    run.assert_all_right(10 * SIZES.len());
    for transcript in &run.transcripts {
        assert_eq!(transcript.turns, turns(transcript, 10), "{:?}", transcript.sample);
        let reply = &transcript.calls[0].reply;
        assert!(reply.contains("\"title\":") && !reply.contains("\"content\":"), "{reply}");
    }
    let filters = Plan::new(&["s6"], &[Family::AggregateFilter], 2).run(Script::SummaryPager);
    assert_eq!(filters.transcripts.len(), 2 * SIZES.len());
    for transcript in &filters.transcripts {
        assert_eq!(transcript.ending, Ending::NoAnswer);
    }
}

#[test]
fn the_least_turns_of_a_strategy_are_those_of_its_script() {
    require_sandbox();
    for (name, least) in [("s1-c4", 3), ("s2-c1", 3), ("s2-jq-c1", 3), ("s3-5", 11), ("s3-50", 2)]
        .into_iter()
        .chain([("s4-pages", 11), ("s4-pages-50", 2), ("s5", 2), ("s6", 6), ("s8", 3)])
    {
        let corpus = memories(50);
        let task = tasks::generate(&corpus, Family::IdLookup).remove(0);
        let mut world = World::open(&program(), &condition(name), &corpus).unwrap();
        assert_eq!(least_turns(&mut world, &task).unwrap(), least, "{name}");
    }
}
