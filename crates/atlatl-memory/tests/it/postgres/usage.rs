//! What tenants store and use: exact counts whatever is written, and retention.

use std::time::Duration;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    MemoryStore, OnConflict, Postgres, PostgresStore, Registry, TenantLimits, TenantUse,
};
use mif::Memory;
use testkit::corpus;
use testkit::postgres::{OWNER, PostgresServer};

use super::{migrated, old, opened, options};

/// The bytes that the database has for a tenant.
fn exact(server: &PostgresServer, database: &str, tenant: &str) -> u64 {
    let sql = format!(
        "SELECT coalesce(sum(octet_length(json)), 0) FROM atlatl.document WHERE tenant = '{tenant}'"
    );
    server.sql(database, &sql).parse().unwrap()
}

fn counted(store: &PostgresStore) -> u64 {
    store.stored_bytes().wait().unwrap().expect("a count")
}

fn fold_all(postgres: &Postgres) {
    while postgres.fold_usage().wait().unwrap() > 0 {}
}

fn put(store: &PostgresStore, memories: &[Memory]) {
    store.put(memories, OnConflict::Replace).wait().unwrap();
}

#[test]
fn g48_bytes_are_counted_exactly_through_every_change() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let memories = corpus::memories(80, 1);
    // Before the first count, and folded by a server meanwhile.
    put(&store, &memories[..30]);
    fold_all(&postgres);
    assert_eq!(store.stored_bytes().wait().unwrap(), None, "no request counts");
    postgres.count_missing_usage("a").wait().unwrap();
    assert_eq!(counted(&store), exact(server, &database, "a"));
    assert!(counted(&store) > 1000);
    let check = || {
        assert_eq!(counted(&store), exact(server, &database, "a"), "before it is folded");
        fold_all(&postgres);
        assert_eq!(counted(&store), exact(server, &database, "a"));
    };
    put(&store, &memories[30..]);
    check();
    let mut longer = memories[..20].to_vec();
    for memory in &mut longer {
        memory.content.push_str(&"and more ".repeat(50));
    }
    put(&store, &longer);
    check();
    assert!(store.delete(&memories[40].id).wait().unwrap());
    check();
    assert_eq!(server.sql(&database, "SELECT count(*) FROM atlatl.usage_delta"), "0");
    // Another tenant has its own count.
    let other = postgres.tenant("b").unwrap();
    postgres.count_missing_usage("b").wait().unwrap();
    assert_eq!(counted(&other), 0);
    put(&other, &memories[..1]);
    assert_eq!(counted(&other), exact(server, &database, "b"));
    check();
}

#[test]
fn g48_memories_of_older_programs_are_counted_too() {
    let server = PostgresServer::shared();
    let database = old::migrated_to(server, 5);
    old::write(server, &database, "a", &corpus::memories(20, 2));
    Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap();
    old::write(server, &database, "a", &corpus::memories(20, 3));
    let postgres =
        Postgres::open(&options(server, testkit::postgres::APP, &database)).wait().unwrap();
    let store = postgres.tenant("a").unwrap();
    postgres.count_missing_usage("a").wait().unwrap();
    assert_eq!(counted(&store), exact(server, &database, "a"));
    old::write(server, &database, "a", &corpus::memories(20, 4));
    assert_eq!(counted(&store), exact(server, &database, "a"));
}

#[test]
fn g48_counts_are_exact_while_many_write_count_and_fold() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let store = store.clone();
            scope.spawn(move || {
                for memory in corpus::memories(60, 30 + seed) {
                    put(&store, std::slice::from_ref(&memory));
                    if memory.id.as_u128().is_multiple_of(3) {
                        store.delete(&memory.id).wait().unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..40 {
                postgres.fold_usage().wait().unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        scope.spawn(|| {
            for _ in 0..40 {
                postgres.count_missing_usage("a").wait().unwrap();
                store.stored_bytes().wait().unwrap();
            }
        });
    });
    fold_all(&postgres);
    assert_eq!(counted(&store), exact(server, &database, "a"));
}

#[test]
fn g48_usage_is_kept_by_day_and_tenant() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let registry = Registry::open(&options(server, OWNER, &database)).wait().unwrap();
    for name in ["a", "b"] {
        registry.put_tenant(name, TenantLimits::default()).wait().unwrap();
    }
    put(&postgres.tenant("a").unwrap(), &corpus::memories(5, 1));
    let used = |tenant: &str, requests, database_ms| TenantUse {
        tenant: tenant.to_owned(),
        requests,
        database_ms,
    };
    // A tenant that does not exist has none.
    let batch = [used("a", 3, 40), used("b", 1, 0), used("nobody", 9, 9)];
    postgres.add_usage(&batch).wait().unwrap();
    postgres.add_usage(&batch[..1]).wait().unwrap();
    postgres.measure_usage("a").wait().unwrap();
    let usage = registry.usage(None, 7).wait().unwrap();
    let shown: Vec<_> = usage
        .iter()
        .map(|day| (&*day.tenant, day.requests, day.database_ms, day.memories))
        .collect();
    assert_eq!(shown, [("a", 6, 80, Some(5)), ("b", 1, 0, None)]);
    assert_eq!(usage[0].bytes, Some(exact(server, &database, "a")));
    let today = "SELECT (now() AT TIME ZONE 'UTC')::date";
    assert_eq!(usage[0].day.to_string(), server.sql(&database, today));
    server.sql(&database, "UPDATE atlatl.usage_day SET day = day - 500");
    postgres.measure_usage("a").wait().unwrap();
    assert_eq!(registry.usage(Some("a"), 400).wait().unwrap().len(), 1);
    let days = "SELECT count(*) FROM atlatl.usage_day WHERE tenant = 'a'";
    assert_eq!(server.sql(&database, days), "1", "days older than 400 are forgotten");
}

#[test]
fn g48_limits_of_a_tenant_are_stored_and_looked_up() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let registry = Registry::open(&options(server, OWNER, &database)).wait().unwrap();
    let postgres =
        Postgres::open(&options(server, testkit::postgres::APP, &database)).wait().unwrap();
    let limits = TenantLimits {
        memories: Some(1),
        per_minute: Some(2),
        bytes: Some(3_000_000_000),
        retention_days: Some(365),
    };
    registry.put_tenant("a", limits).wait().unwrap();
    assert_eq!(postgres.find_tenant("a").wait().unwrap().unwrap().bounds, limits);
    assert_eq!(registry.tenants().wait().unwrap()[0].bounds, limits);
    registry.put_tenant("a", TenantLimits::default()).wait().unwrap();
    let none = postgres.find_tenant("a").wait().unwrap().unwrap().bounds;
    assert_eq!(none, TenantLimits::default());
}

#[test]
fn g48_memories_that_were_not_changed_for_long_are_retired_in_batches() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    put(&store, &corpus::memories(50, 1));
    put(&postgres.tenant("b").unwrap(), &corpus::memories(50, 1));
    let middle = "SELECT (percentile_disc(0.5) WITHIN GROUP (ORDER BY changed)) FROM atlatl.memory";
    let middle: i64 = server.sql(&database, middle).parse().unwrap();
    let before = chrono::DateTime::from_timestamp_micros(middle).unwrap();
    let older =
        format!("SELECT count(*) FROM atlatl.memory WHERE tenant = 'a' AND changed < {middle}");
    let expected: usize = server.sql(&database, &older).parse().unwrap();
    assert!(expected > 7);
    assert_eq!(store.retire(before, 7).wait().unwrap().len(), 7);
    assert_eq!(store.retire(before, 500).wait().unwrap().len(), expected - 7);
    assert!(store.retire(before, 500).wait().unwrap().is_empty());
    assert_eq!(server.sql(&database, &older), "0");
    let others = "SELECT count(*) FROM atlatl.memory WHERE tenant = 'b'";
    assert_eq!(server.sql(&database, others), "50");
}
