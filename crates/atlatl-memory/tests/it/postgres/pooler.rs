//! Poolers: everything works behind `PgBouncer` in transaction mode, which runs each transaction on any of
//! its server connections.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    MemoryStore, OnConflict, Postgres, PostgresOptions, PreparedStatements, PutOutcome, Registry,
    StoreError, TenantLimits, contract,
};
use testkit::corpus;
use testkit::postgres::{APP, OWNER, PASSWORD, PgBouncer, PostgresServer};
use testkit::tool::require_pgbouncers;
use tokio::task::JoinSet;

use super::commit::{LOSE_ANSWER, LOSE_WORD, PASS, relay};
use super::{migrated, options};

/// The number of server connections of the pooler, fewer than the stores have connections.
const POOL_SIZE: usize = 2;
/// As many stores as there are processes of a team.
const STORES: usize = 3;
const TASKS: usize = 8;
const ROUNDS: usize = 12;
/// More statements than the tests of one process prepare.
const OTHER_STATEMENTS: usize = 3000;

/// A database behind a pooler.
struct Pooled {
    server: &'static PostgresServer,
    pooler: PgBouncer,
    database: String,
}

impl Pooled {
    fn start(program: &Path) -> Self {
        let server = PostgresServer::shared();
        let upstream = format!("host={} port=5432", server.home().display());
        let pooler = PgBouncer::start(program, &upstream, POOL_SIZE);
        Self { server, pooler, database: server.database() }
    }

    fn migrated(program: &Path) -> Self {
        let pooled = Self::start(program);
        Postgres::migrate(&options(pooled.server, OWNER, &pooled.database)).wait().unwrap();
        pooled
    }

    fn options(&self, role: &str) -> PostgresOptions {
        let mut options = PostgresOptions::new(self.pooler.url(role, &self.database));
        options.role = String::from(APP);
        options
    }

    fn open(&self) -> Postgres {
        Postgres::open(&self.options(APP)).wait().unwrap()
    }

    /// Prepares statements on each server connection, with the names of the client library, as another
    /// process does.
    fn prepare_as_another_process(&self) {
        let prepare = |n| format!("PREPARE s{n} AS SELECT 'of another process';\n");
        let prepare: String = (0..OTHER_STATEMENTS).map(prepare).collect();
        let mut others: Vec<Child> = Vec::new();
        while others.len() < POOL_SIZE {
            let other = Command::new(self.server.psql())
                .args(["-X", "-q", "-h", self.pooler.home().to_str().unwrap(), "-U", APP])
                .args(["-v", "ON_ERROR_STOP=1", "-d", &self.database])
                .env("PGPASSWORD", PASSWORD)
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            write!(other.stdin.as_ref().unwrap(), "BEGIN;\n{prepare}SELECT 1 \\g /dev/null\n")
                .unwrap();
            others.push(other);
            // Each keeps its transaction, so that the next one gets another server connection.
            let open = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND usename = '{APP}' \
                 AND state = 'idle in transaction' AND query LIKE 'SELECT 1%'",
                self.database
            );
            let begun = Instant::now();
            while self.server.sql("postgres", &open) != others.len().to_string() {
                assert!(begun.elapsed() < Duration::from_secs(30), "no server connection");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        for mut other in others {
            writeln!(other.stdin.take().unwrap(), "COMMIT;").unwrap();
            assert!(other.wait().unwrap().success());
        }
    }
}

/// Returns whether this `PgBouncer` is 1.21 or later, and supports prepared statements.
fn supports_names(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    let version = version.lines().next().unwrap().trim_start_matches("PgBouncer ").to_owned();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap());
    (numbers.next(), numbers.next()) >= (Some(1), Some(21))
}

/// Returns whether the statements of a store have names on its connection.
pub(super) fn uses_named_statements(options: &PostgresOptions) -> bool {
    let mut options = options.clone();
    options.connections = 1;
    let store = Postgres::open(&options).wait().unwrap().tenant("a").unwrap();
    // Statements of the protocol, of which this one is the last.
    let sql = "SELECT name FROM pg_prepared_statements WHERE NOT from_sql";
    !store.query_column(sql).wait().unwrap().is_empty()
}

/// Runs the contract and concurrent transactions of several stores behind a pooler.
fn keeps_the_contract(program: &Path) {
    let pooled = Pooled::start(program);
    // The schema and the tenants are administered through the pooler too.
    let applied = Postgres::migrate(&pooled.options(OWNER)).wait().unwrap();
    assert!(!applied.is_empty());
    assert!(Postgres::migrate(&pooled.options(OWNER)).wait().unwrap().is_empty());
    let registry = Registry::open(&pooled.options(OWNER)).wait().unwrap();
    assert!(registry.put_tenant("a", TenantLimits::default()).wait().unwrap());
    pooled.prepare_as_another_process();
    let stores: Vec<Postgres> = (0..STORES).map(|_| pooled.open()).collect();
    assert!(stores[0].find_tenant("a").wait().unwrap().is_some());
    let count = AtomicUsize::new(0);
    contract::run(|| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        Box::new(stores[n % STORES].tenant(&format!("tenant {n}")).unwrap())
    });
    let memories = corpus::memories(ROUNDS, 1);
    let all = async {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (store, memories) = (stores[task % STORES].clone(), memories.clone());
            tasks.spawn(async move {
                let name = format!("task {task}");
                let store = store.tenant(&name).unwrap();
                for (n, memory) in memories.iter().enumerate() {
                    let mut memory = memory.clone();
                    memory.content = format!("{name} {}", memory.content);
                    let put = store.put(std::slice::from_ref(&memory), OnConflict::Keep).await;
                    assert_eq!(put.unwrap(), [PutOutcome::Stored]);
                    assert_eq!(store.get(&memory.id).await.unwrap(), Some(memory));
                    let sql = "SELECT tenant FROM atlatl.memory";
                    assert_eq!(store.query_column(sql).await.unwrap(), vec![name.clone(); n + 1]);
                }
            });
        }
        tasks.join_all().await
    };
    assert_eq!(all.wait().len(), TASKS);
    let backends = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND usename = '{APP}'",
        pooled.database
    );
    // Otherwise the test would prove nothing.
    assert_eq!(pooled.server.sql("postgres", &backends), POOL_SIZE.to_string());
}

#[test]
fn g46_behind_debians_pgbouncer_the_contract_is_kept() {
    let [debian, _] = require_pgbouncers();
    keeps_the_contract(&debian);
}

#[test]
fn g46_behind_a_current_pgbouncer_the_contract_is_kept() {
    let [_, current] = require_pgbouncers();
    keeps_the_contract(&current);
}

#[test]
fn g46_statements_have_names_without_a_pooler_only() {
    let [debian, current] = require_pgbouncers();
    let server = PostgresServer::shared();
    let database = migrated(server);
    let direct = options(server, APP, &database);
    assert!(uses_named_statements(&direct));
    let mut off = direct.clone();
    off.prepared_statements = PreparedStatements::Off;
    assert!(!uses_named_statements(&off));
    // Over TCP too, where the client opens the socket.
    let port = relay(server.socket(), Arc::new(AtomicU8::new(PASS)));
    let mut tcp = direct;
    tcp.url = server.url_at(&format!("127.0.0.1:{port}"), APP, &database);
    assert!(uses_named_statements(&tcp));
    for program in [&debian, &current] {
        let pooled = Pooled::migrated(program);
        pooled.prepare_as_another_process();
        assert!(!uses_named_statements(&pooled.options(APP)));
    }
    // What detection prevents, and what a current version makes unnecessary.
    for program in [&debian, &current] {
        let pooled = Pooled::migrated(program);
        pooled.prepare_as_another_process();
        let mut on = pooled.options(APP);
        on.prepared_statements = PreparedStatements::On;
        let opened = Postgres::open(&on).wait();
        assert_eq!(opened.is_ok(), supports_names(program), "{opened:?}");
    }
    assert!(supports_names(&current));
}

#[test]
fn g46_an_abandoned_statement_is_canceled_through_a_pooler() {
    for (program, is_tcp) in require_pgbouncers()
        .into_iter()
        .flat_map(|program| [(program.clone(), false), (program, true)])
    {
        let pooled = Pooled::migrated(&program);
        let mut options = pooled.options(APP);
        options.connections = 1;
        if is_tcp {
            let port = relay(pooled.pooler.socket(), Arc::new(AtomicU8::new(PASS)));
            let place = format!("127.0.0.1:{port}");
            options.url = pooled.server.url_at(&place, APP, &pooled.database);
        }
        let store = Postgres::open(&options).wait().unwrap().tenant("a").unwrap();
        let running = || {
            let sql = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' \
                 AND state <> 'idle' AND query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()",
                pooled.database
            );
            pooled.server.sql("postgres", &sql)
        };
        async {
            let slow = store.query_column("SELECT pg_sleep(30)::text");
            let is_running = async {
                while running() != "1" {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::select! {
                early = slow => panic!("{early:?}"),
                () = is_running => {}
            }
        }
        .wait();
        let abandoned = Instant::now();
        while running() != "0" {
            assert!(abandoned.elapsed() < Duration::from_secs(5), "it still runs");
            std::thread::sleep(Duration::from_millis(20));
        }
        for n in 0..8 {
            let answer = store.query_column(&format!("SELECT '{n}'")).wait().unwrap();
            assert_eq!(answer, [n.to_string()]);
        }
    }
}

#[test]
fn g46_a_commit_whose_answer_the_pooler_lost_is_looked_up() {
    for program in require_pgbouncers() {
        let server = PostgresServer::shared();
        let database = migrated(server);
        let fault = Arc::new(AtomicU8::new(PASS));
        let port = relay(server.socket(), Arc::clone(&fault));
        let upstream = format!("host=127.0.0.1 port={port}");
        let pooler = PgBouncer::start(&program, &upstream, POOL_SIZE);
        let pooled = Pooled { server, pooler, database };
        let store = pooled.open().tenant("a").unwrap();
        let memories = corpus::memories(3, 1);
        let put = |n: usize| store.put(&memories[n..=n], OnConflict::Keep).wait();
        assert_eq!(put(0).unwrap(), [PutOutcome::Stored]);
        fault.store(LOSE_ANSWER, Ordering::SeqCst);
        let unsure = put(1);
        assert!(matches!(unsure, Err(StoreError::Unsure(_))), "{unsure:?}");
        assert_eq!(put(1).unwrap(), [PutOutcome::Unchanged]);
        fault.store(LOSE_WORD, Ordering::SeqCst);
        let lost = put(2);
        assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
        assert_eq!(put(2).unwrap(), [PutOutcome::Stored]);
    }
}

#[test]
fn g46_a_pooler_whose_server_connections_broke_while_idle_is_used_again() {
    for program in require_pgbouncers() {
        let pooled = Pooled::migrated(&program);
        let store = pooled.open().tenant("a").unwrap();
        let memories = corpus::memories(2, 1);
        store.put(&memories[..1], OnConflict::Keep).wait().unwrap();
        let cut = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE datname = '{}' AND usename = '{APP}'",
            pooled.database
        );
        pooled.server.sql("postgres", &cut);
        assert_eq!(store.get(&memories[0].id).wait().unwrap().as_ref(), Some(&memories[0]));
        pooled.server.sql("postgres", &cut);
        store.put(&memories[1..], OnConflict::Keep).wait().unwrap();
        assert_eq!(store.get(&memories[1].id).wait().unwrap().as_ref(), Some(&memories[1]));
    }
}
