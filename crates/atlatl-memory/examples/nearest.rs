//! Measures vector search of one large tenant with and without the index, and the bytes on disk, in
//! its own `PostgreSQL` (`TESTKIT_POSTGRES`): `nearest [VECTORS] [DIMENSIONS]`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Filter, MemoryStore, OnConflict, Postgres, PostgresOptions, PostgresStore};
use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId, MemoryType, Timestamp};
use testkit::SplitMix64;
use testkit::postgres::{APP, OWNER, PostgresServer};

const MODEL: &str = "m";
const QUESTIONS: usize = 200;
const PLACES: usize = 300;

/// A vector of length 1 near one of the centers.
fn vector(random: &mut SplitMix64, dimensions: usize) -> Vec<f32> {
    let mut place = SplitMix64::new(random.below(PLACES) as u64);
    let number = |random: &mut SplitMix64| {
        let n = u16::try_from(random.below(2001)).unwrap_or_default();
        f32::from(n) / 1000.0 - 1.0
    };
    let vector: Vec<f32> =
        (0..dimensions).map(|_| number(&mut place) + 0.7 * number(random)).collect();
    let length = vector.iter().map(|n| n * n).sum::<f32>().sqrt();
    vector.iter().map(|n| n / length).collect()
}

/// The best 50 of every query, and the median and 95th percentile of the times.
fn asked(
    store: &PostgresStore,
    questions: &[Vec<f32>],
    now: DateTime<Utc>,
) -> (Vec<HashSet<u128>>, Duration, Duration) {
    let mut times = Vec::new();
    let answers = questions
        .iter()
        .map(|question| {
            let begun = Instant::now();
            let found = store.nearest(MODEL, question, &Filter::default(), 50, now).wait();
            let found = found.expect("an answer");
            times.push(begun.elapsed());
            found.iter().map(|one| one.id.as_u128()).collect()
        })
        .collect();
    times.sort();
    (answers, times[times.len() / 2], times[times.len() * 95 / 100])
}

/// The bytes of a memory on disk with all indexes: of its vector, and of the rest.
fn bytes(server: &PostgresServer, database: &str) -> String {
    server.sql(
        database,
        "SELECT coalesce(sum(size) FILTER (WHERE is_vector), 0) / (SELECT count(*) FROM atlatl.memory) \
             || ' of vectors, ' || sum(size) FILTER (WHERE NOT is_vector) \
                 / (SELECT count(*) FROM atlatl.memory) || ' of the rest' \
         FROM (SELECT pg_total_relation_size(oid) AS size, \
                   relname ~ '^(vector|near|waiting|embedding|hnsw)' AS is_vector FROM pg_class \
               WHERE relnamespace = 'atlatl'::regnamespace AND relkind = 'r') t",
    )
}

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn main() {
    let mut sizes = std::env::args().skip(1).map(|n| n.parse::<usize>().expect("a number"));
    let (vectors, dimensions) = (sizes.next().unwrap_or(30_000), sizes.next().unwrap_or(384));
    let server = PostgresServer::start(&["shared_buffers=512MB"]);
    let database = server.database();
    let options =
        |role| PostgresOptions::new(server.url(role, &database)).for_role(String::from(APP));
    Postgres::migrate(&options(OWNER)).wait().expect("a schema");
    let store = Postgres::open(&options(APP))
        .wait()
        .and_then(|postgres| postgres.tenant("large"))
        .expect("a store");
    let now: DateTime<Utc> = "2026-11-15T12:00:00Z".parse().expect("a time");
    let memories: Vec<Memory> = (0..vectors)
        .map(|n| {
            let id = MemoryId::from_u128(n as u128 + 1);
            let content = format!("Memory {n}.");
            Memory::new(id, MemoryType::Semantic, content, Timestamp::from(now)).expect("a memory")
        })
        .collect();
    for some in memories.chunks(5000) {
        store.put(some, OnConflict::Keep).wait().expect("kept");
    }
    let mut random = SplitMix64::new(1);
    let waiting = store.unembedded(MODEL, 0, usize::MAX).wait().expect("those that wait");
    let begun = Instant::now();
    for some in waiting.chunks(500) {
        let some: Vec<_> =
            some.iter().map(|one| (one.version, vector(&mut random, dimensions))).collect();
        store.put_vectors(MODEL, &some).wait().expect("kept");
    }
    let seconds = |begun: Instant| begun.elapsed().as_secs_f64();
    println!("{vectors} vectors of {dimensions} numbers written in {:.1} s", seconds(begun));
    server.sql(&database, "VACUUM ANALYZE");
    println!("bytes a memory without an index: {}", bytes(&server, &database));
    let questions: Vec<_> = (0..QUESTIONS).map(|_| vector(&mut random, dimensions)).collect();
    let (right, half, most) = asked(&store, &questions, now);
    println!("compared: p50 {half:.1?}, p95 {most:.1?}");
    let begun = Instant::now();
    let mut steps = Vec::new();
    while store.is_index_behind().wait().expect("an answer") {
        let step = Instant::now();
        if store.advance_index().wait().expect("a step") > 0 {
            steps.push(step.elapsed());
        }
    }
    let slowest = steps.iter().max().copied().unwrap_or_default();
    println!("index filled in {:.1} s, slowest step {slowest:.1?}", seconds(begun));
    // Moving vectors leaves free space behind, which later vectors fill.
    server.sql(&database, "VACUUM FULL ANALYZE");
    println!("bytes a memory with an index: {}", bytes(&server, &database));
    let (found, half, most) = asked(&store, &questions, now);
    let shared: usize = right.iter().zip(&found).map(|(a, b)| a.intersection(b).count()).sum();
    let wanted: usize = right.iter().map(HashSet::len).sum();
    println!("by the index: p50 {half:.1?}, p95 {most:.1?}, {shared} of {wanted} found");
}
