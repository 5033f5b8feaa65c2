//! Expiry: time to live, start of the count, and what a sweep leaves alone.

use std::fs;

use lro_core::records::Detected;
use lro_spool::{
    DirOptions, DirSpool, EncodeError, Quota, Scope, Spool, SpoolError, SpoolLimit, StoreRequest,
    store,
};

use crate::fixture::{HOUR, NOON, ROWS, at, entries, flat, id, id_at, private, put, what, whole};

#[test]
fn l1_creation_and_expiry_are_recorded_beside_the_file() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    let path = put(&spool, id(1), b"[1, 2]").unwrap().path.unwrap();
    let sidecar = fs::read(format!("{}.meta.json", path.display())).unwrap();
    let sidecar: serde_json::Value = serde_json::from_slice(&sidecar).unwrap();
    assert_eq!(sidecar["created_at"], "2027-01-15T08:00:00Z");
    assert_eq!(sidecar["expires_at"], "2027-01-15T09:00:00Z");
    assert_eq!(sidecar["header"]["timestamp"], "2027-01-15T08:00:00.000Z");
    let config = lro_core::config::Config::default();
    assert_eq!(config.prompt.offload.ttl_seconds, HOUR.as_secs());
}

#[test]
fn l1_a_file_of_records_without_its_sidecar_lives_as_long_as_any_other() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    let listed = put(&spool, id(1), b"[1, 2]").unwrap();
    let path = listed.path.unwrap();
    fs::remove_file(format!("{}.meta.json", path.display())).unwrap();
    assert_eq!(spool.list().unwrap()[0].sidecar.expires_at, at(3_600_000));
    assert!(spool.sweep(at(3_599_999)).unwrap().expired.is_empty());
    assert_eq!(spool.sweep(at(3_600_000)).unwrap().expired.len(), 1);
    assert!(!path.exists());
}

#[test]
fn l4_a_sweep_deletes_nothing_that_is_not_ours() {
    let home = tempfile::tempdir().unwrap();
    let spool = flat(home.path());
    let ulid = id(1).to_string();
    let name = |end: &str| format!("atlatl-recall-{ulid}{end}");
    let header = br#"{"type":"other","operation":"recall","query":null,"count":0}"#;
    let foreign: Vec<(String, &[u8])> = vec![
        (name(".jsonl"), b"{\"n\":1}\n"),
        (format!("atlatl-search-{ulid}.jsonl"), b""),
        (format!("atlatl-list-{ulid}.jsonl"), header),
        (format!("atlatl-grep-{ulid}.txt"), b"no sidecar"),
        (format!("atlatl-grep-{ulid}.bin"), b"a sidecar that is none"),
        (format!("atlatl-grep-{ulid}.bin.meta.json"), b"{}"),
        (format!("atlatl-find-{ulid}.json.meta.json"), b"{\"header\":{}}"),
        (format!("atlatl-find-{ulid}.json.part-1"), b"a part of nothing"),
        ("atlatl-recall-notes.jsonl".to_owned(), b"notes"),
        ("atlatl-recall-.jsonl".to_owned(), b"notes"),
        (".part-notes".to_owned(), b"a draft of someone's"),
        ("notes.txt".to_owned(), b"notes"),
    ];
    for (name, bytes) in &foreign {
        fs::write(home.path().join(name), bytes).unwrap();
    }
    fs::create_dir(home.path().join(name(".json"))).unwrap();
    let before = entries(home.path());
    put(&spool, id(2), ROWS).unwrap();
    let swept = spool.sweep(at(i64::from(i32::MAX))).unwrap();
    assert_eq!(swept.expired.len(), 1);
    assert!(swept.failures.is_empty() && swept.leftovers == 0, "{swept:?}");
    drop(flat(home.path()));
    assert_eq!(entries(home.path()), before);
    for (name, bytes) in &foreign {
        assert_eq!(fs::read(home.path().join(name)).unwrap(), *bytes);
    }
}

#[test]
fn l4_a_result_lives_by_the_latest_of_name_header_and_sidecar() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    // Its name is of tomorrow: a clock that jumped forward made it, and went back.
    put(&spool, id_at(86_400_000, 1), b"[1, 2]").unwrap();
    assert!(spool.sweep(at(3_600_000)).unwrap().expired.is_empty());
    assert!(spool.sweep(at(86_399_999)).unwrap().expired.is_empty());
    assert_eq!(spool.sweep(at(86_400_000)).unwrap().expired.len(), 1);
}

#[test]
fn f22_all_scopes_are_swept_and_counted() {
    let home = tempfile::tempdir().unwrap();
    let open = |project: &str, quota| {
        let scope = Scope::from_fields([project.as_bytes()]);
        DirSpool::open(
            home.path().join("root").as_path(),
            DirOptions::private().scope(scope).quota(quota),
        )
        .unwrap()
    };
    // A project that is never opened again.
    let path = put(&open("shop", Quota::NONE), id(1), ROWS).unwrap().path.unwrap();
    let blog = open("blog", Quota { max_files: 1, ..Quota::NONE });
    let full = put(&blog, id(2), ROWS);
    assert!(
        matches!(full, Err(EncodeError::Spool(SpoolError::Full { limit: SpoolLimit::Files }))),
        "{full:?}"
    );
    let found = Detected::detect(ROWS);
    let later = StoreRequest { created_at: at(3_600_000), ..what("list_issues", id(3), &found) };
    store(&blog, later, ROWS, &[]).unwrap();
    assert!(!path.exists(), "made room in the other scope");
    let swept = blog.sweep(at(3_600_000)).unwrap();
    assert_eq!(swept.expired[0].path, Some(path), "and told of it");
    let path = put(&open("shop", Quota::NONE), id(4), ROWS).unwrap().path.unwrap();
    assert_eq!(blog.sweep(at(3_600_000)).unwrap().expired[0].path, Some(path));
}

#[test]
fn f22_free_space_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let quota = Quota { min_free_bytes: u64::MAX, ..Quota::NONE };
    let spool = DirSpool::open(home.path(), DirOptions::flat().quota(quota)).unwrap();
    let full = put(&spool, id(1), b"x");
    assert!(
        matches!(full, Err(EncodeError::Spool(SpoolError::Full { limit: SpoolLimit::FreeSpace }))),
        "{full:?}"
    );
    assert!(entries(home.path()).is_empty());
}

#[test]
fn f23_only_expired_results_go_and_none_that_is_read() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    let found = Detected::detect(ROWS);
    let day = StoreRequest { ttl: 24 * HOUR, ..what("list_issues", id(1), &found) };
    store(&spool, day, ROWS, &[]).unwrap();
    put(&spool, id(2), ROWS).unwrap();
    put(&spool, id(3), ROWS).unwrap();
    let reader = spool.open(&id(2).into(), at(0)).unwrap();
    // Another process, as far as locks are concerned.
    let other = private(spool.path());
    let swept = other.sweep(at(3_600_000)).unwrap();
    assert_eq!((swept.expired.len(), swept.in_use), (1, 1));
    assert_eq!(swept.expired[0].id(), id(3));
    let mut whole_again = Vec::new();
    lro_spool::restore_payload(&*reader, &mut whole_again).unwrap();
    assert_eq!(whole_again, ROWS);
    drop(reader);
    assert_eq!(other.sweep(at(3_600_000)).unwrap().expired.len(), 1);
    assert_eq!(whole(&spool, id(1)), ROWS);
}

#[test]
fn f24_an_expired_reference_gets_a_final_answer_that_names_the_call() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    put(&spool, id(1), ROWS).unwrap();
    spool.sweep(at(3_600_000)).unwrap();
    let error = spool.open(&id(1).into(), at(3_600_000)).map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the result of `list_issues` expired at 2027-01-15 09:00:00 UTC; repeat the call"
    );
}

#[test]
fn f27_names_do_not_collide_within_a_millisecond() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    let tool = "x".repeat(4000);
    let found = Detected::detect(b"text");
    for n in 0..50 {
        store(&spool, what(&tool, id(n), &found), b"text", &[]).unwrap();
    }
    let again = store(&spool, what(&tool, id(7), &found), b"text", &[]);
    assert!(matches!(again, Err(EncodeError::Spool(SpoolError::Taken { .. }))), "{again:?}");
    assert_eq!(spool.list().unwrap().len(), 50);
    assert!(id(7).unix_ms() == NOON.unsigned_abs());
}
