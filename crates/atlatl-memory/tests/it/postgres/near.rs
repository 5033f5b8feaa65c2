//! Vector indexes: tenants with many vectors are served by an index that is built and filled in the
//! background.

mod borders;
mod faults;
mod plans;
mod restore;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Filter, MemoryStore, OnConflict, Postgres, PostgresStore};
use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId, Timestamp};
use testkit::SplitMix64;
use testkit::corpus;
use testkit::postgres::{APP, PostgresServer};

use super::{migrated, options};

const MODEL: &str = "the model's name";
const DIMENSIONS: usize = 32;
/// The number of vectors from which there is an index here.
const FROM: usize = 600;

fn now() -> DateTime<Utc> {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

fn any() -> Filter {
    let mut any = Filter::default();
    any.status = None;
    any
}

fn opened(server: &PostgresServer) -> (Postgres, String) {
    let database = migrated(server);
    (opened_again(server, &database), database)
}

fn opened_again(server: &PostgresServer, database: &str) -> Postgres {
    let mut options = options(server, APP, database);
    options.index_from = FROM;
    Postgres::open(&options).wait().unwrap()
}

/// A vector of length 1 near one of forty centers.
fn vector(random: &mut SplitMix64) -> Vec<f32> {
    let mut place = SplitMix64::new(random.below(40) as u64);
    let number = |random: &mut SplitMix64| {
        f32::from(u16::try_from(random.below(2001)).unwrap()) / 1000.0 - 1.0
    };
    let vector: Vec<f32> =
        (0..DIMENSIONS).map(|_| number(&mut place) + 0.6 * number(random)).collect();
    let length = vector.iter().map(|n| n * n).sum::<f32>().sqrt();
    vector.iter().map(|n| n / length).collect()
}

fn product(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The expected contents of a store.
type Known = Vec<(Memory, Vec<f32>)>;

/// Memories with vectors.
fn filled(store: &PostgresStore, n: usize, seed: u64) -> Known {
    let mut random = SplitMix64::new(seed);
    let mut memories = corpus::memories(n, seed);
    for memory in &mut memories {
        // Nothing expires at the times used here.
        memory.temporal = None;
    }
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    let known: Known = memories.into_iter().map(|one| (one, vector(&mut random))).collect();
    embed(store, &known);
    known
}

/// Stores the vector of every pending memory.
fn embed(store: &PostgresStore, known: &Known) {
    let waiting = store.unembedded(MODEL, 0, usize::MAX).wait().unwrap();
    let vectors: Vec<_> = waiting
        .iter()
        .map(|one| {
            let of = |memory: &Memory| one.text.ends_with(&memory.content);
            (one.version, known.iter().find(|(memory, _)| of(memory)).unwrap().1.clone())
        })
        .collect();
    store.put_vectors(MODEL, &vectors).wait().unwrap();
}

/// Brings the index up to date.
fn advance(store: &PostgresStore) {
    let begun = Instant::now();
    while store.is_index_behind().wait().unwrap() {
        assert!(begun.elapsed() < Duration::from_mins(1), "it never ends");
        // A transaction of another test may be older than the index.
        if store.advance_index().wait().unwrap() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!(store.advance_index().wait().unwrap(), 0);
}

fn nearest(store: &PostgresStore, vector: &[f32], filter: &Filter, n: usize) -> Vec<MemoryId> {
    let found = store.nearest(MODEL, vector, filter, n, now()).wait().unwrap();
    assert!(found.is_sorted_by(|a, b| a.score >= b.score));
    found.into_iter().map(|one| one.id).collect()
}

/// The same by exact comparison here.
fn compared(known: &Known, vector: &[f32], filter: &Filter, n: usize) -> Vec<MemoryId> {
    let mut all: Vec<_> = known
        .iter()
        .filter(|(memory, _)| filter.admits(memory, now()))
        .map(|(memory, of)| (product(of, vector), &memory.id))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().take(n).map(|(_, id)| id.clone()).collect()
}

/// Returns how many of a hundred expected hits are there.
fn recall(store: &PostgresStore, known: &Known, filter: &Filter, questions: usize) -> usize {
    let mut random = SplitMix64::new(99);
    let (mut found, mut wanted) = (0, 0);
    for _ in 0..questions {
        let question = vector(&mut random);
        let right: HashSet<_> =
            compared(known, &question, filter, 50).iter().map(MemoryId::as_u128).collect();
        let got: HashSet<_> =
            nearest(store, &question, filter, 50).iter().map(MemoryId::as_u128).collect();
        assert_eq!(got.len(), right.len());
        wanted += right.len();
        found += right.intersection(&got).count();
    }
    100 * found / wanted
}

/// The table of the only index.
fn table(server: &PostgresServer, database: &str) -> String {
    server.sql(database, "SELECT relation FROM atlatl.embedding_index")
}

/// The number of vectors in the table of the only index. All others are moved.
fn rows(server: &PostgresServer, database: &str) -> String {
    let outside = "SELECT count(*) FROM atlatl.embedding e \
                   JOIN atlatl.embedding_index USING (tenant, model)";
    assert_eq!(server.sql(database, outside), "0", "each vector is stored once");
    let table = table(server, database);
    server.sql(database, &format!("SELECT count(*) FROM atlatl.\"{table}\""))
}

#[test]
fn a_large_tenant_is_answered_by_its_index_and_a_small_one_by_comparison() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let (large, small) = (postgres.tenant("large").unwrap(), postgres.tenant("small").unwrap());
    let (many, few) = (filled(&large, 2000, 1), filled(&small, FROM - 1, 2));
    assert!(large.is_index_behind().wait().unwrap() && !small.is_index_behind().wait().unwrap());
    assert_eq!(small.advance_index().wait().unwrap(), 0);
    assert_eq!(recall(&large, &many, &any(), 5), 100, "before there is an index");
    advance(&large);
    assert_eq!(
        server.sql(&database, "SELECT tenant, dimensions FROM atlatl.embedding_index"),
        "large|32"
    );
    assert_eq!((&*rows(server, &database), large.repair().wait().unwrap().missing), ("2000", 0));
    let recall_here = recall(&large, &many, &any(), 20);
    assert!(recall_here >= 90, "{recall_here} of 100");
    assert_eq!(recall(&small, &few, &any(), 5), 100);
    // A connection reports its statistics when it ends.
    drop((large, small, postgres));
    let used =
        "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname LIKE 'hnsw%index'";
    let begun = Instant::now();
    while server.sql(&database, used) != "20" {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", server.sql(&database, used));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_the_index_lacks_is_found_and_what_it_still_has_is_not() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let mut known = filled(&store, 1000, 3);
    advance(&store);
    let question = known[0].1.clone();
    let before = nearest(&store, &question, &any(), 60);
    assert_eq!(before[0], known[0].0.id);
    // New, and nearer than all others but one.
    let new = Memory::new(
        MemoryId::from_u128(77),
        mif::MemoryType::Semantic,
        "Quite new.".to_owned(),
        Timestamp::from(now()),
    );
    known.push((new.unwrap(), question.clone()));
    store.put(&[known[1000].0.clone()], OnConflict::Keep).wait().unwrap();
    embed(&store, &known);
    // Deleted, and updated: its vector is gone until it gets a new one.
    assert!(store.delete(&before[1]).wait().unwrap());
    let change = |mut memory: Memory| {
        memory.content = "Something else entirely.".to_owned();
        Ok(memory)
    };
    store.update(&before[2], Box::new(change)).wait().unwrap();
    known.retain(|(memory, _)| memory.id != before[1] && memory.id != before[2]);
    let right = compared(&known, &question, &any(), 40);
    let check = |when: &str| {
        let found = nearest(&store, &question, &any(), 50);
        assert!(!found.contains(&before[1]) && !found.contains(&before[2]), "{when}");
        assert!(found[..2].contains(&MemoryId::from_u128(77)), "{when}");
        let there = right.iter().filter(|id| found.contains(id)).count();
        assert!(there >= 38, "{there} of 40 {when}");
    };
    check("before the index knows of it");
    assert!(store.is_index_behind().wait().unwrap());
    advance(&store);
    check("when it does");
    assert_eq!(rows(server, &database), "999");
    // Another vector for the same version: it counts at once, and the index follows.
    let far: Vec<f32> = question.iter().map(|n| -n).collect();
    let version = store.query_column(
        "SELECT key::text FROM atlatl.memory m WHERE m.id = '00000000-0000-0000-0000-00000000004d'",
    ).wait();
    let version: u64 = version.unwrap()[0].parse().unwrap();
    store.put_vectors(MODEL, &[(version, far.clone())]).wait().unwrap();
    for _ in 0..2 {
        assert_eq!(nearest(&store, &far, &any(), 50)[0], MemoryId::from_u128(77));
        assert!(!nearest(&store, &question, &any(), 50).contains(&MemoryId::from_u128(77)));
        advance(&store);
    }
    assert_eq!(rows(server, &database), "999");
}

#[test]
fn a_filter_has_all_its_answers_however_few_it_lets_through() {
    let server = PostgresServer::shared();
    let (postgres, _) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let known = filled(&store, 1500, 4);
    advance(&store);
    let mut active = Filter::default();
    let many = recall(&store, &known, &active, 10);
    assert!(many >= 90, "{many} of 100");
    active.tags = vec!["security".to_owned(), "release".to_owned()];
    let few = known.iter().filter(|(memory, _)| active.admits(memory, now())).count();
    assert!(few < 100, "{few}");
    assert_eq!(recall(&store, &known, &active, 10), 100);
    active.tags = vec!["an unused tag".to_owned()];
    assert_eq!(nearest(&store, &known[0].1, &active, 50), []);
    // More hits than an index returns, and vectors of another length.
    let all = store.nearest(MODEL, &known[0].1, &any(), 5000, now()).wait().unwrap();
    assert_eq!(all.len(), 1500);
    assert_eq!(store.nearest(MODEL, &[1.0, 0.0], &any(), 50, now()).wait().unwrap(), []);
    assert_eq!(store.nearest("another", &known[0].1, &any(), 50, now()).wait().unwrap(), []);
}

#[test]
fn an_index_goes_when_few_vectors_are_left() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let mut known = filled(&store, FROM, 5);
    advance(&store);
    for (memory, _) in known.drain(FROM / 2 - 1..) {
        store.delete(&memory.id).wait().unwrap();
    }
    advance(&store);
    let left = "SELECT (SELECT count(*) FROM atlatl.embedding_index) \
                + (SELECT count(*) FROM pg_class WHERE relname LIKE 'hnsw\\_%')";
    assert_eq!(server.sql(&database, left), "0");
    assert_eq!(recall(&store, &known, &any(), 5), 100);
}

#[test]
fn g49_an_index_is_built_at_once_from_many_vectors_and_filled_from_few() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let mut known = filled(&store, FROM, 13);
    // One step builds it, and removes the copied vectors.
    assert!(store.advance_index().wait().unwrap() > u64::try_from(FROM).unwrap());
    let first = table(server, &database);
    assert_eq!(rows(server, &database), FROM.to_string());
    assert!(!store.is_index_behind().wait().unwrap());
    // Few are inserted into it.
    known.extend(filled(&store, 50, 14));
    advance(&store);
    assert_eq!(
        (rows(server, &database), table(server, &database)),
        ("650".to_owned(), first.clone())
    );
    // Many are a reason to build it again.
    known.extend(filled(&store, FROM, 15));
    advance(&store);
    assert_eq!(rows(server, &database), "1250");
    assert_ne!(table(server, &database), first);
    let tables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'hnsw\\_%' AND relkind = 'r'";
    assert_eq!(server.sql(&database, tables), "1", "the former table is dropped");
    let recall = recall(&store, &known, &any(), 10);
    assert!(recall >= 90, "{recall} of 100");
    let ids: Vec<MemoryId> = known.iter().map(|(memory, _)| memory.id.clone()).collect();
    let question = known[7].1.clone();
    let cosines = store.cosines(MODEL, &question, &ids).wait().unwrap();
    for ((_, vector), cosine) in known.iter().zip(cosines) {
        assert!((cosine.unwrap() - product(vector, &question)).abs() < 1.0 / 4096.0);
    }
}
