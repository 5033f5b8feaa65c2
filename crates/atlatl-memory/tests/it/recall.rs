//! The services: recall, search, capture and prompt.

pub(crate) mod cases;

use std::sync::Arc;

use atlatl_memory::{
    PromptIntegration, RecallRequest, RecallService, SearchHit, SearchRequest, SearchService,
    SqliteStore, StoreError,
};

use self::cases::Place;

fn in_a_file(case: fn(&Place)) {
    let home = tempfile::tempdir().unwrap();
    case(&Place { store: Arc::new(SqliteStore::open(&home.path().join("memory.db")).unwrap()) });
}

#[test]
fn a1_services_keep_the_specifications_signatures() {
    // The types are the test.
    async fn recall(
        service: &RecallService,
        request: &RecallRequest,
    ) -> Result<Vec<SearchHit>, StoreError> {
        service.recall(request).await
    }
    async fn search(
        service: &SearchService,
        request: &SearchRequest,
    ) -> Result<Vec<SearchHit>, StoreError> {
        service.search(request).await
    }
    async fn context(
        service: &PromptIntegration,
        request: &RecallRequest,
        budget: u64,
    ) -> Result<String, StoreError> {
        service.inject_context(request, budget).await
    }
    let _ = (recall, search, context);
}

#[test]
fn a_captured_memory_has_what_can_be_worked_out() {
    in_a_file(cases::a_captured_memory_has_what_can_be_worked_out);
}

#[test]
fn the_best_answer_has_1_and_time_takes_weight() {
    in_a_file(cases::the_best_answer_has_1_and_time_takes_weight);
}

#[test]
fn all_of_ten_thousand_are_recalled_and_pages_cover_them_once() {
    in_a_file(cases::all_of_ten_thousand_are_recalled_and_pages_cover_them_once);
}

#[test]
fn words_and_vectors_are_merged_and_a_broken_model_is_said() {
    in_a_file(cases::words_and_vectors_are_merged_and_a_broken_model_is_said);
}

#[test]
fn nothing_asked_is_everything_the_newest_first() {
    in_a_file(cases::nothing_asked_is_everything_the_newest_first);
}

#[test]
fn a_prompt_has_whole_memories_and_keeps_to_its_budget() {
    in_a_file(cases::a_prompt_has_whole_memories_and_keeps_to_its_budget);
}

#[test]
fn the_first_page_is_the_beginning_of_all_pages() {
    in_a_file(cases::the_first_page_is_the_beginning_of_all_pages);
}

#[test]
fn a_misspelt_word_finds_what_is_meant() {
    in_a_file(cases::a_misspelt_word_finds_what_is_meant);
}

#[test]
fn an_empty_answer_says_why() {
    in_a_file(cases::an_empty_answer_says_why);
}

#[test]
fn g63_hybrid_is_said_only_if_vectors_took_part() {
    in_a_file(cases::g63_hybrid_is_said_only_if_vectors_took_part);
}

#[test]
fn a_month_in_the_question_prefers_memories_of_that_month() {
    in_a_file(cases::a_month_in_the_question_prefers_memories_of_that_month);
}

#[test]
fn a_month_that_no_memory_has_changes_nothing() {
    in_a_file(cases::a_month_that_no_memory_has_changes_nothing);
}

#[test]
fn a_hit_says_why_it_matches() {
    in_a_file(cases::a_hit_says_why_it_matches);
}
