//! The `SQLite` store: the contract, and the behavior specific to a file.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use atlatl_memory::{
    Filter, MemoryStore, Need, OnConflict, Order, PutOutcome, SqliteStore, StoreError, Terms,
    contract,
};
use testkit::corpus;

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
fn a_second_process_sees_and_shares_everything() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("deep/er/memory.db");
    let first = SqliteStore::open(&path).unwrap();
    let second = SqliteStore::open(&path).unwrap();
    let memories = corpus::memories(50, 1);
    assert!(
        first
            .put(&memories, OnConflict::Keep)
            .unwrap()
            .iter()
            .all(|put| *put == PutOutcome::Stored)
    );
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(second.count(&any(), now).unwrap(), 50);
    assert_eq!(first.secret().unwrap(), second.secret().unwrap());
    // The vector cache includes vectors of another process.
    let vectors = |store: &SqliteStore, axis: usize| {
        let waiting = store.unembedded("m", 0, 25).unwrap();
        let vector = |n| if n == axis { 1.0 } else { 0.0 };
        let vectors: Vec<_> =
            waiting.iter().map(|one| (one.version, vec![vector(0), vector(1)])).collect();
        store.put_vectors("m", &vectors).unwrap();
    };
    let near =
        |store: &SqliteStore| store.nearest("m", &[0.0, 1.0], &any(), 99, now).unwrap().len();
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
    store.put(&corpus::memories(3, 1), OnConflict::Keep).unwrap();
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
    store.put(&memories, OnConflict::Keep).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    // Like a program that writes the tables but not the index.
    db.execute_batch(
        "INSERT INTO memory (id, memory_type, status, created, changed, fades)
             SELECT randomblob(16), memory_type, status, created, changed, fades FROM memory
             WHERE key <= 3;
         INSERT INTO document (key, json) SELECT key + 20, json FROM document WHERE key <= 3;",
    )
    .unwrap();
    let repaired = store.repair().unwrap();
    assert_eq!((repaired.missing, repaired.orphaned), (3, 0));
    db.execute("INSERT INTO words (rowid, content) VALUES (999, 'ghost')", []).unwrap();
    let repaired = store.repair().unwrap();
    assert_eq!((repaired.missing, repaired.orphaned), (0, 1));
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    let title = format!("\"{}\"", memories[0].title.as_deref().unwrap());
    let found =
        store.lexical(&Terms::parse(&title, Need::All), &Filter::default(), 99, now).unwrap();
    assert!(found.best.iter().any(|one| one.id == memories[0].id), "{title}");
    let repaired = store.repair().unwrap();
    assert_eq!((repaired.missing, repaired.orphaned), (0, 0));
}

#[test]
fn forgotten_text_is_not_left_in_the_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    let store = SqliteStore::open(&path).unwrap();
    let mut memories = corpus::memories(3, 1);
    memories[1].content = "the launch code is XYZZY-PLUGH-42".to_owned();
    store.put(&memories, OnConflict::Keep).unwrap();
    let files = || {
        let mut all = std::fs::read(&path).unwrap();
        all.extend(std::fs::read(path.with_file_name("memory.db-wal")).unwrap_or_default());
        String::from_utf8_lossy(&all).to_lowercase()
    };
    assert!(files().contains("launch") && files().contains("plugh"));
    assert!(store.delete(&memories[1].id).unwrap());
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
    let refused = store.put(&memories, OnConflict::Keep).unwrap_err();
    assert!(matches!(refused, StoreError::Storage(_)), "{refused:?}");
    assert_eq!(store.count(&Filter::default(), now).unwrap(), 0);
    assert_eq!(store.repair().unwrap(), atlatl_memory::RepairReport::default());
    store.put(&memories[..5], OnConflict::Keep).unwrap();
    let listed = store.list(&any(), Order::Oldest, None, 9, now).unwrap();
    assert_eq!(listed.memories, memories[..5]);
}

#[test]
fn a_store_is_checked_without_being_changed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    assert_eq!(SqliteStore::check(&path, None).unwrap(), None);
    assert!(!path.exists(), "a check creates no file");
    let store = SqliteStore::open(&path).unwrap();
    store.put(&corpus::memories(3, 1), OnConflict::Keep).unwrap();
    let waiting = store.unembedded("m", 0, 1).unwrap();
    store.put_vectors("m", &[(waiting[0].version, vec![1.0])]).unwrap();
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
    store.put(&corpus::memories(4, 5), OnConflict::Keep).unwrap();
    let waiting = store.unembedded("m", 0, 9).unwrap();
    let version = |n: usize| waiting[n].version;
    store.put_vectors("m", &[(version(0), vec![1.0]), (version(1), Vec::new())]).unwrap();
    // As version 0.1.0 left it: no record of migrations, and the third memory skipped.
    let db = rusqlite::Connection::open(&path).unwrap();
    let upto = i64::try_from(version(2)).unwrap();
    db.execute("UPDATE embedded SET upto = ?1", [upto]).unwrap();
    db.execute_batch("DROP TABLE applied").unwrap();
    assert_eq!(store.unembedded("m", 0, 9).unwrap(), waiting[3..]);
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.unembedded("m", 0, 9).unwrap(), waiting[1..]);
    // Only once: texts that are refused from now on stay so.
    store.put_vectors("m", &[(version(1), Vec::new())]).unwrap();
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.unembedded("m", 0, 9).unwrap(), waiting[2..]);
    let health = SqliteStore::check(&path, Some("m")).unwrap().unwrap();
    assert_eq!((health.waiting, health.refused), (2, 1), "{health:?}");
}
