//! The `SQLite` store: the contract, and the behavior specific to a file.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Filter, MemoryStore, Need, OnConflict, Order, PutOutcome, SqliteStore, StoreError, Terms,
    TotalAccuracy, contract,
};
use mif::{Memory, MemoryId, MemoryType};
use testkit::{SplitMix64, corpus};

fn any() -> Filter {
    let mut any = Filter::default();
    any.status = None;
    any
}

#[test]
fn sqlite_keeps_the_contract() {
    let home = tempfile::tempdir().unwrap();
    let n = AtomicUsize::new(0);
    contract::run(|| {
        let name = format!("{}.db", n.fetch_add(1, Ordering::Relaxed));
        Box::new(SqliteStore::open(&home.path().join(name)).unwrap())
    });
}

#[test]
fn sqlite_keeps_the_contract_with_vectors_at_8_bits() {
    let home = tempfile::tempdir().unwrap();
    let n = AtomicUsize::new(0);
    contract::run(|| {
        let name = format!("{}.db", n.fetch_add(1, Ordering::Relaxed));
        Box::new(SqliteStore::open_quantized(&home.path().join(name), 0).unwrap())
    });
}

#[test]
fn vectors_at_8_bits_find_the_same_memories_with_exact_scores() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    let exact = SqliteStore::open(&path).unwrap();
    let quantized = SqliteStore::open_quantized(&path, 1_000).unwrap();
    let memories = corpus::memories(2_000, 3);
    exact.put(&memories, OnConflict::Keep).wait().unwrap();
    let mut random = SplitMix64::new(4);
    let mut unit_vector = || {
        let mut number = || f32::from(u16::try_from(random.below(2_001)).unwrap()) - 1_000.0;
        let numbers: Vec<f32> = (0..64).map(|_| number()).collect();
        let length = numbers.iter().map(|x| x * x).sum::<f32>().sqrt();
        numbers.into_iter().map(|x| x / length).collect::<Vec<f32>>()
    };
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    // The first batch leaves the copy exact, the second does not.
    for _ in 0..2 {
        let waiting = exact.unembedded("m", 0, 1_000).wait().unwrap();
        let vectors: Vec<_> = waiting.iter().map(|one| (one.version, unit_vector())).collect();
        exact.put_vectors("m", &vectors).wait().unwrap();
        for filter in [any(), Filter::default()] {
            let query = unit_vector();
            let expected = exact.nearest("m", &query, &filter, 200, now).wait().unwrap();
            let found = quantized.nearest("m", &query, &filter, 200, now).wait().unwrap();
            assert_eq!(found.len(), 200);
            assert!(found.windows(2).all(|two| two[0].score >= two[1].score));
            let same = found.iter().filter(|one| expected.contains(one)).count();
            assert!(same >= 198, "{same} of 200 with the same score");
        }
    }
    // A memory that is gone is not found, although the copy has its vector.
    let query = unit_vector();
    let first = |store: &SqliteStore| {
        store.nearest("m", &query, &any(), 1, now).wait().unwrap().pop().unwrap().id
    };
    let nearest = first(&quantized);
    assert_eq!(nearest, first(&exact));
    assert!(exact.delete(&nearest).wait().unwrap());
    assert_ne!(first(&quantized), nearest);
    assert_eq!(first(&quantized), first(&exact));
}

#[test]
fn common_words_are_bounded_and_miss_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&home.path().join("memory.db")).unwrap();
    let now: chrono::DateTime<chrono::Utc> = "2027-01-01T00:00:00Z".parse().unwrap();
    let memory = |n: u128| {
        let content = format!("common word{}", n % 12_500);
        let created = mif::Timestamp::from(now);
        Memory::new(MemoryId::from_u128(n), MemoryType::Semantic, content, created).unwrap()
    };
    let memories: Vec<Memory> = (1..=25_000).map(memory).collect();
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    let find = |query: &str, need, limit| {
        let terms = Terms::parse(query, need);
        let found = store.lexical(&terms, &Filter::default(), limit, now).wait().unwrap();
        let ids: Vec<u128> = found.best.iter().map(|one| one.id.as_u128()).collect();
        assert!(found.best.is_sorted_by(|a, b| a.score >= b.score), "{query}");
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "{query}");
        (ids, found.total, found.accuracy == TotalAccuracy::AtLeast)
    };
    let (ids, total, at_least) = find("common word7", Need::Any, 10);
    assert_eq!((&ids[..4], total, at_least), (&[7, 12_507, 25_000, 24_999][..], 10_000, true));
    let (ids, total, at_least) = find("common", Need::Any, 10_000);
    assert_eq!((ids.len(), total, at_least), (10_000, 10_000, true));
    assert_eq!((ids[0], ids[9_999]), (25_000, 15_001), "the newest come first");
    let (ids, total, at_least) = find("common word7", Need::All, 10);
    assert_eq!((&ids[..], total, at_least), (&[7, 12_507][..], 2, false));
    let (ids, _, at_least) = find("common", Need::All, 5);
    assert_eq!((&ids[..], at_least), (&[25_000, 24_999, 24_998, 24_997, 24_996][..], true));
    let (ids, ..) = find("word7 word8 word9", Need::Any, 10_000);
    assert_eq!(ids.len(), 6);
}

#[test]
fn a_second_process_sees_and_shares_everything() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("deep/er/memory.db");
    let first = SqliteStore::open(&path).unwrap();
    let second = SqliteStore::open(&path).unwrap();
    let memories = corpus::memories(50, 1);
    assert!(
        first
            .put(&memories, OnConflict::Keep)
            .wait()
            .unwrap()
            .iter()
            .all(|put| *put == PutOutcome::Stored)
    );
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(second.count(&any(), now).wait().unwrap(), 50);
    assert_eq!(first.secret().wait().unwrap(), second.secret().wait().unwrap());
    // The vector cache includes vectors of another process.
    let vectors = |store: &SqliteStore, axis: usize| {
        let waiting = store.unembedded("m", 0, 25).wait().unwrap();
        let vector = |n| if n == axis { 1.0 } else { 0.0 };
        let vectors: Vec<_> =
            waiting.iter().map(|one| (one.version, vec![vector(0), vector(1)])).collect();
        store.put_vectors("m", &vectors).wait().unwrap();
    };
    let near = |store: &SqliteStore| {
        store.nearest("m", &[0.0, 1.0], &any(), 99, now).wait().unwrap().len()
    };
    vectors(&first, 0);
    assert_eq!(near(&second), 25);
    vectors(&first, 1);
    assert_eq!(near(&second), 50);
}

#[test]
fn the_file_is_the_owners_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("data/memory.db");
    let store = SqliteStore::open(&path).unwrap();
    store.put(&corpus::memories(3, 1), OnConflict::Keep).wait().unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for name in ["memory.db", "memory.db-wal", "memory.db-shm"] {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let text = home.path().join("notes.txt");
    std::fs::write(&text, "these are my notes, and they are quite long enough to be something")
        .unwrap();
    let refused = SqliteStore::open(&text).unwrap_err();
    assert!(matches!(refused, StoreError::NotAStore { .. }), "{refused:?}");
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("these are my notes"));

    let other = home.path().join("other.db");
    let db = rusqlite::Connection::open(&other).unwrap();
    db.execute_batch("CREATE TABLE things (thing); INSERT INTO things VALUES (1)").unwrap();
    drop(db);
    let before = std::fs::read(&other).unwrap();
    let refused = SqliteStore::open(&other).unwrap_err();
    assert!(refused.to_string().contains("another application"), "{refused}");
    assert!(std::fs::read(&other).unwrap() == before, "not a byte was changed");

    let later = home.path().join("later.db");
    drop(SqliteStore::open(&later).unwrap());
    rusqlite::Connection::open(&later).unwrap().pragma_update(None, "user_version", 9).unwrap();
    let refused = SqliteStore::open(&later).unwrap_err();
    assert!(refused.to_string().contains("version 9"), "{refused}");

    let refused = SqliteStore::open(home.path()).unwrap_err();
    assert!(matches!(refused, StoreError::NotAStore { .. } | StoreError::Storage(_)));
}

#[test]
fn an_index_that_lost_entries_is_repaired() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    let store = SqliteStore::open(&path).unwrap();
    let memories = corpus::memories(20, 1);
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    // Like a program that writes the tables but not the index.
    db.execute_batch(
        "INSERT INTO memory (id, memory_type, status, created, changed, fades)
             SELECT randomblob(16), memory_type, status, created, changed, fades FROM memory
             WHERE key <= 3;
         INSERT INTO document (key, json) SELECT key + 20, json FROM document WHERE key <= 3;",
    )
    .unwrap();
    let repaired = store.repair().wait().unwrap();
    assert_eq!((repaired.missing, repaired.orphaned), (3, 0));
    db.execute("INSERT INTO words (rowid, content) VALUES (999, 'ghost')", []).unwrap();
    let repaired = store.repair().wait().unwrap();
    assert_eq!((repaired.missing, repaired.orphaned), (0, 1));
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    let title = format!("\"{}\"", memories[0].title.as_deref().unwrap());
    let found = store
        .lexical(&Terms::parse(&title, Need::All), &Filter::default(), 99, now)
        .wait()
        .unwrap();
    assert!(found.best.iter().any(|one| one.id == memories[0].id), "{title}");
    let repaired = store.repair().wait().unwrap();
    assert_eq!((repaired.missing, repaired.orphaned), (0, 0));
}

#[test]
fn forgotten_text_is_not_left_in_the_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    let store = SqliteStore::open(&path).unwrap();
    let mut memories = corpus::memories(3, 1);
    memories[1].content = "the launch code is XYZZY-PLUGH-42".to_owned();
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    let files = || {
        let mut all = std::fs::read(&path).unwrap();
        all.extend(std::fs::read(path.with_file_name("memory.db-wal")).unwrap_or_default());
        String::from_utf8_lossy(&all).to_lowercase()
    };
    assert!(files().contains("launch") && files().contains("plugh"));
    assert!(store.delete(&memories[1].id).wait().unwrap());
    // Also while the store is open, and in the form in which the index stores words.
    for word in ["xyzz", "plugh", "launch"] {
        assert!(!files().contains(word), "{word} is still there");
    }
    assert!(files().contains(&memories[0].id.as_str().to_lowercase()));
    drop(store);
    assert!(!files().contains("plugh"));
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_half_written() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    drop(SqliteStore::open(&path).unwrap());
    // The engine's limit on the size of a file simulates a full disk.
    let pages = rusqlite::Connection::open(&path).unwrap();
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    let count: i64 = pages.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    drop(pages);
    let store = SqliteStore::open_bounded(&path, count + 20).unwrap();
    let memories = corpus::memories(2000, 1);
    let refused = store.put(&memories, OnConflict::Keep).wait().unwrap_err();
    assert!(matches!(refused, StoreError::Storage(_)), "{refused:?}");
    assert_eq!(store.count(&Filter::default(), now).wait().unwrap(), 0);
    assert_eq!(store.repair().wait().unwrap(), atlatl_memory::RepairReport::default());
    store.put(&memories[..5], OnConflict::Keep).wait().unwrap();
    let listed = store.list(&any(), Order::Oldest, None, 9, now).wait().unwrap();
    assert_eq!(listed.memories, memories[..5]);
}

#[test]
fn a_store_is_checked_without_being_changed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    assert_eq!(SqliteStore::check(&path, None).unwrap(), None);
    assert!(!path.exists(), "a check creates no file");
    let store = SqliteStore::open(&path).unwrap();
    store.put(&corpus::memories(3, 1), OnConflict::Keep).wait().unwrap();
    let waiting = store.unembedded("m", 0, 1).wait().unwrap();
    store.put_vectors("m", &[(waiting[0].version, vec![1.0])]).wait().unwrap();
    drop(store);
    let before = std::fs::read(&path).unwrap();
    let health = SqliteStore::check(&path, Some("m")).unwrap().unwrap();
    assert_eq!((health.memories, health.waiting), (3, 2));
    assert_eq!((health.missing, health.orphaned, health.damage), (0, 0, None));
    assert_eq!(std::fs::read(&path).unwrap(), before);

    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("INSERT INTO words (words) VALUES ('delete-all')").unwrap();
    assert_eq!(SqliteStore::check(&path, None).unwrap().unwrap().missing, 3);
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(SqliteStore::check(&path, None), Err(StoreError::Busy)));
    db.execute_batch("ROLLBACK; PRAGMA user_version = 99").unwrap();
    let later = SqliteStore::check(&path, None).unwrap_err().to_string();
    assert!(later.contains("version 99"), "{later}");
    drop(db);
    std::fs::write(&path, "not a database file ".repeat(99)).unwrap();
    assert!(matches!(SqliteStore::check(&path, None), Err(StoreError::NotAStore { .. })));
}

#[test]
fn g30_empty_vectors_that_0_1_0_stored_are_queued_once_more() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    let store = SqliteStore::open(&path).unwrap();
    store.put(&corpus::memories(4, 5), OnConflict::Keep).wait().unwrap();
    let waiting = store.unembedded("m", 0, 9).wait().unwrap();
    let version = |n: usize| waiting[n].version;
    store.put_vectors("m", &[(version(0), vec![1.0]), (version(1), Vec::new())]).wait().unwrap();
    // As version 0.1.0 left it: no record of migrations, and the third memory skipped.
    let db = rusqlite::Connection::open(&path).unwrap();
    let upto = i64::try_from(version(2)).unwrap();
    db.execute("UPDATE embedded SET upto = ?1", [upto]).unwrap();
    db.execute_batch("DROP TABLE applied").unwrap();
    assert_eq!(store.unembedded("m", 0, 9).wait().unwrap(), waiting[3..]);
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.unembedded("m", 0, 9).wait().unwrap(), waiting[1..]);
    // Only once: texts that are refused from now on stay so.
    store.put_vectors("m", &[(version(1), Vec::new())]).wait().unwrap();
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.unembedded("m", 0, 9).wait().unwrap(), waiting[2..]);
    let health = SqliteStore::check(&path, Some("m")).unwrap().unwrap();
    assert_eq!((health.waiting, health.refused), (2, 1), "{health:?}");
}

#[test]
fn cosines_are_exact() {
    let home = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&home.path().join("memory.db")).unwrap();
    let memories = corpus::memories(1, 1);
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    let waiting = store.unembedded("m", 0, 1).wait().unwrap();
    store.put_vectors("m", &[(waiting[0].version, vec![0.6, 0.8])]).wait().unwrap();
    let cosines = store.cosines("m", &[1.0, 0.0], &[memories[0].id.clone()]).wait().unwrap();
    assert_eq!(format!("{:.6}", cosines[0].unwrap()), "0.600000");
}
