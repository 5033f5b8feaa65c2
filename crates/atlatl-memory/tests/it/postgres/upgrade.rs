//! Upgrades from a previous schema version while its servers run, and the end of an upgrade.

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Filter, Finish, MemoryStore, Need, OnConflict, Postgres, PostgresStore, Terms,
};
use mif::Memory;
use testkit::corpus;
use testkit::postgres::{APP, OWNER, PostgresServer};

use super::{SLEEPS, old, options, wait_for};

fn find(store: &PostgresStore, word: &str) -> Vec<u128> {
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    let terms = Terms::parse(word, Need::All);
    let mut filter = Filter::default();
    filter.status = None;
    let found = store.lexical(&terms, &filter, 100, now).wait().unwrap();
    found.best.iter().map(|one| one.id.as_u128()).collect()
}

fn with_words(n: usize, seed: u64, word: &str) -> Vec<Memory> {
    let mut memories = corpus::memories(n, seed);
    for memory in &mut memories {
        memory.content.push(' ');
        memory.content.push_str(word);
    }
    memories
}

fn ids(memories: &[Memory]) -> Vec<u128> {
    let mut ids: Vec<u128> = memories.iter().map(|memory| memory.id.as_u128()).collect();
    ids.sort_unstable();
    ids
}

fn sorted(mut ids: Vec<u128>) -> Vec<u128> {
    ids.sort_unstable();
    ids
}

#[test]
fn g41_writes_of_the_previous_version_are_found_at_once() {
    let server = PostgresServer::shared();
    let database = old::migrated_to(server, 5);
    let before = with_words(30, 1, "xyzzybefore");
    old::write(server, &database, "a", &before);
    let owner = options(server, OWNER, &database);
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
    let waiting = "SELECT count(*) FROM atlatl.search_backlog";
    assert_eq!(server.sql(&database, waiting), "30");
    let store = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let store = store.tenant("a").unwrap();
    assert_eq!(sorted(find(&store, "xyzzybefore")), ids(&before));
    assert_eq!(server.sql(&database, waiting), "0", "a recall indexes a few itself");

    // Servers of both versions run.
    let old = with_words(20, 2, "xyzzyold");
    old::write(server, &database, "a", &old);
    let new = with_words(20, 3, "xyzzynew");
    store.put(&new, OnConflict::Keep).wait().unwrap();
    assert_eq!(server.sql(&database, waiting), "20", "a new server needs no backlog");
    assert_eq!(sorted(find(&store, "xyzzyold")), ids(&old));
    assert_eq!(sorted(find(&store, "xyzzynew")), ids(&new));
    let words = "SELECT count(*) FROM atlatl.document WHERE words @@ 'xyzzynew'::tsquery";
    let marked = "SELECT count(*) FROM atlatl.document WHERE words::text LIKE '%xyzzynew%'";
    assert_eq!(server.sql(&database, words), "0", "words have the tenant's mark");
    assert_eq!(server.sql(&database, marked), "20", "the old server finds them too");
    // The previous version deletes without knowing of the index.
    let gone = old[0].id.to_string();
    server.sql(
        &database,
        &format!(
            "SET ROLE {APP}; SET atlatl.tenant = 'a'; WITH gone AS (DELETE FROM atlatl.memory \
             WHERE tenant = 'a' AND id = '{gone}' RETURNING key) \
             DELETE FROM atlatl.document d USING gone WHERE d.tenant = 'a' AND d.key = gone.key"
        ),
    );
    assert_eq!(sorted(find(&store, "xyzzyold")), ids(&old[1..]));
    let index = "SELECT count(*) FROM atlatl.search_document";
    assert_eq!(server.sql(&database, index), "69");
    assert_eq!(store.repair().wait().unwrap().orphaned, 0);
}

#[test]
fn g41_a_large_backlog_is_indexed_in_steps() {
    let server = PostgresServer::shared();
    let database = old::migrated_to(server, 5);
    let before = with_words(1_200, 4, "xyzzy");
    old::write(server, &database, "a", &before);
    Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap();
    let store = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let store = store.tenant("a").unwrap();
    assert!(store.is_search_index_behind().wait().unwrap());
    let mut steps = 0;
    while store.advance_search_index().wait().unwrap() > 0 {
        steps += 1;
        assert!(steps < 10, "it never ends");
    }
    assert!(steps >= 3, "{steps}");
    assert!(!store.is_search_index_behind().wait().unwrap());
    assert_eq!(find(&store, "xyzzy").len(), 100);
    let counted = "SELECT documents FROM atlatl.search_statistics";
    // The last 200 do not change the frequencies much, so that words are not counted again.
    assert_eq!(server.sql(&database, counted), "1000");
}

#[test]
fn g41_finishing_waits_for_old_servers_and_new_ones_go_on() {
    // Other tests have sessions of the shared server.
    let server = PostgresServer::start(&["fsync=off"]);
    let database = old::migrated_to(&server, 5);
    let before = with_words(40, 5, "xyzzybefore");
    old::write(&server, &database, "a", &before);
    let owner = options(&server, OWNER, &database);
    Postgres::migrate(&owner).wait().unwrap();
    let postgres = Postgres::open(&options(&server, APP, &database)).wait().unwrap();
    let store = postgres.tenant("a").unwrap();
    let new = with_words(10, 6, "xyzzynew");
    store.put(&new[..5], OnConflict::Keep).wait().unwrap();

    let old = std::thread::scope(|scope| {
        let sleep = scope.spawn(|| {
            let arguments = ["-d", &database, "-c", "SELECT pg_sleep(4)"];
            server.program("psql", APP, &arguments).unwrap();
        });
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let outcome = Postgres::finish(&owner).wait().unwrap();
        sleep.join().unwrap();
        outcome
    });
    let Finish::Connected(sessions) = old else { panic!("{old:?}") };
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert!(sessions[0].contains("psql"), "{sessions:?}");

    assert_eq!(Postgres::finish(&owner).wait().unwrap(), Finish::Dropped { indexed: 40 });
    assert_eq!(Postgres::finish(&owner).wait().unwrap(), Finish::Nothing);
    assert_eq!(Postgres::migrate(&owner).wait().unwrap(), [""; 0]);
    // A server that was started before goes on.
    store.put(&new[5..], OnConflict::Keep).wait().unwrap();
    store
        .update(
            &new[0].id,
            Box::new(|mut memory| {
                memory.content.push_str(" xyzzychanged");
                Ok(memory)
            }),
        )
        .wait()
        .unwrap();
    assert_eq!(sorted(find(&store, "xyzzynew")), ids(&new));
    assert_eq!(find(&store, "xyzzychanged"), ids(&new[..1]));
    assert_eq!(sorted(find(&store, "xyzzybefore")), ids(&before));
    assert_eq!(store.repair().wait().unwrap().missing, 0);
    let left = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'atlatl.document'::regclass \
                AND attname IN ('words', 'length')";
    assert_eq!(server.sql(&database, left), "0");
    let oldest = "SELECT max(oldest) FROM atlatl.migration";
    assert_eq!(server.sql(&database, oldest), "7", "an older program refuses the schema");
    let left = "SELECT to_regclass('atlatl.vector') IS NULL \
                AND to_regproc('atlatl.make_near') IS NULL";
    assert_eq!(server.sql(&database, left), "t");
}

#[test]
fn g41_a_new_database_has_nothing_of_the_previous_version() {
    let server = PostgresServer::shared();
    let database = super::migrated(server);
    let owner = options(server, OWNER, &database);
    assert_eq!(Postgres::finish(&owner).wait().unwrap(), Finish::Nothing);
}

#[test]
fn g49_vectors_are_kept_when_an_upgrade_is_finished_that_waited_for_pgvector() {
    let server = PostgresServer::shared();
    let database = server.database_without_pgvector();
    let owner = options(server, OWNER, &database);
    Postgres::migrate(&owner).wait().unwrap();
    assert_eq!(Postgres::finish(&owner).wait().unwrap(), Finish::Nothing);
    let oldest = "SELECT max(oldest) FROM atlatl.migration";
    assert_eq!(server.sql(&database, oldest), "6", "vectors are stored as in version 6");
    let open = || {
        let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
        postgres.tenant("a").unwrap()
    };
    let store = open();
    store.put(&corpus::memories(3, 7), OnConflict::Keep).wait().unwrap();
    let waiting = store.unembedded("m", 0, 9).wait().unwrap();
    let vectors: Vec<_> = waiting.iter().map(|one| (one.version, vec![0.6, 0.8])).collect();
    store.put_vectors("m", &vectors).wait().unwrap();
    server.sql(&database, "CREATE EXTENSION vector");
    assert_eq!(Postgres::migrate(&owner).wait().unwrap(), [""; 0]);
    assert_eq!(Postgres::finish(&owner).wait().unwrap(), Finish::Dropped { indexed: 0 });
    assert_eq!(server.sql(&database, oldest), "7");
    assert_eq!(server.sql(&database, "SELECT count(*) FROM atlatl.embedding"), "3");
    assert_eq!(open().count_unembedded("m").wait().unwrap(), 0);
}

#[test]
fn g49_a_server_that_stored_arrays_goes_on_when_they_are_dropped() {
    let server = PostgresServer::shared();
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    let memories = corpus::memories(3, 10);
    let ids: Vec<_> = memories.iter().map(|memory| memory.id.clone()).collect();
    let vector = [0.6_f32, 0.8];
    let mut filter = Filter::default();
    filter.status = None;
    // Whichever is first notices it.
    for first in 0..6 {
        let database = server.database_without_pgvector();
        let owner = options(server, OWNER, &database);
        Postgres::migrate(&owner).wait().unwrap();
        let store = Postgres::open(&options(server, APP, &database)).wait().unwrap();
        let store = store.tenant("a").unwrap();
        store.put(&memories, OnConflict::Keep).wait().unwrap();
        let waiting = store.unembedded("m", 0, 9).wait().unwrap();
        let vectors: Vec<_> = waiting.iter().map(|one| (one.version, vector.to_vec())).collect();
        store.put_vectors("m", &vectors[..2]).wait().unwrap();
        server.sql(&database, "CREATE EXTENSION vector");
        Postgres::migrate(&owner).wait().unwrap();
        assert!(matches!(Postgres::finish(&owner).wait().unwrap(), Finish::Dropped { .. }));
        let near = || store.nearest("m", &vector, &filter, 9, now).wait().unwrap().len();
        let cosines = || store.cosines("m", &vector, &ids).wait().unwrap();
        match first {
            0 => assert_eq!(near(), 2),
            1 => assert_eq!(store.count_unembedded("m").wait().unwrap(), 1),
            2 => assert_eq!(store.unembedded("m", 0, 9).wait().unwrap().len(), 1),
            3 => assert_eq!(store.repair().wait().unwrap().orphaned, 0),
            4 => assert_eq!(cosines().iter().flatten().count(), 2),
            _ => {}
        }
        store.put_vectors("m", &vectors[2..]).wait().unwrap();
        assert_eq!((near(), cosines().iter().flatten().count()), (3, 3), "{first}");
    }
}

#[test]
fn g41_concurrent_writes_go_on_when_the_old_words_are_dropped() {
    // Other tests have sessions of the shared server.
    let server = PostgresServer::start(&["fsync=off"]);
    let database = old::migrated_to(&server, 5);
    let owner = options(&server, OWNER, &database);
    Postgres::migrate(&owner).wait().unwrap();
    let store = Postgres::open(&options(&server, APP, &database)).wait().unwrap();
    let store = store.tenant("a").unwrap();
    let memories = with_words(5, 7, "xyzzy");
    store.put(&memories[..1], OnConflict::Keep).wait().unwrap();
    let pause = std::time::Duration::from_millis(300);
    std::thread::scope(|scope| {
        // All writers wait for it, and the end of the upgrade is first in the queue.
        scope.spawn(|| {
            let lock =
                "BEGIN; LOCK TABLE atlatl.memory IN EXCLUSIVE MODE; SELECT pg_sleep(2); COMMIT";
            server.sql(&database, lock);
        });
        std::thread::sleep(pause);
        let finish = scope.spawn(|| Postgres::finish(&owner).wait().unwrap());
        std::thread::sleep(pause);
        let put = |memory: &Memory| {
            store.put(std::slice::from_ref(memory), OnConflict::Keep).wait().unwrap()
        };
        let writers: Vec<_> =
            memories[1..].iter().map(|memory| scope.spawn(move || put(memory))).collect();
        std::thread::sleep(pause);
        assert!(writers.iter().all(|writer| !writer.is_finished()), "a writer does not wait");
        assert!(matches!(finish.join().unwrap(), Finish::Dropped { .. }));
        for writer in writers {
            assert_eq!(writer.join().unwrap(), [atlatl_memory::PutOutcome::Stored]);
        }
    });
    assert_eq!(sorted(find(&store, "xyzzy")), ids(&memories));
}

#[test]
fn g41_before_version_18_statistics_that_exist_are_renewed_as_before() {
    let server = PostgresServer::start_debian();
    let database = server.database_without_pgvector();
    old::migrate(&server, &database, 5);
    server.sql(&database, "ANALYZE atlatl.lease");
    Postgres::migrate(&options(&server, OWNER, &database)).wait().unwrap();
    let fixed = |table: &str| {
        let sql = format!(
            "SELECT coalesce(attstattarget, -1) = 0 FROM pg_attribute \
             WHERE attrelid = 'atlatl.{table}'::regclass AND attname = 'tenant'"
        );
        server.sql(&database, &sql)
    };
    assert_eq!((fixed("lease"), fixed("search_document")), ("f".to_owned(), "t".to_owned()));
}

#[test]
fn g41_repair_indexes_what_is_missing_in_short_transactions() {
    let server = PostgresServer::shared();
    let database = super::migrated(server);
    let store = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let store = store.tenant("a").unwrap();
    let memories = with_words(1_200, 8, "xyzzy");
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    server.sql(&database, "DELETE FROM atlatl.search_document");
    let repaired = store.repair().wait().unwrap();
    assert_eq!((repaired.missing, repaired.orphaned), (1_200, 0));
    // A writer of one of these memories waits for the transaction that indexes it.
    let most = "SELECT max(n) FROM (SELECT count(*) AS n FROM atlatl.search_document \
                GROUP BY xmin::text) t";
    assert_eq!(server.sql(&database, most), "500");
    assert_eq!(server.sql(&database, "SELECT count(*) FROM atlatl.search_document"), "1200");
    assert_eq!(server.sql(&database, "SELECT count(*) FROM atlatl.search_backlog"), "0");
    assert_eq!(store.repair().wait().unwrap(), atlatl_memory::RepairReport::default());
}

#[test]
fn g41_a_backlog_is_searched_when_the_old_words_are_dropped() {
    let server = PostgresServer::shared();
    let database = old::migrated_to(server, 5);
    let owner = options(server, OWNER, &database);
    Postgres::migrate(&owner).wait().unwrap();
    let open = || {
        let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
        postgres.tenant("a").unwrap()
    };
    let before = open();
    let memories = with_words(90, 9, "xyzzy");
    before.put(&memories, OnConflict::Keep).wait().unwrap();
    assert!(matches!(Postgres::finish(&owner).wait().unwrap(), Finish::Dropped { .. }));
    let after = open();
    let lose = "DELETE FROM atlatl.search_document; \
                INSERT INTO atlatl.search_backlog (tenant, key) \
                SELECT tenant, key FROM atlatl.document";
    // `before` believes that the words are there, and `after` never does.
    for store in [&before, &after] {
        server.sql(&database, lose);
        assert_eq!(sorted(find(store, "xyzzy")), ids(&memories));
    }
    // Memories that a writer has locked cannot be indexed.
    server.sql(&database, lose);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lock = "BEGIN; SELECT FROM atlatl.memory FOR UPDATE; SELECT pg_sleep(3); COMMIT";
            server.sql(&database, lock);
        });
        wait_for(server, &database, SLEEPS);
        assert_eq!(find(&after, "xyzzy"), [] as [u128; 0], "it answers");
    });
    assert_eq!(sorted(find(&after, "xyzzy")), ids(&memories));
}
