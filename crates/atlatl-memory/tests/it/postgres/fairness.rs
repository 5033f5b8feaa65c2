//! Fairness: a tenant with many slow statements delays itself, and no other tenant, readiness check
//! or lookup of a key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    ConnectionSharing, MemoryStore, Postgres, PostgresOptions, PostgresStore, StoreError,
};
use testkit::postgres::{APP, PostgresServer};
use tokio::task::JoinSet;

use super::{migrated, options};

/// How long an answer may take that waits for no other tenant, on a busy machine. Behind the slow
/// statements it would take longer than this many times over.
const AT_ONCE: Duration = Duration::from_millis(700);
const SLOW: &str = "SELECT pg_sleep(2)::text";
const SLOW_DURATION: Duration = Duration::from_secs(2);

/// The options of a server for many tenants: a tenant may use 2 of 8 connections.
fn shared(server: &PostgresServer, database: &str) -> PostgresOptions {
    let mut options = options(server, APP, database);
    options.connections = 8;
    options.sharing = ConnectionSharing::ManyTenants;
    options.acquire_timeout = Duration::from_mins(1);
    options
}

/// Returns how many statements of the database sleep.
fn sleeping(server: &PostgresServer, database: &str) -> usize {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' \
         AND state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()"
    );
    server.sql("postgres", &sql).parse().unwrap()
}

/// Starts slow queries of each store, and waits until `running` of them run. They end when the set is
/// dropped.
fn start_slow(
    server: &PostgresServer,
    database: &str,
    stores: &[PostgresStore],
    count: usize,
    running: usize,
) -> JoinSet<Result<Vec<String>, StoreError>> {
    let mut queries = JoinSet::new();
    async {
        for store in stores.iter().flat_map(|store| std::iter::repeat_n(store, count)) {
            let store = store.clone();
            queries.spawn(async move { store.query_column(SLOW).await });
        }
    }
    .wait();
    let begun = Instant::now();
    while sleeping(server, database) != running {
        assert!(begun.elapsed() < SLOW_DURATION, "{} run", sleeping(server, database));
    }
    queries
}

#[track_caller]
fn at_once<T>(what: &str, work: impl Future<Output = Result<T, StoreError>>) -> T {
    let begun = Instant::now();
    let done = work.wait().unwrap();
    let took = begun.elapsed();
    assert!(took < AT_ONCE, "{what} took {took:?}");
    done
}

#[test]
fn g42_sixty_four_slow_queries_of_one_tenant_delay_no_other() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let postgres = Postgres::open(&shared(server, &database)).wait().unwrap();
    let [large, small, other] =
        ["large", "small", "other"].map(|name| postgres.tenant(name).unwrap());
    // A quarter of the connections.
    let mut slow = start_slow(server, &database, std::slice::from_ref(&large), 64, 2);
    for _ in 0..3 {
        assert!(sleeping(server, &database) <= 2);
        for store in [&small, &other] {
            let answer = at_once("another tenant", store.query_column("SELECT 'x'"));
            assert_eq!(answer, ["x"]);
        }
        at_once("a readiness check", postgres.ready());
        at_once("a readiness check of a store", small.ready());
        at_once("the lookup of a key", postgres.key("none"));
        at_once("the lookup of a tenant", postgres.find_tenant("none"));
    }
    // The clients leave: what waits is not begun, and what runs is canceled.
    slow.shutdown().wait();
    assert_eq!(at_once("the same tenant", large.query_column("SELECT 'y'")), ["y"]);
    let left = Instant::now();
    while sleeping(server, &database) > 0 {
        assert!(left.elapsed() < Duration::from_secs(3), "it still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn g42_readiness_and_authentication_do_not_wait_when_tenants_use_all_other_connections() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let postgres = Postgres::open(&shared(server, &database)).wait().unwrap();
    let stores: Vec<_> = (0..4).map(|n| postgres.tenant(&format!("tenant {n}")).unwrap()).collect();
    // All connections but the reserved ones.
    let _slow = start_slow(server, &database, &stores[..3], 16, 6);
    at_once("a readiness check", postgres.ready());
    at_once("the lookup of a key", postgres.key("none"));
    // The next connection that is free is for the tenant that has none.
    let begun = Instant::now();
    stores[3].query_column("SELECT 'x'").wait().unwrap();
    assert!(begun.elapsed() < SLOW_DURATION + AT_ONCE, "{:?}", begun.elapsed());
}

#[test]
fn a_tenant_with_too_many_waiting_queries_is_refused_at_once() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let postgres = Postgres::open(&shared(server, &database)).wait().unwrap();
    let (large, small) = (postgres.tenant("large").unwrap(), postgres.tenant("small").unwrap());
    let _slow = start_slow(server, &database, std::slice::from_ref(&large), 2 + 128, 2);
    let begun = Instant::now();
    let refused = large.query_column("SELECT 'x'").wait();
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    at_once("another tenant", small.query_column("SELECT 'x'"));
}

#[test]
fn the_database_time_of_a_tenant_is_reported_also_when_its_client_leaves() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let used = Arc::new(Mutex::new(HashMap::<String, Duration>::new()));
    let sums = Arc::clone(&used);
    let mut options = shared(server, &database);
    options.database_time = Some(Arc::new(move |tenant, used| {
        *sums.lock().unwrap().entry(tenant.to_owned()).or_default() += used;
    }));
    let postgres = Postgres::open(&options).wait().unwrap();
    let (busy, idle) = (postgres.tenant("busy").unwrap(), postgres.tenant("idle").unwrap());
    busy.query_column("SELECT pg_sleep(0.3)::text").wait().unwrap();
    idle.query_column("SELECT 'x'").wait().unwrap();
    postgres.key("none").wait().unwrap();
    let time = |tenant: &str| used.lock().unwrap().get(tenant).copied().unwrap_or_default();
    assert!(time("busy") >= Duration::from_millis(300), "{:?}", time("busy"));
    assert!(time("idle") < Duration::from_millis(300), "{:?}", time("idle"));
    let abandoned = busy.query_column("SELECT pg_sleep(30)::text");
    let late = async { tokio::time::timeout(Duration::from_millis(300), abandoned).await.is_err() };
    assert!(late.wait());
    let begun = Instant::now();
    while time("busy") < Duration::from_millis(600) {
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", time("busy"));
        std::thread::sleep(Duration::from_millis(20));
    }
    let tenants: Vec<_> = used.lock().unwrap().keys().cloned().collect();
    assert!(tenants.iter().all(|tenant| tenant == "busy" || tenant == "idle"), "{tenants:?}");
}
