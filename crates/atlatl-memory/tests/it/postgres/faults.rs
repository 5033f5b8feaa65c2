//! Faults: a database that is missing, does not respond, or is busy produces an error in time.

use std::net::TcpListener;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{MemoryStore, OnConflict, Postgres, PostgresOptions, StoreError};
use mif::Memory;
use testkit::corpus;
use testkit::postgres::{APP, PostgresServer};

use super::{migrated, opened, options};

/// The tolerance on a timeout on a busy machine.
const SLACK: Duration = Duration::from_secs(2);

#[track_caller]
fn within<T>(bound: Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    let took = begun.elapsed();
    assert!(took < bound + SLACK, "it took {took:?}");
    done
}

fn impatient(url: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    options.role = String::from(APP);
    options.connect_timeout = Duration::from_millis(500);
    options.acquire_timeout = Duration::from_millis(500);
    options.statement_timeout = Duration::from_millis(500);
    options
}

#[test]
fn a_wrong_password_and_an_unreachable_host_fail_at_once() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    for (url, why) in [
        (server.url_with(APP, "wrong", &database), "password authentication failed"),
        (server.url(APP, "no_such_database"), "does not exist"),
        (format!("postgres://app:x@127.0.0.1:{port}/d"), "onnect"),
        ("postgres://app:x@%2Fno%2Fsuch%2Fplace/d".to_owned(), "onnect"),
    ] {
        let refused =
            within(Duration::ZERO, || Postgres::open(&impatient(&url)).wait().unwrap_err());
        assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
        assert!(format!("{refused:?}").contains(why), "{refused:?}");
    }
}

#[test]
fn a_place_that_takes_connections_and_never_answers_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let options = impatient(&format!("postgres://app:x@127.0.0.1:{port}/d"));
    let refused = within(options.connect_timeout, || Postgres::open(&options).wait().unwrap_err());
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
}

#[test]
fn a_writer_that_waits_too_long_for_another_fails_and_nothing_is_written() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let options = impatient(&server.url(APP, &database));
    let patient = Postgres::open(&super::options(server, APP, &database)).wait().unwrap();
    let (holder, waiter) = (
        patient.tenant("a").unwrap(),
        Postgres::open(&options).wait().unwrap().tenant("a").unwrap(),
    );
    let memories = corpus::memories(2, 1);
    holder.put(&memories, OnConflict::Keep).wait().unwrap();
    let id = memories[1].id.clone();
    let content = |memory: &mut Memory, text: &str| text.clone_into(&mut memory.content);
    let (locked, tried) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    std::thread::scope(|scope| {
        let (is_locked, was_tried) = (Arc::clone(&locked), Arc::clone(&tried));
        let change = move |mut memory: Memory| {
            is_locked.wait();
            was_tried.wait();
            content(&mut memory, "held");
            Ok(memory)
        };
        scope.spawn(|| drop(holder.update(&id, Box::new(change)).wait().unwrap()));
        locked.wait();
        let refused = within(options.statement_timeout, || {
            let mut both = memories.clone();
            for memory in &mut both {
                content(memory, "waited");
            }
            waiter.put(&both, OnConflict::Replace).wait().unwrap_err()
        });
        assert!(matches!(refused, StoreError::Busy), "{refused:?}");
        // Readers do not wait.
        assert_eq!(
            within(Duration::ZERO, || waiter.get(&id).wait()).unwrap().unwrap(),
            memories[1]
        );
        assert_eq!(waiter.get(&memories[0].id).wait().unwrap().unwrap(), memories[0]);
        tried.wait();
    });
    assert_eq!(waiter.get(&id).wait().unwrap().unwrap().content, "held");
}

#[test]
fn where_all_connections_are_in_use_a_request_fails_in_time() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut options = impatient(&server.url(APP, &database));
    options.connections = 1;
    let store = Postgres::open(&options).wait().unwrap().tenant("a").unwrap();
    let memories = corpus::memories(1, 1);
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    let (other, timeout) = (store.clone(), options.acquire_timeout);
    let change = move |memory: Memory| {
        // On another thread, because this one drives the update.
        let asked = || other.get(&memory.id).wait().unwrap_err();
        let refused = within(timeout, || {
            std::thread::scope(|scope| scope.spawn(asked).join()).expect("no panic")
        });
        assert!(matches!(refused, StoreError::Busy), "{refused:?}");
        Ok(memory)
    };
    store.update(&memories[0].id, Box::new(change)).wait().unwrap();
    assert_eq!(store.get(&memories[0].id).wait().unwrap().unwrap(), memories[0]);
}

#[test]
fn a_panic_in_a_change_holds_no_lock_and_no_connection() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut options = impatient(&server.url(APP, &database));
    options.connections = 1;
    let store = Postgres::open(&options).wait().unwrap().tenant("a").unwrap();
    let memories = corpus::memories(1, 1);
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    let broken = std::panic::AssertUnwindSafe(|| {
        let _ = store.update(&memories[0].id, Box::new(|_| panic!("on purpose"))).wait();
    });
    assert!(std::panic::catch_unwind(broken).is_err());
    let changed = store
        .update(
            &memories[0].id,
            Box::new(|mut memory| {
                "after".clone_into(&mut memory.content);
                Ok(memory)
            }),
        )
        .wait();
    assert_eq!(changed.unwrap().unwrap().content, "after");
}

#[test]
fn it_is_called_and_dropped_on_the_threads_of_a_runtime() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    drop(postgres);
    let app = options(server, APP, &database);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.unwrap();
    runtime.block_on(async {
        let memories = corpus::memories(300, 1);
        let put = memories.clone();
        let store = tokio::task::spawn_blocking(move || {
            store.put(&put, OnConflict::Keep).wait().unwrap();
            store
        });
        let store = store.await.unwrap();
        let task = tokio::spawn(async move {
            let other = Postgres::open(&app).await.unwrap().tenant("a").unwrap();
            for memory in &memories {
                assert_eq!(other.get(&memory.id).await.unwrap().as_ref(), Some(memory));
            }
            drop((store, other));
        });
        task.await.unwrap();
    });
}

#[test]
fn connections_that_broke_while_idle_are_replaced() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let memories = corpus::memories(4, 1);
    store.put(&memories[..2], OnConflict::Keep).wait().unwrap();
    let cut = move || {
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE datname = '{database}' AND usename = '{APP}'"
        );
        server.sql("postgres", &sql)
    };
    assert_eq!(cut(), "1");
    assert_eq!(store.get(&memories[0].id).wait().unwrap().as_ref(), Some(&memories[0]));
    assert_eq!(cut(), "1");
    store.put(&memories[2..], OnConflict::Keep).wait().unwrap();
    // In the middle of a write: nothing of it is stored, and the error says so.
    let cut_again = cut.clone();
    let change = move |mut memory: Memory| {
        "lost".clone_into(&mut memory.content);
        cut_again();
        Ok(memory)
    };
    let changed = store.update(&memories[0].id, Box::new(change)).wait();
    assert!(matches!(changed, Err(StoreError::Unavailable(_))), "{changed:?}");
    assert_eq!(store.get(&memories[0].id).wait().unwrap().as_ref(), Some(&memories[0]));
}

#[test]
fn an_abandoned_statement_is_canceled_and_its_connection_counts_until_then() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut options = options(server, APP, &database);
    options.connections = 1;
    let store = Postgres::open(&options).wait().unwrap().tenant("a").unwrap();
    let running = || {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' \
             AND state <> 'idle' AND query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()"
        );
        server.sql("postgres", &sql)
    };
    let slow = store.query_column("SELECT pg_sleep(30)::text");
    let late = async { tokio::time::timeout(Duration::from_millis(500), slow).await.is_err() };
    assert!(late.wait());
    let abandoned = Instant::now();
    while running() != "0" {
        assert!(abandoned.elapsed() < Duration::from_secs(1) + SLACK, "it still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    for n in ["1", "2"] {
        assert_eq!(store.query_column(&format!("SELECT '{n}'")).wait().unwrap(), [n]);
    }
    // Abandoned while it waits for the only connection.
    let slow = Box::pin(store.query_column("SELECT pg_sleep(30)::text"));
    let next = Box::pin(store.query_column("SELECT 'next'"));
    let both = async {
        tokio::time::timeout(Duration::from_millis(500), async { tokio::join!(slow, next) }).await
    };
    assert!(both.wait().is_err());
    assert_eq!(store.query_column("SELECT 'after'").wait().unwrap(), ["after"]);
}
