//! Bounded recall at its bounds: what is not read is neither counted nor said to be absent.

use std::sync::{Arc, Barrier};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Filter, Matches, MemoryStore, Need, OnConflict, Postgres, PostgresStore, Terms, TotalAccuracy,
    record_statements,
};
use mif::Memory;
use testkit::postgres::{APP, OWNER, PostgresServer};

use super::bounded::{documentation, lexical, memories, now};
use super::{old, opened, options};

/// Returns a store with 2,000 memories and its database. Every fortieth memory contains the words "the of
/// the".
fn stored(seed: u64) -> (PostgresStore, String) {
    let (postgres, database) = opened(PostgresServer::shared());
    let store = postgres.tenant("a").unwrap();
    let mut memories = memories(2_000, seed, &documentation());
    for memory in memories.iter_mut().step_by(40) {
        memory.content.push_str(" the of the");
    }
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    (store, database)
}

/// Replaces a part of the source of a function of the schema.
fn rewrite(database: &str, function: &str, from: &str, to: &str) {
    let sql = format!(
        "DO $do$ DECLARE source text := pg_get_functiondef('atlatl.{function}'::regproc); BEGIN \
         ASSERT strpos(source, $from${from}$from$) > 0; \
         EXECUTE replace(source, $from${from}$from$, $to${to}$to$); END $do$"
    );
    PostgresServer::shared().sql(database, &sql);
}

fn every_match(store: &PostgresStore, words: &str, need: Need, filter: Filter) -> Matches {
    lexical(store, &(Terms::parse(words, need), filter), 10_000)
}

#[test]
fn a_walk_that_reaches_its_bound_has_no_exact_total() {
    let (store, database) = stored(21);
    let query = || every_match(&store, "the a", Need::Any, Filter::default());
    let all = query();
    assert_eq!((all.accuracy, all.total), (TotalAccuracy::Exact, all.best.len() as u64));
    // A tenant whose oldest memories are never reached.
    let endless = "RETURN QUERY SELECT NULL::uuid, NULL::boolean, before - 1; RETURN; ";
    let execute = "RETURN QUERY EXECUTE ";
    rewrite(&database, "newest_documents", execute, &format!("{endless}{execute}"));
    let found = query();
    assert_eq!(found.accuracy, TotalAccuracy::AtLeast);
    assert!((1..all.total).contains(&found.total), "{} of {}", found.total, all.total);
}

#[test]
fn a_word_of_the_same_hash_is_not_counted() {
    let (postgres, database) = opened(PostgresServer::shared());
    let store = postgres.tenant("a").unwrap();
    let mut few = memories(2, 22, &documentation());
    "the zebra counts 数据库".clone_into(&mut few[0].content);
    "a zebra sleeps".clone_into(&mut few[1].content);
    store.put(&few, OnConflict::Keep).wait().unwrap();
    let phrases = Terms::parse("zebra 库 counts 据 xylophone", Need::All).phrases;
    let frequencies = || store.frequencies(&phrases, 1_000).wait().unwrap();
    assert_eq!(frequencies(), [2, 1, 1, 1, 0]);
    // The hash stays, and belongs to another word.
    let other = "UPDATE atlatl.search_document SET sequence = replace(replace(sequence, \
                 ' zebra count ', ' gnu abacu '), ' 库 ', ' 本 ')";
    PostgresServer::shared().sql(&database, other);
    assert_eq!(frequencies(), [1, 0, 0, 1, 0]);
}

#[test]
fn the_newest_matches_are_read_up_to_a_bound() {
    let (store, database) = stored(23);
    // As if the words were as frequent as in a tenant of 200,000 memories.
    let counts = "UPDATE atlatl.common_term SET frequency = 100 * frequency, levels = ARRAY( \
                  SELECT 100 * l.n FROM unnest(levels) WITH ORDINALITY AS l (n, place) \
                  ORDER BY l.place)";
    PostgresServer::shared().sql(&database, counts);
    let phrase = |words: &str| every_match(&store, words, Need::All, Filter::default());
    let all = phrase("\"the of the\"");
    assert_eq!((all.accuracy, all.total), (TotalAccuracy::Exact, all.best.len() as u64));
    assert!((50..100).contains(&all.total), "{}", all.total);
    let absent = phrase("\"the the of of\"");
    assert_eq!((absent.total, &absent.unknown[..]), (0, &[0][..]));
    // As if more memories had the words of these phrases than one statement reads.
    rewrite(&database, "match_documents", "max_results, max_read;", "max_results, 45;");
    let some = phrase("\"the of the\"");
    assert_eq!(some.accuracy, TotalAccuracy::AtLeast);
    assert!((1..=all.total).contains(&some.total), "{} of {}", some.total, all.total);
    let absent = phrase("\"the the of of\"");
    assert_eq!((absent.total, &absent.unknown[..]), (0, &[][..]), "not all were read");
}

#[test]
fn common_words_of_a_time_are_found_by_reading_in_order() {
    let (store, _) = stored(24);
    let mut filter = Filter::default();
    filter.since = Some(now() - chrono::TimeDelta::minutes(500));
    let terms = Terms::parse("the a", Need::Any);
    let work = store.lexical(&terms, &filter, 10_000, now());
    let (found, statements) = record_statements(work).wait();
    let found = found.unwrap();
    assert_eq!((found.accuracy, found.total), (TotalAccuracy::Exact, found.best.len() as u64));
    assert!((300..=500).contains(&found.total), "{}", found.total);
    let calls = |name: &str| statements.iter().filter(|one| one.sql.contains(name)).count();
    assert!(calls("match_documents(") == 0 && calls("newest_documents(") > 0, "{statements:?}");
}

#[test]
fn a_memory_that_cannot_be_indexed_yet_is_found_by_the_previous_index() {
    let server = PostgresServer::shared();
    let database = old::migrated_to(server, 5);
    Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap();
    let open = || {
        let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
        postgres.tenant("a").unwrap()
    };
    let (store, holder) = (open(), open());
    let mut few = memories(3, 25, &documentation());
    "the xyzzy waits".clone_into(&mut few[1].content);
    store.put(&few, OnConflict::Keep).wait().unwrap();
    // As an older server leaves it.
    let unindexed = "WITH gone AS (DELETE FROM atlatl.search_document RETURNING tenant, key) \
                     INSERT INTO atlatl.search_backlog SELECT tenant, key FROM gone";
    server.sql(&database, unindexed);
    let id = few[1].id.clone();
    let (locked, searched) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let found = std::thread::scope(|scope| {
        let (is_locked, was_searched) = (Arc::clone(&locked), Arc::clone(&searched));
        let change = move |memory: Memory| {
            is_locked.wait();
            was_searched.wait();
            Ok(memory)
        };
        scope.spawn(|| drop(holder.update(&id, Box::new(change)).wait().unwrap()));
        locked.wait();
        let terms = Terms::parse("xyzzy", Need::Any);
        let found = store.lexical(&terms, &Filter::default(), 10, now()).wait();
        searched.wait();
        found
    });
    assert_eq!(found.unwrap().best.first().map(|best| &best.id), Some(&few[1].id));
}

#[test]
fn words_are_counted_again_if_a_frequent_one_has_no_count() {
    let (postgres, database) = opened(PostgresServer::shared());
    let store = postgres.tenant("a").unwrap();
    let mut memories = memories(560, 26, &documentation());
    for memory in &mut memories {
        memory.content.push_str(" xyzzy");
    }
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    // As if every query had more candidates than are read.
    let candidates = "(SELECT count(*) FROM candidate)";
    let more = "(SELECT count(*) + 32000 FROM candidate)";
    rewrite(&database, "rank_statement", candidates, more);
    let sql = |sql: &str| PostgresServer::shared().sql(&database, sql);
    let counted = || sql("SELECT documents FROM atlatl.search_statistics");
    let earlier = "UPDATE atlatl.search_statistics SET documents = 530";
    sql(&format!("DELETE FROM atlatl.common_term; {earlier}"));
    let query = (Terms::parse("xyzzy", Need::Any), Filter::default());
    assert_eq!(lexical(&store, &query, 10).best.len(), 10);
    assert_eq!(counted(), "560");
    let of_all = "SELECT count(*) > 0 FROM atlatl.common_term WHERE frequency = 560";
    assert_eq!(sql(of_all), "t");
    // With a count for every word there is nothing to gain.
    sql(earlier);
    assert_eq!(lexical(&store, &query, 10).best.len(), 10);
    assert_eq!(counted(), "530");
    // Nor for a word that has none because it is rare.
    let rare = (Terms::parse("xyzzy plugh", Need::Any), Filter::default());
    assert_eq!(lexical(&store, &rare, 10).best.len(), 10);
    assert_eq!(counted(), "530");
}
