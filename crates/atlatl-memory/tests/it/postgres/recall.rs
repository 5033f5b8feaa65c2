//! The services over `PostgreSQL`: the same cases as over `SQLite`.

use std::sync::Arc;

use testkit::postgres::PostgresServer;

use super::opened;
use crate::recall::cases::{self, Place};

fn in_a_database(case: fn(&Place)) {
    let (postgres, _) = opened(PostgresServer::shared());
    case(&Place { store: Arc::new(postgres.tenant("a").unwrap()) });
}

#[test]
fn a_captured_memory_has_what_can_be_worked_out() {
    in_a_database(cases::a_captured_memory_has_what_can_be_worked_out);
}

#[test]
fn the_best_answer_has_1_and_time_takes_weight() {
    in_a_database(cases::the_best_answer_has_1_and_time_takes_weight);
}

#[test]
fn all_of_ten_thousand_are_recalled_and_pages_cover_them_once() {
    in_a_database(cases::all_of_ten_thousand_are_recalled_and_pages_cover_them_once);
}

#[test]
fn words_and_vectors_are_merged_and_a_broken_model_is_said() {
    in_a_database(cases::words_and_vectors_are_merged_and_a_broken_model_is_said);
}

#[test]
fn nothing_asked_is_everything_the_newest_first() {
    in_a_database(cases::nothing_asked_is_everything_the_newest_first);
}

#[test]
fn a_prompt_has_whole_memories_and_keeps_to_its_budget() {
    in_a_database(cases::a_prompt_has_whole_memories_and_keeps_to_its_budget);
}
