//! Passwords that are replaced while the store is used.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    ConnectError, MemoryStore, OnConflict, PasswordSource, Postgres, PostgresOptions, StoreError,
};
use mif::MemoryId;
use testkit::corpus;
use testkit::postgres::{APP, PASSWORD};

use super::Fixture;

const WRITERS: usize = 4;
const ROTATIONS: usize = 12;

/// Options with another source of the password.
fn options(fixture: &Fixture, password: PasswordSource) -> PostgresOptions {
    let mut options = fixture.options(APP, "localhost", &fixture.verified());
    let host = options.url.find('@').unwrap();
    options.url = format!("postgres://{APP}{}", &options.url[host..]);
    options.password = password;
    options
}

fn script(line: &str) -> PasswordSource {
    let arguments = vec!["-c".to_owned(), line.to_owned()];
    PasswordSource::Command { program: "sh".to_owned(), arguments }
}

#[test]
fn g40_a_password_that_is_replaced_under_load_fails_no_write() {
    let fixture = Fixture::start("");
    let file = fixture.write("password", &format!("{PASSWORD}\n"));
    let mut options = options(&fixture, PasswordSource::File(file.clone()));
    options.connections = WRITERS;
    let postgres = Postgres::open(&options).wait().unwrap();
    let store = postgres.tenant("a").unwrap();
    let over = AtomicBool::new(false);
    let (done, retried) = (AtomicU64::new(0), AtomicU64::new(0));
    let stored = Mutex::new(Vec::<MemoryId>::new());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, over, done, retried, stored) = (&store, &over, &done, &retried, &stored);
            scope.spawn(move || {
                let memories = corpus::memories(5_000, u64::try_from(writer).unwrap() + 1);
                for memory in memories.iter().take_while(|_| !over.load(Ordering::Relaxed)) {
                    let one = std::slice::from_ref(memory);
                    // As a client that follows the error.
                    while let Err(error) = store.put(one, OnConflict::Keep).wait() {
                        let retry = matches!(
                            error,
                            StoreError::Busy | StoreError::Unavailable(_) | StoreError::Unsure(_)
                        );
                        assert!(retry, "{error:?}");
                        retried.fetch_add(1, Ordering::Relaxed);
                    }
                    stored.lock().unwrap().push(memory.id.clone());
                    if let Ok(read) = store.get(&memory.id).wait() {
                        assert_eq!(read.as_ref(), Some(memory));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for rotation in 0..ROTATIONS {
            let password = format!("rotated {rotation}");
            let alter = format!("ALTER ROLE {APP} PASSWORD '{password}'");
            let cut = format!(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE usename = '{APP}'"
            );
            // Both orders leave a moment in which the file has another password than the server.
            if rotation % 2 == 0 {
                fixture.server.sql("postgres", &format!("{alter}; {cut}"));
                thread::sleep(Duration::from_millis(30));
                fs::write(&file, format!("{password}\n")).unwrap();
            } else {
                let new = fixture.write("password.new", &password);
                fs::rename(new, &file).unwrap();
                fixture.server.sql("postgres", &format!("{cut}; {alter}"));
            }
            thread::sleep(Duration::from_millis(150));
        }
        let before = done.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(300));
        assert!(done.load(Ordering::Relaxed) > before, "it goes on after the last rotation");
        over.store(true, Ordering::Relaxed);
    });
    let (done, retried) = (done.into_inner(), retried.into_inner());
    assert!(done > 100 && retried > 0, "{done} done, {retried} retried");
    let stored = stored.into_inner().unwrap();
    for ids in stored.chunks(500) {
        assert_eq!(store.get_all(ids).wait().unwrap().len(), ids.len(), "lost");
    }
}

#[test]
fn g40_a_rejected_password_is_read_once_more() {
    let fixture = Fixture::start("");
    let runs = fixture.dir.path().join("runs");
    let count = || fs::read_to_string(&runs).map_or(0, |text| text.lines().count());
    let line = |first: &str, then: &str| {
        let runs = runs.display();
        format!("if [ -e {runs} ]; then echo {then}; else echo {first}; fi; echo >>{runs}")
    };
    let mut rotated = options(&fixture, script(&line("wrong", &format!("'{PASSWORD}'"))));
    rotated.connections = 1;
    Postgres::open(&rotated).wait().unwrap();
    assert_eq!(count(), 2, "the first password was replaced since");
    fs::remove_file(&runs).unwrap();
    let wrong = options(&fixture, script(&line("wrong", "wrong")));
    let refused = Postgres::open(&wrong).wait().unwrap_err();
    assert_eq!(count(), 2, "the same password is not tried twice");
    let StoreError::Unavailable(cause) = refused else { panic!("{refused:?}") };
    let cause = cause.downcast_ref::<ConnectError>().expect("a cause with a hint");
    assert!(cause.why.contains("password authentication failed"), "{cause:?}");
    assert!(cause.hint.contains("memory.password_file"), "{cause:?}");
    let none = Postgres::open(&options(&fixture, PasswordSource::None)).wait().unwrap_err();
    let StoreError::Unavailable(cause) = none else { panic!("{none:?}") };
    assert!(cause.downcast_ref::<ConnectError>().is_some_and(|e| e.hint.contains("PGPASSWORD")));
}
