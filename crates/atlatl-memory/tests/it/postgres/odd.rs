//! Edge cases: unusual memories and concurrent writers.

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Filter, MemoryStore, Need, OnConflict, Postgres, PostgresStore, PutOutcome, RepairReport, Terms,
};
use mif::{Memory, MemoryId, MemoryType, Timestamp};
use testkit::corpus;
use testkit::postgres::{APP, PostgresServer};

use super::{migrated, opened, options};

fn now() -> chrono::DateTime<chrono::Utc> {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

fn any() -> Filter {
    let mut any = Filter::default();
    any.status = None;
    any
}

fn memory(n: u128, content: &str) -> Memory {
    let id = MemoryId::from_u128(n);
    Memory::new(id, MemoryType::Semantic, content, Timestamp::from(now())).unwrap()
}

fn found(store: &PostgresStore, words: &str) -> Vec<u128> {
    let terms = Terms::parse(words, Need::All);
    let found = store.lexical(&terms, &any(), 99, now()).wait().unwrap();
    found.best.iter().map(|one| one.id.as_u128()).collect()
}

#[test]
fn the_largest_memories_are_kept_and_found_by_their_last_words() {
    let (postgres, _) = opened(PostgresServer::shared());
    let store = postgres.tenant("a").unwrap();
    let mib = 1 << 20;
    let distinct: Vec<String> = (0..200_000).map(|n| format!("{n:x}")).collect();
    let distinct = format!("{} last words", &distinct.join(" ")[..mib - 11]);
    let same = format!("{}blue green", "same words ".repeat(90_000));
    let unbroken = "x".repeat(mib - 5) + " tail";
    let wide: Vec<String> = (0..10_000).map(|n| format!("{n:0103}")).collect();
    let wide = wide.join(" ") + " wide end";
    let han: String = "数据库连接池".repeat(57_000) + "末尾";
    let memories =
        [distinct, same, unbroken, han, wide].map(|text| text[..text.len().min(mib)].to_owned());
    for (n, text) in (1..).zip(&memories) {
        let memory = memory(n, text);
        assert_eq!(
            store.put(std::slice::from_ref(&memory), OnConflict::Keep).wait().unwrap(),
            [PutOutcome::Stored]
        );
        assert_eq!(store.get(&memory.id).wait().unwrap(), Some(memory));
    }
    for (words, id) in [
        ("last words", 1),
        ("\"last words\"", 1),
        ("\"blue green\"", 2),
        ("tail", 3),
        ("末尾", 4),
        ("wide end", 5),
    ] {
        assert!(found(&store, words).contains(&id), "{words}");
    }
}

#[test]
fn a_tag_may_have_any_character() {
    let (postgres, _) = opened(PostgresServer::shared());
    let store = postgres.tenant("a").unwrap();
    let tags = ["a\0b", "a\\0b", "{\"x\",NULL}", "NULL", "", "a,b", "日本", "\n\t'"];
    for (n, tag) in (1..).zip(tags) {
        let mut memory = memory(n, "one");
        memory.tags = Some(vec![tag.to_owned()]);
        store.put(&[memory], OnConflict::Keep).wait().unwrap();
    }
    for (n, tag) in (1..).zip(tags) {
        let mut filter = any();
        filter.tags = vec![tag.to_owned()];
        let listed =
            store.list(&filter, atlatl_memory::Order::Newest, None, 9, now()).wait().unwrap();
        let ids: Vec<u128> = listed.memories.iter().map(|one| one.id.as_u128()).collect();
        assert_eq!(ids, [n], "{tag:?}");
    }
}

#[test]
fn processes_that_put_the_same_memories_agree_and_none_waits_for_ever() {
    let server = PostgresServer::shared();
    let (first, database) = opened(server);
    let second = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let memories = corpus::memories(400, 1);
    let put = |postgres: &Postgres, backwards: bool| -> Vec<PutOutcome> {
        let mut memories = memories.clone();
        if backwards {
            memories.reverse();
        }
        let store = postgres.tenant("a").unwrap();
        memories
            .chunks(150)
            .flat_map(|part| store.put(part, OnConflict::Keep).wait().unwrap())
            .collect()
    };
    let all: Vec<Vec<PutOutcome>> = std::thread::scope(|scope| {
        let tasks: Vec<_> = [(&first, false), (&second, true), (&first, true), (&second, false)]
            .into_iter()
            .map(|(postgres, backwards)| scope.spawn(move || put(postgres, backwards)))
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    let stored = all.concat().iter().filter(|put| **put == PutOutcome::Stored).count();
    assert_eq!(stored, 400, "each was stored by one of them");
    assert!(
        all.concat().iter().all(|put| matches!(put, PutOutcome::Stored | PutOutcome::Unchanged))
    );
    let store = second.tenant("a").unwrap();
    assert_eq!(store.count(&any(), now()).wait().unwrap(), 400);
    assert_eq!(store.secret().wait().unwrap(), first.tenant("a").unwrap().secret().wait().unwrap());
    assert_eq!(store.repair().wait().unwrap(), RepairReport::default());
}

#[test]
fn words_that_are_not_in_the_index_are_put_there_and_loose_ends_removed() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let other = postgres.tenant("b").unwrap();
    for store in [&store, &other] {
        store.put(&corpus::memories(20, 1), OnConflict::Keep).wait().unwrap();
        let waiting = store.unembedded("m", 0, 20).wait().unwrap();
        let vectors: Vec<_> = waiting.iter().map(|one| (one.version, vec![1.0])).collect();
        store.put_vectors("m", &vectors).wait().unwrap();
    }
    store.put(&[memory(1, "a xyzzy")], OnConflict::Keep).wait().unwrap();
    // Like a program that writes one table and not the others.
    server.sql(
        &database,
        "DELETE FROM atlatl.search_document WHERE sequence LIKE '%xyzzi%'; \
         DELETE FROM atlatl.memory WHERE tenant = 'a' AND key IN \
             (SELECT key FROM atlatl.embedding WHERE tenant = 'a' LIMIT 2)",
    );
    assert_eq!(found(&store, "xyzzy"), [] as [u128; 0]);
    let repaired = store.repair().wait().unwrap();
    // A trigger deleted the vectors.
    assert_eq!((repaired.missing, repaired.orphaned), (1, 2), "two texts");
    assert_eq!(found(&store, "xyzzy"), [1]);
    assert_eq!(store.repair().wait().unwrap(), RepairReport::default());
    assert_eq!(other.repair().wait().unwrap(), RepairReport::default());
}

#[test]
fn vectors_that_cannot_be_compared_spoil_no_question() {
    let (postgres, _) = opened(PostgresServer::shared());
    let store = postgres.tenant("a").unwrap();
    store.put(&[1, 2, 3, 4].map(|n| memory(n, "one")), OnConflict::Keep).wait().unwrap();
    let waiting = store.unembedded("m", 0, 9).wait().unwrap();
    let vectors = [vec![1.0, 0.0], vec![f32::NAN, 0.0], vec![1.0], vec![f32::INFINITY, 1.0]];
    let vectors: Vec<_> = waiting.iter().map(|one| one.version).zip(vectors).collect();
    store.put_vectors("m", &vectors).wait().unwrap();
    assert!(store.unembedded("m", 0, 9).wait().unwrap().is_empty());
    let near = |vector: &[f32]| store.nearest("m", vector, &any(), 9, now()).wait().unwrap();
    assert_eq!(near(&[1.0, 0.0]).len(), 1);
    assert!((near(&[0.6, 0.8])[0].score - 0.6).abs() < 1e-6);
    assert!(near(&[f32::NAN, 0.0]).is_empty());
    assert!(near(&[]).is_empty());
}

#[test]
fn g39_a_store_can_be_asked_on_a_thread_of_any_runtime() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let runtimes = [
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
    ];
    for (n, runtime) in runtimes.into_iter().enumerate() {
        let options = options(server, APP, &database);
        runtime.block_on(async move {
            // Connects here too.
            let postgres = Postgres::open(&options).await.unwrap();
            let store = postgres.tenant(&format!("tenant {n}")).unwrap();
            let memories = corpus::memories(3, 7);
            store.put(&memories, OnConflict::Keep).await.unwrap();
            // In a task, and more often than a task may poll without yielding.
            let asked = tokio::spawn(async move {
                for memory in memories.iter().cycle().take(200) {
                    assert_eq!(store.get(&memory.id).await.unwrap().as_ref(), Some(memory));
                }
            });
            asked.await.unwrap();
        });
    }
}
