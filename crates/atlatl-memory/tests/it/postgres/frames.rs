//! Pipelining: statements sent together stay separate, for tenants on one connection and batches of
//! one put.

use std::sync::Arc;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Filter, MemoryStore, OnConflict, Order, Postgres, PutOutcome, RecallRequest, RecallService,
    contract, record_statements,
};
use mif::Memory;
use testkit::corpus;
use testkit::postgres::{APP, PostgresServer};

use super::{migrated, opened, options, tenants};

#[test]
fn one_connection_goes_from_tenant_to_tenant_and_from_failures_to_answers() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut options = options(server, APP, &database);
    options.connections = 1;
    let postgres = Postgres::open(&options).wait().unwrap();
    let (one, other) = (postgres.tenant("one").unwrap(), postgres.tenant("o'ther\\").unwrap());
    let memories = corpus::memories(40, 3);
    one.put(&memories[..30], OnConflict::Keep).wait().unwrap();
    other.put(&memories[30..], OnConflict::Keep).wait().unwrap();
    let now = "2026-01-05T00:00:00Z".parse().unwrap();
    let filter = Filter::default();
    let admitted = |some: &[Memory]| some.iter().filter(|one| filter.admits(one, now)).count();
    let expected = (admitted(&memories[..30]), admitted(&memories[30..]));
    assert!(expected.0 > expected.1 && expected.1 > 0);
    let listed = |store: &dyn MemoryStore| {
        store.list(&filter, Order::Newest, None, 100, now).wait().unwrap().memories.len()
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for n in 0..50 {
                    assert_eq!((listed(&one), listed(&other)), expected);
                    if n % 10 == 0 {
                        // Its transaction is over, whatever follows.
                        one.query_column("SELECT no_such_column").wait().unwrap_err();
                        let read_only = "INSERT INTO atlatl.lease (task, until) VALUES ('x', 1)";
                        one.query_column(read_only).wait().unwrap_err();
                    }
                }
            });
        }
    });
}

#[test]
fn on_one_connection_with_prepared_statements_the_contract_and_the_borders_are_the_same() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut options = options(server, APP, &database);
    options.connections = 1;
    let postgres = Postgres::open(&options).wait().unwrap();
    let tenant = tenants(&postgres);
    contract::run(|| Box::new(tenant()));
    let (one, other) = (postgres.tenant("one").unwrap(), postgres.tenant("other").unwrap());
    let memories = corpus::memories(2, 6);
    one.put(&memories[..1], OnConflict::Keep).wait().unwrap();
    // The statement has been prepared by now, for another tenant.
    assert!(one.get(&memories[0].id).wait().unwrap().is_some());
    assert!(other.get(&memories[0].id).wait().unwrap().is_none());
    let everything = "SELECT count(*)::text FROM atlatl.memory";
    for _ in 0..8 {
        // More often than a custom plan is made.
        assert_eq!(one.query_column(everything).wait().unwrap(), ["1"]);
        assert_eq!(other.query_column(everything).wait().unwrap(), ["0"]);
    }
}

#[test]
fn every_batch_of_a_large_put_reports_its_outcomes() {
    let (postgres, _) = opened(PostgresServer::shared());
    let store = postgres.tenant("many").unwrap();
    let mut memories = corpus::memories(400, 4);
    let first: Vec<_> = memories.iter().step_by(3).cloned().collect();
    assert!(
        store
            .put(&first, OnConflict::Keep)
            .wait()
            .unwrap()
            .iter()
            .all(|put| *put == PutOutcome::Stored)
    );
    for memory in memories.iter_mut().step_by(6) {
        memory.content.push_str(" Changed.");
    }
    let became = store.put(&memories, OnConflict::Replace).wait().unwrap();
    for (n, put) in became.iter().enumerate() {
        let expected = match n {
            n if n % 6 == 0 => PutOutcome::Replaced,
            n if n % 3 == 0 => PutOutcome::Unchanged,
            _ => PutOutcome::Stored,
        };
        assert_eq!(*put, expected, "{n}");
    }
    let ids: Vec<_> = memories.iter().map(|memory| memory.id.clone()).collect();
    assert_eq!(store.get_all(&ids).wait().unwrap(), memories);
    assert!(
        store
            .put(&memories, OnConflict::Keep)
            .wait()
            .unwrap()
            .iter()
            .all(|put| *put == PutOutcome::Unchanged)
    );
}

#[test]
fn a_recall_is_three_statements_and_a_put_of_new_memories_one_for_each_batch_and_one() {
    let (postgres, _) = opened(PostgresServer::shared());
    let store = postgres.tenant("recorded").unwrap();
    let memories = corpus::memories(130, 5);
    let (put, sent) = record_statements(store.put(&memories, OnConflict::Keep)).wait();
    assert_eq!((put.unwrap().len(), sent.len()), (130, 3), "the mean length, and two batches");
    assert_eq!(sent[1].types.len(), sent[1].values.len());
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    let word = memories[0].content.split(' ').find(|word| word.len() > 4).unwrap();
    let service = RecallService::new(Arc::new(store.clone()), None);
    // The first recall counts words.
    service.recall(&RecallRequest::new(word, now)).wait().unwrap();
    let (found, sent) = record_statements(service.recall(&RecallRequest::new(word, now))).wait();
    assert!(!found.unwrap().is_empty());
    assert_eq!(sent.len(), 3, "the frequencies, the ranking, and the texts");
    let (got, sent) = record_statements(store.get(&memories[0].id)).wait();
    assert_eq!((got.unwrap().as_ref(), sent.len()), (Some(&memories[0]), 1));
}

#[test]
fn more_kinds_of_statements_than_are_kept_are_all_answered() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut options = options(server, APP, &database);
    options.connections = 1;
    let store = Postgres::open(&options).wait().unwrap().tenant("kinds").unwrap();
    for n in 0..600 {
        assert_eq!(store.query_column(&format!("SELECT '{n}'")).wait().unwrap(), [n.to_string()]);
    }
    let kept: usize =
        store.query_column("SELECT count(*)::text FROM pg_prepared_statements").wait().unwrap()[0]
            .parse()
            .unwrap();
    assert!((1..=257).contains(&kept), "{kept}");
}
