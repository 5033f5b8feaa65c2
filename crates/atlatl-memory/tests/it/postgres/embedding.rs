//! The embedding queue, and the conversion of vectors to half precision.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    EmbedError, Embedder, EmbeddingBackfill, EmbeddingClaim, EmbeddingQueue, Filter, Finish,
    MemoryStore, OnConflict, Postgres, PostgresStore, Release, embed_missing,
};
use mif::{Memory, MemoryId};
use testkit::postgres::{APP, OWNER, PostgresServer};
use testkit::{SplitMix64, corpus};

use super::{migrated, old, opened, options};

const MODEL: &str = "counted";
const LEASE: Duration = Duration::from_mins(1);

/// A model that counts the texts that it gets.
#[derive(Default)]
struct Counted(Mutex<HashMap<String, usize>>);

impl Counted {
    fn sent(&self) -> usize {
        self.0.lock().unwrap().values().sum()
    }
}

impl Embedder for Counted {
    fn model(&self) -> &str {
        MODEL
    }

    fn dimensions(&self) -> usize {
        2
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut sent = self.0.lock().unwrap();
        for text in texts {
            *sent.entry((*text).to_owned()).or_default() += 1;
        }
        drop(sent);
        thread::sleep(Duration::from_millis(2));
        Ok(texts.iter().map(|_| vec![0.6, 0.8]).collect())
    }
}

fn any() -> Filter {
    let mut any = Filter::default();
    any.status = None;
    any
}

fn now() -> chrono::DateTime<chrono::Utc> {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

/// Memories with distinct texts.
fn memories(n: usize, name: &str) -> Vec<Memory> {
    let mut memories = corpus::memories(n, 7);
    for (n, memory) in memories.iter_mut().enumerate() {
        (memory.title, memory.content) = (None, format!("{name} {n}"));
        memory.temporal = None;
    }
    memories
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_mins(1), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Claims once the memories that existed before the model are queued: a transaction of another test
/// may be older.
fn claim(queue: &dyn EmbeddingQueue, model: &str, limit: usize, lease: Duration) -> EmbeddingClaim {
    let began = Instant::now();
    loop {
        if let Some(claim) = queue.claim(model, limit, lease).wait().unwrap() {
            return claim;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "nothing is queued");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Registers a model, so that writes are queued for it.
fn register(server: &PostgresServer, database: &str, queue: &dyn EmbeddingQueue, model: &str) {
    wait_until("the model", || {
        assert!(queue.claim(model, 1, LEASE).wait().unwrap().is_none());
        let complete = "SELECT bool_and(complete) FROM atlatl.embedding_model";
        server.sql(database, complete) == "t"
    });
}

fn embed_all(store: &PostgresStore, embedder: &Arc<dyn Embedder>) {
    wait_until("all vectors", || {
        while embed_missing(store, embedder).wait().unwrap() > 0 {}
        store.count_unembedded(MODEL).wait().unwrap() == 0
    });
}

fn queued(server: &PostgresServer, database: &str) -> String {
    server.sql(database, "SELECT count(*) FROM atlatl.embedding_queue")
}

#[test]
fn g45_three_servers_embed_each_memory_once() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let counted = Arc::new(Counted::default());
    let postgres: Vec<Postgres> =
        (0..3).map(|_| Postgres::open(&options(server, APP, &database)).wait().unwrap()).collect();
    let names = ["a", "b", "c", "d", "e", "f"];
    // Half of the memories are there before the servers.
    let put = |postgres: &Postgres, name: &str, part: &str| {
        let store = postgres.tenant(name).unwrap();
        let mut memories = memories(50, &format!("{name} {part}"));
        for (n, memory) in memories.iter_mut().enumerate() {
            let id = part.len() * 1000 + n;
            memory.id = MemoryId::from_u128(u128::try_from(id).unwrap());
        }
        store.put(&memories, OnConflict::Keep).wait().unwrap();
    };
    for name in names {
        put(&postgres[0], name, "first");
    }
    let servers: Vec<_> = postgres
        .iter()
        .map(|postgres| {
            let backfill = async { EmbeddingBackfill::start(counted.clone(), 4, |_| {}) };
            let backfill = backfill.wait().unwrap();
            let queue = backfill.register_queue(postgres.embedding_queue());
            (backfill, queue)
        })
        .collect();
    for (n, name) in names.iter().enumerate() {
        put(&postgres[n % 3], name, "second");
        // A server of one tenant wakes the queue of the database.
        let store = Arc::new(postgres[n % 3].tenant(name).unwrap());
        servers[n % 3].0.register(store).notify();
    }
    let all = "SELECT count(*) FROM atlatl.embedding";
    wait_until("all vectors", || server.sql(&database, all) == "600");
    assert_eq!(queued(server, &database), "0");
    let sent = counted.0.lock().unwrap().clone();
    assert_eq!(sent.len(), 600);
    assert!(sent.values().all(|times| *times == 1), "{} texts sent", counted.sent());
    drop(servers);
}

#[test]
fn g45_the_claims_of_a_killed_worker_return_after_their_lease() {
    let server = PostgresServer::shared();
    let (postgres, _) = opened(server);
    let store = postgres.tenant("a").unwrap();
    store.put(&memories(10, "one"), OnConflict::Keep).wait().unwrap();
    let queue = postgres.embedding_queue();
    let lease = Duration::from_secs(5);
    let first = claim(&*queue, MODEL, 6, lease);
    assert_eq!((first.memories.len(), first.attempts, &*first.tenant), (6, 0, "a"));
    // Another worker takes the others, and then there is nothing.
    let other = Postgres::open(&options(server, APP, &first_database(&store))).wait().unwrap();
    let second = claim(&*other.embedding_queue(), MODEL, 6, LEASE);
    assert_eq!(second.memories.len(), 4);
    assert!(queue.claim(MODEL, 6, lease).wait().unwrap().is_none());
    let again = claim(&*queue, MODEL, 6, LEASE);
    assert_eq!(again.memories, first.memories, "after the lease");
    // A failed one is alone, and later than the others.
    let versions = |claim: &EmbeddingClaim| -> Vec<u64> {
        claim.memories.iter().map(|one| one.version).collect()
    };
    let (failed, others) = (versions(&again)[..1].to_vec(), versions(&again)[1..].to_vec());
    let retry = Release::Failed { retry_after: Duration::ZERO };
    queue.release(MODEL, &again, &failed, retry).wait().unwrap();
    queue.release(MODEL, &again, &others, Release::Unchanged).wait().unwrap();
    assert_eq!(versions(&claim(&*queue, MODEL, 6, LEASE)), others);
    let alone = claim(&*queue, MODEL, 6, LEASE);
    assert_eq!((versions(&alone), alone.attempts), (failed, 1));
}

/// The database of a store.
fn first_database(store: &PostgresStore) -> String {
    store.query_column("SELECT current_database()::text").wait().unwrap().remove(0)
}

#[test]
fn g45_a_tenant_with_many_queued_memories_does_not_delay_another() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let queue = postgres.embedding_queue();
    register(server, &database, &*queue, MODEL);
    let many = "INSERT INTO atlatl.memory (tenant, id, memory_type, status, tags, created, changed, fades) \
                SELECT 'many', gen_random_uuid(), 'semantic', 'active', '{}', 1, 1, false \
                FROM generate_series(1, 10000); \
                INSERT INTO atlatl.document (tenant, key, json) \
                SELECT tenant, key, format('{\"id\":\"%s\",\"memory_type\":\"semantic\",\
                \"content\":\"x\",\"created\":\"2026-01-01T00:00:00Z\"}', id) \
                FROM atlatl.memory WHERE tenant = 'many'";
    server.sql(&database, many);
    assert_eq!(queued(server, &database), "10000");
    assert_eq!(claim(&*queue, MODEL, 32, LEASE).tenant, "many");
    for name in ["few", "more"] {
        let store = postgres.tenant(name).unwrap();
        store.put(&memories(1, name), OnConflict::Keep).wait().unwrap();
    }
    let served: Vec<String> = (0..4).map(|_| claim(&*queue, MODEL, 32, LEASE).tenant).collect();
    assert_eq!(served, ["more", "few", "many", "many"]);
    let began = Instant::now();
    for _ in 0..50 {
        claim(&*queue, MODEL, 32, LEASE);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn g45_writes_of_older_programs_are_queued_and_their_vectors_copied() {
    let server = PostgresServer::shared();
    let database = old::migrated_to(server, 5);
    let owner = options(server, OWNER, &database);
    let before = old::write(server, &database, "a", &memories(3, "before"));
    old::write_vector(server, &database, "a", MODEL, before[0], &[0.6, 0.8]);
    assert_eq!(
        Postgres::migrate(&owner).wait().unwrap(),
        [
            "0006-bounded-recall",
            "0007-embeddings",
            "0008-erasure",
            "0009-usage",
            "0010-administration"
        ]
    );
    let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let store = postgres.tenant("a").unwrap();
    let near = || store.nearest(MODEL, &[0.6, 0.8], &any(), 9, now()).wait().unwrap().len();
    assert_eq!(near(), 1, "it is converted");
    let queue = postgres.embedding_queue();
    let first = claim(&*queue, MODEL, 9, LEASE);
    assert_eq!(first.memories.len(), 2);
    let mut after = memories(5, "after");
    after.drain(..3);
    let after = old::write(server, &database, "a", &after);
    assert_eq!(queued(server, &database), "4");
    old::write_vector(server, &database, "a", MODEL, after[0], &[0.6, 0.8]);
    old::write_vector(server, &database, "a", MODEL, after[1], &[]);
    assert_eq!((queued(server, &database), near()), ("2".to_owned(), 2));
    // An older program deletes a memory, and changes another.
    let statements = format!(
        "DELETE FROM atlatl.document WHERE key IN ({0}, {1}); \
         DELETE FROM atlatl.memory WHERE key = {0}; \
         UPDATE atlatl.memory SET key = nextval('atlatl.version') WHERE key = {1}",
        before[0], after[0]
    );
    old::as_app(server, &database, "a", &statements);
    assert_eq!((queued(server, &database), near()), ("3".to_owned(), 0));
    let left =
        "SELECT (SELECT count(*) FROM atlatl.vector), (SELECT count(*) FROM atlatl.embedding)";
    assert_eq!(server.sql(&database, left), "1|1", "the refused text");

    // Older programs are gone.
    assert_eq!(Postgres::finish(&owner).wait().unwrap(), Finish::Dropped { indexed: 3 });
    assert_eq!(Postgres::finish(&owner).wait().unwrap(), Finish::Nothing);
    assert_eq!(server.sql(&database, "SELECT to_regclass('atlatl.vector') IS NULL"), "t");
    assert_eq!(server.sql(&database, "SELECT max(oldest) FROM atlatl.migration"), "7");
    assert_eq!(Postgres::migrate(&owner).wait().unwrap(), [""; 0]);
    let store = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let store = store.tenant("a").unwrap();
    store.put(&memories(9, "new")[8..], OnConflict::Keep).wait().unwrap();
    assert_eq!(queued(server, &database), "4");
}

#[test]
fn g49_vectors_are_converted_in_batches_and_no_model_is_asked_again() {
    let server = PostgresServer::shared();
    let database = old::migrated_to(server, 5);
    let owner = options(server, OWNER, &database);
    let fill = "INSERT INTO atlatl.memory (tenant, key, id, memory_type, status, tags, created, changed, fades) \
                SELECT 'a', n, gen_random_uuid(), 'semantic', 'active', '{}', 1, 1, false \
                FROM generate_series(100001, 112000) n; \
                INSERT INTO atlatl.vector (tenant, model, key, vector) \
                SELECT 'a', 'counted', n, ARRAY[0.6, 0.8] FROM generate_series(100001, 112000) n";
    server.sql(&database, fill);
    Postgres::migrate(&owner).wait().unwrap();
    let copied = "SELECT count(*) FROM atlatl.embedding";
    assert_eq!(server.sql(&database, copied), "12000");
    let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    register(server, &database, &*postgres.embedding_queue(), MODEL);
    assert_eq!(queued(server, &database), "0");
    // An interrupted conversion is continued by a server.
    let again = "DELETE FROM atlatl.embedding WHERE key > 106000; UPDATE atlatl.vector_conversion \
                 SET upto_key = 106000, complete = false";
    server.sql(&database, again);
    let refused = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let store = refused.tenant("another").unwrap();
    assert!(store.is_index_behind().wait().unwrap());
    while store.advance_index().wait().unwrap() > 0 {}
    assert_eq!(server.sql(&database, copied), "12000");
    let sizes = "SELECT pg_column_size(e.embedding), pg_column_size(v.vector) \
                 FROM atlatl.embedding e JOIN atlatl.vector v USING (tenant, model, key) LIMIT 1";
    assert_eq!(server.sql(&database, sizes), "9|29", "two numbers");
}

#[test]
fn g45_memories_are_queued_once_for_another_model() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    store.put(&memories(40, "one"), OnConflict::Keep).wait().unwrap();
    let counted = Arc::new(Counted::default());
    let embedder: Arc<dyn Embedder> = counted.clone();
    embed_all(&store, &embedder);
    assert_eq!((counted.sent(), queued(server, &database)), (40, "0".to_owned()));
    let queue = postgres.embedding_queue();
    let other = claim(&*queue, "another model", 99, LEASE);
    assert_eq!(other.memories.len(), 40);
    let vectors: Vec<_> = other.memories.iter().map(|one| (one.version, vec![1.0, 0.0])).collect();
    other.store.put_vectors("another model", &vectors).wait().unwrap();
    wait_until("the end", || {
        assert!(queue.claim("another model", 9, LEASE).wait().unwrap().is_none());
        let complete = "SELECT bool_and(complete) FROM atlatl.embedding_model WHERE tenant = ''";
        server.sql(&database, complete) == "t"
    });
    assert_eq!(queued(server, &database), "0");
    // A write is queued for both, until one is no longer used.
    store.put(&memories(41, "one")[40..], OnConflict::Keep).wait().unwrap();
    assert_eq!(queued(server, &database), "2");
    server.sql(&database, "UPDATE atlatl.embedding_model SET seen = now() - interval '2 days'");
    let fresh = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let kept = fresh.embedding_queue().claim("another model", 9, LEASE).wait().unwrap();
    assert_eq!(kept.unwrap().memories.len(), 1);
    assert_eq!(queued(server, &database), "1");
    assert_eq!(postgres.embedding_backlog("another model").wait().unwrap().memories, 1);
    assert_eq!(postgres.embedding_backlog(MODEL).wait().unwrap().memories, 0);
}

#[test]
fn g45_without_pgvector_memories_are_embedded_once_too() {
    let server = PostgresServer::shared();
    let database = server.database_without_pgvector();
    let owner = options(server, OWNER, &database);
    Postgres::migrate(&owner).wait().unwrap();
    let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let (a, b) = (postgres.tenant("a").unwrap(), postgres.tenant("b").unwrap());
    for store in [&a, &b] {
        store.put(&memories(40, store.name()), OnConflict::Keep).wait().unwrap();
    }
    let counted = Arc::new(Counted::default());
    let embedder: Arc<dyn Embedder> = counted.clone();
    embed_all(&a, &embedder);
    assert_eq!(counted.sent(), 40, "of one tenant");
    embed_all(&b, &embedder);
    assert_eq!(counted.sent(), 80);
    let near = a.nearest(MODEL, &[1.0, 0.0], &any(), 99, now()).wait().unwrap();
    assert_eq!(near.len(), 40);
    assert!((near[0].score - 0.6).abs() < 1e-6, "arrays are exact: {}", near[0].score);
    assert_eq!(Postgres::finish(&owner).wait().unwrap(), Finish::Nothing, "vectors are needed");
    assert!(a.delete(&memories(1, "a")[0].id).wait().unwrap());
    assert_eq!(server.sql(&database, "SELECT count(*) FROM atlatl.vector"), "79");
}

#[test]
fn a_cosine_in_half_precision_is_off_by_at_most_its_bound() {
    let (postgres, _) = opened(PostgresServer::shared());
    let store = postgres.tenant("a").unwrap();
    let known = memories(200, "one");
    store.put(&known, OnConflict::Keep).wait().unwrap();
    let mut random = SplitMix64::new(5);
    let mut vector = || -> Vec<f32> {
        let number = |random: &mut SplitMix64| {
            f32::from(u16::try_from(random.below(2001)).unwrap()) / 1000.0 - 1.0
        };
        let vector: Vec<f32> = (0..384).map(|_| number(&mut random)).collect();
        let length = vector.iter().map(|n| n * n).sum::<f32>().sqrt();
        vector.iter().map(|n| n / length).collect()
    };
    let waiting = store.unembedded(MODEL, 0, 999).wait().unwrap();
    let vectors: Vec<_> = waiting.iter().map(|one| (one.version, vector())).collect();
    store.put_vectors(MODEL, &vectors).wait().unwrap();
    let query = vector();
    let ids: Vec<MemoryId> = known.iter().map(|memory| memory.id.clone()).collect();
    let cosines = store.cosines(MODEL, &query, &ids).wait().unwrap();
    let mut greatest: f64 = 0.0;
    for (memory, cosine) in known.iter().zip(cosines) {
        let place = waiting.iter().position(|one| one.text == memory.content).unwrap();
        let exact: f64 =
            vectors[place].1.iter().zip(&query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        greatest = greatest.max((cosine.unwrap() - exact).abs());
    }
    assert!(greatest < 1.0 / 4096.0, "{greatest}");
    assert!(greatest < 1e-4, "random errors cancel each other: {greatest}");
}
