//! Connection reuse: a connection shows the next tenant nothing of a failed transaction before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Filter, MemoryStore, Need, OnConflict, Order, Postgres, PostgresStore, StoreError, Terms,
};
use mif::Memory;
use testkit::corpus;
use testkit::postgres::{APP, PostgresServer};

use super::{migrated, options};

const TENANTS: usize = 5;
const EACH: usize = 6;

/// The ways in which a tenant's transaction can end. Some set state that outlives a transaction
/// without precautions.
#[derive(Debug, Clone, Copy)]
enum End {
    Well,
    Refused,
    OutOfTime,
    Panic,
    SessionSetting,
    SessionRole,
    Temporary,
    Prepared,
    HalfWritten,
    OtherTenant,
}

const ENDS: [End; 10] = [
    End::Well,
    End::Refused,
    End::OutOfTime,
    End::Panic,
    End::SessionSetting,
    End::SessionRole,
    End::Temporary,
    End::Prepared,
    End::HalfWritten,
    End::OtherTenant,
];

fn word(tenant: usize) -> String {
    format!("canary{tenant}bird")
}

fn name(tenant: usize) -> String {
    format!("tenant {tenant}")
}

/// Memories with the same ids in every tenant, which differ in their words only.
fn filled(postgres: &Postgres) -> Vec<(PostgresStore, Vec<Memory>)> {
    let filled = (0..TENANTS).map(|tenant| {
        let mut memories = corpus::memories(EACH, 1);
        for memory in &mut memories {
            memory.content = format!("{} {}", word(tenant), memory.content);
        }
        let store = postgres.tenant(&name(tenant)).unwrap();
        store.put(&memories, OnConflict::Keep).wait().unwrap();
        (store, memories)
    });
    filled.collect()
}

/// Ends a transaction of `store` in one of the ways.
fn end(end: End, store: &PostgresStore, memories: &[Memory]) {
    let id = &memories[0].id;
    let sql = |sql: &str| store.query_column(sql).wait();
    match end {
        End::Well => assert_eq!(store.get(id).wait().unwrap().unwrap(), memories[0]),
        End::Refused => drop(sql("SELECT (1/0)::text").unwrap_err()),
        End::OutOfTime => {
            let late = sql("SELECT pg_sleep(30)::text").unwrap_err();
            assert!(matches!(late, StoreError::Busy), "{late:?}");
        }
        End::Panic => {
            let panics =
                AssertUnwindSafe(|| store.update(id, Box::new(|_| panic!("on purpose"))).wait());
            assert!(catch_unwind(panics).is_err());
        }
        End::SessionSetting => drop(sql("SELECT set_config('atlatl.tenant', 'tenant 0', false)")),
        End::SessionRole => drop(sql("SELECT set_config('role', 'none', false)")),
        End::Temporary => drop(sql("CREATE TEMPORARY TABLE memory AS SELECT * FROM atlatl.memory")),
        End::Prepared => drop(sql("PREPARE mine AS SELECT tenant FROM atlatl.memory")),
        End::HalfWritten => {
            let broken = store
                .update(
                    id,
                    Box::new(|mut memory| {
                        // A memory without content is not valid, which is detected only when it is written.
                        memory.content.clear();
                        Ok(memory)
                    }),
                )
                .wait();
            assert!(broken.is_err());
        }
        End::OtherTenant => drop(sql("SET LOCAL atlatl.tenant = 'tenant 0'")),
    }
}

/// Asserts that a tenant sees its own data and nothing else, by every method.
fn sees_its_own(tenant: usize, store: &PostgresStore, memories: &[Memory]) {
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    let mut any = Filter::default();
    any.status = None;
    assert_eq!(store.get(&memories[0].id).wait().unwrap().unwrap(), memories[0]);
    let listed = store.list_from(&any, Order::default(), 0, 99, now).wait().unwrap();
    assert_eq!(listed.len(), EACH);
    assert!(listed.iter().all(|memory| memory.content.starts_with(&word(tenant))));
    for other in 0..TENANTS {
        let found =
            store.lexical(&Terms::parse(&word(other), Need::All), &any, 99, now).wait().unwrap();
        assert_eq!(found.total, if other == tenant { EACH as u64 } else { 0 });
    }
    let seen = store.query_column("SELECT DISTINCT tenant FROM atlatl.memory").wait().unwrap();
    assert_eq!(seen, [name(tenant)]);
}

#[test]
fn a_connection_that_saw_trouble_shows_the_next_tenant_nothing_of_it() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut options = options(server, APP, &database);
    options.connections = 1;
    options.statement_timeout = Duration::from_millis(250);
    let postgres = Postgres::open(&options).wait().unwrap();
    let tenants = filled(&postgres);
    let mut backends = Vec::new();
    for round in 0..TENANTS * ENDS.len() * 2 {
        let (store, memories) = &tenants[round % TENANTS];
        end(ENDS[round % ENDS.len()], store, memories);
        for step in [1, 2] {
            let next = (round + step) % TENANTS;
            let (store, memories) = &tenants[next];
            sees_its_own(next, store, memories);
        }
        backends.extend(store.query_column("SELECT pg_backend_pid()::text").wait().unwrap());
    }
    // The same connection was reused each time; otherwise the test would prove nothing.
    let rounds = backends.len();
    backends.dedup();
    assert!(backends.len() < rounds / 3, "{} connections in {rounds} rounds", backends.len());
}

#[test]
fn a_session_that_is_cancelled_or_terminated_leaves_nothing_to_the_next() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut options = options(server, APP, &database);
    options.connections = 3;
    let postgres = Postgres::open(&options).wait().unwrap();
    let tenants = filled(&postgres);
    let (over, asked, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for (tenant, (store, memories)) in tenants.iter().enumerate() {
            let (over, asked, failed) = (&over, &asked, &failed);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    let read = store
                        .query_column(
                            "SELECT tenant FROM atlatl.memory, pg_sleep(0.002) ORDER BY 1",
                        )
                        .wait();
                    match read {
                        Ok(rows) => assert_eq!(rows, vec![name(tenant); EACH]),
                        Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                    }
                    if let Ok(memory) = store.get(&memories[1].id).wait() {
                        assert_eq!(memory.as_ref(), Some(&memories[1]));
                    }
                }
            });
        }
        for round in 0..60 {
            let how = if round % 3 == 0 { "pg_terminate_backend" } else { "pg_cancel_backend" };
            let sql = format!(
                "SELECT count({how}(pid)) FROM pg_stat_activity \
                 WHERE datname = '{database}' AND pid <> pg_backend_pid()"
            );
            server.sql(&database, &sql);
            thread::sleep(Duration::from_millis(20));
        }
        over.store(true, Ordering::Relaxed);
    });
    for (tenant, (store, memories)) in tenants.iter().enumerate() {
        sees_its_own(tenant, store, memories);
    }
    let (asked, failed) = (asked.into_inner(), failed.into_inner());
    assert!(failed >= 20 && asked > 2 * failed, "{failed} of {asked} failed");
}
